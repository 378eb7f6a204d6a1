"""The CPU as a device: what PyTorch offers under ``torch.cpu``."""
from __future__ import annotations

import types

from .core.advice import deprecated
from .amp import GradScaler, autocast
from .core.later import later


def is_available() -> bool:
    """True: there is a CPU."""
    return True


def device_count() -> int:
    """1: all cores are one device."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def synchronize(device=None):
    """Nothing: calls return when their results are there."""


class _Autocast(autocast):
    """``autocast("cpu")``, as it was called before."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        deprecated("torch.cpu.amp.autocast(args...)", "torch.amp.autocast('cpu', args...)", FutureWarning)
        super().__init__("cpu", dtype, enabled, cache_enabled)


class _Scaler(GradScaler):
    """``GradScaler("cpu")``, as it was called before."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        deprecated("torch.cpu.amp.GradScaler(args...)", "torch.amp.GradScaler('cpu', args...)", FutureWarning)
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


amp = types.SimpleNamespace(autocast=_Autocast, GradScaler=_Scaler)
__getattr__ = later(__name__)
