"""Utilization, temperature, power and clock of GPUs, as the driver's tools report them."""
from __future__ import annotations

from .places import index_of, provider_of

__all__ = ["clock_rate", "list_gpu_processes", "memory_usage", "power_draw", "temperature", "utilization"]


def _asked(device):
    """Return (the sensors of GPUs, the bus address of one)."""
    provider = provider_of()
    return provider.sensors, provider.driver.bus(index_of(device))


def _figure(device, name: str) -> int:
    sensors, bus = _asked(device)
    return sensors.figure(bus, name)


def utilization(device=None) -> int:
    """Percent of the last period (1/6 s to 1 s) in which kernels ran on a GPU.  RuntimeError if the driver's library
    is missing, or does not report it."""
    sensors, bus = _asked(device)
    return sensors.rates(bus)[0]


def memory_usage(device=None) -> int:
    """Percent of the last period in which a GPU's memory was read or written."""
    sensors, bus = _asked(device)
    return sensors.rates(bus)[1]


def temperature(device=None) -> int:
    """Degrees Celsius of a GPU."""
    return _figure(device, "temperature")


def power_draw(device=None) -> int:
    """Milliwatts that a GPU takes."""
    return _figure(device, "power")


def clock_rate(device=None) -> int:
    """Megahertz of a GPU's multiprocessors."""
    return _figure(device, "clock")


def list_gpu_processes(device=None) -> str:
    """The processes that compute on a GPU, with the megabytes that each has, as lines of text."""
    sensors, bus = _asked(device)
    rows = [f"process {number:>10d} uses {size / (1 << 20):>12.3f} MB GPU memory"
            for number, size in sensors.processes(bus)]
    return "\n".join([f"GPU:{index_of(device)}", *(rows or ["no processes are running"])])
