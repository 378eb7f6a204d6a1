"""Masks of what masked operators take and give, for tensors of all layouts."""
from __future__ import annotations

from .._src import flat as torch
from .._src.core.tensor import wrapped

REDUCTIONS = ("sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "logsumexp", "norm", "var", "std")
ELEMENTWISE = ("softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod")
AFTER_ORDER = ("norm", "normalize")  # the order precedes their dimensions


def dense(x):
    """A tensor of any layout as a strided one; what is no tensor as it is."""
    return x if not isinstance(x, torch.Tensor) or x.layout is torch.strided else x.to_dense()


def _canonical_dim(dim, ndim: int) -> tuple:
    """Dimensions as numbers from 0 on, in order; None and () mean all.  RuntimeError for one that is named twice,
    IndexError for one that is not there.

    >>> _canonical_dim(-1, 3), _canonical_dim(None, 2)
    ((2,), (0, 1))
    """
    if dim is None or dim == ():
        return tuple(range(ndim))
    found = [wrapped(d, max(ndim, 1)) for d in ((dim,) if isinstance(dim, int) else dim)]
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
    return tuple(sorted(found))


def _input_mask(input, *args, mask=None, **kwargs):
    """The mask of an operator's input, as large as it and of its layout.  ValueError without a mask, and for one that
    has more dimensions or does not fit."""
    if mask is None:
        raise ValueError("requires explicit mask")
    if mask.shape != input.shape and mask.dim() > input.dim():
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    found = torch.broadcast_to(dense(mask), tuple(input.shape)).to(torch.bool)
    return found if input.layout is torch.strided else kept_as(found, found, input.layout)


def _output_mask(op, input, *args, **kwargs):
    """Return the mask of a masked operator's result: for a reduction, where the mask holds for any reduced element;
    for others, the mask itself.  ValueError for an operator that is not masked."""
    name, mask = getattr(op, "__name__", str(op)), dense(_input_mask(input, *args, **kwargs))
    if name in ELEMENTWISE:
        return mask
    if name not in REDUCTIONS:
        raise ValueError(f"_output_mask expected masked operation (got callable {name})")
    after = args[1:] if name in AFTER_ORDER else args
    dim = after[0] if after else kwargs.get("dim", -1 if name == "median" else None)
    dims = _canonical_dim(dim, input.dim())
    return mask.any(dims, keepdim=bool(kwargs.get("keepdim", False))) if dims else mask


def kept_as(values, where, layout):
    """A sparse tensor of ``values`` at the places where a mask holds."""
    places = where.nonzero().t()
    found = torch.sparse_coo_tensor(places, values[tuple(places)] if places.size(0) else values[where],
                                    tuple(values.shape), is_coalesced=True)
    return found if layout is torch.sparse_coo else found.to_sparse_csr()


def _where(mask, input, fill_value):
    """``torch.where(mask, input, fill_value)`` in the layout of the mask: a sparse one leaves out where it is False,
    but for the dense dimensions of hybrid tensors, which take ``fill_value`` there."""
    if mask.layout is torch.strided:
        return torch.where(mask, input, fill_value)
    held, values = dense(mask), dense(input)
    if mask.layout is not torch.sparse_coo or mask.dense_dim() == 0:
        return kept_as(values, held, mask.layout)
    inner = tuple(range(mask.sparse_dim(), mask.dim()))
    places = held.any(inner).nonzero().t()
    filled = torch.where(held, values, fill_value)
    return torch.sparse_coo_tensor(places, filled[tuple(places)], tuple(values.shape), is_coalesced=True)


def _combine_input_and_mask(op, input, mask, *args):
    """The input with the operator's neutral element where the mask does not hold; the input without a mask."""
    if mask is None:
        return input
    neutral = _reduction_identity(op if isinstance(op, str) else op.__name__, input, *args)
    return _where(_input_mask(input, mask=mask), input, neutral)


def _reduction_identity(op_name: str, input, *args):
    """The neutral element of a reduction as a tensor without dimensions; None for those that have none."""
    from .._src.core.dtypes import bound
    from .._src.ops.masked import norm_neutral
    name, dtype = op_name.rpartition(".")[2], input.dtype
    if name in ("mean", "var", "std", "median"):
        return None
    if name in ("sum", "cumsum", "prod", "cumprod"):
        value = 1 if "prod" in name else 0
    elif name == "norm":
        value = norm_neutral(args[0] if args else 2)
    else:
        value = bound(dtype, name in ("amin", "argmin", "softmin"))
    return torch.tensor(value, dtype=dtype, device=input.device)
