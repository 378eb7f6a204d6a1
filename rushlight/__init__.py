"""Rushlight: tensors, autograd and a compiler with PyTorch's programming model, in pure Python."""

import sys as _sys

if "__version__" not in globals():  # an interrupted import leaves half of a package: start again
    for _name in [name for name in _sys.modules if name.startswith(f"{__name__}.")]:
        del _sys.modules[_name]

from ._src.version import VERSION as __version__

from ._src.core.collector import waiting as _waiting

_importing = _waiting()  # objects made by the import stay alive: the garbage collector need not scan them
_importing.__enter__()

from ._src.core.later import activate as _names_of_the_table, later as _later

_names_of_the_table()

from ._src.core.log import from_environment as _logs_from_environment
from ._src.core.settings import settings as _settings

_logs_from_environment()

from ._src.compat import table as _table

_table.stand()

from ._src.eager import activation as _hot_path

_hot_path.activate()

from ._src import flat as _flat
from ._src.autograd import backward as _backward, dispatching as _dispatching  # noqa: E402

_backward.activate()
_dispatching.activate()

globals().update({name: value for name, value in vars(_flat).items() if not name.startswith("__")})

from . import autograd  # noqa: E402
from . import nn  # noqa: E402
from . import fft  # noqa: E402
from . import linalg  # noqa: E402
from . import masked  # noqa: E402
from . import signal  # noqa: E402
from . import special  # noqa: E402
from . import optim  # noqa: E402
from . import utils  # noqa: E402
from . import random  # noqa: E402
from .serialization import load, save  # noqa: E402
from ._src.compiling import compile  # noqa: E402
from ._ops import ops  # noqa: E402  (users find operators by namespace here; the package of declarations stays importable)


ELSEWHERE = {  # names of rarely imported packages
    "func": ("vmap",),
    "_src.determinism": ("use_deterministic_algorithms", "are_deterministic_algorithms_enabled",
                         "is_deterministic_algorithms_warn_only_enabled",
                    "set_deterministic_debug_mode", "get_deterministic_debug_mode"),
    "_src.autograd.anomaly": ("is_anomaly_enabled", "is_anomaly_check_nan_enabled"),
    "amp.autocast": ("autocast", "is_autocast_available", "is_autocast_enabled", "set_autocast_enabled",
                     "get_autocast_dtype", "set_autocast_dtype",
                     "is_autocast_cpu_enabled", "set_autocast_cpu_enabled", "get_autocast_cpu_dtype",
                     "get_autocast_gpu_dtype", "set_autocast_cpu_dtype",
                     "is_autocast_cache_enabled", "set_autocast_cache_enabled", "clear_autocast_cache"),
    "_src.legacy": ("BoolTensor", "ByteTensor", "CharTensor", "ShortTensor", "IntTensor", "LongTensor", "HalfTensor",
                    "BFloat16Tensor", "FloatTensor",
               "DoubleTensor", "SymInt", "SymFloat", "SymBool", "sym_int", "sym_float", "sym_not", "sym_max", "sym_min",
                    "sym_ite", "sym_sum", "sym_sqrt",
               "symeig", "eig", "lstsq", "solve", "matrix_rank"),
    "sparse.validation": ("_validate_sparse_coo_tensor_args", "_validate_sparse_compressed_tensor_args",
                          "_validate_sparse_csr_tensor_args", "_validate_sparse_csc_tensor_args",
                          "_validate_sparse_bsr_tensor_args", "_validate_sparse_bsc_tensor_args"),
    "_src.checks": ("_assert", "_assert_async", "_check", "_check_is_size", "_check_tensor_all", "_check_with",
                    "_constrain_as_size",
                    "_check_index", "_check_value", "_check_type",
               "_check_not_implemented", "_check_tensor_all_with", "_is_all_true", "_is_any_true"),
    "_src.functions": ("hinge_embedding_loss", "kl_div", "binary_cross_entropy_with_logits", "poisson_nll_loss",
                       "batch_norm", "instance_norm", "lstm_cell", "gru_cell",
                  "rnn_tanh_cell", "rnn_relu_cell", "nuclear_norm", "svd_lowrank", "pca_lowrank",
                       "set_default_tensor_type", "margin_ranking_loss",
                  "cosine_embedding_loss", "triplet_margin_loss", "ctc_loss", "frobenius_norm", "native_dropout",
                       "_masked_softmax", "lstm", "gru", "rnn_tanh", "rnn_relu", "embedding_bag", "detach_", "smm",
                       "hspmm", "hsmm", "sspaddmm", "slice_copy"),
    "_lobpcg": ("lobpcg",),
    "amp.scaling": ("_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"),
    "_src.core.quantized": ("qscheme", "per_tensor_affine", "per_channel_affine", "per_tensor_symmetric",
                            "per_channel_symmetric", "per_channel_affine_float_qparams"),
    "_higher_order_ops": ("cond", "while_loop"),
    "_src.switches": ("get_float32_matmul_precision", "set_float32_matmul_precision", "get_num_threads",
                      "set_num_threads", "get_num_interop_threads",
                 "set_num_interop_threads", "set_flush_denormal",
                 "set_warn_always", "is_warn_always_enabled"),
    "storage": ("UntypedStorage", "TypedStorage", "FloatStorage",
                "DoubleStorage", "HalfStorage", "BFloat16Storage",
                "LongStorage", "IntStorage", "ShortStorage", "CharStorage", "ByteStorage", "BoolStorage",
                "ComplexFloatStorage", "ComplexDoubleStorage"),
    "_src.records": ("PyTorchFileReader", "PyTorchFileWriter"),
    "jit": ("ScriptModule", "ScriptFunction"),
    "futures": ("Future",),
    "_src.compiling": ("_disable_dynamo",),
    "_src.streams": ("Stream", "Event"),
    "_src.extensions": ("get_device_module", "_register_device_module"),
    "jit.types": ("TensorType", "IntType", "FloatType", "BoolType", "StringType", "ListType", "TupleType", "DictType",
                  "OptionalType", "NoneType", "AnyType"),
}


_room = _later(__name__, ELSEWHERE)
_table.activate()


def __getattr__(name):
    if name == "torch":  # PyTorch's module has itself for an attribute, which some programs go through
        return _sys.modules[__name__]
    if name.startswith("_foreach_"):
        from ._src import foreach
        return getattr(foreach, name)
    try:
        return _room(name)
    except AttributeError:
        if name.startswith("__") or not name.startswith("_"):
            raise
    return _operator_inside(name)


def _operator_inside(name):
    """Operators of ``torch.ops.aten`` that PyTorch has here under a private name."""
    from .library import ops
    try:
        return getattr(ops.aten, name)
    except AttributeError:
        raise AttributeError(f"module 'torch' has no attribute {name!r}") from None


_importing.__exit__(None, None, None)

if _settings.torch_logs:  # its names may be modules of this package, which are found once it is there
    from ._logging import set_by_text as _set_logs_by_text
    _set_logs_by_text(_settings.torch_logs)

from ._src.extensions import load_extensions as _load_extensions  # noqa: E402

_load_extensions()
