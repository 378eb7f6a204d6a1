"""Process-wide switches: precision of matmuls, numbers of threads, repeated warnings."""
from __future__ import annotations

import warnings

from .core.undefined import Level

PRECISIONS = ("highest", "high", "medium")
precision = "highest"
tf32_of_convolutions = True
blas_library = "default"  # of matmuls on GPUs
accumulates_halves = False  # float16 sums may be accumulated in float16
uses_dnn, deterministic_dnn = True, False  # cuDNN is enabled; only deterministic algorithms
reducing = {"float16": True, "bfloat16": True}  # split-K sums may have the dtype of the result
interop_threads = 1
warn_always = False


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of float32 matmuls: "highest", "high" or "medium".  On GPUs all but "highest" allow TF32, with
    an 11-bit significand; CPU matmuls use float32 in any case.

    >>> import rushlight as torch
    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    if precision not in PRECISIONS:
        warnings.warn(f"{precision} is not one of 'highest', 'high', or 'medium': the call has no effect", stacklevel=2)
        return
    changed = precision != globals()["precision"]
    globals()["precision"] = precision
    if changed:
        forget_plans()


def allow_tf32_of_convolutions(allowed: bool):
    """Allow or forbid TF32 in float32 convolutions, on GPUs."""
    global tf32_of_convolutions
    changed, tf32_of_convolutions = tf32_of_convolutions != bool(allowed), bool(allowed)
    if changed:
        forget_plans()


def allows_tf32(library: str) -> bool:
    """True if float32 matmuls ("matmul") or convolutions ("cudnn") may use TF32."""
    return precision != "highest" if library == "matmul" else tf32_of_convolutions


def reduces(dtype: str) -> bool:
    """True if a library may add partial sums of a matmul in the dtype of its operands."""
    return reducing.get(dtype, True)


def change(name: str, value):
    """Set one of this module's switches that affect plans."""
    if globals()[name] != value:
        globals()[name] = value
        forget_plans()


def surroundings() -> tuple:
    """Switches that affect plans."""
    return (precision, tf32_of_convolutions, blas_library, accumulates_halves, uses_dnn, deterministic_dnn,
            Level.now > 0, *reducing.values())


def get_float32_matmul_precision() -> str:
    """Last argument of ``set_float32_matmul_precision``; "highest" at first."""
    return precision


def get_num_threads() -> int:
    """Number of threads that kernels run on."""
    from .devices.cpu.llvm import pool
    return pool.get_num_threads()


def set_num_threads(n: int):
    """Set the number of threads that kernels run on."""
    from .devices.cpu.llvm import pool
    if n != pool.get_num_threads():
        pool.set_num_threads(n)
        forget_plans()


def forget_plans():
    """Discard all plans: they have buffers for each of the former threads."""
    from .core.op import forget
    forget()


def get_num_interop_threads() -> int:
    """Number of inter-op threads: 1, or the argument of ``set_num_interop_threads``, which has no other effect."""
    return interop_threads


def set_num_interop_threads(num: int) -> None:
    """Set the number that ``get_num_interop_threads`` returns.  RuntimeError unless it is positive."""
    if num <= 0:
        raise RuntimeError(f"Expected a positive number of threads, not {num}")
    globals()["interop_threads"] = int(num)


def set_flush_denormal(mode: bool) -> bool:
    """Return False: flushing denormals is not supported, kernels keep them."""
    return False


def set_warn_always(b: bool, /) -> None:
    """Choose if warnings are repeated each time; Python's filters decide (``warnings.simplefilter("always")``)."""
    globals()["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """Last argument of ``set_warn_always``."""
    return warn_always
