"""Devices of type "mps": adapters of WebGPU that have this name.  Where there are none, questions are answered so, and
what would need a device refuses."""
from .._src.compat.accelerators import accelerator_module

globals().update(accelerator_module("mps"))
