"""Functional: a program without in-place operators (functionalize)."""
from __future__ import annotations

import functools

from ..core.native import Op
from ..core.op import OPS
from ..core.pytree import tree_flatten, tree_map, tree_unflatten
from ..core.targets import check_cast, check_exact
from ..core.tensor import Tensor
from ..ops.promotion import as_dtype
from .level import Level, Wrapped, map_results


class Mutable(Wrapped):
    """A tensor that appears to be written in place: its value is replaced instead."""

    shown = "FunctionalTensor"

    @property
    def requires_grad(self):
        return self.value.requires_grad


class Functional(Level):
    """Every in-place operator becomes the operator that returns a new tensor."""

    kind = Mutable
    name = "functionalize"

    def adopt(self, results):
        return map_results(lambda r: r if isinstance(r, Mutable) else Mutable(self, r), results)

    def lowered(self, value) -> Tensor:
        """Value that a tensor of this level wraps.  Called below this level."""
        return value.value if self.owns(value) else value

    def call(self, op: Op, args, kwargs):
        out = kwargs.get("out")
        if out is None or "library" in op.traits:
            return super().call(op, args, kwargs)
        results = super().call(op, args, {name: value for name, value in kwargs.items() if name != "out"})
        several = isinstance(results, (tuple, list))
        for target, result in zip(out if several else (out,), results if several else (results,)):
            self.write(op, target, result)
        return out

    def write(self, op: Op, target, result):
        """Write a result into a tensor that was given as ``out``; an empty one takes the shape of the result."""
        check_exact(op, result._rush_meta, target._rush_meta)
        check_cast(result._rush_meta, target._rush_meta)
        if tuple(target.shape) == tuple(result.shape):
            OPS["copy_"](target, result)
        elif self.owns(target) and target.parent is None and not target.numel():
            target.replace(as_dtype(result, target.dtype))
        else:
            raise RuntimeError(
                f"{op.name}: out= has the shape {list(target.shape)} inside of functionalize, but the result has "
                f"{list(result.shape)}: give a tensor of this shape, or an empty one that is no view")

    def answer(self, op: Op, tensors, args, kwargs):
        with self.below():
            return self.adopt(op(*args, **kwargs))


def functionalize(func, *, remove="mutations"):
    """Return a function that computes the same as ``func`` without writing tensors, except for arguments that ``func``
    writes.

    ``remove``: "mutations", or "mutations_and_views".

    >>> functionalize(lambda x: x.clone().add_(1))(torch.zeros(2))
    tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            "functionalize(f, remove='mutations'): Valid options for 'remove' are 'mutations' or "
            f"'mutations_and_views', got {remove!r}")

    @functools.wraps(func)
    def pure(*args, **kwargs):
        leaves, spec = tree_flatten((args, kwargs))
        with Functional() as level:
            inputs = [Mutable(level, leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            args, kwargs = tree_unflatten(inputs, spec)
            results = tree_map(lambda r: r.current().value if level.owns(r) else r, func(*args, **kwargs))
        for leaf, value in zip(leaves, inputs):
            if level.owns(value) and value.writes:
                leaf.copy_(value.value)
        return results

    return pure
