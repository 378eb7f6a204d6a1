"""What the installed PyTorch exports, as data: ``python -m tests.compat.pytorch`` writes it to standard output.

It runs in a process of its own, since it imports every module that PyTorch has.
"""
from __future__ import annotations

import ast
import contextlib
import enum
import importlib
import inspect
import io
import json
import os
import pkgutil
import re
import sys
import types
import typing
import warnings

# Private modules that libraries and test suites import from.
PRIVATE = """
_prims_common _prims_common.wrappers _decomp _decomp.decompositions _guards _refs _refs.nn _refs.nn.functional _refs.linalg _refs.special _refs.fft _prims _meta_registrations _library _library.custom_ops
_library.utils _library.infer_schema _library.fake_class_registry _library.opaque_object _library.triton _custom_op _custom_op.impl _custom_ops _subclasses _subclasses.fake_tensor _subclasses.functional_tensor
_subclasses.meta_utils _subclasses.schema_check_mode _higher_order_ops _higher_order_ops.utils _higher_order_ops.cond _higher_order_ops.map _higher_order_ops.scan _higher_order_ops.associative_scan
_higher_order_ops.while_loop _higher_order_ops.flex_attention _higher_order_ops.effects _higher_order_ops.auto_functionalize _higher_order_ops.triton_kernel_wrap _higher_order_ops.wrap
_higher_order_ops.invoke_subgraph _higher_order_ops.hints_wrap _higher_order_ops.torchbind _higher_order_ops.base_hop _higher_order_ops.out_dtype _higher_order_ops.strict_mode _higher_order_ops.run_const_graph
_dynamo _dynamo.config _inductor.config _inductor.config_comms _functorch.config _export.config
_dynamo.utils _dynamo.testing _dynamo.exc _dynamo.eval_frame _dynamo.decorators _dynamo.external_utils  _dynamo.backends _dynamo.backends.common _dynamo.backends.registry
_dynamo.backends.debugging _dynamo.backends.cudagraphs _dynamo.backends.inductor _dynamo.comptime _dynamo.convert_frame _dynamo.guards _dynamo.source _dynamo.symbolic_convert _dynamo.trace_rules
_dynamo.mutation_guard _dynamo.compiled_autograd _dynamo.callback _dynamo.debug_utils  _dynamo.test_case _dynamo.variables
    _dynamo.output_graph   _dynamo.logging _dynamo.polyfills
_inductor _inductor.utils _inductor.lowering _inductor.ir _inductor.compile_fx _inductor.decomposition _inductor.pattern_matcher _inductor.graph  _inductor.virtualized _inductor.codecache
_inductor.cudagraph_trees  _inductor.exc _inductor.custom_graph_pass  _inductor.runtime _inductor.runtime.hints
  _inductor.hooks _inductor.metrics _inductor.cpp_builder  _inductor.async_compile _inductor.package _inductor.debug
_inductor.standalone_compile _inductor.freezing _inductor.constant_folding _inductor.fx_utils     _inductor.test_case
_functorch _functorch.aot_autograd _functorch.compilers _functorch.partitioners _functorch.apis _functorch.eager_transforms _functorch.vmap _functorch.functional_call _functorch.make_functional
_functorch.batch_norm_replacement _functorch.pyfunctorch _functorch.utils   _functorch.autograd_function
_export _export.utils _export.converter _export.verifier _export.passes _export.serde _export.serde.serialize  _export.non_strict_utils  _export.error _export.pass_base
_logging _logging.structured _C _C._distributed_c10d _C._functorch _C._autograd _C._dynamo _C._nn _C._onnx _C._profiler   _utils _tensor _tensor_str _ops _jit_internal _lobpcg
_linalg_utils _lowrank _compile  _sources _storage_docs _streambase _tensor_docs _torch_docs _utils_internal _vmap_internals _weights_only_unpickler _environment  _classes _appdirs
_awaits _lazy _size_docs  _numpy _VF
testing._internal testing._internal.common_utils testing._internal.common_device_type testing._internal.common_dtype testing._internal.common_cuda testing._internal.common_nn
testing._internal.common_modules testing._internal.common_optimizers   testing._internal.common_distributed
 testing._internal.common_subclass testing._internal.logging_tensor testing._internal.logging_utils testing._internal.two_tensor testing._internal.inductor_utils
testing._internal.triton_utils



testing._comparison testing._creation testing._utils utils._pytree utils._python_dispatch utils._triton utils._device utils._mode_utils utils._stats utils._contextlib  utils._foreach_utils
utils._import_utils utils._content_store utils._config_module  utils._ordered_set utils._sympy utils._sympy.functions utils._sympy.numbers utils._sympy.value_ranges utils._sympy.interp
utils._sympy.reference utils._sympy.singleton_int utils._sympy.solve utils._sympy.symbol utils._sympy.printers utils._traceback utils._typing_utils utils._zip utils._exposed_in utils._cpp_extension_versioner
utils._debug_mode utils._dtype_abbrs utils._functools utils._filelock utils._get_clean_triton utils._thunk    utils._helion utils._pallas
utils.data._utils utils.data._utils.collate utils.data._utils.fetch utils.data._utils.pin_memory utils.data._utils.signal_handling utils.data._utils.worker utils.data.datapipes._decorator
utils.data.datapipes._hook_iterator utils.data.datapipes._typing utils.tensorboard._convert_np utils.tensorboard._embedding utils.tensorboard._onnx_graph utils.tensorboard._proto_graph
utils.tensorboard._pytorch_graph utils.tensorboard._utils  utils.benchmark.utils._stubs
nn._reduction nn.modules._functions nn.utils._named_member_accessor nn.utils._per_sample_grad nn.utils._expanded_weights nn.utils._deprecation_utils nn.parallel._functions nn.attention._utils
nn.attention._fa3 nn.attention._fa4 nn.attention._registry
optim._functional optim._multi_tensor optim._adafactor optim._muon autograd._functions autograd._functions.utils autograd._functions.tensor
distributed._composable distributed._composable.replicate distributed._composable.fsdp distributed._composable.contract distributed._composable_state distributed._tensor distributed._tensor.api distributed._tensor.experimental
distributed._tensor.placement_types distributed._shard distributed._shard.api distributed._shard.sharded_tensor distributed._shard.sharding_spec distributed._shard.metadata distributed._shard.sharding_plan
distributed._shard.sharded_optim distributed._sharded_tensor distributed._sharding_spec distributed._functional_collectives distributed._functional_collectives_impl distributed._symmetric_memory
distributed._tools distributed._checkpointable distributed._state_dict_utils distributed._serialization distributed._mesh_layout  distributed._dist2
distributed.algorithms._checkpoint distributed.algorithms._checkpoint.checkpoint_wrapper distributed.algorithms._comm_hooks distributed.algorithms._optimizer_overlap distributed.algorithms._quantization
distributed.fsdp._fully_shard distributed.fsdp._common_utils distributed.fsdp._runtime_utils distributed.fsdp._flat_param distributed.fsdp._wrap_utils distributed.fsdp._state_dict_utils
distributed.fsdp._optim_utils distributed.fsdp._init_utils distributed.fsdp._traversal_utils distributed.fsdp._unshard_param_utils distributed.fsdp._shard_utils
distributed.fsdp._fsdp_extensions
distributed.tensor._api distributed.tensor._ops distributed.tensor._utils distributed.tensor._collective_utils distributed.tensor._dispatch distributed.tensor._dtensor_spec distributed.tensor._op_schema
distributed.tensor._random distributed.tensor._redistribute distributed.tensor._sharding_prop distributed.tensor._shards_wrapper distributed.tensor._tp_conv distributed.tensor.experimental._attention
distributed.tensor.experimental._func_map distributed.tensor.experimental._register_sharding distributed.tensor.experimental._tp_transform distributed.tensor.parallel._data_parallel_utils
 distributed.tensor.debug._comm_mode distributed.checkpoint._nested_dict  distributed.checkpoint._fsspec_filesystem
distributed.checkpoint._traverse distributed.checkpoint._storage_utils distributed.checkpoint._sharded_tensor_utils distributed.checkpoint._hf_utils distributed.checkpoint._extension
distributed.checkpoint._dedup_save_plans distributed.checkpoint._dedup_tensors distributed.checkpoint._version distributed.checkpoint._async_executor distributed.checkpoint._async_process_executor
distributed.checkpoint._async_thread_executor distributed.checkpoint._checkpointer distributed.checkpoint._consolidate_hf_safetensors distributed.pipelining._IR distributed.pipelining._backward
distributed.pipelining._debug distributed.pipelining._unflatten distributed.pipelining._utils distributed.pipelining._schedule_visualizer distributed.optim._deprecation_warning
distributed.autograd distributed.rpc._utils distributed.rpc._testing
fx._symbolic_trace fx._compatibility fx._utils fx._pytree fx._lazy_graph_module fx._graph_pickler fx.experimental._config fx.experimental._backward_state fx.experimental._constant_symnode
 fx.experimental._size_hinting fx.experimental._dynamism fx.passes._tensorify_python_scalars
cuda._memory_viz cuda._utils cuda._sanitizer cuda._gpu_trace cuda._pin_memory_utils  jit._script jit._trace jit._state jit._recursive jit._serialization jit._builtins jit._async jit._await jit._check
jit._freeze jit._fuser jit._decompositions jit._monkeytype_config jit._ir_utils jit._pickle jit._logging jit._dataclass_impls  jit._passes jit._decomposition_utils
masked._docs masked._ops masked.maskedtensor._ops_refs nested._internal nested._internal.nested_tensor nested._internal.ops nested._internal.sdpa nested._internal.nested_int
package._importlib package._digraph package._directory_reader package._mangling package._package_pickler package._package_unpickler package._stdlib package._mock
onnx._internal onnx._internal.exporter onnx._constants onnx._flags   profiler._memory_profiler profiler._pattern_matcher profiler._utils
sparse._triton_ops sparse._triton_ops_meta sparse._semi_structured_conversions sparse._semi_structured_ops export._trace export._unlift export._draft_export export._swap export._tree_utils
export._remove_auto_functionalized_pass export._remove_effect_tokens_pass export._safeguard export._wrapper_utils export._leakage_detection_utils export.pt2_archive._package
export.pt2_archive._package_weights multiprocessing._atfork quantization._numeric_suite quantization._numeric_suite_fx ao.ns._numeric_suite ao.ns._numeric_suite_fx ao.quantization._correct_bias
ao.quantization._equalize ao.quantization._learnable_fake_quantize ao.quantization.fx._decomposed ao.quantization.fx._equalize ao.quantization.fx._lower_to_native_backend ao.pruning._experimental
ao.pruning._mappings backends._coreml backends._nnapi compiler._cache accelerator._utils xpu._utils xpu._gpu_trace mtia._utils
""".split()

