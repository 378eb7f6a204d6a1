"""Compilers of forward and backward graphs: what a backend is written with."""
from .._functorch import config
from ..fx.aot import (aot_function, aot_module, aot_module_simplified, default_partition, make_boxed_compiler,
                      make_boxed_func, memory_efficient_fusion)
from ..fx.aot import min_cut_rematerialization_partition, nop

compiled_function, compiled_module, ts_compile = aot_function, aot_module, nop

__all__ = ["aot_function", "aot_module", "aot_module_simplified", "compiled_function", "compiled_module",
           "config", "default_partition", "make_boxed_compiler", "make_boxed_func",
           "memory_efficient_fusion", "min_cut_rematerialization_partition", "nop", "ts_compile"]
