"""Calling a module with other parameters than its own."""
from __future__ import annotations

from typing import Any

from ..._src.core.advice import deprecated
from ...func.modules import functional_call as call

__all__ = ["functional_call"]


def _functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    return call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def functional_call(module, parameters_and_buffers: dict, args: Any = None, kwargs: dict | None = None, *,
                    tie_weights=True, strict=False):
    """``torch.func.functional_call`` by its older name."""
    deprecated("torch.nn.utils.stateless.functional_call", "torch.func.functional_call", FutureWarning)
    return call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