# Names with an underscore that libraries import, by module.
UNDERSCORED = {
    "torch.utils.data.dataloader": "_BaseDataLoaderIter _SingleProcessDataLoaderIter _MultiProcessingDataLoaderIter "
                                   "_InfiniteConstantSampler _DatasetKind _collate_fn_t _worker_init_fn_t "
                                   "default_collate",
    "torch.distributions.multivariate_normal": "_precision_to_scale_tril _batch_mv _batch_mahalanobis",
    "torch.distributions.lowrank_multivariate_normal": "_batch_capacitance_tril _batch_lowrank_logdet "
                                                       "_batch_lowrank_mahalanobis",
    "torch.distributions.utils": "_sum_rightmost _standard_normal",
    "torch.distributions.kl": "_KL_REGISTRY _kl_normal_normal _x_log_x",
    "torch.distributions.constraints": "_GreaterThan _Interval _Real _IndependentConstraint _Dependent _Simplex "
                                       "_PositiveDefinite",
    "torch.nn.attention.flex_attention": "_score_mod_signature _mask_mod_signature _identity _vmap_for_bhqkv "
                                         "_DEFAULT_SPARSE_BLOCK_SIZE _create_sparse_block_from_block_mask "
                                         "_convert_mask_to_block_mask",
    "torch.nn.functional": "_pad _in_projection _in_projection_packed _canonical_mask _none_or_dtype _get_softmax_dim "
                           "_Reduction _VF _no_grad_embedding_renorm_ _mha_shape_check _scaled_dot_product_attention",
    "torch.nn.modules.conv": "_ConvNd _ConvTransposeNd _ConvTransposeMixin _size_1_t _size_2_t _size_3_t _single "
                             "_pair _triple _reverse_repeat_tuple",
    "torch.nn.modules.batchnorm": "_BatchNorm _NormBase _LazyNormBase",
    "torch.nn.modules.instancenorm": "_InstanceNorm",
    "torch.nn.modules.dropout": "_DropoutNd",
    "torch.nn.modules.loss": "_Loss _WeightedLoss",
    "torch.nn.modules.module": "_addindent _IncompatibleKeys _EXTRA_STATE_KEY_SUFFIX _global_backward_hooks "
                               "_global_forward_hooks _global_forward_pre_hooks _WrappedHook",
    "torch.nn.modules.utils": "_single _pair _triple _quadruple _ntuple _reverse_repeat_tuple _list_with_default",
    "torch.nn.modules.pooling": "_MaxPoolNd _AvgPoolNd _AdaptiveAvgPoolNd _AdaptiveMaxPoolNd _LPPoolNd",
    "torch.nn.modules.activation": "_arg_requires_grad _check_arg_device",
    "torch.nn.modules.transformer": "_get_clones _get_activation_fn _generate_square_subsequent_mask "
                                    "_detect_is_causal_mask _get_seq_len",
    "torch.nn.modules.padding": "_ConstantPadNd _ReflectionPadNd _ReplicationPadNd _CircularPadNd",
    "torch.nn.modules.rnn": "_rnn_impls apply_permutation",
    "torch.nn.modules.linear": "NonDynamicallyQuantizableLinear",
    "torch.nn.parallel.distributed": "_find_tensors _MixedPrecision",
    "torch.nn.parallel.scatter_gather": "_is_namedtuple",
    "torch.nn.init": "_no_grad_trunc_normal_ _no_grad_uniform_ _no_grad_normal_ _no_grad_fill_ _no_grad_zero_ "
                     "_calculate_fan_in_and_fan_out _calculate_correct_fan",
    "torch.nn.utils.rnn": "_packed_sequence_init",
    "torch.nn.utils.clip_grad": "_clip_grads_with_norm_ _get_total_norm _no_grad",
    "torch.nn.utils.parametrizations": "_SpectralNorm _Orthogonal _OrthMaps _WeightNorm",
    "torch.optim.optimizer": "_params_t _use_grad_for_differentiable _get_value _stack_if_compiling _dispatch_sqrt "
                             "_default_to_fused_or_foreach _capturable_doc _differentiable_doc _foreach_doc "
                             "_maximize_doc "
                             "_RequiredParameter required _to_scalar _view_as_real _get_scalar_dtype "
                             "_disable_dynamo_if_unsupported _get_capturable_supported_devices _fused_doc _params_doc "
                             "ParamsT",
    "torch.optim.adam": "_single_tensor_adam _multi_tensor_adam",
    "torch.optim.adamw": "_single_tensor_adamw _multi_tensor_adamw",
    "torch.optim.sgd": "_single_tensor_sgd _multi_tensor_sgd",
    "torch.optim.lr_scheduler": "_LRScheduler _enable_get_lr_call _warn_get_lr_called_within_step",
    "torch.autograd.function": "_ContextMethodMixin _HookMixin _SingleLevelFunction _is_setup_context_defined",
    "torch.autograd.graph": "_engine_run_backward _MultiHandle _get_sid _get_tid _allow_mutation_on_saved_tensors",
    "torch.autograd.gradcheck": "_check_analytical_jacobian_attributes _iter_tensors _as_tuple _differentiable_outputs",
    "torch.autograd.functional": "_as_tuple _grad_preprocess _check_requires_grad",
    "torch.autograd.forward_ad": "_set_fwd_grad_enabled _is_fwd_grad_enabled",
    "torch.autograd.profiler": "_KinetoProfile _enable_profiler _disable_profiler",
    "torch.autograd.profiler_util": "_format_time _format_memory _format_time_share _attr_formatter",
    "torch.profiler.profiler": "_KinetoProfile _ITraceObserver",
    "torch.storage": "_StorageBase _LegacyStorage _warn_typed_storage_removal _load_from_bytes "
                     "_get_dtype_from_pickle_storage_type",
    "torch.serialization": "_legacy_save _legacy_load _load _save _open_zipfile_reader _open_zipfile_writer "
                           "_get_restore_location _is_zipfile _opener _open_file _open_file_like _check_seekable "
                           "_package_registry "
                           "_get_safe_globals_list",
    "torch.hub": "_get_torch_home _cache_file _parse_repo_info _import_module _load_local _check_module_exists",
    "torch.overrides": "_is_torch_function_mode_enabled _get_overloads _get_current_function_mode_stack",
    "torch.multiprocessing.spawn": "_wrap _python_version",
    "torch.cuda": "_lazy_init _is_in_bad_fork _get_device_index _lazy_call _device_t _CudaDeviceProperties _sleep "
                  "_initialized",
    "torch.distributed": "_all_gather_base _reduce_scatter_base _get_default_group _coalescing_manager",
    "torch.distributed.distributed_c10d": "_get_default_group _rank_not_in_group _get_default_store "
                                          "_get_pg_default_device _object_to_tensor _tensor_to_object _world "
                                          "_find_pg_by_ranks_and_tag _get_group_tag "
                                          "_resolve_process_group _new_process_group_helper _store_based_barrier "
                                          "_set_pg_timeout _coalescing_manager _all_gather_base _reduce_scatter_base",
    "torch.utils.checkpoint": "_checkpoint_without_reentrant_generator _Holder _get_autocast_kwargs "
                              "_infer_device_type _StopRecomputationError _allowed_determinism_checks_to_fns",
    "torch.utils.cpp_extension": "_get_build_directory _import_module_from_library _join_rocm_home _find_cuda_home "
                                 "_TORCH_PATH",
    "torch.utils.hooks": "_WeakRef",
    "torch.utils.benchmark.utils.common": "_make_temp_dir",
    "torch.fx.graph": "_PyTreeCodeGen _Namespace _PyTreeInfo _custom_builtins _register_custom_builtin _format_target",
    "torch.fx.graph_module": "_WrappedCall _copy_attr _assign_attr _get_attr _del_attr _has_attr _forward_from_src "
                             "_EvalCacheLoader _CodeOnlyModule",
    "torch.fx.node": "_side_effectful_functions _get_qualified_name _find_module_of_method "
                     "_side_effectful_need_to_be_preserved_pre_dispatch _type_repr _legal_ops",
    "torch.fx.passes.splitter_base": "_SplitterBase _SplitterSettingBase _MinimizerSettingBase",
    "torch.fx.passes.net_min_base": "_MinimizerBase _MinimizerSettingBase",
    "torch.fx.experimental.symbolic_shapes": "_constrain_range_for_size _sympy_cast_symbool_to_symint_guardless "
                                             "_advise_is_size _nested_int_aware_sort _get_placeholder_expr "
                                             "_ShapeGuardPrinter",
    "torch.fx.experimental.proxy_tensor": "_ProxyTensor _pytype _make_wrapped_call _maybe_record_pointwise_barrier "
                                          "_MakefxTracer _ModuleStackTracer",
    "torch.export": "_trace",
    "torch.export.dynamic_shapes": "_Dim _DerivedDim _DimHint _DimHintType _IntWrapper",
    "torch.jit": "_unwrap_optional _script_if_tracing _fork _wait _overload _overload_method _builtins _state "
                 "_recursive",
    "torch.jit._monkeytype_config": "_IS_MONKEYTYPE_INSTALLED",
    "torch.jit.annotations": "_eval_no_call _Signature",
    "torch": "_assert _check _foreach_add _utils _tensor _VF _softmax _log_softmax _shape_as_tensor _cast_Float _sync "
             "_unique2 _unpack_dual _make_dual _weight_norm _GLOBAL_DEVICE_CONTEXT "
             "_get_device_index _is_functional_tensor _to_functional_tensor _from_functional_tensor _functorch "
             "_guards _jit_internal _lobpcg _logging _ops _prims _refs _sources _storage_classes _tensor_classes "
             "_tensor_str _running_with_deploy _import_dotted_name _preload_cuda_deps _warn_typed_storage_removal "
             "_weights_only_unpickler",
}


