"""Process-wide switches: precision of matmuls, numbers of threads, repeated warnings."""
from __future__ import annotations

import warnings

from .core.undefined import Level

PRECISIONS = ("highest", "high", "medium")
precision = "highest"
tf32_of_convolutions = True
blas_library = "default"  # of matmuls on GPUs
accumulates_halves = False  # whether sums of float16 may be float16
uses_dnn, deterministic_dnn = True, False  # whether cuDNN may compute anything; whether only what is always the same
reducing = {"float16": True, "bfloat16": True}  # whether sums of parts of a product may be in the result's dtype
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
    """Whether convolutions of float32 may be computed by tf32, on GPUs."""
    global tf32_of_convolutions
    changed, tf32_of_convolutions = tf32_of_convolutions != bool(allowed), bool(allowed)
    if changed:
        forget_plans()


def allows_tf32(library: str) -> bool:
    """True if float32 matmuls ("matmul") or convolutions ("cudnn") may use TF32."""
    return precision != "highest" if library == "matmul" else tf32_of_convolutions


def reduces(dtype: str) -> bool:
    """Whether sums of parts of a product, which a library adds up, may be in the dtype of its operands."""
    return reducing.get(dtype, True)


def change(name: str, value):
    """Sets one of this file's switches that decide how plans come out."""
    if globals()[name] != value:
        globals()[name] = value
        forget_plans()


def surroundings() -> tuple:
    """Switches that affect plans."""
    return (precision, tf32_of_convolutions, blas_library, accumulates_halves, uses_dnn, deterministic_dnn,
            Level.now > 0, *reducing.values())


def get_float32_matmul_precision() -> str:
    """What ``set_float32_matmul_precision`` allowed; "highest" at first."""
    return precision


def get_num_threads() -> int:
    """How many threads kernels run on."""
    from .devices.cpu.llvm import pool
    return pool.get_num_threads()


def set_num_threads(n: int):
    """Sets how many threads kernels run on."""
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
    """Remembers whether warnings are to come again each time; Python's filters decide
    (``warnings.simplefilter("always")``)."""
    globals()["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """Last argument of ``set_warn_always``."""
    return warn_always
