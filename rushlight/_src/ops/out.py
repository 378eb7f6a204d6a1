"""Write results into tensors that callers give as ``out=``."""
from __future__ import annotations

import warnings

from ..core.errors import OutGradientError, OverlapError
from ..core.interpret import is_recording
from ..core.meta import Meta
from ..core.native import Op, Tensor
from ..core.op import OPS
from ..core.overlaps import PARTLY, SAME, overlap
from ..core.targets import check_cast, check_distinct, check_exact
from ..core.tensor import alias


def into_out(op: Op, args, names, run=None):
    """``out=``: compute (by ``run`` if the callee is a function of ``op``, not an operator), then write the results
    into the given tensors, which take their shapes."""
    run = run or op
    positional = len(args) - len(names)
    named, args = dict(zip(names, args[positional:])), args[:positional]
    out = named.pop("out")
    if out is None:
        return run(*args, **named)
    inputs = list(tensors_in((*args, *named.values())))
    if isinstance(out, Tensor) and named.get("as_tuple"):
        raise RuntimeError(f"{op.name} does not support the out kwarg when as_tuple is True")
    targets = [out] if isinstance(out, Tensor) else list(out)
    if is_recording() and any(t._rush_needs_grad for t in (*targets, *inputs)):
        refuse_gradient(op)
    if not inputs and isinstance(out, Tensor) and "dtype" in op.signature.parameters:
        named.setdefault("dtype", out.dtype)
    result = run(*args, **named)
    results = [result] if isinstance(out, Tensor) else list(result)
    if len(results) != len(targets):
        raise TypeError(f"{op.name}(): out= expects {len(results)} tensors, got {len(targets)}")
    for target, value in zip(targets, results):
        write_out(op, target, value, inputs)
    if isinstance(out, Tensor):
        return out
    return type(result)(*targets) if hasattr(result, "_fields") else tuple(targets)


def tensors_in(values):
    for v in values:
        if isinstance(v, Tensor):
            yield v
        elif isinstance(v, (list, tuple)):
            yield from tensors_in(v)


def refuse_gradient(op: Op):
    raise OutGradientError(
        f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
        "arguments requires grad.",
        "tensors that require no gradient", "use the result that the function returns, or call it under no_grad()")


def check_out(op: Op, out: Meta, result: Meta):
    """Raise CastError, SelfOverlapError or RuntimeError if a result may not be written into such a tensor."""
    check_exact(op, result, out)
    if not op.traits.get("out_any"):
        check_cast(result, out)
    check_distinct(op.name, out)
    if out.device is not result.device:
        raise RuntimeError(f"{op.name}(): Attempting to copy from device {result.device} to device {out.device}, but "
                           "cross-device copies are not allowed!")


def write_out(op: Op, out: Tensor, result: Tensor, inputs):
    check_out(op, out._rush_meta, result._rush_meta)
    if op.traits.get("out_in_order") and out.numel() == result.numel():
        result = OPS["reshape"](result, tuple(out.shape))
    resized = out if tuple(out.shape) == tuple(result.shape) else alias(out, out._rush_meta.like(tuple(result.shape)))
    near = resized is out or grows_in_place(resized)
    for value in inputs:
        if (near or value._rush_storage is out._rush_storage) and (op.traits.get("moves")
                                                                   or expands_to(value.shape, result.shape)):
            refuse_overlap(op, out, value, overlap(resized, value))
    if tuple(out.shape) != tuple(result.shape):
        if out.numel() and op.traits.get("out_in_order"):
            warnings.warn(
                f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()}, which is not "
                f"the computed number of elements {result.numel()}. The out tensor will be resized to a tensor of "
                f"shape ({result.numel()},).", UserWarning, stacklevel=4)
        elif out.numel():
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does "
                "not match the required output "
                f"shape {list(result.shape)}. Resize it to 0 elements first to reuse it.", UserWarning, stacklevel=4)
        OPS["resize_"](out, tuple(result.shape))
    OPS["copy_"](out, result)


def grows_in_place(resized: Tensor) -> bool:
    """True if an output of this shape fits its own storage; memory after the storage is not its own.

    A NumPy view does not expose the end of its memory, so all that follows counts as its own.
    """
    storage = resized._rush_storage
    return (resized._rush_offset * resized.itemsize + resized._rush_meta.nbytes <= storage.nbytes
            or getattr(storage.owner, "base", None) is not None)


def expands_to(shape, wanted) -> bool:
    """True if a shape broadcasts to this one without changing it."""
    return len(shape) <= len(wanted) and all(a == b or a == 1 for a, b in zip(reversed(shape), reversed(wanted)))


def refuse_overlap(op: Op, target: Tensor, read: Tensor, how: str):
    """Raise OverlapError for tensors that overlap in part, or at all if an operator moves elements."""
    if how == PARTLY or (how == SAME and op.traits.get("moves")):
        raise OverlapError(
            f"{op.name}: unsupported operation: some elements of the input tensor and the written-to tensor refer to "
            "a single memory location",
            f"an input that does not overlap the output: they are {list(read.shape)} with strides "
            f"{list(read.stride())} and {list(target.shape)} with strides {list(target.stride())} of one storage",
            "clone() the input first")
