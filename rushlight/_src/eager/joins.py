"""Concatenate or stack tensors by copying, without a program for their lengths or number."""
from __future__ import annotations

from ..core.kinds import P
from ..core.meta import Meta
from ..core.native import GradNode, Tensor, history, join, mine, state
from ..core.native.objects import FUNCTION
from ..core.op import OPS
from ..core.tensor import check_size, empty_of

SEEN = 8          # calls of one key after which it gets its own plan
MOST_PLANNED = 32  # tensors that such a plan joins
REMEMBERED = 4096  # keys that are counted


def directly(op, args, names, key):
    """Return a function that answers a call of ``cat`` or ``stack`` by copying, or None if it should be planned: for
    keys that recur, and all but dense tensors of one dtype."""
    new = op is OPS["stack"]
    found = layout(new, *args) if not names and 0 < len(args) < 3 else layout(new, args[0], key[1]) if names == (
        "dim",) and len(args) == 2 else None
    if found is None:
        return None
    counts, mark = op.caches.setdefault("counts", {}), hash(key)
    if len(counts) >= REMEMBERED:
        counts.clear()
    counts[mark] = counts.get(mark, 0) + 1
    if counts[mark] >= SEEN and len(args[0]) <= MOST_PLANNED:
        return None
    return lambda args, names: joined(args[0], new, *found)


def layout(new: bool, tensors, dim=0):
    """Return (dimension, Meta of the result), or None if tensors or the result are not row-major, or dtypes or sizes
    differ. ``new``: whether the dimension is one that the tensors do not have."""
    if (type(tensors) not in (tuple, list) or not tensors or type(dim) is not int
        or not all(type(x) is state.tensor or type(x) is state.parameter for x in tensors)):
        return None
    metas = [x._rush_meta for x in tensors]
    first = metas[0]
    rank = len(first.shape)
    if not -rank - new <= dim < rank + new:
        return None
    at = dim % (rank + new)
    for meta in set(metas):
        alike = (len(meta.shape) == rank and meta.dtype is first.dtype and meta.contiguous and not meta.turned
                 and meta.device is first.device and first.device.provider.on_host)
        if not alike or any((new or k != at) and a != b
                            for k, (a, b) in enumerate(zip(meta.shape, first.shape))) or not meta.numel:
            return None
    if new:
        return at, Meta.of((*first.shape[:at], len(metas), *first.shape[at:]), first.dtype, first.device)
    found = P.cat.kind.meta(P.cat, metas, at)
    return (at, found) if found.contiguous else None


def joined(tensors, new: bool, at: int, meta: Meta) -> Tensor:
    """Join tensors along a dimension, which is a ``new`` one or theirs, with their history."""
    check_size(meta)
    made, rows = empty_of(meta), 1
    for size in meta.shape[:at]:
        rows *= size
    join.copy_rows(tuple(tensors), made._rush_storage.address, rows, meta.nbytes // rows)
    if mine.grad and meta.dtype.is_inexact:
        give_node(made, tensors, new, at)
    return made


def give_node(made: Tensor, tensors, new: bool, at: int):
    """Give a result its autograd node: each gradient is a slice."""
    edges = tuple(map(history.edge, tensors))
    if all(edge is None for edge in edges):
        return
    sizes = None if new else [x._rush_meta.shape[at] for x in tensors]
    node = GradNode()
    node.kind, node.outputs, node.extra = FUNCTION, (made._rush_meta,), "StackBackward0" if new else "CatBackward0"
    node.edges, node.slots = edges, tuple(x._rush_output for x in tensors)

    def function(gradient):
        parts = OPS["unbind"](gradient, at) if new else OPS["split_with_sizes"](gradient, sizes, at)
        return tuple(None if edge is None else part for edge, part in zip(edges, parts))

    node.function = function
    state.sequence += 1
    node.number = state.sequence
    made._rush_grad_node, made._rush_output, made._rush_needs_grad = node, 0, 1
