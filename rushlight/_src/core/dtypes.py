"""Element types, their limits, and the rules by which they promote."""
from __future__ import annotations

import numpy as np

BOOL, INTEGER, FLOATING, COMPLEX = range(4)


class dtype:
    """The type of a tensor's elements, for example ``float32``.

    Attributes: ``name``, ``itemsize`` (bytes), ``category`` (BOOL, INTEGER, FLOATING or COMPLEX), ``numpy`` (the NumPy
    dtype that stores the same bits: bfloat16 is stored as uint16), ``is_floating_point``, ``is_complex``,
    ``is_signed``, ``is_inexact`` (floating-point or complex: what gradients flow through), ``has_kernels`` (others are
    computed by the NumPy reference implementation).

    Of quantized elements (``core/quantized.py``): ``scheme`` maps the stored integers to values (None for all others),
    ``shown`` is the dtype that users see, ``name`` that of the integers.
    """

    __slots__ = ("name", "itemsize", "category", "numpy", "is_signed", "is_inexact", "rank", "has_kernels", "scheme",
                 "shown", "__weakref__")

    def __init__(self, name: str, category: int, storage: str, rank: int, is_signed: bool = True,
                 has_kernels: bool = True):
        self.name, self.category, self.numpy = name, category, np.dtype(storage)
        self.itemsize, self.is_signed, self.rank, self.has_kernels = self.numpy.itemsize, is_signed, rank, has_kernels
        self.is_inexact, self.scheme, self.shown = category >= FLOATING, None, self

    is_floating_point = property(lambda self: self.category == FLOATING)
    is_complex = property(lambda self: self.category == COMPLEX)
    # or less: stored narrow, computed in float32
    is_half = property(lambda self: self.category == FLOATING and self.itemsize <= 2)
    is_byte = property(lambda self: self.category == FLOATING and self.itemsize == 1)  # to store, not to compute with
    in_numpy = property(lambda self: self.category < FLOATING or self.numpy.kind in "fc")
    # stored narrow, computed in float32 or complex64
    is_widened = property(lambda self: self.is_half or self.category == COMPLEX and self.itemsize == 4)

    @property
    def computed(self) -> "dtype":
        """The real dtype in which elements, or their parts, are computed."""
        return float32 if self.is_widened else self.to_real()

    def __repr__(self):
        return f"torch.{self.label}"

    @property
    def label(self) -> str:
        """The name, and the quantization parameters."""
        return self.name if self.scheme is None else f"{self.shown.name}{tuple(self.scheme)}"

    def __reduce__(self):
        if self.scheme is not None:
            from .quantized import quantized
            return quantized, (self.shown, self.scheme)
        return "bool_" if self.name == "bool" else self.name  # its name in this module

    def to_real(self):
        """The dtype of the real part; itself when not complex."""
        return {"complex32": float16, "complex64": float32, "complex128": float64}.get(self.name, self)

    def to_complex(self):
        """The complex dtype of the same precision."""
        return {"float16": complex32, "complex32": complex32, "float64": complex128,
                "complex128": complex128}.get(self.name, complex64)


bool_ = dtype("bool", BOOL, "bool", 0, is_signed=False)
uint8 = dtype("uint8", INTEGER, "uint8", 1, is_signed=False)
int8 = dtype("int8", INTEGER, "int8", 1)
int16 = dtype("int16", INTEGER, "int16", 2)
int32 = dtype("int32", INTEGER, "int32", 3)
int64 = dtype("int64", INTEGER, "int64", 4)
float16 = dtype("float16", FLOATING, "float16", 5)
bfloat16 = dtype("bfloat16", FLOATING, "uint16", 5)
float32 = dtype("float32", FLOATING, "float32", 6)
float64 = dtype("float64", FLOATING, "float64", 7)
complex32 = dtype("complex32", COMPLEX, "uint32", 7, has_kernels=False)
complex64 = dtype("complex64", COMPLEX, "complex64", 8, has_kernels=False)
complex128 = dtype("complex128", COMPLEX, "complex128", 9, has_kernels=False)

UNSIGNED = uint16, uint32, uint64 = tuple(dtype(f"uint{bits}", INTEGER, f"uint{bits}", rank, False, False)
                                          for bits, rank in ((16, 2), (32, 3), (64, 4)))
