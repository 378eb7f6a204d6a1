"""``autograd.Function`` in a graph: an operator whose body is ``forward`` and whose gradient rule is ``backward``."""
from __future__ import annotations

import dis
import inspect
import types

from ..autograd.dispatching import pulling, tensors_of
from ..autograd.function import Context, Function
from ..core.interpret import top
from ..core.kinds import P
from ..core.naming import defining_module
from ..core.native import Tensor, mine
from ..core.op import OPS, make
from ..core.pytree import tree_flatten, tree_leaves, tree_unflatten
from .errors import Break
from .wrapper_specs import close_recorded, open_tangent, open_wrapper, spec_of, tangent_of, wrapped_by


class GraphContext(Context):
    """The state that ``forward`` passes to ``backward`` while both are traced: versions of values do not change."""

    saved_tensors = property(lambda self: tuple(self._saved))


def forward(function, args, flags):
    """Run ``forward``; return its results as a tuple, and the context."""
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
    """Return (the operator of a call with arguments like these, the tensors in them, which are its own arguments).

    Traits: ``constant``: indices of results without gradient, once it was traced; ``results``: their types. The
    operator takes and returns the tensors that instances of wrapping classes wrap. Tensors within lists get no
    gradient.
    """
    flags = tuple(isinstance(a, Tensor) and bool(a._rush_needs_grad) for a in args)
    constant: set = set()
    outputs = Results()
    leaves, spec = tree_flatten(list(args))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    owners = [k if isinstance(a, Tensor) else None for k, a in enumerate(args) for leaf in tree_leaves(a)
              if isinstance(leaf, Tensor)]  # the position of the argument that is a tensor; None within another one
    given_specs = [spec_of(leaves[k]) for k in places]
    if any(one is not None and any(type(n) is not int for n in one.meta.shape) for one in given_specs):
        raise NotImplementedError("the gradient of a tensor that wraps others, with dynamic sizes")
    found, leaves = [part for k in places for part in open_wrapper(leaves[k])], [
        None if isinstance(leaf, Tensor) else leaf for leaf in leaves]

    def filled(tensors):
        given = list(leaves)
        for k, tensor in zip(places, close_each(given_specs, tensors)):
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
        outputs.kind, outputs.specs = type(results), list(map(spec_of, several))
        fresh = tuple(P.copy(r) if any(r is t or r.node is t.node for t in tensors) else r
                      for whole in several for r in wrapped_by(whole))
        return fresh if isinstance(results, (tuple, list)) or len(fresh) > 1 else fresh[0]

    def vjp(g, y, *tensors):
        values = filled(tensors)
        _, several, ctx = forward(function, values, flags)
        results = close_each(outputs.specs, y if isinstance(y, tuple) else (y,))
        ctx._saved = tuple(next((r for r, own in zip(results, several) if own is s), s) for s in ctx._saved)
        gradients = close_gradients(outputs.specs, list(g) if isinstance(g, (tuple, list)) else [g])
        if ctx._materialize:
            gradients = [zeros(one, r) if g is None else g for one, g, r in zip(outputs.specs, gradients, results)]
        given = function.rule()(ctx, *gradients)
        given = given if isinstance(given, tuple) else (given,)
        needed = max(k for k, a in enumerate(args) if isinstance(a, Tensor)) + 1
        if len(given) >= needed:  # trailing arguments that are not tensors may be missing
            given = (*given, *[None] * (len(args) - len(given)))
        function.check_count(given, len(args))
        given = [function.fitted(k, gradient, own._rush_meta) if isinstance(own, Tensor) else gradient
                 for k, (gradient, own) in enumerate(zip(given, values))]
        return [part for one, k in zip(given_specs, owners)
                for part in open_gradient(one, None if k is None else given[k])]

    signature = inspect.Signature([inspect.Parameter(f"x{k}", inspect.Parameter.POSITIONAL_ONLY)
                                   for k in range(len(found))])
    made = make(function.__name__, body, None, signature, constant=constant, results=outputs,
                collects=args[0] if function.collects else None)
    made.rules["vjp"] = vjp
    return made, found


