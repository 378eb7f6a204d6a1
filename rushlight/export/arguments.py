"""Dynamic shapes of nested tensors, and data classes as arguments."""
from __future__ import annotations

import dataclasses
import re

from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten, tree_unflatten
from ..utils.pytree_dataclasses import register_dataclass as register_fields_of
from .dims import Dim
from .shape_entries import bind_arguments


class ShapesCollection:
    """``dynamic_shapes`` by tensor, instead of by the place of the argument: ``shapes[tensor] = {0: Dim("batch")}``.

    >>> import rushlight as torch
    >>> shapes, x = torch.export.ShapesCollection(), torch.ones(4, 3)
    >>> shapes[x] = {0: torch.export.Dim("batch")}
    >>> torch.export.export(torch.nn.Linear(3, 2), (x,), dynamic_shapes=shapes).module()(torch.ones(7, 3)).shape
    torch.Size([7, 2])
    """

    def __init__(self):
        self.entries: dict = {}  # id of a tensor -> (the tensor, its entry)

    def __setitem__(self, tensor, shape):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"a ShapesCollection has sizes of tensors, not of a {type(tensor).__name__}")
        known = self.entries.setdefault(id(tensor), (tensor, shape))[1]
        if known != shape:
            raise AssertionError(f"Shapes assigned to a tensor don't match: expected {known}, got {shape}")

    def __getitem__(self, tensor):
        return self.entries[id(tensor)][1]

    def __len__(self):
        return len(self.entries)

    def dynamic_shapes(self, m, args, kwargs=None):
        """The same in order and by name of the arguments.  ValueError for a tensor that is none of them."""
        leaves, spec = tree_flatten(dict(bind_arguments(m, args, kwargs)))
        missing = set(self.entries) - set(map(id, leaves))
        if missing:
            raise ValueError(f"{len(missing)} of the tensors in a ShapesCollection are not among the arguments")
        return tree_unflatten([self.entries[id(leaf)][1] if id(leaf) in self.entries else None for leaf in leaves],
                              spec)


class AdditionalInputs:
    """``dynamic_shapes`` by further examples: sizes that differ among them and the arguments of ``export`` vary.

    >>> import rushlight as torch
    >>> more, x = torch.export.AdditionalInputs(), torch.ones(4, 3)
    >>> more.add((torch.ones(7, 3),))
    >>> torch.export.export(torch.nn.Linear(3, 2), (x,), dynamic_shapes=more).module()(torch.ones(9, 3)).shape
    torch.Size([9, 2])
    """

    def __init__(self):
        self._examples: list = []

    def add(self, args: tuple, kwargs=None):
        """Adds the arguments of a call.  TypeError for what is no tuple and no dict."""
        if not isinstance(args, tuple):
            raise TypeError(f"Representation of args should be a tuple, got {type(args).__name__}")
        if not isinstance(kwargs, (dict, type(None))):
            raise TypeError(f"Representation of kwargs should be None or a dict, got {type(kwargs).__name__}")
        self._examples.append((args, kwargs or {}))

    def dynamic_shapes(self, m, args, kwargs=None) -> dict:
        """Return the dynamic shapes of each argument, by name, from the examples.  ValueError for one of another
        structure or rank, or with other non-tensor values."""
        bound = [bind_arguments(m, *example) for example in ((args, kwargs), *self._examples)]
        flat = [tree_flatten(dict(one)) for one in bound]
        if any(spec != flat[0][1] for _, spec in flat):
            raise ValueError("additional inputs are not nested as the arguments are")
        return tree_unflatten([differing(rows) for rows in zip(*(leaves for leaves, _ in flat))], flat[0][1])

    def verify(self, ep):
        """Calls the program with each example; it raises where one does not fit."""
        module = ep.module()
        for args, kwargs in self._examples:
            module(*args, **kwargs)


def differing(rows: tuple):
    """{dimension: Dim.DYNAMIC} of tensors at one place in several examples, Dim.DYNAMIC of ints that differ; None for
    other arguments."""
    if all(type(one) is int for one in rows):
        return Dim.DYNAMIC if len(set(rows)) > 1 else None
    if not all(isinstance(one, Tensor) for one in rows):
        if any(isinstance(one, Tensor) or one != rows[0] for one in rows):
            raise ValueError(f"the same argument is {rows[0]!r} in one example, and another value in a further one")
        return None
    if len({one.dim() for one in rows}) > 1:
        raise ValueError(f"tensors of different ranks for one argument: {[tuple(one.shape) for one in rows]}")
    return {k: Dim.DYNAMIC for k, sizes in enumerate(zip(*(one.shape for one in rows))) if len(set(sizes)) > 1}


def path_name(name: str, path: tuple) -> str:
    """Return the name of a leaf of an argument: the argument, and the keys, indices and attributes on the path to it.
    """
    parts = [next(str(getattr(key, kind)) for kind in ("key", "idx", "name") if hasattr(key, kind)) for key in path]
    return "_".join([name, *(re.sub(r"[^a-zA-Z0-9]", "_", part).lower() for part in parts)])


def register_dataclass(cls, *, serialized_type_name=None):
    """Register a dataclass as a container of its fields, so that its instances can be arguments and results;
    ``serialized_type_name`` is its name in files (default: its path).  Fields that are None are part of the nesting.
    AssertionError for other classes.

    >>> import rushlight as torch, dataclasses
    >>> @dataclasses.dataclass
    ... class Pair:
    ...     a: torch.Tensor
    ...     b: torch.Tensor
    >>> torch.export.register_dataclass(Pair)
    >>> torch.utils._pytree.tree_leaves(Pair(1, 2))
    [1, 2]
    """
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")
    register_fields_of(cls, serialized_type_name=serialized_type_name)
