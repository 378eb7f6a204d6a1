"""Attention: which kernel computes it, and (in ``flex_attention``) scores changed by the user's functions."""
from __future__ import annotations

import contextlib
import enum

from ..._src.ops import attention as _attention
from ._registry import (activate_flash_attention_impl, current_flash_attention_impl,  # noqa: F401
                        list_flash_attention_impls, register_flash_attention_impl, restore_flash_attention_impl)


class SDPBackend(enum.Enum):
    """Kernels of scaled_dot_product_attention.

    MATH: its formula, scores in memory. FLASH_ATTENTION, EFFICIENT_ATTENTION: blocks of scores that never leave the
    cache, one kernel under two names.  CUDNN_ATTENTION: NVIDIA's library, on its GPUs.  OVERRIDEABLE is a name for
    other devices: nothing here is computed by it.
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __index__(self):
        return self.value


def _cur_sdpa_kernel_backends(with_priority: bool = False):
    """The kernels that may be taken now, the first choice first."""
    return [SDPBackend[name] for name in _attention.kernels.allowed]


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority: bool = False):
    """Allows only these kernels (one SDPBackend or several) for scaled_dot_product_attention within the block.

    If none of them supports the call, RuntimeError reports each one's reason.

    >>> import rushlight as torch
    >>> from rushlight.nn.attention import SDPBackend, sdpa_kernel
    >>> x = torch.ones(1, 1, 2, 4)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     torch.nn.functional.scaled_dot_product_attention(x, x, x).shape
    torch.Size([1, 1, 2, 4])
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, but got "
            f"{type(backends).__name__}")
    chosen = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    before = _attention.kernels.allowed
    ordered = chosen if set_priority else sorted(chosen, key=int, reverse=True)
    _attention.kernels.allowed = tuple(backend.name for backend in ordered)
    try:
        yield {}
    finally:
        _attention.kernels.allowed = before


def _get_flash_version() -> str:
    """The version of the algorithm that the kernels follow."""
    return "2.0"
