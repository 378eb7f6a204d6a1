"""Kernels as WGSL: the compiler's half of devices of WebGPU (``devices/webgpu``)."""
