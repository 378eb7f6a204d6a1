"""Conversions between sparse layouts, by sorting indices: no matrix is ever dense, and stored zeros stay."""
from __future__ import annotations

from .._src.core import convert
from .._src.core.dtypes import int64
from .._src.core.op import OPS
from .indices import count_starts, ravel, unravel
from .tensor import Coo, made, to_sparse, vacant


def convert_sparse(x, layout, blocksize=None):
    """A sparse tensor in another layout; elements keep their values, zeros too, and compressed indices their dtype."""
    if layout is convert.sparse_coo:
        return x.coo()
    if layout is convert.strided:
        return x.to_dense()
    kind = kind_of(layout)
    if kind is type(x) and not (kind.in_blocks and blocksize is not None and pair(blocksize) != x.block()):
        return x
    batch = 0 if isinstance(x, Coo) else x.batch_dim()
    if isinstance(x, Coo) and x.sparse_dim() != 2:
        raise RuntimeError(f"to_sparse: conversion from Sparse to {convert.spell_layout(layout)} for input tensors "
                           f"with sparse_dim()!=2 is not supported, got sparse_dim()={x.sparse_dim()}")
    if not isinstance(x, Coo) and kind.in_blocks and x.in_blocks and blocksize is None:
        blocksize = x.block()
    return compress(kind, sort_rows(x), batch, blocksize, int64 if isinstance(x, Coo) else x.starts.dtype)


def compress_dense(x, layout, blocksize=None, dense_dim=0):
    """The elements other than 0 of a strided tensor in a compressed layout; blocks without any are left out."""
    kind, sparse = kind_of(layout), x.dim() - dense_dim
    if sparse < 2:
        raise RuntimeError(f"to_{layout.name}: expected a tensor with at least 2 sparse dimensions, got sizes "
                           f"{list(x.shape)} and dense_dim {dense_dim}")
    return compress(kind, to_sparse(x, sparse), sparse - 2, blocksize)


def kind_of(layout):
    """The class of tensors of a compressed layout.  NotImplementedError for others."""
    from .compressed import KINDS
    if layout not in KINDS:
        raise NotImplementedError(
            f"to_sparse: layouts are torch.sparse_coo, sparse_csr, sparse_csc, sparse_bsr and sparse_bsc, got {layout}")
    return KINDS[layout]


def pair(blocksize):
    """The height and width of blocks."""
    return (blocksize, blocksize) if type(blocksize) is int else tuple(blocksize)


def sort_rows(x):
    """A sparse tensor as a coalesced COO tensor."""
    own = x.coo()
    if own.coalesced or isinstance(x, Coo):
        return own.coalesce()
    order = OPS["argsort"](own.flat(), stable=True)  # compressed tensors have no duplicates
    return made(Coo, own.shape, own.elements[order], positions=own.positions[:, order], coalesced=True)


def compress(kind, x, batch, blocksize, index=int64):
    """A coalesced COO tensor, the first ``batch`` of whose sparse dimensions are a batch, in a compressed layout whose
    indices are of the dtype ``index``."""
    if kind.in_blocks:
        sizes, positions, elements = gather_blocks(kind, x, batch, blocksize)
    else:
        sizes, positions, elements = tuple(x.shape[:batch + 2]), x.positions, x.elements
    run, across = positions[batch], positions[batch + 1]
    runs = sizes[batch]
    if not kind.by_rows:
        run, across, runs = across, run, sizes[batch + 1]
    outer = ravel(positions[:batch], sizes[:batch]) * runs + run
    if not kind.by_rows:
        order = OPS["argsort"](outer, stable=True)
        outer, across, elements = outer[order], across[order], elements[order]
    lead = sizes[:batch]
    starts = count_starts(outer, lead, runs)
    if batch:
        across = across.reshape(*lead, count_elements(starts))
        elements = elements.reshape(*across.shape, *elements.shape[1:])
    return made(kind, x.shape, elements, starts=starts.to(index), across=across.to(index))


def count_elements(starts) -> int:
    """The number of elements of every matrix of a batch.  RuntimeError if they differ."""
    ends = starts[..., -1].reshape(-1)
    if not ends.size(0):
        return 0
    if bool((ends != ends[0]).any()):
        raise RuntimeError("Expect the same number of specified elements per batch.")
    return int(ends[0])


def gather_blocks(kind, x, batch, blocksize):
    """(sizes in blocks, positions of blocks, blocks) of a coalesced COO tensor: of each block that has an element."""
    height, width = pair(blocksize) if blocksize is not None else (0, 0)
    rows, columns = x.shape[batch:batch + 2]
    if height < 1 or width < 1 or rows % height or columns % width:
        raise RuntimeError(
            f"to_{kind.layout.name}: tensor sparse size ({rows},{columns}) must be divisible by given blocksize, got "
            f"{blocksize}")
    sizes = *x.shape[:batch], rows // height, columns // width
    *lead, row, column = x.positions
    at = ravel(OPS["stack"]([*lead, row // height, column // width]), sizes)
    blocks, own = OPS["unique"](at, return_inverse=True) if at.numel() else (at, at)
    within = own * (height * width) + row % height * width + column % width
    inner = tuple(x.elements.shape[1:])
    flat = x.elements.new_zeros((blocks.size(0) * height * width, *inner)).index_copy(0, within, x.elements)
    return sizes, unravel(blocks, sizes), flat.reshape(blocks.size(0), height, width, *inner)


def make_vacant(shape, dtype, layout, blocksize=None, dense_dim=0, index=int64):
    """A tensor without elements, in any sparse layout."""
    sparse = len(shape) - dense_dim
    out = vacant(shape, dtype, sparse)
    if layout is convert.sparse_coo:
        return out
    if sparse < 2:
        raise RuntimeError("Only batched sparse compressed (non-block) tensors are supported, but got size "
                           f"{list(shape)}")
    return compress(kind_of(layout), out, sparse - 2, blocksize, index)
