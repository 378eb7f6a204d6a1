"""Base of data pipes: datasets on which other pipes are methods."""
from __future__ import annotations

import functools

from ...._src.core.options import accept_only
from ..dataset import Dataset, IterableDataset

__all__ = ["DataChunk", "DFIterDataPipe", "IterDataPipe", "MapDataPipe"]


class Chained:
    """Base of both kinds of pipes: names of pipes are methods of all pipes of their kind."""

    reduce_ex_hook = getstate_hook = str_hook = repr_hook = None

    def __class_getitem__(cls, item):
        return cls

    def __getattr__(self, name):
        if name in self.functions:
            return functools.partial(self.functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @classmethod
    def register_function(cls, function_name, function):
        """Makes a function of a pipe a method of all of them."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name, cls_to_register, enable_df_api_tracing=False):
        """Makes a class of pipes a method of all of them.  Exception where the name is taken."""
        accept_only("register_datapipe_as_function", "convert the pipe's result",
                    enable_df_api_tracing=(enable_df_api_tracing, False))
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")

        @functools.wraps(cls_to_register, updated=())
        def make(source, *args, **kwargs):
            return cls_to_register(source, *args, **kwargs)

        cls.functions[function_name] = make

    def __getstate__(self):
        state = vars(self)
        return state if self.getstate_hook is None else self.getstate_hook(state)

    def __reduce_ex__(self, *args, **kwargs):
        hook = self.reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(*args, **kwargs)

    @classmethod
    def set_getstate_hook(cls, hook_fn):
        """Set a function that returns the pickled state of pipes from their attributes."""
        if hook_fn is not None and IterDataPipe.getstate_hook is not None and cls.getstate_hook is not None:
            raise RuntimeError("Attempt to override existing getstate_hook")
        cls.getstate_hook = staticmethod(hook_fn) if hook_fn is not None else None

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn):
        """Set a function that pickles pipes."""
        if hook_fn is not None and cls.reduce_ex_hook is not None:
            raise RuntimeError("Attempt to override existing reduce_ex_hook")
        cls.reduce_ex_hook = staticmethod(hook_fn) if hook_fn is not None else None

    def __repr__(self):
        return type(self).__qualname__

    __str__ = __repr__

    def __dir__(self):
        return list(super().__dir__()) + list(self.functions)


class IterDataPipe(Chained, IterableDataset):
    """A dataset that is iterated; subclasses define ``__iter__``.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).filter(lambda x: x > 1).batch(2))
    [[2, 3], [4]]
    """

    functions: dict = {}

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} does not say what it iterates over")

    def reset(self):
        """Reset the pipe; pipes with stored items override it."""


class DFIterDataPipe(IterDataPipe):
    """A pipe of data frames."""

    def _is_dfpipe(self):
        return True


class MapDataPipe(Chained, Dataset):
    """A dataset with keys; subclasses define ``__getitem__`` and ``__len__``."""

    functions: dict = {}


class DataChunk(list):
    """Items that were joined to one."""

    def __init__(self, items):
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent=""):
        return indent + "[" + ", ".join(str(i) for i in self) + "]"

    def __iter__(self):
        yield from super().__iter__()

    def raw_iterator(self):
        """The items as they were given."""
        yield from self.items


def functional_datapipe(name, enable_df_api_tracing=False):
    """Makes a class of pipes a method of all of its kind, under a name."""
    def enter(cls):
        kind = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe if issubclass(cls, MapDataPipe) else None
        if kind is None:
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        kind.register_datapipe_as_function(name, cls, enable_df_api_tracing)
        return cls
    return enter
