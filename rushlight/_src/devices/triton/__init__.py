"""GPUs of NVIDIA and AMD by the package ``triton``, which compiles kernels, and the driver's own library.

It is the extra ``rushlight[cuda]``, imported when a kernel is first compiled.
"""
