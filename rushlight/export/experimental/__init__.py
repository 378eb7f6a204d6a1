"""PyTorch's names for steps of an export that may change."""
from __future__ import annotations

from ..._src.core.later import later
from ..exported_program import ExportedProgram
from ..joint import forward_and_backward


def _export_forward_backward(ep: ExportedProgram, joint_loss_index: int = 0) -> ExportedProgram:
    """The program with its backward pass; ``joint_loss_index``: which of its results the loss is."""
    return forward_and_backward(ep, joint_loss_index)


__getattr__ = later(__name__)
