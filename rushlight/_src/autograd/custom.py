"""Custom autograd functions under interpreters: each level requests the rule that it needs from the function."""
from __future__ import annotations

from collections import namedtuple

from ..core.interpret import top
from ..core.op import OPS
from ..core.pytree import broadcast_prefix, tree_flatten, tree_leaves, tree_map, tree_unflatten
from ..core.tensor import Tensor
from ..transforms.batch import Batch, Batched, gradient
from ..transforms.forward import Dual, Forward
from ..transforms.functional import Functional
from ..transforms.level import Level, map_results
from .function import Context, Function, version_of
from .reverse import Beneath, Entry, Reverse, Tracked, zeros_like

VmapInfo = namedtuple("VmapInfo", "batch_size randomness")


def answer(function, args):
    """Run ``function.apply(*args)`` under the interpreter on top."""
    level = top()
    if not isinstance(level, Level):
        record = getattr(level, "apply_function", None)
        return function.run(args) if record is None else record(function, args)
    each = tree_map if isinstance(level, Batch) else map  # examples may be in lists, gradients do not flow there
    args = tuple(each(level.refreshed, args))
    values = tuple(each(lambda a: a.value if level.owns(a) else a, args))
    if not any(map(level.owns, tree_leaves(args) if each is tree_map else args)):
        with level.below():
            return level.adopt(function.apply(*args))
    if not function.separate() and not (isinstance(level, Forward) and level.takes_contexts):
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            "override the "
            f"setup_context staticmethod, which {function.__name__} doesn't.")
    return RULES[type(level)](level, function, args, values)


def context(function, inputs, outputs) -> Context:
    """Return the context that ``setup_context`` fills for the rules."""
    made = Context()
    function.setup_context(made, inputs, outputs)
    made.remember_versions()
    return made


def several(results) -> tuple:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def alike(results, values):
    """Return ``values`` in the structure of ``results``: one tensor, or a tuple."""
    return tuple(values) if isinstance(results, (tuple, list)) else values[0]


def functional(level, function, args, values):
    with level.below():
        return level.adopt(function.apply(*values))


def reverse(level: Reverse, function, args, values):
    places = [a.place if level.owns(a) else None for a in args]
    with Beneath(level):
        results = function.apply(*values)
        ctx = context(function, values, results)
    ctx.needs_input_grad = tuple(p is not None for p in places)
    outputs = several(results)
    metas = [o if isinstance(o, Tensor) else None for o in outputs]

    def pull(cotangents):
        if ctx._materialize:
            cotangents = [zeros_like(o) if c is None and o is not None else c for c, o in zip(cotangents, metas)]
        found = several(function.rule()(ctx, *cotangents))
        function.check_count(found, len(args))
        return found[:len(args)]

    entry = Entry(pull, places, len(outputs))
    noted = any(ctx.needs_input_grad) and level.recording()

    def carried(k, output):
        constant = not noted or any(output is c for c in ctx._constant) or not output.dtype.is_inexact
        made = Tracked(level, output, None if constant else (entry, k))
        for argument, value in zip(args, values):
            if value is output and any(value is d for d in ctx._dirty):
                argument.replace(made)
                return argument
        return made

    return alike(results, [carried(k, o) if isinstance(o, Tensor) else o for k, o in enumerate(outputs)])


def forward(level: Forward, function, args, values):
    if function.jvp is Function.jvp:
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD; "
            f"{function.__name__} "
            "has none.")
    with level.below():
        if function.separate():
            results = function.apply(*values)
            ctx = context(function, values, results)
        else:
            results, ctx = function.begun(values)
        given = [tangent(level, a, ctx._materialize) for a in args]
        versions = tuple(map(version_of, given))
        with ctx.forward_mode():
            pushed = several(function.jvp(ctx, *given))
    outputs = several(results)
    if len(pushed) != len(outputs):
        raise RuntimeError(f"{function.__name__}.jvp returned {len(pushed)} tangents for {len(outputs)} results")

    def paired(k, output, pushed):
        if not isinstance(output, Tensor):
            return output
        if pushed is not None and (any(output is c for c in ctx._constant) or not output.dtype.is_inexact):
            raise RuntimeError(
                f"{function.__name__}.jvp returned a tangent for result {k}, which is not differentiable. You should "
                "return None at that position instead.")
        made = Dual(level, output, pushed)
        for argument, value, before, version in zip(args, values, given, versions):
            if pushed is None or before is None or not isinstance(value, Tensor):
                continue
            if value is output and any(value is d for d in ctx._dirty):
                if pushed is not before or version is not None and version_of(before) == version:
                    raise RuntimeError(
                        "An inplace custom Function is not modifying the forward mode gradients inplace. If the "
                        "forward is modifying an input inplace, then the "
                        "jvp function must modify the corresponding gradient inplace.")
                if level.owns(argument):
                    argument.replace(made)
                    return argument
            elif (value._rush_storage is not None and output._rush_storage is value._rush_storage
                  and before._rush_storage is not None):
                check_view(pushed, before, output, value)
        return made

    return alike(results, [paired(k, o, t) for k, (o, t) in enumerate(zip(outputs, pushed))])


