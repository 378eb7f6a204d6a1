"""Operators on lists of tensors under PyTorch's names: ``_foreach_add`` calls ``add`` for each tensor of a list,
``_foreach_add_`` writes into each."""
from __future__ import annotations

import functools
import inspect

from .core.native import Tensor
from .core.op import OPS

PREFIX = "_foreach_"


def spread(value, count: int, name: str):
    """What each of ``count`` calls gets of an argument: its item of a list of tensors or numbers, else the argument
    itself."""
    if not isinstance(value, (list, tuple)) and not (isinstance(value, Tensor) and value.dim() == 1):
        return [value] * count
    items = value.tolist() if isinstance(value, Tensor) else value
    if len(items) != count:
        raise RuntimeError(
            f"{name}: Tensor lists must have the same number of tensors, got {count} and {len(items)}. Give one item "
            "for each tensor")
    return items


def over_lists(function, name: str):
    """Calls a function for each tensor of a list; what it takes by keyword alone may be given in order here."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = sum(p.kind is not p.KEYWORD_ONLY for p in parameters)

    def run(self, *args, **kwargs):
        if not isinstance(self, (list, tuple)) or not all(isinstance(t, Tensor) for t in self):
            raise TypeError(
                f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not {type(self).__name__}")
        if not self:
            raise RuntimeError(f"{name}: Tensor list must have at least one tensor.")
        kwargs.update((p.name, a) for p, a in zip(parameters[positional:], args[positional:]))
        further = [spread(a, len(self), name) for a in args[:positional]]
        named = {k: spread(v, len(self), name) for k, v in kwargs.items()}
        return [function(t, *(f[k] for f in further), **{key: v[k] for key, v in named.items()})
                for k, t in enumerate(self)]

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"``{name.removeprefix(PREFIX)}`` of each tensor of a list; further lists have an item for each."
    return run


def powsum(input, ord=2, dtype=None):
    """The sum of absolute values to a power: a norm before its root is taken."""
    return OPS["sum"](OPS["pow"](OPS["abs"](input), ord), dtype=dtype)


def function_of(name: str):
    """What a function on lists calls for each: an operator that tensors have as a method, or one and a copy of its
    result into the tensor; None for others."""
    if name in OPS:
        return OPS[name] if OPS[name].traits.get("namespace") == "" else None
    whole = function_of(name[:-1]) if name.endswith("_") else None
    return written(whole) if whole is not None else powsum if name == "powsum" else None


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
    return over_lists(function, name)
