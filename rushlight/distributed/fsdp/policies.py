"""Policies for compute dtypes of layers, and for offloading shards."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["MixedPrecisionPolicy", "OffloadPolicy", "CPUOffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """``param_dtype``: that of full parameters, and of inputs with ``cast_forward_inputs``; ``reduce_dtype``: that of
    gradient reduction; ``output_dtype``: that of outputs.  None leaves one unchanged."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """No offloading: shards stay on the device of their layers."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Accepted without effect: shards stay on the device of the parameters."""

    pin_memory: bool = True
