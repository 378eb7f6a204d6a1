"""Elementwise multiplication and division of sparse tensors, with broadcasting."""
from __future__ import annotations

from .._src.core.dtypes import promote
from .._src.core.errors import UnsupportedLayoutError
from .._src.core.meta import broadcast, product
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .conversion import sort_rows
from .indices import match_keys, unravel
from .rules import laid_as, rule
from .tensor import Coo, Sparse, look_up, made


@rule("mul")
def mul(a, b):
    """Elements at positions that both have; of a sparse and a dense tensor, those of the sparse one."""
    if not isinstance(a, Sparse):
        a, b = b, a
    if not isinstance(b, Tensor) or not isinstance(b, Sparse) and not b.dim():
        return a.with_elements(a.elements * b)
    if isinstance(b, Sparse):
        return multiply_elements(a, b) if a.dim() and b.dim() else multiply_by_scalar(a, b)
    if isinstance(a, Coo):
        a = broadcast_coo(a, broadcast(tuple(a.shape), tuple(b.shape)))
    x = a.coo()
    return a.with_flat(x.elements * gather_broadcast(b, x))


def multiply_by_scalar(a, b):
    """Multiply two sparse tensors, at least one of them 0-dim."""
    if b.dim() or not a.dim() and a.coalesced:
        a, b = b, a
    elements, factor = a.elements, b.to_dense()
    if not a.dim():  # the elements of a scalar have a dimension, which would keep their dtype
        elements = elements.to(promote(elements.dtype, factor.dtype))
    return a.with_elements(elements * factor)


def broadcast_coo(x, shape):
    """A COO tensor of a shape to which it broadcasts: new dimensions are sparse and come first, and elements are
    repeated along sparse dimensions of size 1."""
    if tuple(x.shape) == tuple(shape):
        return x
    count, extra = x.sparse_dim(), len(shape) - x.dim()
    own, sizes = (*[1] * extra, *x.shape[:count]), shape[:extra + count]
    grown = [d for d, (a, b) in enumerate(zip(own, sizes)) if a != b]
    lead = [sizes[d] for d in grown]
    copies = product(lead)
    within = unravel(OPS["arange"](copies), lead).repeat_interleave(x._nnz(), 1)
    positions = OPS["cat"]([x.positions.new_zeros((extra, x._nnz())), x.positions]).repeat(1, copies)
    if grown:
        positions[grown] = within
    inner = tuple(shape[extra + count:])
    elements = x.elements.expand(copies, x._nnz(), *inner).reshape(copies * x._nnz(), *inner)
    return made(Coo, shape, elements, positions=positions,
                coalesced=x.coalesced and grown == list(range(len(grown))) or elements.size(0) < 2)


def gather_broadcast(b, x):
    """The elements of a dense tensor at the positions of a COO tensor, to whose sizes it broadcasts."""
    sizes, shape = tuple(b.shape), tuple(x.shape)
    if len(sizes) > len(shape) or any(n not in (1, m) for n, m in zip(sizes[::-1], shape[::-1])):
        raise RuntimeError(f"mul: expected a dense tensor that broadcasts to {list(shape)}, got sizes {list(sizes)}")
    outer = len(sizes) - x.elements.dim() + 1
    if outer <= 0:
        return b
    first = x.sparse_dim() - outer
    at = tuple(x.positions[first + k] * (sizes[k] > 1) for k in range(outer))
    return b[at]


def multiply_elements(a, b):
    """The product of two sparse tensors in the layout of the first: at positions that both have if both are coalesced,
    otherwise at all positions of the one that is not.  Dense dimensions broadcast."""
    x, y = a if isinstance(a, Coo) else sort_rows(a), b.coo()
    if a.dim() != b.dim() or tuple(a.shape[:x.sparse_dim()]) != tuple(b.shape[:x.sparse_dim()]):
        raise RuntimeError("mul: expected sparse tensors of one size in sparse dimensions, got "
                           f"{list(a.shape)} and {list(b.shape)}")
    shape = broadcast(tuple(a.shape), tuple(b.shape))
    if x.sparse_dim() != y.sparse_dim():
        raise RuntimeError(f"mul: expected as many sparse dimensions, got {x.sparse_dim()} and {y.sparse_dim()}")
    if not y.coalesced:
        found = look_up(x.coalesce(), y.flat()) * y.elements
        return laid_as(a, made(Coo, shape, found, positions=y.positions, coalesced=False))
    if not x.coalesced:
        found = x.elements * look_up(y, x.flat())
        return laid_as(a, made(Coo, shape, found, positions=x.positions, coalesced=False))
    kept, at = match_keys(x.flat(), y.flat())
    return laid_as(a, made(Coo, shape, x.elements[kept] * y.elements[at], positions=x.positions[:, kept],
                           coalesced=True))


@rule("div")
def div(a, b, *, rounding_mode=None):
    if not isinstance(a, Sparse) or isinstance(b, Sparse) or isinstance(b, Tensor) and b.dim():
        raise UnsupportedLayoutError("div: a sparse tensor is divided by a number or a tensor without dimensions",
                                     "a number", "convert with to_dense() first")
    return a.with_elements(OPS["div"](a.elements, b, rounding_mode=rounding_mode))