# libraries know their inside
OPEN = tuple(f"torch.{room}"
             for room in "distributed autograd optim nn utils distributions export _export ao.quantization ao.nn "
                         "serialization profiler cuda.memory fx amp sparse _tensor _utils jit".split())


BUILDING = ("torch.utils.data.datapipes.gen_pyi",)  # steps of PyTorch's own build, which need PyYAML


class Walk:
    """Modules by name, from PyTorch's root downward: public ones, and those of ``PRIVATE``."""

    def __init__(self, private: bool):
        self.modules, self.failed = {}, {}
        self.walk(self.load("torch"))
        for path in PRIVATE if private else ():
            if f"torch.{path}" not in self.modules and (module := self.load(f"torch.{path}")):
                self.modules[f"torch.{path}"] = module

    def load(self, name):
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                return importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 - optional dependencies, other platforms
            self.failed[name] = type(error).__name__

    def walk(self, module):
        self.modules[module.__name__] = module
        for found in pkgutil.iter_modules(getattr(module, "__path__", []), module.__name__ + "."):
            hidden = found.name in BUILDING or found.name.rpartition(".")[2].startswith("_")
            if not hidden and (below := self.load(found.name)):
                self.walk(below)


def has(module, name) -> bool:
    """Whether a module has a name; those that need a device raise other errors, too."""
    try:
        getattr(module, name)
    except Exception:  # noqa: BLE001 - whatever a lazy name raises
        return False
    return True


