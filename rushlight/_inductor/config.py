"""What ``torch._inductor.config`` steers: how programs are compiled that ``compile`` makes from now on."""
from __future__ import annotations

import sys

from ..capture.modes import DEFAULTS
from ..core.configuration import Configuration, Group

INERT = {"fx_graph_cache": True, "fx_graph_remote_cache": None, "autotune_local_cache": True, "epilogue_fusion": True, "epilogue_fusion_first": False,
         "pattern_matcher": True, "max_autotune_pointwise": False, "max_autotune_gemm": False, "max_autotune_gemm_backends": "ATEN,TRITON,CPP",
         "max_autotune_conv_backends": "ATEN,TRITON", "coordinate_descent_tuning": False, "coordinate_descent_check_all_directions": False,
         "force_disable_caches": False, "cpp_wrapper": False, "dce": False, "static_weight_shapes": True, "size_asserts": True, "nan_asserts": False,
         "scalar_asserts": True, "benchmark_kernel": False, "constant_and_index_propagation": True, "always_keep_tensor_constants": False, "inplace_buffers": True,
         "allow_buffer_reuse": True, "memory_planning": False, "permute_fusion": False, "shape_padding": True, "comprehensive_padding": True,
         "conv_1x1_as_mm": False, "split_reductions": True, "group_fusion": False, "batch_fusion": True, "reorder_for_locality": True,
         "reorder_for_compute_comm_overlap": False, "dynamic_scale_rblock": True, "force_fuse_int_mm_with_mul": False, "use_mixed_mm": True,
         "fallback_random": False, "implicit_fallbacks": True, "aggressive_fusion": False, "max_fusion_size": 64, "unroll_reductions_threshold": 8,
         "comment_origin": False, "compile_threads": 1, "developer_warnings": False, "worker_start_method": "subprocess", "loop_ordering_after_fusion": True,
         "verbose_progress": False, "warn_mix_layout": False, "joint_graph_constant_folding": True, "layout_optimization": True, "keep_output_stride": True,
         "emulate_precision_casts": False, "assert_indirect_indexing": True, "disable_progress": True, "debug": False, "graph_partition": False,
         "freezing_discard_parameters": False, "decompose_mem_bound_mm": False, "combo_kernels": False, "b2b_gemm_pass": False, "post_grad_custom_pre_pass": None,
         "post_grad_custom_post_pass": None, "joint_custom_pre_pass": None, "joint_custom_post_pass": None, "profile_bandwidth": False,
         "deterministic": False, "online_softmax": True, "inplace_padding": True, "max_autotune_gemm_search_space": "DEFAULT", "pre_grad_custom_pass": None,
         "profiler_mark_wrapper_call": False, "enable_auto_functionalized_v2": True, "disable_cpp_codegen": False, "triton_kernel_default_layout_constraint": "needs_fixed_stride_order"}
INERT |= {"cpp": Group(threads=-1, simdlen=None, min_chunk_size=512, cxx=(None, "g++"), enable_kernel_profile=False, weight_prepack=True, vec_isa_ok=None,
                       dynamic_threads=False, max_horizontal_fusion_size=16, fallback_scatter_reduce_sum=True, enable_unsafe_math_opt_flag=False,
                       enable_floating_point_contract_flag="off", enable_tiling_heuristics=True, enable_loop_tail_vec=True, gemm_max_k_slices=1,
                       gemm_cache_blocking=None, gemm_thread_factors=None, enable_grouped_gemm_template=False, descriptive_names="original_aten", no_redundant_loops=True),
          "triton": Group(cudagraphs=False, cudagraph_trees=True, cudagraph_skip_dynamic_graphs=False, slow_path_cudagraph_asserts=True, cudagraph_support_input_mutation=True,
                          debug_sync_graph=False, debug_sync_kernel=False, dense_indexing=False, max_tiles=None, autotune_pointwise=True, autotune_cublasLt=True,
                          tiling_prevents_pointwise_fusion=True, tiling_prevents_reduction_fusion=True, unique_kernel_names=True, descriptive_names="original_aten",
                          persistent_reductions=True, multi_kernel=0, divisible_by_16=True, store_cubin=False, codegen_upcast_to_fp32=True, prefer_nd_tiling=False,
                          use_block_ptr=False, enable_persistent_tma_matmul=False),
          "aot_inductor": Group(output_path="", debug_compile=False, package=False, use_runtime_constant_folding=False, package_constants_in_so=True),
          "rocm": Group(arch=[]), "halide": Group(cpu_target="host"), "test_configs": Group(),
          "cuda": Group(arch=None, version=None, compile_opt_level="-O1", cutlass_max_profiling_configs=None),
          "trace": Group(enabled=False, debug_dir=None, debug_log=False, info_log=False, fx_graph=True, fx_graph_transformed=True, ir_pre_fusion=True, ir_post_fusion=True,
                         output_code=True, graph_diagram=False, draw_orig_fx_graph=False, compile_profile=False, log_autotuning_results=False)}  # names that programs set, and that change nothing here


class Config(Configuration):
    """The module itself: two names are settings of ours, which ``mode`` and ``options`` of ``compile`` override."""

    @property
    def freezing(self):
        """Whether what follows from parameters alone is computed once, for inference."""
        return DEFAULTS.get("freezing", False)

    @freezing.setter
    def freezing(self, value):
        DEFAULTS["freezing"] = bool(value)

    @property
    def max_autotune(self):
        """Whether choices within templates are measured and remembered."""
        return DEFAULTS.get("max_autotune", False)

    @max_autotune.setter
    def max_autotune(self, value):
        DEFAULTS["max_autotune"] = bool(value)


globals().update(INERT)
sys.modules[__name__].__class__ = Config
