"""Backends from compilers of forward and backward graphs."""
from __future__ import annotations


def aot_autograd(fw_compiler, bw_compiler=None, inference_compiler=None, **_):
    """A backend that gives forward and backward graphs to compilers:
    ``torch.compile(f, backend=aot_autograd(fw_compiler=mine))``."""
    def backend(gm, example_inputs):
        from ...fx.aot import aot_module_simplified
        return aot_module_simplified(gm, example_inputs, fw_compiler, bw_compiler)

    return backend
