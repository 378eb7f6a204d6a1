"""Questions about the package ``triton``, with which users write kernels for GPUs."""
from __future__ import annotations

from ._import_utils import _check_module_exists


def has_triton_package() -> bool:
    """True if the package ``triton`` is installed; it is not imported."""
    return _check_module_exists("triton")


def has_triton() -> bool:
    """True if Triton's kernels can run here: the package is installed, and there is a GPU."""
    from .. import cuda
    return has_triton_package() and cuda.is_available()


def has_triton_tma() -> bool:
    """False: kernels here are given pointers, not descriptors of NVIDIA's tensor memory accelerator."""
    return False


has_triton_tma_device = has_triton_stable_tma_api = has_triton_experimental_host_tma = has_triton_tma
has_triton_tensor_descriptor_host_tma = has_datacenter_blackwell_tma_device = has_triton_tma


def get_triton_version(fallback: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """(major, minor) of the installed Triton, ``fallback`` without one."""
    from importlib import metadata
    try:
        major, minor = metadata.version("triton").split(".")[:2]
    except metadata.PackageNotFoundError:
        return fallback
    return int(major), int(minor)
