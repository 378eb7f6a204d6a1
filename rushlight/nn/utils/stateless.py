"""Calling a module with other parameters than its own."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from ..._src.core.advice import deprecated
from ...func.modules import find_replacements, functional_call as call, read, replacing

__all__ = ["functional_call"]


def _functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    return call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


@contextmanager
def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False):
    """Replace parameters and buffers of a module in a block. Names that the block assigns to have their new tensors in
    ``parameters_and_buffers`` afterwards. The module always gets its own back last to first, with ``stack_weights`` or
    without."""
    given = parameters_and_buffers
    with replacing(module, find_replacements(module, given, tie_weights, strict)):
        try:
            yield
        finally:
            given.update({name: value for name, value in read(module, given).items() if value is not given[name]})


def functional_call(module, parameters_and_buffers: dict, args: Any = None, kwargs: dict | None = None, *,
                    tie_weights=True, strict=False):
    """``torch.func.functional_call`` by its older name."""
    deprecated("torch.nn.utils.stateless.functional_call", "torch.func.functional_call", FutureWarning)
    return call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
