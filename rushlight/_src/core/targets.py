"""Check the targets of writes: dtypes, shapes, and memory in which several elements overlap."""
from __future__ import annotations

from .dtypes import can_cast, type_name
from .errors import CastError, SelfOverlapError, TargetShapeError
from .meta import Meta, is_one


def check_cast(result: Meta, target: Meta):
    """CastError where a result does not convert to the dtype of its target."""
    if not can_cast(result.dtype, target.dtype):
        raise CastError(
            f"result type {type_name(result.dtype)} can't be cast to the desired output type {type_name(target.dtype)}",
            f"a target of category {result.dtype.category} or above",
            f"write into a tensor of {result.dtype}, or convert the operands first")


def check_exact(op, result: Meta, target: Meta):
    """Raise CastError if the target has a dtype that the operator does not write: another than the result's, or one
    outside a list."""
    allowed = op.traits.get("out_of")
    if allowed and target.dtype.name not in allowed:
        raise CastError(f"{op.name} only supports {allowed[0]} tensor for result, got: {type_name(target.dtype)}",
                        f"a tensor of {' or '.join(allowed)}", "")
    if op.traits.get("out_exact") and result.dtype is not target.dtype:
        raise CastError(
            f"{op.name}(): Expected out tensor to have dtype {result.dtype}, but got {target.dtype} instead: "
            f"expected scalar_type {type_name(result.dtype)} but found {type_name(target.dtype)}", "",
            f"give a tensor of {result.dtype}")


def check_shape(result: Meta, target: Meta):
    """TargetShapeError where a result is not of its target's shape."""
    if tuple(result.shape) != tuple(target.shape):
        raise TargetShapeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(result.shape)}",
            "operands that broadcast to the shape of what is written", "use the operator that returns a new tensor")


def check_distinct(name: str, target: Meta):
    """Raise SelfOverlapError for a target in which several elements share one memory location."""
    if is_expanded(target):
        raise SelfOverlapError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location",
            f"memory for each of {list(target.shape)}; strides are {list(target.strides)}",
            "clone() the tensor before writing to it")


def is_expanded(meta: Meta) -> bool:
    """True if several elements of such a tensor share one memory location."""
    return any(type(stride) is int and stride == 0 and not is_one(size)
               for size, stride in zip(meta.shape, meta.strides)) and bool(meta.numel)
