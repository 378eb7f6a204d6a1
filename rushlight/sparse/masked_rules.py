"""Masked operators of sparse tensors, and with sparse masks: the result has a value where the mask of the result holds.

Those of sparse tensors see the elements where the mask holds, in groups that the operator combines; no dense tensor has
the sizes of the input.
"""
from __future__ import annotations

from .._src.core.convert import sparse_coo, sparse_csr
from .._src.core.errors import UnsupportedLayoutError
from .._src.core.op import OPS
from ..masked.masks import AFTER_ORDER, ELEMENTWISE, REDUCTIONS, _canonical_dim, dense
from .conversion import sort_rows
from .indices import ravel, unravel
from .rules import rule
from .tensor import Coo, Sparse, look_up, made

ZERO_IS_NEUTRAL = ("sum", "norm")  # without a mask, elements that are not kept count as 0


def enter(name):
    operator = OPS[f"masked.{name}"]

    def call(input, *args, mask=None, **kwargs):
        if not isinstance(input, Sparse):
            return operator(input, *args, mask=dense(mask), **kwargs)
        layout = input.layout
        if layout not in (sparse_coo, sparse_csr):
            raise UnsupportedLayoutError(f"masked.{name}: not implemented for the layout {layout}",
                                         "torch.sparse_coo or torch.sparse_csr", "convert with to_dense() first")
        if layout is sparse_csr and name in REDUCTIONS and not kwargs.get("keepdim"):
            raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
        if mask is None and name not in ZERO_IS_NEUTRAL:
            raise ValueError(f"masked {name} expects explicit mask for {layout.name} tensor input")
        found = combine_groups(name, operator, where_masked(input, mask), args, dict(kwargs))
        return found if layout is sparse_coo else found.to_sparse_csr()

    call.__name__, call.__doc__ = name, f"masked.{name} in the layout of its input."
    rule(f"masked.{name}")(call)


def where_masked(input, mask):
    """The elements of a sparse tensor where a mask holds, 0 where it has none, by coordinates; all without a mask."""
    own = sort_rows(input).expand_dense()
    if mask is None:
        return own
    if tuple(mask.shape) != tuple(input.shape):
        mask = dense(mask).expand(tuple(input.shape))
    if isinstance(mask, Sparse):
        held = sort_rows(mask).expand_dense()
        at = held.positions[:, held.elements.nonzero().reshape(-1)]
    else:
        at = mask.nonzero().t()
    return made(Coo, input.shape, look_up(own, ravel(at, tuple(input.shape))), positions=at, coalesced=True)


def combine_groups(name, operator, x, args, kwargs):
    """A masked operator over the elements of a COO tensor that differ in the named dimensions alone."""
    first = int(name in AFTER_ORDER)
    dim = args[first] if len(args) > first else kwargs.pop("dim", -1 if name == "median" else None)
    order, rest = args[:first], args[first + 1:]
    reduces, keepdim = name in REDUCTIONS, bool(kwargs.pop("keepdim", False))
    dims = _canonical_dim(dim, x.dim())
    left = [d for d in range(x.dim()) if d not in dims]
    sizes = [x.shape[d] for d in left]
    group = ravel(x.positions[left], sizes)
    ordered = OPS["argsort"](group, stable=True)
    groups, counts = OPS["unique"](group, return_counts=True)
    parts, members = [], []
    for rows, at, valid in padded_groups(counts):
        values = x.elements[ordered[at]]
        found = operator(values, *order, 1, *rest, mask=valid, **kwargs)
        if name in ("argmax", "argmin"):
            inner = ravel(x.positions[list(dims)], [x.shape[d] for d in dims])[ordered]
            found = inner[at.gather(1, found.long().unsqueeze(1)).squeeze(1)].to(found.dtype)
        parts.append(found if reduces else found[valid])
        members.append(rows if reduces else ordered[at[valid]])
    if not parts:
        one = x.elements.new_zeros((1, 1))
        parts = [operator(one, *order, 1, *rest, mask=OPS["ones_like"](one).bool(), **kwargs).reshape(-1)[:0]]
        members = [group]
    back = OPS["argsort"](OPS["cat"](members))
    elements = OPS["cat"](parts)[back]
    if not reduces:
        return x.with_elements(elements)
    positions = unravel(groups, sizes)
    if keepdim and x.dim():
        zeros = groups.new_zeros(groups.size(0))
        positions = OPS["stack"]([positions[left.index(d)] if d in left else zeros for d in range(x.dim())])
        sizes = [x.shape[d] if d in left else 1 for d in range(x.dim())]
    return made(Coo, sizes, elements, positions=positions, coalesced=True)


def padded_groups(counts):
    """For groups of like lengths: (their indices, the index of each of their elements [groups, longest], which of these
    exist).  Groups of a length over half the longest are together, so that padding at most doubles the elements."""
    starts = counts.cumsum(0) - counts
    longest = 1
    while counts.numel() and longest < 2 * int(counts.max()):
        rows = ((counts <= longest) & (2 * counts > longest)).nonzero().reshape(-1)
        if rows.numel():
            within = OPS["arange"](longest)
            valid = within < counts[rows].unsqueeze(1)
            yield rows, OPS["where"](valid, starts[rows].unsqueeze(1) + within, starts[rows].unsqueeze(1)), valid
        longest *= 2


for _name in (*REDUCTIONS, *ELEMENTWISE):
    if f"masked.{_name}" in OPS:
        enter(_name)
