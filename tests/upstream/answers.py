"""What PyTorch's testing library asks about a build before it runs a test, where a side has no answer of its own.

Nothing here computes: questions about the build, and harmless switches.
"""
from __future__ import annotations

import contextlib
import importlib
import sys
import types

from .dynamo import helpers, test_case
from .standins import LIBRARY, AbsentName, only_a_name


def constant(value):
    return lambda *args, **kwargs: value


def unchanged(value=None, *args, **kwargs):
    return value


def absent(name):
    """In the place of an operator that the library's samples of operators name: tests of it fail."""
    def refused(*args, **kwargs):
        raise AbsentName(name)
    return refused


SWITCHES = (  # of the executor of TorchScript, which steer how it runs and not what it gives
    "_jit_set_profiling_executor _get_graph_executor_optimize _set_graph_executor_optimize _jit_set_num_profiled_runs "
    "_jit_get_num_profiled_runs _jit_set_tracer_state_warn _jit_get_tracer_state_warn _jit_set_inline_everything_mode "
    "_jit_get_inline_everything_mode _debug_set_fusion_group_inlining _debug_get_fusion_group_inlining "
    "_debug_set_autodiff_subgraph_inlining _jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu "
    "_jit_override_can_fuse_on_cpu_legacy _jit_can_fuse_on_cpu _jit_can_fuse_on_gpu _jit_set_texpr_fuser_enabled "
    "_jit_texpr_fuser_enabled _jit_set_texpr_reductions_enabled _jit_texpr_reductions_enabled "
    "_jit_set_te_must_use_llvm_cpu _jit_get_te_must_use_llvm_cpu _jit_clear_class_registry").split()

ANSWERS = {
    "torch": dict(_scaled_mm_v2=absent("torch._scaled_mm_v2"), _nnpack_available=constant(False)),
    "torch.ops.aten": {name: absent(f"torch.ops.aten.{name}") for name in (
        "_flash_attention_forward", "_efficient_attention_forward")},
    "torch.cuda.jiterator": dict.fromkeys(("_create_jit_fn", "_create_multi_output_jit_fn"),
                                          constant(absent("torch.cuda.jiterator"))),
    "torch._C": dict(
        _debug_only_are_vmap_fallback_warnings_enabled=constant(False),
        _debug_only_display_vmap_fallback_warnings=constant(None), _DisableFuncTorch=contextlib.nullcontext,
        _jit_set_emit_hooks=constant(None), _jit_get_emit_hooks=constant((None, None)),
        **dict.fromkeys(SWITCHES, constant(False)),
        **dict.fromkeys("_has_lapack has_lapack has_spectral has_openmp".split(), True),
        **dict.fromkeys("_has_mkl has_mkl _has_mkldnn has_mkldnn _has_cuda has_cuda _has_cusparselt _has_mps has_mps "
                        "_has_xpu".split(), False)),
    "torch.cuda.jiterator": dict(_create_jit_fn=constant(unchanged), _create_multi_output_jit_fn=constant(unchanged)),
    "torch._export.wrappers": dict(mark_subclass_constructor_exportable_experimental=unchanged),
    "torch.jit._recursive": dict(ConcreteTypeStore=constant(None), concrete_type_store=None),
    "torch.jit._state": dict(_clear_class_state=constant(None)),
    "torch._dispatch.python": dict(enable_python_dispatcher=contextlib.nullcontext),
    "torch._lazy": dict(__path__=[]),
    "torch._lazy.metrics": dict(reset=constant(None)),
    "torch._lazy.ts_backend": dict(init=constant(None)),
    "torch._dynamo.guards": dict(guard_manager_testing_hook_fn=None),
    "torch._inductor.codecache": dict(CppCodeCache=type("CppCodeCache", (), dict(load=constant(None)))),
    "torch._inductor.metrics": dict(reset=constant(None)),
    "torch._inductor.utils": dict(
        GPU_TYPES=["cuda", "xpu"], get_gpu_type=constant("cuda"), is_big_gpu=constant(False),
        has_triton=constant(False), is_gpu=lambda device: device in ("cuda", "xpu"), is_dynamo_supported=constant(True),
        is_inductor_supported=constant(True)),
    "torch.utils._mode_utils": dict(
        no_dispatch=contextlib.nullcontext, all_same_mode=lambda modes: all(m == modes[0] for m in modes)),
    "torch.utils._foreach_utils": dict(_get_foreach_kernels_supported_devices=constant(["cuda", "xpu"])),
    "torch.nn.attention.flex_attention": dict(_identity=lambda score, batch, head, query, key: score),
    "torch._dynamo.testing": {name: unchanged for name in (
        "requiresPy310 skipIfNotPy311 skipIfNotPy312 skipIfPy312 xfailIfPy312 skipIfOnlyNotPy312 "
        "expectedFailureDynamic expectedFailureCodegenDynamic expectedFailureDynamicWrapper xfailIfS390X").split()},
    f"{LIBRARY}.common_utils": dict(
        disable_translation_validation_if_dynamic_shapes=unchanged, skipIfTorchInductor=unchanged),
    f"{LIBRARY}.common_cuda": dict(tf32_is_not_fp32=constant(False)),
    f"{LIBRARY}.common_mkldnn": dict(bf32_on_and_off=constant(unchanged)),
}


def module(path: str) -> types.ModuleType:
    """That module or namespace of operators, or an empty module in its place."""
    if path == "torch.ops.aten":
        return sys.modules["torch"].ops.aten
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if not f"{path}.".startswith(f"{error.name}."):
            raise
        parent, _, name = path.rpartition(".")
        made = sys.modules[path] = types.ModuleType(path)
        setattr(module(parent), name, made)
        return made


def put(answers: dict):
    """Sets those that the side's torch has not got itself."""
    for path, values in answers.items():
        owner = module(path)
        for name, value in values.items():
            if not hasattr(owner, name) or only_a_name(getattr(owner, name)):
                vars(owner)[name] = value


def give(side: str):
    """Puts all answers, the testing library's questions first."""
    import torch
    put(ANSWERS)
    if side == "ours":
        load = torch.ops.load_library
        torch.ops.load_library = lambda path: str(path).endswith("libtorchbind_test.so") or load(path)  # of few tests
        from torch.testing._internal.common_utils import TestCase
        config, cases = torch._dynamo.config, dict(TestCase=test_case(torch, TestCase), run_tests=constant(None))
        put({"torch._dynamo.test_case": cases, "torch._inductor.test_case": cases,
             "torch._dynamo.testing": helpers(torch), "torch._dynamo.utils": dict(
                 ifdynstaticdefault=lambda one, other: one if config.assume_static_by_default else other)})
