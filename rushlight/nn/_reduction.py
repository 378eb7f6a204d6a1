"""Reductions of losses, as the ints and the old flags of PyTorch's operators."""
from __future__ import annotations

from .._src.core.advice import warn
from .._src.ops.loss import chosen

NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction: 0 "none", 1 "mean", 2 "sum".  ValueError for other names.

    >>> get_enum("sum")
    2
    """
    if reduction == "elementwise_mean":
        warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        return NUMBERS["mean"]
    return NUMBERS[chosen(reduction)]


def legacy_get_string(size_average, reduce, emit_warning: bool = True) -> str:
    """The reduction that two old flags mean, each True where it is None.  Warns where ``emit_warning``.

    >>> legacy_get_string(None, False, emit_warning=False)
    'none'
    """
    if emit_warning:
        return chosen("mean", True if size_average is None else size_average, reduce)
    size_average, reduce = (flag is None or bool(flag) for flag in (size_average, reduce))
    return "none" if not reduce else "mean" if size_average else "sum"


def legacy_get_enum(size_average, reduce, emit_warning: bool = True) -> int:
    """The number of ``legacy_get_string``."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
