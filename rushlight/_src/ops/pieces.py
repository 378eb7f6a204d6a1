"""Concatenation and splitting of tensors: cat, stack, split, chunk, meshgrid and others."""
from __future__ import annotations

from ..core.advice import warn
from ..core.convert import contiguous_format
from ..core.dtypes import int64
from ..core.errors import JoinError, OutOfMemoryError
from ..core.expectations import at_most, equal, expect
from ..core.kinds import P
from ..core.meta import broadcast
from ..core.native import GradNode, history, mine, state
from ..core.native.objects import FUNCTION
from ..core.op import op, sample
from ..core.tensor import Tensor, count_apart, wrapped
from .promotion import promoted
from .shape import expand
from .slices import bounds, narrow, select


def list_of_tensors(name, tensors) -> list:
    """Return the items of a sequence; TypeError for a tensor, or for an item that is none."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}")
    for k, item in enumerate(tensors):
        if not isinstance(item, Tensor):
            raise TypeError(f"{name}(): expected Tensor as element {k} in argument 0, but got {type(item).__name__}")
    return list(tensors)


def some(name, tensors) -> list:
    """Like list_of_tensors; RuntimeError for an empty sequence."""
    if isinstance(tensors, (list, tuple)) and not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return list_of_tensors(name, tensors)


def joined(tensors, dim):
    return P.cat(tuple(tensors), dim=dim)


@op(samples=(sample([(2, 3), (4, 3)]),), method=False, moves=True)
def cat(tensors, dim=0):
    """Concatenate tensors along a dimension; legacy empty vectors are skipped.

    [..., n, ...], [..., m, ...] -> [..., n + m, ...] in the dtype to which all promote.  RuntimeError where other
    dimensions differ.

    >>> torch.cat([torch.zeros(2, 3), torch.ones(1, 3)]).shape
    torch.Size([3, 3])
    """
    tensors = list_of_tensors("cat", tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    real = [x for x in tensors if tuple(x.shape) != (0,)] or tensors[:1]
    real = list(promoted(*tensors))[:] if len(tensors) > 1 and len(real) == len(tensors) else [
        P.convert(x, dtype=promoted_dtype(tensors)) if x.dtype is not promoted_dtype(tensors) else x for x in real]
    if not real[0].shape:
        raise JoinError("zero-dimensional tensor (at position 0) cannot be concatenated")
    at = wrapped(dim, len(real[0].shape))
    for k, x in enumerate(real[1:], 1):
        if len(x.shape) != len(real[0].shape):
            raise JoinError(f"Tensors must have same number of dimensions: got {len(real[0].shape)} and {len(x.shape)}",
                            "one rank", "unsqueeze the smaller ones, or stack()")
        for d, (a, b) in enumerate(zip(real[0].shape, x.shape)):
            if d != at and a != b:
                raise JoinError(
                    f"Sizes of tensors must match except in dimension {at}. Expected size {a} but got size {b} for "
                    f"tensor number {k} in the list.",
                    f"shapes like {list(real[0].shape)} but for dimension {at}", "join along another dimension, or pad")
    return joined(real, at) if len(real) > 1 else P.mul(real[0], 1) if real[0].dtype.name != "bool" else P.logical_and(
        real[0], True)


def promoted_dtype(tensors):
    from .promotion import result_dtype
    return result_dtype(*tensors)


@op(samples=(sample([(2, 3), (2, 3)]),), method=False)
def stack(tensors, dim=0):
    """Stack tensors of one shape along a new dimension.

    k of [*, *] -> [*, k, *], k at ``dim``.  RuntimeError where shapes differ.

    >>> torch.stack([torch.zeros(3), torch.ones(3)], dim=1).shape
    torch.Size([3, 2])
    """
    tensors = some("stack", tensors)
    at = wrapped(dim, len(tensors[0].shape) + 1)
    for k, x in enumerate(tensors):
        if tuple(x.shape) != tuple(tensors[0].shape):
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and "
                f"{list(x.shape)} at entry {k}")
    tensors = list(promoted(*tensors)) if len(tensors) > 1 else tensors
    return joined([P.reshape(x, shape=(*x.shape[:at], 1, *x.shape[at:])) for x in tensors], at)


# --- several results: composed of the views above ---------------------------------------------------------------------
def multiple(input, views, name: str, joined) -> tuple:
    """Return the views of ``input`` that the operator ``name`` makes.  Tensors with storage record that they are
    several, and share one node, whose gradient is ``joined`` from the views' gradients."""
    if mine.grad:
        for view in views:
            if view._rush_storage is not None:
                history.note_multiple(view)
        recorded = [view._rush_storage is not None and view._rush_grad_node is not None for view in views]
        if recorded and all(recorded):
            share_node(input, views, name, joined)
    return tuple(views)


