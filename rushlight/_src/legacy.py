"""Tensor types by dtype (``torch.FloatTensor``), and sizes as symbols: names of older programs."""
from __future__ import annotations

from .core.dtypes import BY_NAME, type_name
from .core.exchange import tensor
from .core.native import Tensor
from .core.op import OPS

NAMES = ("BoolTensor", "ByteTensor", "CharTensor", "ShortTensor", "IntTensor", "LongTensor", "HalfTensor",
         "BFloat16Tensor", "FloatTensor", "DoubleTensor")


class TypeOfTensors(type):
    """Classes whose instances are the tensors of one dtype."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype

    def __new__(kind, name, bases, members):
        if bases:
            raise TypeError(f"type 'torch.{bases[0].__name__}' is not an acceptable base type: subclass torch.Tensor")
        return super().__new__(kind, name, bases, members)

    def __call__(cls, *args, device=None):
        """A tensor of this dtype: of data, of sizes with undefined contents, or over the memory of a tensor of this
        dtype.  TypeError for a tensor of another one."""
        if len(args) == 1 and isinstance(args[0], Tensor):
            if args[0].dtype is not cls.dtype:
                raise TypeError(f"{cls.__name__}(): expected a tensor of {cls.dtype}, but got one of {args[0].dtype}: "
                                "convert it with to()")
            return args[0].detach()
        if len(args) == 1 and not isinstance(args[0], int):
            return tensor(args[0], dtype=cls.dtype)
        return OPS["empty"](*(args or (0,)), dtype=cls.dtype)


def __getattr__(name):
    found = next((d for d in BY_NAME.values() if f"{type_name(d)}Tensor" == name), None)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = TypeOfTensors(name, (), {"dtype": found, "__module__": "torch",
                                                      "__doc__": f"The tensors of {found}."})
    return made


class Symbolic(type):
    """Classes of numbers that are symbols: what says so of itself is an instance."""

    def __instancecheck__(cls, instance):
        return type.__instancecheck__(cls, instance) or getattr(type(instance), "symbol", None) == cls.__name__


class SymInt(metaclass=Symbolic):
    """An integer that is a symbol while a program is captured, and the ragged size of nested tensors; sizes are plain
    ints everywhere else."""

    def __new__(cls, *args):
        raise NotImplementedError("torch.SymInt is made by capture alone: sizes are plain ints outside of it")


class SymFloat(SymInt):
    """A float that is a symbol while a program is captured."""


class SymBool(SymInt):
    """A truth that is a symbol while a program is captured."""


REMOVED = {  # functions that PyTorch removed, and what does their work
    "symeig": "torch.linalg.eigh", "eig": "torch.linalg.eig", "lstsq": "torch.linalg.lstsq",
    "solve": "torch.linalg.solve", "matrix_rank": "torch.linalg.matrix_rank"}


def removed(name: str):
    """A function that refuses, and says what to write."""
    def refuse(*args, **kwargs):
        raise RuntimeError(
            f"torch.{name} is removed from PyTorch: write {REMOVED[name]}, whose arguments and results may come in "
            "another order.")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


symeig, eig, lstsq, solve, matrix_rank = map(removed, REMOVED)
# names of the types of tensors and of memory
BY_TYPE = {f"{type_name(d)}{kind}": d for d in BY_NAME.values() for kind in ("Tensor", "Storage")}


def sym_sum(args):
    """The sum of numbers and symbols."""
    return sum(args)


def sym_sqrt(a):
    """The square root of a number or symbol."""
    return a ** 0.5


def sym_int(a):
    """int(a), for numbers and symbols."""
    return int(a)


def sym_float(a):
    return float(a)


def sym_not(a):
    return not a


def sym_max(a, b):
    return max(a, b)


def sym_min(a, b):
    return min(a, b)


def sym_ite(b, t, f):
    return t if b else f
