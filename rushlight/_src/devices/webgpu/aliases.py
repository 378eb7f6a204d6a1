"""PyTorch's names for some adapters: "mps" for those of macOS, "xpu" for GPUs of Intel."""

from __future__ import annotations

from ...core.platform import here

INTEL = 0x8086  # in the registry of PCI vendors


def belongs(kind: str, system: str, info: dict) -> bool:
    """True if an adapter belongs to the device type ``kind``; ``info``: wgpu's description of it."""
    if kind == "mps":
        return system == "macos"
    return info["vendor_id"] == INTEL and info["adapter_type"] in ("DiscreteGPU", "IntegratedGPU")


def alias(kind: str):
    """The Provider of the adapters with a name; None where there are none."""
    if kind == "mps" and here.name != "macos":  # without listing the adapters
        return None
    from .provider import WebGPU

    made = WebGPU(kind, lambda adapter: belongs(kind, here.name, adapter.info))
    return made if made.count() else None
