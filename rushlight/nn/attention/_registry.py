"""Registered implementations of flash attention; at most one is active."""
from __future__ import annotations

import logging
from typing import Protocol

from ..._src.core.errors import NotBuiltError
from ..._src.core.log import logger


class FlashAttentionHandle(Protocol):
    """Removes what an implementation has registered."""

    def remove(self) -> None: ...

logger = logging.getLogger(__name__)


def refuse_kernels(impl: str):
    """A function that says what an implementation of PyTorch's would need."""
    def register():
        raise NotBuiltError(
            f"the flash attention implementation {impl!r} needs kernels that are compiled against PyTorch's C++ "
            "library. scaled_dot_product_attention has kernels of its own here, and register_flash_attention_impl "
            "takes implementations in Python")

    return register


IMPLEMENTATIONS: dict = {impl: refuse_kernels(impl) for impl in ("FA3", "FA4")}
active: list[tuple[str, FlashAttentionHandle]] = []  # at most one


def register_flash_attention_impl(impl: str, *, register_fn):
    """Makes an implementation known: ``register_fn`` activates it and returns a FlashAttentionHandle, or None."""
    IMPLEMENTATIONS[impl] = register_fn


def activate_flash_attention_impl(impl: str):
    """Activates an implementation in place of another one.  ValueError for an unregistered name."""
    restore_flash_attention_impl(_raise_warn=False)
    if impl not in IMPLEMENTATIONS:
        raise ValueError(
            f"Unknown flash attention impl '{impl}'. Available implementations: {list_flash_attention_impls()}")
    handle = IMPLEMENTATIONS[impl]()
    if handle is not None:
        active[:] = [(impl, handle)]


def list_flash_attention_impls() -> list[str]:
    """Return the names of the registered implementations, sorted."""
    return sorted(IMPLEMENTATIONS)


def current_flash_attention_impl() -> str | None:
    """The name of the active implementation; None for the one that is always there."""
    return active[0][0] if active else None


def restore_flash_attention_impl(_raise_warn: bool = True):
    """Removes the active implementation."""
    if active:
        active.pop()[1].remove()
    elif _raise_warn:
        logger.warning("Trying to restore default FA2 impl when no custom impl was activated")