def public_names(path, module) -> list[str]:
    """What programs import from a module: ``__all__``, and what is PyTorch's own and has no underscore, be it defined
    elsewhere."""
    listed = [n for n in dict.fromkeys(vars(module).get("__all__") or ()) if has(module, n)]
    native = type(module.__loader__).__name__ == "ExtensionFileLoader"
    names = [n for n in dir(module) if not n.startswith("_") and has(module, n)
             and (native or own(path, getattr(module, n)))]
    names = list(dict.fromkeys([*listed, *names]))
    private = [n for n in vars(module) if n.startswith("_") and not n.startswith("__") and path.startswith(OPEN)
               and home_of(getattr(module, n)) == path
               and not isinstance(getattr(module, n), (typing.TypeVar, typing.ParamSpec))]
    return names + [n for n in dict.fromkeys([*UNDERSCORED.get(path, "").split(), *private]) if has(module, n)
                    and n not in names]


def listed(module) -> list[str] | None:
    """What ``import *`` takes from a module that has a list of it."""
    names = vars(module).get("__all__")
    return None if names is None else [name for name in dict.fromkeys(names) if has(module, name)]


def home_of(value):
    """The module in which a value says that it was defined, None where it does not."""
    try:
        home = getattr(value, "__module__", None)
    except Exception:  # noqa: BLE001 - a lazy object that needs a device
        return None
    return home if isinstance(home, str) else None


