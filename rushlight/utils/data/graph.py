"""Graph of the pipes that a pipe consists of."""
from __future__ import annotations

import types
import warnings
from collections.abc import Collection

from .datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]


def traverse_dps(datapipe) -> dict:
    """The pipes that a pipe was made of: ``{its id: (the pipe, the same of its sources)}``.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> source = IterableWrapper([1])
    >>> traverse_dps(source) == {id(source): (source, {})}
    True
    """
    return _below(datapipe, set(), True)


def traverse(datapipe, only_datapipe=None):
    """``traverse_dps``; unless ``only_datapipe``, attributes that are other objects are searched, too."""
    warnings.warn("`traverse` function and will be removed after 1.13. Please use `traverse_dps` instead.",
                  FutureWarning, stacklevel=2)
    return _below(datapipe, set(), bool(only_datapipe))


def _below(pipe, seen, only_datapipe):
    if not isinstance(pipe, (IterDataPipe, MapDataPipe)):
        raise RuntimeError(f"Expected `IterDataPipe` or `MapDataPipe`, but {type(pipe)} is found")
    if id(pipe) in seen:
        return {}
    seen = seen | {id(pipe)}
    found = {}
    attributes = [value for value in vars(pipe).values()
                  if not only_datapipe or isinstance(value, (IterDataPipe, MapDataPipe, Collection))]
    for source in _sources(attributes, set()):
        found.update(_below(source, seen, only_datapipe))
    return {id(pipe): (pipe, found)}


def _sources(value, seen):
    """The pipes among the attributes of one, and in lists, dicts and objects there."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        yield value
        return
    parts = ()
    if isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, (list, tuple, set)):
        parts = value
    elif hasattr(value, "__dict__") and not isinstance(value, (type, types.FunctionType, types.ModuleType)):
        parts = vars(value).values()
    for part in parts:
        yield from _sources(part, seen)
