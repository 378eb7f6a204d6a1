"""Tensor types by dtype (``torch.FloatTensor``), and sizes as symbols: names of older programs."""
from __future__ import annotations

import math

from .core.devices import cpu, provided
from .core.dtypes import BY_NAME, bool_, type_name
from .core.exchange import refuse_device
from .core import expr
from .core.expr import Expr
from .core.legacy_constructors import construct
from .core.native import Tensor
from .core.overriding import overridable

NAMES = ("BoolTensor", "ByteTensor", "CharTensor", "ShortTensor", "IntTensor", "LongTensor", "HalfTensor",
         "BFloat16Tensor", "FloatTensor", "DoubleTensor")


class TypeOfTensors(type):
    """Classes whose instances are the tensors of one dtype on devices of one type."""

    def __instancecheck__(cls, instance):
        return (isinstance(instance, Tensor) and instance.dtype is cls.dtype and
                instance._rush_meta.device.type == cls.device_type)

    def __new__(kind, name, bases, members):
        if bases:
            raise TypeError(f"type 'torch.{bases[0].__name__}' is not an acceptable base type: subclass torch.Tensor")
        return super().__new__(kind, name, bases, members)

    def __call__(cls, *args, device=None):
        """Make a tensor of this dtype: of data, uninitialized with given sizes, or over the storage of a tensor of this
        dtype.  TypeError for a tensor of another one, and if no device of the type exists; RuntimeError for a device of
        another type."""
        if provided(cls.device_type) is None:
            raise TypeError(f"type {cls.__module__}.{cls.__name__} not available: no such device is there")
        wanted = cls.device_type
        refuse_device(wanted, device, args, f"constructor of the form {cls.__name__}(tensor, device=device)")
        if len(args) == 1 and isinstance(args[0], Tensor):
            if args[0].dtype is not cls.dtype:
                raise TypeError(f"{cls.__name__}(): expected a tensor of {cls.dtype}, but got one of {args[0].dtype}: "
                                "convert it with to()")
            return args[0].detach()
        return construct(args, cls.dtype, cls.device_type)


def type_of_tensors(name: str, device_type: str = cpu.type):
    """``torch.FloatTensor`` or, of another type of device, ``torch.cuda.FloatTensor``; None for another name."""
    found = next((d for d in BY_NAME.values() if f"{type_name(d)}Tensor" == name), None)
    place = "torch" if device_type == cpu.type else f"torch.{device_type}"
    return found and TypeOfTensors(name, (), {"dtype": found, "device_type": device_type, "__module__": place,
                                              "is_cuda": place.endswith("cuda"),
                                              "__doc__": f"The tensors of {found} on {device_type!r}."})


def __getattr__(name):
    made = type_of_tensors(name)
    if made is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made
    return made


class Symbolic(type):
    """Metaclass of symbolic scalars: objects that declare themselves symbolic are instances."""

    def __instancecheck__(cls, instance):
        if isinstance(instance, Expr):  # sizes are integers, conditions on them bools
            return cls.__name__ == ("SymInt" if instance.dtype is None else "SymBool" if instance.dtype is bool_
                                    else "SymFloat")
        return type.__instancecheck__(cls, instance) or getattr(type(instance), "symbol", None) == cls.__name__


class SymInt(metaclass=Symbolic):
    """A symbolic integer during capture, and the ragged size of nested tensors; sizes are plain ints everywhere
    else."""

    def __new__(cls, *args):
        raise NotImplementedError("torch.SymInt is made by capture alone: sizes are plain ints outside of it")


class SymFloat(SymInt):
    """A symbolic float during capture."""


class SymBool(SymInt):
    """A symbolic bool during capture."""


REMOVED = {  # functions that PyTorch removed, and their replacements
    "symeig": "torch.linalg.eigh", "eig": "torch.linalg.eig", "lstsq": "torch.linalg.lstsq",
    "solve": "torch.linalg.solve", "matrix_rank": "torch.linalg.matrix_rank"}


def removed(name: str):
    """Return a function that raises, and names its replacement."""
    def refuse(*args, **kwargs):
        raise RuntimeError(
            f"torch.{name} is removed from PyTorch: write {REMOVED[name]}, whose arguments and results may come in "
            "another order.")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


symeig, eig, lstsq, solve, matrix_rank = map(removed, REMOVED)
# names of the types of tensors and of memory
BY_TYPE = {f"{type_name(d)}{kind}": d for d in BY_NAME.values() for kind in ("Tensor", "Storage")}


@overridable
def sym_sum(args):
    """The sum of numbers and symbols."""
    return sum(args)


def sym_sqrt(a):
    """Return the square root of a number or symbol.  Raise ValueError for a negative number."""
    return math.sqrt(a)


@overridable
def sym_int(a):
    """int(a), for numbers and symbols."""
    return int(a)


@overridable
def sym_float(a):
    """float(a), for numbers and symbols."""
    return float(a)


@overridable
def sym_not(a):
    """not a, for numbers and symbols."""
    return not a


@overridable
def sym_max(a, b):
    """Return the larger of two numbers or symbols: a float if one of them is a float."""
    return expr.maximum(a, b) if are_sizes(a, b) else promote(max(a, b), a, b)


@overridable
def sym_min(a, b):
    """Return the smaller of two numbers or symbols: a float if one of them is a float."""
    return expr.minimum(a, b) if are_sizes(a, b) else promote(min(a, b), a, b)


def promote(found, a, b):
    """Return ``found`` as a float if ``a`` or ``b`` is one."""
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def are_sizes(a, b) -> bool:
    """True if two numbers are integers and at least one is a symbol."""
    return any(isinstance(e, Expr) for e in (a, b)) and all(
        type(e) is int or isinstance(e, Expr) and e.dtype is None for e in (a, b))


@overridable
def sym_ite(b, t, f):
    """Return t if b is true, else f."""
    return t if b else f
