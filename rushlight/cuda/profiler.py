"""``torch.cuda.profiler``: blocks that a profiler of NVIDIA records."""
from __future__ import annotations

import contextlib

from .places import index_of, provider_of

__all__ = ["profile", "start", "stop"]


def control(entry: str):
    """Call an entry of the driver that controls profilers. RuntimeError for a vendor whose driver has none."""
    driver = provider_of().driver
    if entry not in driver.entries:
        raise RuntimeError(f"torch.cuda.profiler controls profilers of NVIDIA, not of {driver.vendor.kind} devices")
    with driver.at(index_of()):
        driver.call(entry)


def start():
    """Start recording by a profiler that is attached to the process. NoDeviceError where there is no GPU."""
    control("profiler_start")


def stop():
    """Stop recording by a profiler that is attached to the process. NoDeviceError where there is no GPU."""
    control("profiler_stop")


@contextlib.contextmanager
def profile():
    """Let an attached profiler record a block."""
    start()
    try:
        yield
    finally:
        stop()
