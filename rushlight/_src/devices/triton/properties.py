"""Properties of one GPU, under PyTorch's names."""

from __future__ import annotations

import dataclasses

from ..base import Properties

NUMBERS = {  # of attributes of NVIDIA's driver
    "warp_size": 10, "clock_rate": 13, "is_integrated": 18, "pci_bus_id": 33, "pci_device_id": 34,
    "memory_clock_rate": 36, "memory_bus_width": 37, "L2_cache_size": 38, "max_threads_per_multi_processor": 39,
    "pci_domain_id": 50, "max_threads_per_block": 1, "shared_memory_per_block": 8,
    "shared_memory_per_multiprocessor": 81, "regs_per_multiprocessor": 82, "is_multi_gpu_board": 84,
    "shared_memory_per_block_optin": 97}


@dataclasses.dataclass(frozen=True)
class ArchitectureProperties(Properties):
    """A GPU's architecture, too: ``major`` and ``minor`` of its version, and how many lanes run together."""

    major: int = 0
    minor: int = 0
    warp_size: int = 32


@dataclasses.dataclass(frozen=True)
class AMDProperties(ArchitectureProperties):
    """A GPU of AMD; ``gcnArchName``: what machine code is made for."""

    gcnArchName: str = ""


@dataclasses.dataclass(frozen=True)
class NVIDIAProperties(ArchitectureProperties):
    """A GPU of NVIDIA.  Sizes are bytes, but of ``memory_bus_width``, which are bits; clocks are kilohertz."""

    clock_rate: int = 0
    memory_clock_rate: int = 0
    memory_bus_width: int = 0
    L2_cache_size: int = 0
    max_threads_per_multi_processor: int = 0
    max_threads_per_block: int = 0
    regs_per_multiprocessor: int = 0
    shared_memory_per_block: int = 0
    shared_memory_per_block_optin: int = 0
    shared_memory_per_multiprocessor: int = 0
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    pci_domain_id: int = 0
    pci_bus_id: int = 0
    pci_device_id: int = 0


def properties_of(driver, index: int, version: tuple) -> ArchitectureProperties:
    """Those of a device; ``version``: (major, minor) of its architecture."""
    known = driver.name(index), driver.total(index), driver.units(index), *version
    if driver.vendor.kind == "hip":
        name = driver.architecture(index)
        return AMDProperties(*known, 64 if name.startswith("gfx9") else 32, name)
    return NVIDIAProperties(*known, **{name: driver.attribute(number, index) for name, number in NUMBERS.items()})