def own(path, value) -> bool:
    """Not a module, and not defined outside PyTorch, or outside the module where that is in a private room."""
    home = home_of(value)
    if isinstance(value, types.ModuleType) or value is typing.TYPE_CHECKING:
        return False
    return home is None or home == path or (not path.startswith("torch._")
                                            and home.partition(".")[0] in ("torch", "functorch"))


PLACES = (sys.prefix, sys.base_prefix, os.getcwd())
# places, marks and addresses of one machine or run
PASSING = re.compile("|".join([*map(re.escape, PLACES), r"[0-9a-f]{8}-[0-9a-f]{4}", r"(?<![.\d])1[34]\d{13}\b"]))


def literal(value):
    """Return a value's source text, or None if it has none."""
    try:
        text = f"{{{', '.join(sorted(map(repr, value)))}}}" if isinstance(value, set) and value else repr(value)
        if PASSING.search(text):
            return None
        return text if len(text) < 120 and ast.literal_eval(text) == value and type(ast.literal_eval(text)) is type(
            value) else None
    except Exception:  # noqa: BLE001 - any repr may fail to parse
        return None


def signature(value):
    """Parameters as text, with defaults where they are literals."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except Exception:  # noqa: BLE001 - builtins have none, and lazy names may need a device
        return None
    parts, star, slash = [], False, False
    for p in parameters:
        if slash and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
        slash = p.kind is p.POSITIONAL_ONLY
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        name = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
        parts.append(name if p.default is p.empty else f"{name}={literal(p.default) or '...'}")
    return ", ".join([*parts, "/"] if slash else parts)


def instanceless(kind: type) -> list[str]:
    """The public functions of a class that need no instance, also those of PyTorch's classes that it derives from."""
    members = {name: value for base in reversed(kind.__mro__) if base.__module__.partition(".")[0] == "torch"
               for name, value in vars(base).items()}
    return sorted(name for name, value in members.items() if isinstance(value, (classmethod, staticmethod))
                  and name.isidentifier() and not name.startswith("_"))


