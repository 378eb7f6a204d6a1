"""LLVM, as the compilers of kernels and of the hot path use it: IR as text, target machines, object code in memory."""
