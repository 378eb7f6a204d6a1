"""Backends.  Rushlight's kernels compute everything; PyTorch's libraries are not used, and their switches have no
effect."""
import sys

from . import cpu, cuda, cudnn, mha, mkl, mkldnn, mps, openmp, opt_einsum, quantized
from .._src.flags import FlagModule, allow_nonbracketed_mutation, disable_global_flags, flags_frozen  # noqa: F401

__all__ = ["cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized"]
__allow_nonbracketed_mutation = allow_nonbracketed_mutation
fp32_precision = "none"
sys.modules[__name__].__class__ = FlagModule