def described(value) -> dict:
    """What one name stands for: its kind, and what a stand-in needs."""
    if isinstance(value, types.ModuleType):
        return {"kind": "module", "name": value.__name__}
    if isinstance(value, type):
        if issubclass(value, enum.Enum):
            members = {n: literal(m.value) for n, m in value.__members__.items()}
            return {"kind": "enum", "base": "IntEnum" if issubclass(value, int) else "StrEnum"
                    if issubclass(value, str) else "Enum",
                    "members": {n: v if v is not None else str(i) for i, (n, v) in enumerate(members.items())}}
        if issubclass(value, BaseException):
            return {"kind": "error", "base": next(b.__name__ for b in value.__mro__ if b.__module__ == "builtins")}
        members = getattr(value, "__members__", None)
        if isinstance(members, dict):
            return {"kind": "enum", "base": "Enum", "members": {n: str(int(m)) for n, m in members.items()}}
        return {"kind": "class", "signature": signature(value), "members": instanceless(value)}
    if (text := literal(value)) is not None:
        return {"kind": "value", "text": text}
    if inspect.isroutine(value) or isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return {"kind": "function", "signature": signature(value)}
    if typing.get_origin(value) is not None or isinstance(value, (typing.TypeVar,
                                                                  typing.ParamSpec)) or type(
                                                                      value).__module__ == "typing" or isinstance(
                                                                          value, types.UnionType):
        return {"kind": "type"}
    return {"kind": "function" if callable(value) else "object", "signature": signature(value) if callable(value)
            else None, "type": f"{type(value).__module__}.{type(value).__qualname__}"}


