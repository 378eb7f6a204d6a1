"""Operators on lists of tensors under PyTorch's names: ``_foreach_add`` calls ``add`` for each tensor of a list,
``_foreach_add_`` writes into each."""
from __future__ import annotations

import functools
import inspect

from .core.native import Tensor
from .core.op import OPS

PREFIX = "_foreach_"


PACKED = ("addcmul", "addcdiv")  # scalars may be the elements of one tensor
TENSORS = ("add", "mul", "div")  # accept one tensor for all


def spread(value, count: int, name: str):
    """Spread an argument over ``count`` calls: the items of a list of tensors or numbers, else the argument itself."""
    if isinstance(value, Tensor):
        return of_tensor(value, count, name)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        several = bool(value) and isinstance(value[0], Tensor)
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(value)}"
                           if several else "Tensor list must have same number of elements as scalar list.")
    return value


def of_tensor(value, count: int, name: str):
    """Spread one tensor over ``count`` calls: its elements if a tensor of scalars is accepted, else all of it."""
    stem = name.removeprefix(PREFIX).removesuffix("_")
    if stem not in PACKED:
        if value.dim() == 0:
            return [value] * count
        if stem in TENSORS:
            raise RuntimeError(f"scalar tensor expected to be 0 dim but it has {value.dim()} dimensions and "
                               f"{value.numel()} elements.")
        raise TypeError(f"{name}(): expected a list of tensors, a number or a list of numbers, got a tensor of "
                        f"{value.dim()} dimensions")
    if not value.device.provider.on_host:
        raise RuntimeError(f"Expected scalars to be on CPU, got {value.device} instead.")
    if not value.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous.")
    if value.dim() != 1:
        raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {value.dim()} instead.")
    if value.shape[0] != count:
        raise RuntimeError(
            f"Expected length of scalars to match input of length {count} but got {value.shape[0]} instead.")
    return value.tolist()


def tensors_of(self, name: str):
    """Check and return the list argument of a function."""
    if not isinstance(self, (list, tuple)) or not all(isinstance(t, Tensor) for t in self):
        raise TypeError(f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not {type(self).__name__}")
    if not self:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return self


def over_lists(function, name: str):
    """Call a function for each tensor of a list; its keyword-only parameters may be positional here.  Results are a
    tuple; a function that writes returns its list."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = sum(p.kind is not p.KEYWORD_ONLY for p in parameters)
    renamed = OTHER_NAMES.get(name.removeprefix(PREFIX).removesuffix("_"), {})

    def run(self, *args, **kwargs):
        tensors_of(self, name)
        kwargs = {renamed.get(key, key): value for key, value in kwargs.items()}
        kwargs.update((p.name, a) for p, a in zip(parameters[positional:], args[positional:]))
        further = [spread(a, len(self), name) for a in args[:positional]]
        named = {k: spread(v, len(self), name) for k, v in kwargs.items()}
        found = tuple(function(t, *(f[k] for f in further), **{key: v[k] for key, v in named.items()})
                      for k, t in enumerate(self))
        return self if name.endswith("_") else found

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"``{name.removeprefix(PREFIX)}`` of each tensor of a list; further lists have an item for each."
    return run


def bounded(kind: str):
    """``maximum`` or ``minimum`` of a tensor and a tensor or a number."""
    name, numbers = {"max": ("maximum", "clamp_min"), "min": ("minimum", "clamp_max")}[kind]

    def run(input, other):
        return OPS[name if isinstance(other, Tensor) else numbers](input, other)
    return run


def power(function):
    """``_foreach_pow``, which accepts a scalar as its first argument."""
    def run(self, exponent):
        if isinstance(self, (int, float, complex)) and not isinstance(exponent, Tensor):
            return tuple(OPS["pow"](self, t) for t in tensors_of(exponent, PREFIX + "pow"))
        return function(self, exponent)
    return functools.update_wrapper(run, function)


def norm(input, ord=2, dtype=None):
    """Vector norm of all elements."""
    return OPS["linalg.vector_norm"](input, ord, dtype=dtype)


def powsum(input, ord=2, dtype=None):
    """Sum of absolute values to a power: a norm without its root."""
    return OPS["sum"](OPS["pow"](OPS["abs"](input), ord), dtype=dtype)


# functions of one tensor that are not operators of this name, or have other arguments
OWN = {"powsum": powsum, "norm": norm, "maximum": bounded("max"), "minimum": bounded("min")}
# PyTorch's names of parameters: a list of tensors, a number, a list of numbers, a tensor of numbers
OTHER_NAMES = {
    **{name: {"scalar": "other", "scalars": "other", "tensor": "other"}
       for name in ("add", "sub", "mul", "div", "maximum", "minimum")},
    "clamp_max": {"scalar": "max", "scalars": "max", "other": "max"},
    "clamp_min": {"scalar": "min", "scalars": "min", "other": "min"},
    **{name: {"scalars": "value"} for name in PACKED}, "lerp": {"tensors1": "end", "weights": "weight"}}


def function_of(name: str):
    """Function that a function on lists calls for each tensor: an operator that is also a tensor method, or one and a
    copy of its result into the tensor; None for others."""
    if name in OWN:
        return OWN[name]
    if name.removesuffix("_") not in OWN and name in OPS:
        return OPS[name] if OPS[name].traits.get("namespace") == "" else None
    whole = function_of(name[:-1]) if name.endswith("_") else None
    return written(whole) if whole is not None else None


def written(function):
    """A function whose result is copied into its first argument."""
    def run(input, *args, **kwargs):
        return input.copy_(function(input, *args, **kwargs))
    run.__signature__ = inspect.signature(function)
    return run


@functools.lru_cache(maxsize=None)
def __getattr__(name):
    function = function_of(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
    if function is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return power(over_lists(function, name)) if name == PREFIX + "pow" else over_lists(function, name)


def overload(name: str):
    """Return the function as an aten operator: its results are a list, or None if it writes.  None for unknown
    names."""
    if function_of(name.removeprefix(PREFIX)) is None:
        return None
    function = __getattr__(name)

    def run(*args, **kwargs):
        found = function(*args, **kwargs)
        return None if name.endswith("_") else list(found)
    return functools.update_wrapper(run, function)
