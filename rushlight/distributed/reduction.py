"""Reduction operators of collectives."""
from __future__ import annotations

import enum

from .._src.core.advice import warn


class RedOpType(enum.Enum):
    """A reduction operator."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    def __repr__(self):
        return f"<RedOpType.{self.name}: {self.value}>"


class Premultiplied:
    """A sum of tensors that each process first multiplies by its own factor (a number, or a tensor of one element)."""

    def __init__(self, factor):
        self.factor, self.name = factor, "PREMUL_SUM"

    def __eq__(self, other):
        return other is RedOpType.PREMUL_SUM or isinstance(other, Premultiplied) and other.factor is self.factor

    __hash__ = None


class ReduceOp:
    """Reduction operators of collectives."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType

    def __new__(cls, op=RedOpType.SUM):
        return op


class _OldNames:
    """``torch.distributed.reduce_op``: the reductions by an older name."""

    def __getattr__(self, name):
        if name not in RedOpType.__members__:
            raise AttributeError(f"'reduce_op' object has no attribute {name!r}")
        warn("`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead",
             FutureWarning)
        return RedOpType[name]


reduce_op = _OldNames()


def _make_nccl_premul_sum(factor) -> Premultiplied:
    """A sum of tensors that are first multiplied by a factor."""
    return Premultiplied(factor)


NAMED = {op.name.lower(): op for op in RedOpType}
BITWISE = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)


def check_op(tensor, op, engine=None):
    """Raise RuntimeError for a reduction that does not support the tensor's dtype, TypeError for values that are not a
    reduction; ``engine``: that of a device, which has further rules."""
    if not isinstance(op, (RedOpType, Premultiplied)):
        raise TypeError(f"Invalid reduction {op!r}: expected a torch.distributed.ReduceOp")
    if op in BITWISE and engine is None and (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
    if tensor.is_complex() and not supports_complex(op):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    if op is RedOpType.PREMUL_SUM:
        raise RuntimeError("ReduceOp.PREMUL_SUM wants a factor: torch.distributed._make_nccl_premul_sum(factor)")


def check_name(what: str, reduce: str, dtype):
    """Raise RuntimeError if no collective has a reduction of this name, or it does not support the dtype."""
    if reduce not in NAMED or reduce == "premul_sum":
        raise RuntimeError(
            f"unknown reduction {reduce!r}: it is one of {', '.join(n for n in NAMED if n != 'premul_sum')}")
    if dtype.is_complex and not supports_complex(NAMED[reduce]):
        raise RuntimeError(f"{what}: reduce_op {reduce} does not support complex tensors")


def supports_complex(reduceOp) -> bool:
    """True if a reduction supports complex dtypes."""
    return reduceOp not in (RedOpType.MAX, RedOpType.MIN, RedOpType.PRODUCT, *BITWISE)