def check_view(pushed, before, output, value):
    """RuntimeError if the result is a view of an argument, and its tangent no view of the argument's tangent."""
    what = "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view"
    if pushed._base is None:
        raise RuntimeError(f"{what}.")
    if pushed._rush_storage is not before._rush_storage:
        of = "the same base as the given tangent" if value._base is not None else "the given tangent"
        raise RuntimeError(f"{what} of {of}.")


def tangent(level, argument, materialize):
    if not isinstance(argument, Tensor) or not argument.dtype.is_inexact:
        return None
    found = argument.tangent if level.owns(argument) else None
    value = argument.value if level.owns(argument) else argument
    return zeros_like(value) if found is None and materialize else found


def batch(level: Batch, function, args, values):
    own = function.vmap is not Function.vmap
    if function.generate_vmap_rule and own:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True and an overriden "
            "vmap staticmethod. Please "
            "set generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid ambiguity.")
    dims = tree_map(lambda a: 0 if level.owns(a) else None, args)
    with level.below():
        if function.generate_vmap_rule:
            results = mapped(function, dims, level.size, level.randomness).apply(*values)
            out_dims = tuple(0 for _ in several(results))
        elif own:
            found = function.vmap(VmapInfo(level.size, level.randomness), dims, *values)
            results, out_dims = output_and_dims(function, found)
        else:
            raise RuntimeError(
                f"You tried to vmap over {function.__name__}, but it does not have vmap support. Please override and "
                "implement the vmap "
                "staticmethod or set generate_vmap_rule=True.")
        fronted = [r if d is None or not isinstance(r, Tensor) else OPS["movedim"](r, d, 0)
                   for r, d in zip(several(results), out_dims)]
    return alike(results, [r if d is None or not isinstance(r, Tensor) else Batched(level, r)
                           for r, d in zip(fronted, out_dims)])


def output_and_dims(function, found):
    """Return what the vmap staticmethod of a function gave: its output, and the batch dimension of each leaf of it.
    RuntimeError for another structure."""
    what = f"{function.__name__}.vmap staticmethod"
    if not isinstance(found, tuple) or len(found) != 2:
        got = f"{len(found)} returns" if isinstance(found, tuple) else f"a {type(found).__name__}"
        raise RuntimeError(f"Expected the {what} to have two returns, an output and out_dims with pytree structure "
                           f"compatible with the output. Got {got} instead")
    output, out_dims = found
    spec = tree_flatten(output)[1]
    dims = broadcast_prefix(out_dims, spec)
    if dims is None:
        raise RuntimeError(f"The {what} returned an incompatible (output, out_dims): out_dims has structure "
                           f"{tree_flatten(out_dims)[1]} but output has structure {spec}.")
    return output, dims


def mapped(function, dims, size, randomness):
    """Return the function over a batch: its forward, backward and jvp run on batched values."""
    level = Batch(size, randomness)

    def wrap(values):
        return tuple(Batched(level, v) if isinstance(v, Tensor) else v for v in values)

    def wrap_inputs(inputs):
        return tuple(None if v is None else wrap_input(v, d) for v, d in zip(inputs, dims))

    def wrap_input(value, dim):
        leaves, spec = tree_flatten(value)
        return tree_unflatten([v if d is None else Batched(level, v) for v, d in zip(leaves, tree_leaves(dim))], spec)

    class Mapped(Function):
        generate_vmap_rule = True
        saves_outputs = True

        def forward(*inputs):
            with level:
                results = function.forward(*wrap_inputs(inputs))
            return map_results(level.stacked, results)

        def setup_context(ctx, inputs, output):
            with level:
                ctx.inner = Context()
                function.setup_context(ctx.inner, wrap_inputs(inputs), map_results(lambda r: Batched(level, r), output))
            ctx.inputs = wrap_inputs(inputs)
            ctx.flags = [level.owns(t) for t in ctx.inner._saved]
            ctx.save_for_backward(*(t.value if flag else t for t, flag in zip(ctx.inner._saved, ctx.flags)))
            ctx.mark_non_differentiable(*(c.value for c in ctx.inner._constant))
            ctx.set_materialize_grads(ctx.inner._materialize)

        def restore(ctx):
            ctx.inner._saved = tuple(Batched(level, t) if flag else t for t, flag in zip(ctx.saved_tensors, ctx.flags))
            ctx.inner.remember_versions()
            ctx.inner.needs_input_grad = ctx.needs_input_grad
            return ctx.inner

        def backward(ctx, *cotangents):
            inner = Mapped.restore(ctx)
            with level:
                found = several(function.rule()(inner, *wrap(cotangents)))
            return tuple(gradient(level, f, a) if f is not None else None for f, a in zip(found, ctx.inputs))

        def jvp(ctx, *tangents):
            inner = Mapped.restore(ctx)
            with level:
                found = function.jvp(inner, *wrap_inputs(tangents))
            return map_results(level.stacked, found)

    Mapped.__name__ = f"Vmapped{function.__name__}"
    for name in ("forward", "setup_context", "restore", "backward", "jvp"):
        setattr(Mapped, name, staticmethod(getattr(Mapped, name)))
    if function.jvp is Function.jvp:
        Mapped.jvp = Function.jvp
    return Mapped


RULES = {Batch: batch, Forward: forward, Reverse: reverse, Functional: functional}
