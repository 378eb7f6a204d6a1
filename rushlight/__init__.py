"""Rushlight: tensors, autograd and a compiler with PyTorch's programming model, in pure Python."""

__version__ = "0.1.0"

import sys as _sys

from .core.collector import waiting as _waiting

_importing = _waiting()  # what importing makes stays: nobody need look through it for garbage
_importing.__enter__()

from .core.log import from_environment as _logs_from_environment

_logs_from_environment()

from .core import dtypes as _dtypes
from .core.devices import device
from .core.dtypes import ALIASES as _ALIASES, ALL as _ALL, dtype, finfo, iinfo
from .core.errors import OutOfMemoryError
from .compat import table as _table
from .core.later import later as _later
from .core.meta import Size
from .core.native import Tensor
from .core import overriding as _overriding, tensor as _tensor_members, members as _members, exchange as _exchange, convert as _convert, printing as _printing
from .core.members import legacy_contiguous_format
from .core.convert import (channels_last, channels_last_3d, contiguous_format, jagged, layout, memory_format, preserve_format, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided)
from .core.exchange import as_tensor, asarray, from_dlpack, from_numpy, frombuffer, scalar_tensor, tensor
from .core.printing import set_printoptions
from .core.random import (Generator, default_generator, fork_rng as _fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state)
from .eager import plan as _plan

_plan.activate()

from .ops import library as _library
from .layouts import sparse_bsc_tensor, sparse_bsr_tensor, sparse_compressed_tensor, sparse_coo_tensor, sparse_csc_tensor, sparse_csr_tensor
from .autograd import backward as _backward

from . import autograd
from .autograd.backward import activate as _activate

_activate()
globals().update(_library.namespace(""))
globals().update({d.name: d for d in (*_ALL, *_dtypes.NAMED)})
globals().update(_ALIASES)
from .api import *  # noqa: F401,F403,E402

from . import nn  # noqa: E402
from . import fft  # noqa: E402
from . import linalg  # noqa: E402
from . import masked  # noqa: E402
from . import signal  # noqa: E402
from . import special  # noqa: E402
from . import optim  # noqa: E402
from . import utils  # noqa: E402
from .core import random  # noqa: E402
from .serialization import load, save  # noqa: E402
from .compiling import compile  # noqa: E402
from ._ops import ops  # noqa: E402  (users find operators by namespace here; the package of declarations stays importable)


ELSEWHERE = {  # names of rooms that few programs enter
    "func": ("vmap",),
    "determinism": ("use_deterministic_algorithms", "are_deterministic_algorithms_enabled", "is_deterministic_algorithms_warn_only_enabled",
                    "set_deterministic_debug_mode", "get_deterministic_debug_mode"),
    "autograd.anomaly": ("is_anomaly_enabled", "is_anomaly_check_nan_enabled"),
    "amp.autocast": ("autocast", "is_autocast_available", "is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype",
                     "is_autocast_cpu_enabled", "set_autocast_cpu_enabled", "get_autocast_cpu_dtype", "get_autocast_gpu_dtype", "set_autocast_cpu_dtype",
                     "is_autocast_cache_enabled", "set_autocast_cache_enabled", "clear_autocast_cache"),
    "legacy": ("BoolTensor", "ByteTensor", "CharTensor", "ShortTensor", "IntTensor", "LongTensor", "HalfTensor", "BFloat16Tensor", "FloatTensor",
               "DoubleTensor", "SymInt", "SymFloat", "SymBool", "sym_int", "sym_float", "sym_not", "sym_max", "sym_min", "sym_ite", "sym_sum", "sym_sqrt",
               "symeig", "eig", "lstsq", "solve", "matrix_rank"),
    "checks": ("_assert", "_assert_async", "_check", "_check_is_size", "_check_tensor_all", "_check_with", "_check_index", "_check_value", "_check_type",
               "_check_not_implemented", "_check_tensor_all_with", "_is_all_true", "_is_any_true"),
    "functions": ("hinge_embedding_loss", "kl_div", "binary_cross_entropy_with_logits", "poisson_nll_loss", "batch_norm", "instance_norm", "lstm_cell", "gru_cell",
                  "rnn_tanh_cell", "rnn_relu_cell", "nuclear_norm", "svd_lowrank", "pca_lowrank", "set_default_tensor_type", "margin_ranking_loss",
                  "cosine_embedding_loss", "triplet_margin_loss", "ctc_loss", "frobenius_norm", "native_dropout", "lstm", "gru", "rnn_tanh", "rnn_relu", "embedding_bag", "detach_", "smm", "hspmm", "hsmm",
                  "sspaddmm", "slice_copy"),
    "_lobpcg": ("lobpcg",),
    "_higher_order_ops": ("cond", "while_loop"),
    "switches": ("get_float32_matmul_precision", "set_float32_matmul_precision", "get_num_threads", "set_num_threads", "get_num_interop_threads",
                 "set_num_interop_threads", "set_flush_denormal",
                 "set_warn_always", "is_warn_always_enabled"),
    "storage": ("UntypedStorage", "TypedStorage", "PyTorchFileReader", "PyTorchFileWriter", "FloatStorage", "DoubleStorage", "HalfStorage", "BFloat16Storage",
                "LongStorage", "IntStorage", "ShortStorage", "CharStorage", "ByteStorage", "BoolStorage", "ComplexFloatStorage", "ComplexDoubleStorage"),
    "jit": ("ScriptModule", "ScriptFunction"),
    "futures": ("Future",),
    "compiling": ("_disable_dynamo",),
    "accelerator": ("Stream", "Event"),
    "jit.types": ("TensorType", "IntType", "FloatType", "BoolType", "StringType", "ListType", "TupleType", "DictType", "OptionalType", "NoneType", "AnyType"),
}


_room = _later(__name__, ELSEWHERE)
_table.activate()


def __getattr__(name):
    if name == "torch":  # PyTorch's module has itself for an attribute, which some programs go through
        return _sys.modules[__name__]
    return getattr(_room("foreach"), name) if name.startswith("_foreach_") else _room(name)


_importing.__exit__(None, None, None)
