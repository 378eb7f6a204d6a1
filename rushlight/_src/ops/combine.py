"""Combined tensors: block diagonals, Cartesian products, combinations, concatenated chunks."""
from __future__ import annotations

import itertools

import numpy as np

from ..core.exchange import from_numpy
from ..core.op import OPS, op, sample
from ..core.tensor import wrapped
from .promotion import result_dtype


def several(tensors):
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else list(tensors)


@op(composite=True, method=False)
def block_diag(*tensors):
    """Matrices on the diagonal of one; vectors count as rows."""
    tensors = several(tensors)
    if any(x.dim() > 2 for x in tensors):
        raise RuntimeError(
            f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Got {[x.dim() for x in tensors]}")
    dtype = result_dtype(*tensors)
    blocks = [(x if x.dim() == 2 else x.reshape(1, -1)).to(dtype) for x in tensors]
    width, start, rows = sum(b.size(1) for b in blocks), 0, []
    for b in blocks:
        rows.append(OPS["nn.functional.pad"](b, (start, width - start - b.size(1))))
        start += b.size(1)
    return OPS["cat"](rows, 0)


@op(composite=True, method=False)
def cartesian_prod(*tensors):
    """Every choice of one element from each vector, as rows."""
    tensors = several(tensors)
    if any(x.dim() != 1 for x in tensors):
        raise RuntimeError(f"cartesian_prod: Expect a 1D vector, but got shapes {[list(x.shape) for x in tensors]}")
    if len(tensors) == 1:
        return tensors[0]
    grids = OPS["meshgrid"](*tensors, indexing="ij")
    return OPS["stack"]([g.reshape(-1) for g in grids], 1)


@op(composite=True)
def combinations(input, r=2, with_replacement=False):
    """Every choice of r elements of a vector, in order, as rows."""
    if input.dim() != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(input.size(0)), r)), np.int64).reshape(-1, r)
    return input[from_numpy(rows)]


@op(composite=True, method=False, samples=(sample([(4, 3), (2, 3)], 0, 2),))
def _chunk_cat(tensors, dim, num_chunks):
    """Chunk each tensor along a dimension, pad the last chunk with zeros, flatten from that dimension on, and
    concatenate corresponding chunks."""
    if num_chunks < 1:
        raise RuntimeError(f"_chunk_cat expects positive num_chunks, got {num_chunks}")
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if not all(x.numel() for x in tensors):
        raise RuntimeError("_chunk_cat expects non-empty tensors: leave out those without elements")
    parts, at = [], wrapped(dim, tensors[0].dim())
    for x in tensors:
        if at >= x.dim():
            raise RuntimeError("_chunk_cat expects dim < ndim for all input tensors")
        size = -(-x.size(at) // num_chunks)
        missing = size * num_chunks - x.size(at)
        x = OPS["nn.functional.pad"](x, (0, 0) * (x.dim() - 1 - at) + (0, missing)) if missing else x
        parts.append(x.reshape((*x.shape[:at], num_chunks, -1)))
    return OPS["cat"](parts, -1)
