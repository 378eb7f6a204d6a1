"""Switches of CUDA libraries, which are not used, and of the kernels of attention."""
from __future__ import annotations

from .._src import switches
from .._src.ops.attention import kernels


class Precision:
    """How exact products are, on GPUs.

    ``allow_tf32`` is another name for ``set_float32_matmul_precision("high")``.  Sums of float16 and bfloat16, and of
    parts of a product's depth, are float32 whatever the others allow.
    """

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False
    fp32_precision = "none"

    @property
    def allow_tf32(self) -> bool:
        return switches.allows_tf32("matmul")

    @allow_tf32.setter
    def allow_tf32(self, allowed):
        switches.set_float32_matmul_precision("high" if allowed else "highest")


class Plans(list):
    """The cache of FFT plans: empty."""

    size, max_size = 0, 0

    def clear(self):
        """Nothing to drop."""


matmul, cufft_plan_cache = Precision(), Plans()


def is_built() -> bool:
    return False


def preferred_linalg_library(backend=None):
    """The library of linear algebra on CUDA devices: there is none to choose."""
    return None


preferred_blas_library = preferred_linalg_library


def switch(name):
    def enable(enabled: bool):
        kernels.allow(name, bool(enabled))
    enable.__doc__ = (
        f"Whether scaled_dot_product_attention may take the kernel {name}, on the CPU, too; nn.attention.sdpa_kernel "
        "says it for a block.")
    return enable


def question(name):
    def enabled() -> bool:
        return name in kernels.allowed
    enabled.__doc__ = f"Whether scaled_dot_product_attention may take the kernel {name}."
    return enabled


NAMES = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH", "CUDNN_ATTENTION")
enable_flash_sdp, enable_mem_efficient_sdp, enable_math_sdp, enable_cudnn_sdp = map(switch, NAMES)
flash_sdp_enabled, mem_efficient_sdp_enabled, math_sdp_enabled, cudnn_sdp_enabled = map(question, NAMES)


def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """A block in which only these kernels of attention may be chosen: ``nn.attention.sdpa_kernel`` by its older
    name."""
    from ..nn.attention import SDPBackend, sdpa_kernel
    chosen = [backend for backend, on in ((SDPBackend.FLASH_ATTENTION, enable_flash), (SDPBackend.MATH, enable_math),
                                          (SDPBackend.EFFICIENT_ATTENTION, enable_mem_efficient)) if on]
    return sdpa_kernel(chosen)
