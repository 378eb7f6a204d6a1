"""Hand-written WGSL kernels for matmuls, convolutions (as implicit GEMM), attention, sorting and Fourier transforms."""