BYTES = float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz = tuple(
    dtype(name, FLOATING, "uint8", 5, has_kernels=False)
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"))
NAMED = float8_e8m0fnu, float4_e2m1fn_x2, *_ = (  # exist as names alone: no tensor has them
    dtype("float8_e8m0fnu", FLOATING, "uint8", 5), dtype("float4_e2m1fn_x2", FLOATING, "uint8", 5),
    *(dtype(name, INTEGER, "uint8", 1, name.startswith(("int", "qint")), False)
      for name in (*(f"{kind}{bits}" for kind in ("int", "uint") for bits in range(1, 8)), "bits1x8", "bits2x4",
      "bits4x2", "bits8", "qint8", "quint8", "quint4x2", "quint2x4")),
    dtype("bits16", INTEGER, "uint16", 2, False, False), dtype("qint32", INTEGER, "int32", 3, has_kernels=False))
globals().update({one.name: one for one in NAMED})  # pickles refer to them by name
ALL = (bool_, uint8, int8, int16, int32, int64, *UNSIGNED, float16, bfloat16, *BYTES, float32, float64, complex32,
       complex64, complex128)
BY_NAME = {d.name: d for d in ALL}
ALIASES = {"half": float16, "float": float32, "double": float64, "short": int16, "int": int32, "long": int64,
           "chalf": complex32, "cfloat": complex64, "cdouble": complex128}
FROM_NUMPY = {d.numpy: d for d in ALL if d.in_numpy}


PYTHON = {bool: bool_, int: int64, float: float64, complex: complex128}  # Python types that are accepted as a dtype


def meant(value):
    """The dtype that a Python type stands for; any other value itself.

    >>> meant(float), meant(int8)
    (torch.float64, torch.int8)
    """
    return PYTHON.get(value, value) if type(value) is type else value


def named(value, function: str, parameter: str) -> dtype:
    """``meant`` for a function's argument that is a dtype.  TypeError for anything else.

    >>> named(int, "iinfo", "type")
    torch.int64
    """
    found = meant(value)
    if not isinstance(found, dtype):
        raise TypeError(f"{function}(): argument '{parameter}' must be torch.dtype, not {type(value).__name__}")
    return found


def promote(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that holds both, in PyTorch's lattice.

    >>> promote(uint8, int8), promote(float16, bfloat16), promote(int64, float16)
    (torch.int16, torch.float32, torch.float16)
    """
    if a is b:
        return a
    apart = "Float8" if a in BYTES or b in BYTES else "uint16, uint32, uint64" if a.category == b.category and (
        a in UNSIGNED or b in UNSIGNED) else ""
    if apart:
        raise RuntimeError(
            f"Promotion for {apart} types is not supported, attempted to promote {type_name(a)} and {type_name(b)}: "
            "convert one of them first")
    if a.category == b.category:
        if a.rank == b.rank:  # uint8 with int8, float16 with bfloat16: the next wider one
            return int16 if a.category == INTEGER else float32
        return a if a.rank > b.rank else b
    low, high = (a, b) if a.category < b.category else (b, a)
    if high.category == COMPLEX and low.category == FLOATING:
        return promote(low, high.to_real()).to_complex()
    return high


class Defaults:
    """The dtype that Python floats and factory functions take when none is given."""

    floating = float32


def default_of(category: int) -> dtype:
    """The dtype a Python scalar of this category has before it meets a tensor."""
    if category == FLOATING:
        return Defaults.floating
    return {BOOL: bool_, INTEGER: int64, COMPLEX: Defaults.floating.to_complex()}[category]


def category_of(number) -> int:
    """The category of a Python number, or of a substitute with a ``category``."""
    kind = type(number)
    if kind is bool:
        return BOOL
    if issubclass(kind, complex):
        return COMPLEX
    return FLOATING if issubclass(kind, float) else getattr(kind, "category", INTEGER)


def result_type(dimensioned, zero_dim, categories) -> dtype:
    """Promotion over three ranks: tensors with dimensions decide; 0-dim tensors, then Python numbers, count only by
    category.

    ``dimensioned`` and ``zero_dim`` are dtypes, ``categories`` are the categories of Python numbers.
    """
    result = None
    for group in (dimensioned, zero_dim, map(default_of, categories)):
        best = None
        for d in group:
            best = d if best is None else promote(best, d)
        if best is not None and (result is None or best.category > result.category):
            # the precision stays the tensors'
            real = result is not None and best.category == COMPLEX and result.category == FLOATING
            result = result.to_complex() if real else best
    return result


def can_cast(source: dtype, target: dtype) -> bool:
    """True if a result of ``source`` may be written into ``target`` (no fall in category)."""
    return source.category <= target.category


NARROW = {"bfloat16": (2.0**-7, 3.3895313892515355e38, 2.0**-126, 0.01), "float8_e4m3fn": (0.125, 448.0, 2.0**-6, 1.0),
          "float8_e4m3fnuz": (0.125, 240.0, 2.0**-7, 1.0),
          "float8_e5m2": (0.25, 57344.0, 2.0**-14, 1.0), "float8_e5m2fnuz": (0.25, 57344.0, 2.0**-15, 1.0),
          "float8_e8m0fnu": (1.0, 2.0**127, 2.0**-127, 1.0),
          "float4_e2m1fn_x2": (0.5, 6.0, 1.0, 1.0)}  # eps, max, tiny, resolution of dtypes that NumPy does not have


class finfo:
    """Limits of a floating dtype: ``bits, eps, max, min, tiny, smallest_normal, resolution, dtype``."""

    def __init__(self, type: dtype | None = None):
        type = named(type or Defaults.floating, "finfo", "type")
        if type.category < FLOATING:
            raise TypeError(f"finfo() wants a floating dtype; {type} is not one. iinfo() gives the limits of integers.")
        real = type.to_real()
        if real.name in NARROW:
            self.eps, self.max, self.tiny, self.resolution = NARROW[real.name]
        else:
            info = np.finfo(real.numpy)
            self.eps, self.max, self.tiny, self.resolution = *map(float, (info.eps, info.max,
                                                                          info.tiny)), 10.0**-info.precision
        self.bits, self.min, self.smallest_normal, self.dtype = real.itemsize * 8, -self.max, self.tiny, real.name

    def __repr__(self):
        limits = ", ".join(f"{name}={getattr(self, name):g}"
                           for name in ("resolution", "min", "max", "eps", "smallest_normal", "tiny"))
        return f"finfo({limits}, dtype={self.dtype})"


class iinfo:
    """Limits of an integer dtype: ``bits, max, min, dtype``."""

    def __init__(self, type: dtype):
        type = named(type, "iinfo", "type")
        if type.category != INTEGER:
            raise TypeError(f"iinfo() wants an integer dtype; {type} is not one. finfo() gives the limits of floats.")
        info = np.iinfo(type.numpy)
        self.bits, self.max, self.min, self.dtype = info.bits, int(info.max), int(info.min), type.name

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def bound(dtype, highest):
    """The largest or the least value of a dtype, infinite where there are infinities."""
    if dtype.is_inexact:
        return float("inf") if highest else -float("inf")
    if dtype is bool_:
        return highest
    limits = iinfo(dtype)
    return limits.max if highest else limits.min


def limits_of(dtype):
    """The least and the greatest number of a dtype that is finite."""
    limits = finfo(dtype) if dtype.is_inexact else iinfo(dtype)
    return limits.min, limits.max


def check_range(least, most, dtype):
    """Raise RuntimeError if numbers between two exceed the range of a dtype; negative integers wrap around in an
    unsigned dtype, infinities and NaN are floats.

    >>> check_range(-1, 255, uint8), check_range(0.0, 1e9, int32), check_range(-3e38, float("inf"), float32)
    (None, None, None)
    """
    if dtype is bool_:
        return
    if dtype.is_inexact:
        limit = finfo(dtype).max
        if most > limit and most != float("inf") or least < -limit and least != -float("inf"):
            raise RuntimeError(
                f"value cannot be converted to type {dtype.name} without overflow: {most if most > limit else least} "
                f"is not between {-limit} and {limit}; choose a wider dtype")
        return
    limits = iinfo(dtype)
    whole = isinstance(least, int) or getattr(least, "dtype", None) is int64
    low = -limits.max if not dtype.is_signed and whole else limits.min
    if not (low <= least and most <= limits.max):  # so that NaN is rejected
        raise RuntimeError(
            f"value cannot be converted to type {dtype.name} without overflow: {most if low <= least else least} is "
            f"not between {limits.min} and {limits.max}; "
            "choose a wider dtype, or clamp first")


NAMES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long",
         "int32": "Int", "int16": "Short",
         "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex32": "ComplexHalf", "complex64": "ComplexFloat",
         "complex128": "ComplexDouble",
         **{d.name: d.name.replace("uint", "UInt").replace("float", "Float") for d in (*UNSIGNED, *BYTES)}}


def type_name(dtype) -> str:
    """PyTorch's old name of a dtype, as its messages use it."""
    return NAMES.get(dtype.name, dtype.name) if dtype.scheme is None else dtype.shown.name.replace("q", "Q").replace(
        "i", "I").replace("Qu", "QU")
