"""Sizes that vary, said of tensors wherever they are nested; and classes of data as arguments."""
from __future__ import annotations

import dataclasses

from .._src.core.native import Tensor
from .._src.core.pytree import register_pytree_node, tree_flatten, tree_unflatten


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
        import inspect
        names = list(inspect.signature(getattr(m, "forward", m)).parameters)
        given = {**dict(zip(names, args)), **(kwargs or {})}
        leaves, spec = tree_flatten(given)
        missing = set(self.entries) - set(map(id, leaves))
        if missing:
            raise ValueError(f"{len(missing)} of the tensors in a ShapesCollection are not among the arguments")
        return tree_unflatten([self.entries[id(leaf)][1] if id(leaf) in self.entries else None for leaf in leaves],
                              spec)


def register_dataclass(cls, *, serialized_type_name=None):
    """Makes a class of data a container of its fields, so that its instances can be arguments and results.
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
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    register_pytree_node(cls, lambda value: ([getattr(value, name) for name in names], None),
                         lambda children, _: cls(**dict(zip(names, children))))
