"""``autograd.Function`` in a graph: an operator whose body is ``forward`` and whose gradient rule is ``backward``."""
from __future__ import annotations

import dis
import inspect
import types

from ..autograd.function import Context, Function
from ..core.interpret import top
from ..core.kinds import P
from ..core.native import Tensor, mine
from ..core.op import make
from ..core.pytree import tree_flatten, tree_leaves, tree_unflatten
from .errors import Break


class GraphContext(Context):
    """What ``forward`` leaves for ``backward`` while both are traced: versions of values do not change."""

    saved_tensors = property(lambda self: tuple(self._saved))


def forward(function, args, flags):
    """Runs ``forward``: its results as a tuple, and the context."""
    ctx = GraphContext()
    ctx.needs_input_grad = flags
    if "setup_context" in dir(function):
        results = function.forward(*args)
        function.setup_context(ctx, args, results)
    else:
        results = function.forward(ctx, *args)
    several = results if isinstance(results, (tuple, list)) else (results,)
    if ctx._dirty:
        raise Break("RB011", f"{function.__name__}.forward() marks arguments as dirty")
    if not all(isinstance(r, Tensor) for r in several):
        raise Break("RB011", f"{function.__name__}.forward() returns something other than tensors")
    return results, tuple(several), ctx


def operator(function, args):
    """(the operator of a call with arguments like these, the tensors in them, which are its own arguments).

    ``constant`` among its traits holds the positions of results without gradient, once it was traced. Tensors within
    lists get no gradient.
    """
    flags = tuple(isinstance(a, Tensor) and bool(a._rush_needs_grad) for a in args)
    constant: set = set()
    leaves, spec = tree_flatten(list(args))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    owners = [k if isinstance(a, Tensor) else None for k, a in enumerate(args) for leaf in tree_leaves(a)
              if isinstance(leaf, Tensor)]  # the position of the argument that is a tensor; None within another one
    found, leaves = [leaves[k] for k in places], [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]

    def filled(tensors):
        given = list(leaves)
        for k, tensor in zip(places, tensors):
            given[k] = tensor
        return tree_unflatten(given, spec)

    def body(*tensors, **named):
        tensors = (*tensors, *named.values())
        given, drawn = [t.node for t in tensors], getattr(top(), "drawn", 0)
        before, mine.grad = mine.grad, 0
        try:
            results, several, ctx = forward(function, filled(tensors), flags)
        finally:
            mine.grad = before
        if getattr(top(), "drawn", 0) != drawn:
            raise Break("RB001", f"{function.__name__}.forward() draws random numbers")
        if any(t.node is not node for t, node in zip(tensors, given)):
            raise Break("RB011", f"{function.__name__}.forward() writes into an argument")
        constant.update(k for k, r in enumerate(several) if any(r is c for c in ctx._constant))
        fresh = tuple(P.copy(r) if any(r is t for t in tensors) else r for r in several)
        return fresh if isinstance(results, (tuple, list)) else fresh[0]

    def vjp(g, y, *tensors):
        _, several, ctx = forward(function, filled(tensors), flags)
        results = y if isinstance(y, tuple) else (y,)
        ctx._saved = tuple(next((r for r, own in zip(results, several) if own is s), s) for s in ctx._saved)
        gradients = list(g) if isinstance(g, (tuple, list)) else [g]
        if ctx._materialize:
            gradients = [P.full(shape=tuple(r.shape), value=0, dtype=r.dtype) if one is None else one
                         for one, r in zip(gradients, results)]
        given = function.rule()(ctx, *gradients)
        given = given if isinstance(given, tuple) else (given,)
        needed = max(k for k, a in enumerate(args) if isinstance(a, Tensor)) + 1
        if len(given) >= needed:  # what is no tensor and comes last may go without
            given = (*given, *[None] * (len(args) - len(given)))
        function.check_count(given, len(args))
        return [None if k is None else given[k] for k in owners]

    signature = inspect.Signature([inspect.Parameter(f"x{k}", inspect.Parameter.POSITIONAL_ONLY)
                                   for k in range(len(places))])
    made = make(function.__name__, body, None, signature, constant=constant,
                collects=args[0] if function.collects else None)
    made.rules["vjp"] = vjp
    return made, found


def allowed(function, args, kwargs):
    """(the operator that calls a function with arguments like these and gives the tensors in its result, the tensors
    among the arguments)."""
    leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    tensors, leaves = [leaves[k] for k in places], [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]

    def body(*tensors):
        given = list(leaves)
        for k, tensor in zip(places, tensors):
            given[k] = tensor
        args, kwargs = tree_unflatten(given, spec)
        return tuple(leaf for leaf in tree_leaves(function(*args, **kwargs)) if isinstance(leaf, Tensor))

    signature = inspect.Signature([inspect.Parameter(f"x{k}", inspect.Parameter.POSITIONAL_ONLY)
                                   for k in range(len(places))])
    return make(function.__name__, body, None, signature, several=True, each_time=True), tensors


def functions_of(function):
    """The functions that a user wrote for a Function."""
    for name in ("forward", "setup_context", "backward", "vjp"):
        written = inspect.getattr_static(function, name, None)
        written = written.__func__ if isinstance(written, staticmethod) else written
        if isinstance(written, types.FunctionType) and written.__module__ != Function.__module__:
            yield written


def globals_of(function):
    """The names of globals that a function reads."""
    return {i.argval for i in dis.get_instructions(function.__code__) if i.opname == "LOAD_GLOBAL"
            and i.argval in function.__globals__}