def share_node(input, views, name: str, joined):
    """Give the views of a tensor one node: its hooks get None for undefined gradients of views, and the gradient of
    ``input`` is computed once, not once for each view."""
    node, metas = GradNode(), tuple(view._rush_meta for view in views)
    node.kind, node.outputs, node.extra = FUNCTION, metas, f"{name}Backward0"
    node.edges, node.slots = (history.edge(input),), (input._rush_output,)

    def differentiate(*gradients):
        known = next(g for g in gradients if g is not None)
        return (joined([known.new_zeros(tuple(meta.shape)) if g is None else g for g, meta in zip(gradients, metas)]),)

    node.function = differentiate
    state.sequence += 1
    node.number = state.sequence
    if state.anomaly:
        state.watch(node, None)
    for slot, view in enumerate(views):
        view._rush_grad_node, view._rush_output = node, slot


@op(composite=True, aliases={"tensor": "input", "split_size": "split_size_or_sections",
                             "split_sizes": "split_size_or_sections"})
def split(input, split_size_or_sections, dim=0):
    """Split along a dimension into parts of one size, or of the given sizes."""
    at = wrapped(dim, input.dim())
    if not input.dim():
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    total, sizes = input.size(at), split_size_or_sections
    if not isinstance(sizes, (list, tuple)):
        if sizes < 0:
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={sizes}")
        if sizes == 0 and total != 0:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}")
        count = int(-(-total // sizes)) if sizes and total else 1
        sizes = [*[sizes] * (count - 1), total - sizes * (count - 1)] if count > 1 else [total]
    else:
        for condition in (*(at_most(0, s) for s in sizes), equal(sum(sizes), total)):
            expect(condition, lambda: RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at dimension "
                f"{at}), but got split_sizes={list(sizes)}"))
    out, start = [], 0
    for size in sizes:
        out.append(narrow(input, at, start, size))
        start += size
    name = "SplitWithSizes" if isinstance(split_size_or_sections, (list, tuple)) else "Split"
    return multiple(input, out, name, lambda gradients: cat(gradients, at))


@op(composite=True)
def split_with_sizes(input, split_sizes, dim=0):
    """Split into parts of the given sizes."""
    return split(input, tuple(split_sizes), dim)


def copies_of(name, function):
    def body(input, *args, **kwargs):
        return tuple(part.clone(memory_format=contiguous_format) for part in function(input, *args, **kwargs))
    body.__name__, body.__doc__ = f"{name}_copy", f"{name}, copied."
    return op(body, composite=True, method=False)


@op(composite=True)
def chunk(input, chunks, dim=0):
    """Split into at most ``chunks`` parts of equal size; the last one may be smaller.

    Views.

    >>> torch.arange(5).chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if not input.dim():
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    size = -(-input.size(dim) // chunks)
    if size == 0:
        return tuple(narrow(input, dim, 0, 0) for _ in range(chunks))
    return split(input, size, dim)


MOST_PARTS = 1 << 31  # of a tensor: no memory holds more
CUTS = dict.fromkeys(("indices", "sections", "tensor_indices_or_sections"), "indices_or_sections")


@op(composite=True, aliases=CUTS)
def tensor_split(input, indices_or_sections, dim=0):
    """Split into parts of nearly equal size, or at the given indices."""
    if not input.dim():
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    total, cuts = input.size(dim), indices_or_sections
    if isinstance(cuts, Tensor):
        if not cuts.device.provider.on_host or cuts.dtype is not int64 or cuts.dim() > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a 0-d or 1-d int64 tensor on the cpu")
        cuts = cuts.tolist()
    if isinstance(cuts, int):
        if cuts <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {cuts}")
        if cuts > MOST_PARTS:
            raise OutOfMemoryError(f"tensor_split: {cuts} parts do not fit into memory", f"at most {MOST_PARTS}")
        base, more = total // cuts, total % cuts
        cuts = [k * base + min(k, more) for k in range(1, cuts)]
    spans = [bounds(a, b, None, total)[:2] for a, b in zip([None, *cuts], [*cuts, None])]
    return tuple(narrow(input, dim, a, max(0, b - a)) for a, b in spans)


def cut_by(name, at, least):
    def body(input, indices_or_sections):
        if input.dim() < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension{'s' * (least > 1)}, but got a tensor "
                f"with {input.dim()} dimensions!")
        dim = 0 if name == "hsplit" and input.dim() == 1 else at
        if isinstance(indices_or_sections, int) and (indices_or_sections <= 0 or input.size(dim) % indices_or_sections):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
                f"{input.size(dim)} is not divisible by the split_size {indices_or_sections}!")
        return tensor_split(input, indices_or_sections, dim)
    body.__name__, body.__doc__ = name, f"tensor_split along dimension {at}."
    return op(body, composite=True, aliases=CUTS)


hsplit, vsplit, dsplit = cut_by("hsplit", 1, 1), cut_by("vsplit", 0, 2), cut_by("dsplit", 2, 3)


@op(composite=True)
def unbind(input, dim=0):
    """The slices along a dimension, as a tuple."""
    if not input.dim():
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    views = [select(input, dim, k) for k in range(input.size(dim))]
    return multiple(input, views, "Unbind", lambda gradients: stack(gradients, dim))


for _name, _function in {"unbind": unbind, "split": split, "split_with_sizes": split_with_sizes}.items():
    copies_of(_name, _function)


def unsafe(name, function):
    """Declare a split whose parts are not views for in-place checks: each has its own version counter."""
    def body(input, *args, **kwargs):
        parts = function(input, *args, **kwargs)
        for part in () if mine.inference else parts:
            if part._rush_storage is not None and part._base is not None:
                part._base, part._rush_seen = None, 0
                count_apart(part, 0)
        return parts
    body.__name__ = f"unsafe_{name}"
    body.__doc__ = f"{name}, whose results count as no views: whoever writes one reads neither input nor others again."
    return op(body, composite=True)


for _name, _function in {"chunk": chunk, "split": split, "split_with_sizes": split_with_sizes}.items():
    unsafe(_name, _function)


@op(composite=True, method=False)
def meshgrid(*tensors, indexing=None):
    """Coordinates of the grid spanned by vectors."""
    tensors = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if any(x.dim() > 1 for x in tensors):
        raise RuntimeError("torch.meshgrid: Expected 0D or 1D tensor in the tensor list")
    if any(x.dtype is not tensors[0].dtype for x in tensors):
        raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    if indexing is None:
        warn("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument: 'ij' as "
             "here, or 'xy'.")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    swap = indexing == "xy" and len(tensors) > 1
    if swap:
        tensors[0], tensors[1] = tensors[1], tensors[0]
    shape = tuple(x.numel() for x in tensors)
    grids = [x.reshape([-1 if j == k else 1 for j in range(len(shape))]).expand(shape) for k, x in enumerate(tensors)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@op(composite=True, method=False)
def broadcast_tensors(*tensors):
    """Every tensor expanded to the common shape."""
    tensors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    shape = broadcast(*(x.shape for x in tensors))
    return tuple(expand(x, shape) for x in tensors)


def with_rank(name, rank, place):
    def body(*tensors):
        many = len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
        out = tuple(place(x) for x in (tensors[0] if many else tensors))
        return out if many or len(out) != 1 else out[0]
    body.__name__, body.__doc__ = name, f"Tensors with at least {rank} dimension(s)."
    return op(body, composite=True, method=False)


def two(x):
    return x if x.dim() > 1 else x.reshape(1, -1)


def three(x):
    return x if x.dim() > 2 else x.unsqueeze(-1) if x.dim() == 2 else x.reshape(1, -1, 1)


atleast_1d = with_rank("atleast_1d", 1, lambda x: x if x.dim() else x.reshape(1))
atleast_2d, atleast_3d = with_rank("atleast_2d", 2, two), with_rank("atleast_3d", 3, three)


@op(composite=True, method=False)
def hstack(tensors):
    """Concatenate along the second dimension (vectors: the first)."""
    tensors = some("hstack", tensors)
    tensors = [x if x.dim() else x.reshape(1) for x in tensors]
    return cat(tensors, 0 if tensors[0].dim() == 1 else 1)


@op(composite=True, method=False)
def vstack(tensors):
    """Concatenate along the first dimension."""
    return cat([two(x) for x in some("vstack", tensors)], 0)


@op(composite=True, method=False)
def dstack(tensors):
    """Concatenate along the third dimension."""
    return cat([three(x) for x in some("dstack", tensors)], 2)


@op(composite=True, method=False)
def column_stack(tensors):
    """Concatenate vectors as columns."""
    return hstack([x if x.dim() > 1 else x.reshape(-1, 1) for x in some("column_stack", tensors)])
