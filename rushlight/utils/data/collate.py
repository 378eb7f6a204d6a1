"""Lists of samples as batches."""
from __future__ import annotations

import copy
import re
from collections.abc import Mapping, MutableMapping, Sequence

import numpy as np

from ..._src.core.dtypes import float64
from ..._src.core.exchange import as_tensor, tensor
from ..._src.core.native import Tensor
from ..._src.core.op import OPS

stack = OPS["stack"]


def collate(batch, *, collate_fn_map=None):
    """Samples as one batch: containers are kept, and their leaves joined by the functions of ``collate_fn_map`` (class
    or classes -> function of a list and the map).  TypeError for other leaves, RuntimeError for sequences of different
    lengths."""
    first = batch[0]
    functions = collate_fn_map or {}
    joined = functions.get(type(first)) or next((f for kind, f in functions.items() if isinstance(first, kind)), None)
    if joined is not None:
        return joined(batch, collate_fn_map=collate_fn_map)

    def columns():
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [collate(parts, collate_fn_map=collate_fn_map) for parts in zip(*batch)]

    if isinstance(first, Mapping):
        rows = {key: collate([b[key] for b in batch], collate_fn_map=collate_fn_map) for key in first}
        return like(first, rows)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*columns())
    if isinstance(first, Sequence):
        return columns()
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}")


def like(mapping, rows: dict):
    """A mapping of the same class with other values; a dict where the class has its own way of being made."""
    if isinstance(mapping, MutableMapping):
        made = copy.copy(mapping)
        made.update(rows)
        return made
    try:
        return type(mapping)(rows)
    except TypeError:
        return rows


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Tensors stacked."""
    return stack(list(batch))


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """Stack arrays as one tensor.  TypeError for arrays of strings or objects."""
    if np_str_obj_array_pattern.search(batch[0].dtype.str) is not None:
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
            f"{batch[0].dtype}")
    return collate([as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    """NumPy's numbers as one tensor."""
    return as_tensor(np.asarray(batch))


def collate_float_fn(batch, *, collate_fn_map=None):
    """Floats as one tensor of float64."""
    return tensor(batch, dtype=float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    """Integers as one tensor."""
    return tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    """Return strings unchanged."""
    return batch


np_str_obj_array_pattern = re.compile("[SaUO]")
default_collate_fn_map = {Tensor: collate_tensor_fn, np.ndarray: collate_numpy_array_fn,
                          (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
                          float: collate_float_fn, int: collate_int_fn, str: collate_str_fn, bytes: collate_str_fn}


def default_collate(batch):
    """Samples stacked: tensors, arrays and numbers become tensors; containers are kept.

    >>> from rushlight.utils.data import default_collate
    >>> default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def default_convert(data):
    """Arrays within containers as tensors."""
    if isinstance(data, np.ndarray) and data.dtype.kind not in "SUO":
        return as_tensor(data)
    if isinstance(data, Mapping):
        return {k: default_convert(v) for k, v in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, (list, tuple)):
        return type(data)(map(default_convert, data)) if isinstance(data, list) else [default_convert(v) for v in data]
    return data


def pinned(data):
    """Return data with all tensors replaced by ``pin_memory()``.  Other objects with such a method are pinned, too."""
    if isinstance(data, Tensor):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return like(data, {key: pinned(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(pinned, data))
    if isinstance(data, tuple):
        return [pinned(one) for one in data]  # as PyTorch does it
    if isinstance(data, Sequence):
        try:
            return type(data)([pinned(one) for one in data])
        except TypeError:
            return [pinned(one) for one in data]
    return data.pin_memory() if hasattr(data, "pin_memory") else data
