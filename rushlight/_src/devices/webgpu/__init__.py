"""WebGPU by the package ``wgpu`` (Vulkan, Metal, Direct3D).

It is the extra ``rushlight[webgpu]``, imported when a device is first used.
"""
