"""The names of PyTorch's native module that Python code reaches for."""
from __future__ import annotations

from .core.devices import device
from .core.dtypes import dtype
from .core.meta import Size
from .core.native import Tensor as TensorBase
from .core.overriding import DisableTorchFunction, DisableTorchFunctionSubclass, disabled as _disabled_torch_function_impl
from .core.random import Generator, default_generator

_TensorBase = TensorBase


def _get_tracing_state():
    """The state of ``jit.trace``: None, since tracing there runs the program as it is."""
    return None


def _log_api_usage_once(name):
    """Accepts what PyTorch counts; nothing is counted here."""
