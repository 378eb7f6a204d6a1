"""Sparse tensors under PyTorch's names: ``sparse.mm``, ``sparse.addmm``, ``sparse.sampled_addmm``, ``sparse.sum``,
``sparse.softmax``."""
from __future__ import annotations

from .._src.core.convert import sparse_coo, sparse_csc, sparse_csr, spell_layout
from .._src.core.dtypes import int64, type_name
from .._src.core.op import OPS
from .._src.core.tensor import wrapped
from .invariants import check_sparse_tensor_invariants
from .compressed import Csr
from .indices import ravel
from .products import addmm, mm
from .rules import total
from . import elementwise, masked_rules  # noqa: F401 - enter their rules
from .tensor import make_unordered, need_sparse
from .types import BFloat16Tensor, ByteTensor, CharTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor, ShortTensor  # noqa: F401


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """beta * input + alpha * (mat1 @ mat2) at the places that input (CSR) keeps.  input: [m, n], mat1: [m, k], mat2:
    [k, n]."""
    if out is not None:
        raise NotImplementedError("sampled_addmm: out is not supported; use the result")
    if not isinstance(input, Csr):
        raise RuntimeError(f"sampled_addmm: Expected self to have sparse csr layout, but got {input.layout}")
    if mat1.dim() != 2 or mat2.dim() != 2 or mat1.shape[1] != mat2.shape[0] or tuple(input.shape) != (mat1.shape[0],
                                                                                                      mat2.shape[1]):
        raise RuntimeError(
            f"sampled_addmm: sizes do not fit: input {list(input.shape)}, mat1 {list(mat1.shape)}, mat2 "
            f"{list(mat2.shape)}")
    rows, columns = input.coo().positions
    products = (mat1[rows] * mat2.t()[columns]).sum(-1)
    return input.with_elements(input.elements * beta + products * alpha)


def sum(input, dim=None, dtype=None):
    """The sum of all elements, or over dimensions: sparse while a sparse dimension is left."""
    need_sparse("sparse.sum", input)
    return total(input, dim, dtype=dtype)


def softmax(input, dim, *, dtype=None):
    """Softmax along a dimension of the elements that are kept; the others count as minus infinity."""
    need_sparse("sparse.softmax", input)
    x = input.coo().coalesce()
    elements = x.elements if dtype is None else x.elements.to(dtype)
    at = wrapped(dim, x.dim())
    if at >= x.sparse_dim():
        return x.with_elements(OPS["softmax"](elements, at - x.sparse_dim() + 1))
    return x.with_elements(OPS["exp"](in_groups(x, elements, at)))


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of ``softmax``."""
    need_sparse("sparse.log_softmax", input)
    x = input.coo().coalesce()
    elements = x.elements if dtype is None else x.elements.to(dtype)
    at = wrapped(dim, x.dim())
    return x.with_elements(OPS["log_softmax"](elements, at - x.sparse_dim() + 1) if at >= x.sparse_dim()
                           else in_groups(x, elements, at))


def in_groups(x, elements, at):
    """Logarithms of shares within the elements that differ in dimension ``at`` alone."""
    others = [k for k in range(x.sparse_dim()) if k != at]
    group = ravel(x.positions[others], [x.shape[k] for k in others])
    group = OPS["unique"](group, return_inverse=True)[1] if group.numel() else group
    count = int(group.max()) + 1 if group.numel() else 0
    empty = elements.detach().new_zeros((count, *elements.shape[1:]))
    high = empty.index_reduce(0, group, elements.detach(), "amax", include_self=False)
    away = elements - high[group]
    return away - empty.index_add(0, group, away.exp()).log()[group]


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix from rows of ``diagonals`` [n, length], each on the diagonal with its offset (0 the main one,
    positive above)."""
    check_diagonals(diagonals, offsets, shape, layout)
    rows, offsets = diagonals.reshape(-1, diagonals.shape[-1]), offsets.reshape(-1, 1)
    columns = OPS["arange"](rows.size(1)).expand(rows.size(0), rows.size(1))
    at = columns - offsets
    kept = (at >= 0) & (at < shape[0]) & (columns < shape[1])
    out = make_unordered(shape, rows[kept], OPS["stack"]([at[kept], columns[kept]]))
    return out.to_sparse(layout=layout) if layout is not None else out


def check_diagonals(diagonals, offsets, shape, layout):
    """RuntimeError for arguments of ``spdiags`` that do not fit."""
    if diagonals.dim() not in (1, 2):
        raise RuntimeError(f"Diagonals must be vector or matrix, got sizes {list(diagonals.shape)}")
    if len(shape) != 2:
        raise RuntimeError(f"Output shape must be 2d, got {list(shape)}")
    if offsets.dim() > 1:
        raise RuntimeError(f"Offsets must be scalar or vector, got sizes {list(offsets.shape)}")
    if offsets.dtype is not int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {type_name(offsets.dtype)}")
    count = diagonals.size(0) if diagonals.dim() == 2 else 1
    if count != offsets.numel():
        raise RuntimeError(
            f"Number of diagonals ({count}) does not match the number of offsets ({offsets.numel()})")
    if layout not in (None, sparse_coo, sparse_csc, sparse_csr):
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {spell_layout(layout)}")
    if len(set(offsets.reshape(-1).tolist())) != count:
        raise RuntimeError(f"Offset tensor contains duplicate values: {offsets.tolist()}")
