"""What ``torch._inductor.config`` steers, over the table of settings: assign to its names, or ``patch`` them for a block."""
from __future__ import annotations

import sys
import types

from .._dynamo.config import Patched
from ..core.settings import settings

INERT = {"coordinate_descent_tuning": False, "fx_graph_cache": True, "fx_graph_remote_cache": None, "freezing": False, "epilogue_fusion": True, "shape_padding": True,
         "conv_1x1_as_mm": False, "force_disable_caches": False, "debug": False, "benchmark_kernel": False, "compile_threads": 1, "allow_buffer_reuse": True,
         "max_autotune_gemm_backends": "ATEN,TRITON,CPP", "max_autotune_gemm_search_space": "DEFAULT", "max_autotune_pointwise": False, "cpp_wrapper": False,
         "force_fuse_int_mm_with_mul": False, "use_mixed_mm": True, "emulate_precision_casts": False, "b2b_gemm_pass": False, "layout_optimization": True,
         "permute_fusion": False, "split_reductions": True, "size_asserts": True, "implicit_fallbacks": True, "pattern_matcher": True, "reorder_for_locality": True,
         "fallback_random": False, "keep_output_stride": True, "warn_mix_layout": False, "inplace_padding": True, "comprehensive_padding": True, "profiler_mark_wrapper_call": False,
         "group_fusion": False, "batch_fusion": True, "post_grad_custom_pre_pass": None, "post_grad_custom_post_pass": None, "pre_grad_custom_pass": None,
         "joint_custom_pre_pass": None, "joint_custom_post_pass": None, "online_softmax": True, "deterministic": False, "autotune_local_cache": True,
         "worker_start_method": "subprocess", "aggressive_fusion": False, "dce": False, "memory_planning": False}  # names that programs set, and that change nothing here
ROOMS = ("triton", "cpp", "aot_inductor", "trace", "cuda", "rocm", "halide", "test_configs")  # groups of such names


class Config(types.ModuleType):
    """The module itself: some names are settings."""

    @property
    def max_autotune(self):
        """Whether choices within templates are measured and remembered."""
        return settings.max_autotune

    @max_autotune.setter
    def max_autotune(self, value):
        settings.max_autotune = bool(value)

    max_autotune_gemm = max_autotune

    def __setattr__(self, name, value):
        if name not in INERT and name not in ("max_autotune", "max_autotune_gemm") and not name.startswith("__"):
            raise AttributeError(f"torch._inductor.config has no setting {name!r}: there are max_autotune and, without effect, {', '.join(INERT)}")
        super().__setattr__(name, value)

    def patch(self, changes=None, value=None, **more):
        """Changes settings for a ``with`` block, or for the calls of a decorated function.  Names with a dot are those of groups, without effect."""
        changes = {changes: value} if isinstance(changes, str) else dict(changes or {})
        return Patched(self, {name: to for name, to in {**changes, **more}.items() if name.partition(".")[0] not in ROOMS})


globals().update(INERT, **{room: types.SimpleNamespace() for room in ROOMS})
sys.modules[__name__].__class__ = Config
