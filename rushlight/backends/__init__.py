"""What computes: our own kernels.  The libraries that PyTorch names are not used, and their switches change nothing."""
from . import cpu, cuda, cudnn, mha, mkl, mkldnn, mps, openmp, opt_einsum, quantized

__all__ = ["cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized"]
fp32_precision = "none"
