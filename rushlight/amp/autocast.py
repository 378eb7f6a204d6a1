"""Autocast: blocks in which matmuls run in 16-bit floats and operators sensitive to rounding in float32."""
from __future__ import annotations

import contextlib
import functools
import warnings

from .._src.core.devices import Registry, is_host, provided
from .._src.core.dtypes import float64
from .._src.core.native import Scope, Tensor, held, mine
from .._src.core.native.scopes import AUTOCAST
from .._src.eager import casts
from .._src.eager.casts import PRECISIONS, THERE, choices, forget, keep, keeps

DEVICES = ("cpu", "cuda", "xpu", "hpu", "mps", "mtia", "maia", "xla", "ipu", "privateuseone")
CODES = {dtype: code for code, dtype in PRECISIONS.items()}


def check_device(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    known = (*DEVICES, *(kind for kind in Registry.providers if kind not in (*DEVICES, "meta")))
    if device_type not in known:
        raise RuntimeError(
            f"User specified an unsupported autocast device_type '{device_type}': wanted one of {', '.join(known)}")


def is_autocast_available(device_type) -> bool:
    """Whether autocast does anything on a kind of device.  RuntimeError for an unknown kind."""
    check_device(device_type)
    if is_host(device_type):
        return True
    found = provided(device_type)
    return found is not None and found.has_data and found.count() > 0


def code_of(device_type) -> int:
    """The code of a kind of device's precision that the thread is in."""
    return mine.autocast & casts.CODES if is_host(device_type) else mine.autocast >> THERE


def with_code(device_type, code: int) -> int:
    """Return the thread's autocast state with another code for a device type."""
    if is_host(device_type):
        return mine.autocast & ~casts.CODES | code
    return mine.autocast & casts.CODES | code << THERE


def default_of(device_type):
    """The dtype that is chosen for a kind of device."""
    return choices.dtype if is_host(device_type) else choices.dtype_there


class autocast(Scope, contextlib.ContextDecorator):
    """A block, or a decorated function, in which each operator computes in the precision that suits it.

    ``device_type``: the device type it applies to (types without a device do nothing, with a warning); ``dtype``
    bfloat16 (the CPU's default) or float16 (that of others).  ValueError and RuntimeError for device types that are
    not strings or not known.

    >>> import rushlight as torch
    >>> with torch.autocast("cpu"):
    ...     (torch.ones(2, 3) @ torch.ones(3, 2)).dtype
    torch.bfloat16
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        check_device(device_type)
        self.device, self.fast_dtype = device_type, default_of(device_type) if dtype is None else dtype
        if not is_autocast_available(device_type):
            if enabled:
                warnings.warn(f"User provided device_type of '{device_type}', but it is not available. Disabling",
                              stacklevel=2)
            enabled = None
        elif enabled and self.fast_dtype not in CODES:
            name = device_type.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype {self.fast_dtype} is not supported. Disabling autocast. "
                f"{name} Autocast only supports dtype of "
                f"{', '.join(map(str, CODES))} currently.", stacklevel=2)
            enabled = False
        self.enabled, self.cache = enabled, cache_enabled
        self.code = 0 if not enabled else CODES[self.fast_dtype]
        self.before = []

    def __enter__(self):
        self.before.append(keeps())
        self.outer = held(AUTOCAST, self.outer, None)
        if self.enabled is not None:
            choices.keeps = choices.keeps if self.cache is None else bool(self.cache)
            mine.autocast = with_code(self.device, self.code)
        return self

    def after(self):
        """What is done when the precision is as it was."""
        keep(self.before.pop())
        if mine.autocast == 0:
            forget()


# --- custom functions -------------------------------------------------------------------------------------------------
def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """Decorates the ``forward`` of an autograd.Function: its backward will run in the same precision.

    With ``cast_inputs`` floating tensors arrive in that dtype, and autocast is off within.
    """
    check_device(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def run(*args, **kwargs):
        ctx = args[0]
        ctx._dtype = get_autocast_dtype(device_type)
        active = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = active if cast_inputs is None else False
        if cast_inputs is None or not active:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return run


def custom_bwd(bwd=None, *, device_type):
    """Decorates the ``backward`` of an autograd.Function: it runs in the precision of its forward."""
    check_device(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def run(*args, **kwargs):
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return run


def _cast(value, device_type, dtype):
    """Convert floating tensors of a type of device, other than float64, to ``dtype``, within containers."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.dtype is not float64 and value.device.type == device_type
        return value.to(dtype) if eligible else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        made = [_cast(v, device_type, dtype) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


# --- questions and switches -------------------------------------------------------------------------------------------
def is_autocast_enabled(device_type="cuda") -> bool:
    """Whether autocast is on for a kind of device (asked without one: for CUDA, as in PyTorch)."""
    check_device(device_type)
    return is_autocast_available(device_type) and code_of(device_type) != 0


def set_autocast_enabled(device_type, enabled=None):
    """Turns autocast on or off for a kind of device."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    check_device(device_type)
    if is_autocast_available(device_type):
        mine.autocast = with_code(device_type, CODES[default_of(device_type)] if enabled else 0)


def get_autocast_dtype(device_type):
    """Return the dtype of matmuls under autocast."""
    check_device(device_type)
    return PRECISIONS.get(code_of(device_type), default_of(device_type))


def set_autocast_dtype(device_type, dtype):
    """Set the dtype of matmuls under autocast.  RuntimeError for one that is not supported."""
    check_device(device_type)
    if dtype not in CODES:
        raise RuntimeError(f"{device_type.upper()} autocast computes in {' or '.join(map(str, CODES))}, not in {dtype}")
    if is_host(device_type):
        choices.dtype = dtype
    else:
        choices.dtype_there = dtype
    if code_of(device_type):
        mine.autocast = with_code(device_type, CODES[dtype])


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled):
    """Turns autocast on or off."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype():
    """Return the dtype of matmuls under autocast."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype():
    """Return the dtype that matmuls would have under autocast on a GPU."""
    return get_autocast_dtype("cuda")


def set_autocast_cpu_dtype(dtype):
    """Set the dtype of matmuls under autocast."""
    set_autocast_dtype("cpu", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether copies of parameters are kept for the length of a block."""
    return keeps()


def set_autocast_cache_enabled(enabled):
    """Sets whether copies of parameters are kept for the length of a block."""
    keep(bool(enabled))


def clear_autocast_cache():
    """Drops the kept copies of parameters."""
    forget()