class Results:
    """The results of a function: their specs (None for plain tensors), and their type if there are several."""

    kind, specs = Tensor, ()

    def close(self, recorder, fakes, constant):
        """Rebuild the results from these tensors of a program; those at ``constant`` are detached."""
        fakes, found = iter(fakes), []
        for k, spec in enumerate(self.specs):
            parts = [next(fakes) for _ in (spec.metas if spec is not None else "1")]
            parts = list(map(OPS["detach"], parts)) if k in constant else parts
            found.append(parts[0] if spec is None else close_recorded(recorder, spec, parts))
        if not issubclass(self.kind, (tuple, list)):
            return found[0]
        return self.kind(*found) if hasattr(self.kind, "_fields") else self.kind(found)


def close_each(specs, tensors) -> list:
    """Rebuild the objects that specs describe from plain tensors."""
    tensors = iter(tensors)
    return [next(tensors) if one is None else one.close([next(tensors) for _ in one.metas]) for one in specs]


def zeros(one, result):
    """Return a gradient of zeros for a result."""
    if one is not None:
        tangent = tangent_of(one)
        return tangent.close([full(meta) for meta in tangent.metas])
    return full(result._rush_meta)


def full(meta):
    """Return zeros of a shape and dtype, as a primitive of the traced program."""
    return P.full(shape=tuple(meta.shape), value=0, dtype=meta.dtype)


def close_gradients(specs, parts) -> list:
    """Return gradients of results from those of the tensors they wrap; None if there are none."""
    found = []
    for one in specs:
        given, parts = (parts[:1], parts[1:]) if one is None else (parts[:len(one.metas)], parts[len(one.metas):])
        if one is not None and any(part is not None for part in given):
            tangent = tangent_of(one)
            given = [tangent.close([full(meta) if part is None else part for part, meta in zip(given, tangent.metas)])]
        found.append(given[0])
    return found


def open_gradient(one, gradient) -> list:
    """Return gradients of the tensors that an argument wraps from its own."""
    if one is None:
        return [gradient]
    return [None] * len(one.metas) if gradient is None else open_tangent(gradient, tangent_of(one))


class OperatorCall:
    """One call of an operator with instances of classes that answer it, as a function with a gradient: ``answer(args,
    kwargs)`` calls them, ``within`` is the context in which its derivative runs."""

    collects = False

    def __init__(self, op, args, kwargs, answer, within):
        self.__name__, self.op, self.answer, self.within = op.name, op, answer, within
        self.wanted = tuple(k for k, t in enumerate(tensors_of((*args, *kwargs.values()))) if t._rush_needs_grad)
        self.leaves, self.spec = tree_flatten((tuple(args), dict(kwargs)))
        self.places = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        self.tensors = [self.leaves[k] for k in self.places]
        self.leaves = [None if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]

    def call_of(self, tensors):
        """Return (positional arguments, keywords) with these tensors."""
        leaves = list(self.leaves)
        for k, tensor in zip(self.places, tensors):
            leaves[k] = tensor
        return tree_unflatten(leaves, self.spec)

    def forward(self, ctx, *tensors):
        ctx.given = self.call_of(tensors)
        results = self.answer(*ctx.given)
        ctx.save_for_backward(*(results if isinstance(results, (tuple, list)) else (results,)))
        ctx.set_materialize_grads(False)
        return results

    def backward(self, ctx, *gradients):
        found = dict(zip(self.wanted, pulling(self.op, *ctx.given, self.wanted, ctx.saved_tensors, self.within)(
            *gradients)))
        return tuple(found.get(k) for k in range(len(self.tensors)))

    def rule(self):
        return self.backward

    def check_count(self, found, count):
        """Nothing: there is one for each tensor."""

    def fitted(self, k, gradient, meta):
        """Return the gradient as it is: operators give those of their arguments."""
        return gradient


def allowed(function, args, kwargs):
    """Return (the operator that calls a function with such arguments and returns the tensors in its result, the tensors
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
    """Return the functions that a user wrote for a Function."""
    for name in ("forward", "setup_context", "backward", "vjp"):
        written = inspect.getattr_static(function, name, None)
        written = written.__func__ if isinstance(written, staticmethod) else written
        if isinstance(written, types.FunctionType) and written.__module__ != defining_module(Function):
            yield written


def globals_of(function):
    """Return the names of globals that a function reads."""
    return {i.argval for i in dis.get_instructions(function.__code__) if i.opname == "LOAD_GLOBAL"
            and i.argval in function.__globals__}
