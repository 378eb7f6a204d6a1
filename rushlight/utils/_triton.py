"""Triton writes kernels for GPUs: there is none here."""
from __future__ import annotations


def has_triton() -> bool:
    """Whether Triton can compute something here."""
    return False


has_triton_package = has_triton_tma = has_triton_tma_device = has_triton_stable_tma_api = has_triton
has_triton_experimental_host_tma = has_triton_tensor_descriptor_host_tma = has_triton
has_datacenter_blackwell_tma_device = has_triton


def get_triton_version(fallback: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """The version of Triton: there is none."""
    return fallback