def settings(module) -> dict:
    """The names of a module of settings, groups by names with dots; empty for other modules."""
    found = {}
    for name, entry in getattr(module, "_config",
                               {}).items() if type(module).__name__ == "ConfigModuleInstance" else ():
        text = literal(module.__getattr__(name)) or repr(module.__getattr__(name))
        text = "None" if PASSING.search(text) else text
        if "TYPE_CHECKING" not in name:
            found[name] = {"kind": "setting", "text": text, "alias": entry.alias}
    return found


def standing() -> list[str]:
    """Modules by whose name their package knows another object."""
    found = []
    for path, module in sys.modules.items():
        package, _, name = path.rpartition(".")
        if package.partition(".")[0] == "torch" and name in vars(sys.modules.get(package, object)):
            there = vars(sys.modules[package])[name]
            if there is not module and not isinstance(there, types.ModuleType):
                found.append(path)
    return sorted(found)


def main():
    warnings.simplefilter("ignore")
    if "--private" in sys.argv:  # one of its testing modules builds C++, and what that takes would stand in the table
        importlib.import_module("torch._inductor.codecache").CppCodeCache.load = staticmethod(
            lambda *a, **k: None)
    walk = Walk("--private" in sys.argv)
    modules, same = {}, {}
    for path, module in sorted(walk.modules.items()):
        names = settings(module)
        for name in () if names else public_names(path, module):
            value = getattr(module, name)
            try:
                names[name] = described(value)
            except Exception:  # noqa: BLE001 - an object whose attributes need a device
                names[name] = {"kind": "object"}
            if names[name]["kind"] in ("class", "enum", "error", "function", "object"):
                same.setdefault(id(value), []).append(f"{path}.{name}")
                names[name] |= {"same": id(value), "home": home_of(value)}
        modules[path] = {"package": hasattr(module, "__path__"), "listed": listed(module),
                         "names": names}
    json.dump({"modules": modules, "same": same, "failed": walk.failed, "standing": standing()}, sys.stdout)


if __name__ == "__main__":
    main()
