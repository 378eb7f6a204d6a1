"""Switches of GPUs' libraries, and of the kernels of attention."""
from __future__ import annotations

import enum
import warnings
from typing import NamedTuple

from .._src import switches
from .._src.core.native import Tensor
from .._src.ops.attention import kernels, refusal_of_vendor


class BlasBackend(enum.IntEnum):
    """BLAS libraries on GPUs.  Default: the vendor's if it is expected to be faster than Rushlight's kernels."""

    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


BACKENDS = {"default": BlasBackend.Default, "cublas": BlasBackend.Cublas, "cublaslt": BlasBackend.Cublaslt,
            "hipblaslt": BlasBackend.Cublaslt, "ck": BlasBackend.Ck}


def reducing(dtype: str) -> property:
    """True if partial sums of matmuls of a dtype may be reduced in that dtype."""
    return property(lambda self: switches.reducing[dtype],
                    lambda self, allowed: switches.change("reducing", {**switches.reducing, dtype: bool(allowed)}))


class Precision:
    """Precision of matmuls on GPUs.

    ``allow_tf32`` is another name for ``set_float32_matmul_precision("high")``.  The others apply to matmuls of the
    vendor's library: it may reduce split-K partial sums in float16 or bfloat16, and accumulate float16 in float16.
    Rushlight's kernels always accumulate in float32.
    """

    fp32_precision = "none"
    allow_fp16_reduced_precision_reduction = reducing("float16")
    allow_bf16_reduced_precision_reduction = reducing("bfloat16")

    @property
    def allow_fp16_accumulation(self) -> bool:
        return switches.accumulates_halves

    @allow_fp16_accumulation.setter
    def allow_fp16_accumulation(self, allowed):
        switches.change("accumulates_halves", bool(allowed))

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


def preferred_blas_library(backend=None) -> BlasBackend:
    """Return the BLAS library of matmuls on GPUs; set it if a name or a BlasBackend is passed.

    "cublas", "cublaslt", "hipblaslt": the vendor's library where supported (called through cuBLASLt and hipBLASLt);
    "ck": Rushlight's kernels; "default": the one that is expected, or was measured, to be faster. RuntimeError for
    other names.

    >>> import rushlight as torch
    >>> torch.backends.cuda.preferred_blas_library().name
    'Default'
    """
    if isinstance(backend, str):
        if backend not in BACKENDS:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(BACKENDS)}.")
        switches.change("blas_library", backend)
    elif backend is not None:
        if not isinstance(backend, BlasBackend):
            raise RuntimeError("Unknown input value type.")
        switches.change("blas_library", next(name for name, one in BACKENDS.items() if one is backend))
    return BACKENDS[switches.blas_library]


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
                                          (SDPBackend.EFFICIENT_ATTENTION, enable_mem_efficient),
                                          (SDPBackend.CUDNN_ATTENTION, enable_cudnn)) if on]
    return sdpa_kernel(chosen)


class SDPAParams(NamedTuple):
    """Arguments of a ``scaled_dot_product_attention`` call, for queries about available kernels."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None
    dropout: float
    is_causal: bool
    enable_gqa: bool


def _kernel_of_gpus(name):
    def can_use(params: SDPAParams, debug: bool = False) -> bool:
        if not isinstance(params, SDPAParams):
            raise TypeError(f"{can_use.__name__}(): incompatible function arguments: expected SDPAParams, "
                            f"got {type(params).__name__}")
        return False
    can_use.__name__ = can_use.__qualname__ = name
    can_use.__doc__ = """Whether a call would take this library of CUDA's: never, as attention has kernels of its own on
    every device; ``flash_sdp_enabled`` and its kin say which may be chosen."""
    return can_use


can_use_flash_attention, can_use_efficient_attention = map(
    _kernel_of_gpus, ("can_use_flash_attention", "can_use_efficient_attention"))


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether cuDNN can compute a call, and may; with ``debug`` a warning says why it cannot."""
    if not isinstance(params, SDPAParams):
        raise TypeError("can_use_cudnn_attention(): incompatible function arguments: expected SDPAParams, "
                        f"got {type(params).__name__}")
    reason = (refusal_of_vendor(params.query, params.key, params.value, params.attn_mask, params.dropout,
                                params.enable_gqa) if cudnn_sdp_enabled() and switches.uses_dnn
              else "it is not enabled")
    if reason is not None and debug:
        warnings.warn(f"cuDNN attention is not used: {reason}", stacklevel=2)
    return reason is None


def is_flash_attention_available() -> bool:
    """Whether the library of FlashAttention is there: attention has kernels of its own instead."""
    return False
