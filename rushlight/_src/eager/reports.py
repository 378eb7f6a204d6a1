"""Raise exceptions for errors that kernels reported through the error flag."""
from __future__ import annotations

from ..compiler.reference import failures as raised
from ..core import failures, interpret
from ..core.dtypes import int32, int64
from ..core.errors import OutOfMemoryError
from ..core.native import Plan, Tensor
from ..core.op import OPS
from .elsewhere import flat


def failed(plan: Plan, args, flag: int):
    """Raise the error that a program reported: one inside a NumPy call, one that the flag names, or an index out of
    range."""
    pending, raised.pending = raised.pending, None
    kind = plan.op.traits.get("out_of_range", IndexError)
    if isinstance(pending, MemoryError):
        raise OutOfMemoryError(f"{plan.op.name}: {pending}", "at most the memory that the host has left") from pending
    if pending is not None:
        raise kind(*pending.args) if isinstance(pending, IndexError) else pending
    report = plan.op.traits.get("reports")
    own = report and report(flag)
    if own:
        raise own
    named = failures.error(flag)
    if named is not None:
        raise named
    raise kind(f"{plan.op.name.strip('_')}: an index is out of "
               f"range{indices_among(args) if OPS.get(plan.op.name) is plan.op else ''}")


def indices_among(args) -> str:
    """Return a description of the index arguments of a call, for its error."""
    indices = [a for a in flat(args) if isinstance(a, Tensor) and a.dtype in (int32, int64) and a.numel()]
    first = next((list(a.shape) for a in flat(args) if isinstance(a, Tensor) and not any(a is i for i in indices)),
                 None)
    if not indices or first is None:
        return ""
    with interpret.recording(False):
        ranges = ", ".join(f"from {a.min().item()} to {a.max().item()}" for a in indices)
    return f": {ranges}, where the tensor has the shape {first}"
