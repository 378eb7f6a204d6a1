"""Kinds of quantization."""
from __future__ import annotations

import enum

__all__ = ["QuantType"]


class QuantType(enum.IntEnum):
    """Scales are chosen as programs run, before, while they train, or of weights alone."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


NAMES = {QuantType.STATIC: "static", QuantType.DYNAMIC: "dynamic", QuantType.QAT: "qat",
         QuantType.WEIGHT_ONLY: "weight_only"}


def _get_quant_type_to_str(quant_type: QuantType) -> str:
    return NAMES[quant_type]


def _quant_type_from_str(name: str) -> QuantType:
    """The kind of a name.  ValueError for others."""
    for kind, known in NAMES.items():
        if known == name.lower():
            return kind
    raise ValueError(f"Unknown QuantType name '{name}'")
