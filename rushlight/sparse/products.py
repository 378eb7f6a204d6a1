"""Matrix multiplication with sparse operands: every layout on either side, by the elements that are stored."""
from __future__ import annotations

from .._src.core.dtypes import bfloat16, bool_, float16, float32, type_name
from .._src.core.meta import product
from .._src.core.op import OPS
from .conversion import sort_rows
from .indices import match_keys, ravel
from .rules import add, rule, transpose
from .tensor import Coo, Sparse, make_unordered, need_sparse

REDUCTIONS = {None: None, "sum": None, "mean": "mean", "max": "amax", "min": "amin", "amax": "amax", "amin": "amin"}


@rule("mm", "matmul", "mv", "bmm")
def mm(a, b, reduce=None):
    """A matrix multiplication with one or two sparse operands; ``reduce`` replaces the sum over the terms of a row
    and a column.  Dense operands may be vectors or batches."""
    if reduce not in REDUCTIONS:
        raise ValueError(f"reduce is one of sum, mean, amax and amin, got {reduce!r}")
    check_operands(a, b)
    if not isinstance(a, Sparse):
        return swap_matrix(mm(swap_matrix(b), swap_matrix(a), reduce))
    if isinstance(b, Sparse):
        return multiply_sparse(a, b)
    if a.dim() > 2:
        return multiply_batch(a, b, REDUCTIONS[reduce])
    if b.dim() < 3:
        return combine_rows(a.coo(), b, REDUCTIONS[reduce])
    columns = b.movedim(-2, 0)
    others = tuple(columns.shape[1:])
    found = combine_rows(a.coo(), columns.reshape(b.shape[-2], product(others)), REDUCTIONS[reduce])
    return found.reshape(a.shape[0], *others).movedim(0, -2)


def check_operands(a, b):
    """RuntimeError unless two operands are matrices, or batches of them, that can be multiplied."""
    for x in (a, b):
        if isinstance(x, Sparse) and (x.dense_dim() or x.dim() < 2):
            raise RuntimeError(f"mm: matrices expected, got a sparse tensor of {x.sparse_dim()} sparse and "
                               f"{x.dense_dim()} dense dimensions")
    if not a.dim() or not b.dim() or a.shape[-1] != b.shape[-2 if b.dim() > 1 else 0]:
        raise RuntimeError(
            f"mm: mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a.shape))} and "
            f"{'x'.join(map(str, b.shape))})")
    if a.dtype is bool_:
        raise RuntimeError("mm: expected operands that are no torch.bool, convert them first")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"mm: mat1 dtype {type_name(a.dtype)} does not match mat2 dtype {type_name(b.dtype)}")


def swap_matrix(x):
    """A tensor with its last two dimensions swapped; a vector as it is."""
    return x if x.dim() < 2 else transpose(x, -2, -1) if isinstance(x, Sparse) else x.transpose(-2, -1)


def multiply_batch(a, b, reduce):
    """A batch of sparse matrices times a dense matrix, or as many of them, as one product of a tall matrix."""
    x, lead = a.coo(), tuple(a.shape[:-2])
    if b.dim() not in (2, a.dim()) or b.dim() > 2 and tuple(b.shape[:-2]) != lead:
        raise RuntimeError(f"bmm: expected dense batches of sizes {list(lead)}, got sizes {list(b.shape)}")
    if x.sparse_dim() != a.dim():
        raise RuntimeError(f"bmm: expected {a.dim()} sparse dimensions, got {x.sparse_dim()}")
    count, (rows, columns) = product(lead), a.shape[-2:]
    batch = ravel(x.positions[:-2], lead)
    row, column = x.positions[-2:]
    if b.dim() > 2:
        column, b, columns = batch * columns + column, b.reshape(count * columns, b.shape[-1]), count * columns
    tall = make_unordered((count * rows, columns), x.elements, OPS["stack"]([batch * rows + row, column]))
    return combine_rows(tall, b, reduce).reshape(*lead, rows, b.shape[-1])


def combine_rows(a, b, reduce=None):
    """Multiply a COO matrix by a dense matrix or vector: the terms of each element, reduced by rows."""
    rows, columns = a.positions
    parts = scale_rows(a.elements, b, columns)
    out = parts.new_zeros((a.shape[0], *b.shape[1:]))
    if reduce in ("amax", "amin"):
        return out.index_reduce(0, rows, parts, reduce, include_self=False).to(b.dtype)
    out = out.index_add(0, rows, parts)
    if reduce == "mean":
        count = OPS["bincount"](rows, minlength=a.shape[0]).clamp(min=1).to(out.dtype)
        out = out / (count if b.dim() == 1 else count.unsqueeze(1))
    return out.to(b.dtype)


def scale_rows(elements, b, columns):
    """The row of ``b`` that each element meets, times the element; 16-bit floats as float32, in which rows add up."""
    if b.dtype in (float16, bfloat16):
        elements, b = elements.to(float32), b.to(float32)
    return (elements if b.dim() == 1 else elements.unsqueeze(1)) * b[columns]


def multiply_sparse(a, b):
    """The product of two sparse matrices: COO if both are, CSR otherwise."""
    if a.dim() != 2 or b.dim() != 2:
        raise RuntimeError(f"mm: two sparse operands must be matrices, got sizes {list(a.shape)} and {list(b.shape)}")
    x, y = a.coo(), sort_rows(b)
    left, right = match_keys(x.positions[1], y.positions[0])
    at = OPS["stack"]([x.positions[0][left], y.positions[1][right]])
    found = make_unordered((a.shape[0], b.shape[1]), x.elements[left] * y.elements[right], at).coalesce()
    return found if isinstance(a, Coo) and isinstance(b, Coo) else found.to_sparse_csr()


@rule("nn.functional.linear")
def linear(input, weight, bias=None):
    """input @ weight^T + bias, where one of the two factors is sparse."""
    found = mm(input, swap_matrix(weight))
    return found if bias is None else add(found, bias) if isinstance(found, Sparse) else found + bias


@rule("addmm", "addmv")
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2)."""
    found = mm(mat1, mat2)
    found = found if alpha == 1 else found * alpha
    if not isinstance(input, Sparse) and not isinstance(found, Sparse):
        return found + (input if beta == 1 else input * beta) if beta else found
    return add(input if beta == 1 else input * beta, found)


def multiply_stored_rows(mat1, mat2):
    """A sparse matrix times a dense one, as a COO tensor of one sparse dimension: a row for each row of ``mat1`` that
    has elements."""
    need_sparse("smm", mat1)
    check_operands(mat1, mat2)
    x = mat1.coo()
    rows, columns = x.positions
    kept, own = OPS["unique"](rows, return_inverse=True) if rows.numel() else (rows, rows)
    parts = scale_rows(x.elements, mat2, columns)
    elements = parts.new_zeros((kept.size(0), mat2.shape[1])).index_add(0, own, parts).to(mat2.dtype)
    return make_unordered((mat1.shape[0], mat2.shape[1]), elements, kept.unsqueeze(0))


def add_stored_rows(input, mat1, mat2, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2) for sparse ``input`` and ``mat1``, as a COO matrix."""
    found = multiply_stored_rows(mat1, mat2).expand_dense()
    return add((input if beta == 1 else input * beta).to_sparse_coo(), found if alpha == 1 else found * alpha)
