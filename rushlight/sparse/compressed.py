"""Sparse tensors compressed by rows (CSR), by columns (CSC), and in blocks by rows or columns (BSR, BSC)."""
from __future__ import annotations

from .._src.core import convert
from .._src.core.dtypes import int32, int64
from .._src.core.exchange import as_tensor
from .._src.core.meta import product
from .._src.core.op import OPS
from .conversion import compress, compress_dense, sort_rows
from .indices import match_keys, unravel
from .tensor import Coo, Sparse, check_sizes, convert_layout, given_size, made, move
from .validation import compressed, wanted


class Compressed(Sparse):
    """Elements [*batch, n, *block, *dense] run by run: ``starts`` [*batch, runs + 1] says where each run starts,
    ``across`` [*batch, n] where each element is within its run.  ``by_rows``: whether runs are rows; ``in_blocks``:
    whether elements are blocks."""

    by_rows, in_blocks, places_of = False, False, ("starts", "across")

    def with_elements(self, elements):
        return made(type(self), self.shape, elements, starts=self.starts, across=self.across)

    @classmethod
    def names(cls):
        """What ``starts`` and ``across`` are called."""
        return ("crow_indices", "col_indices") if cls.by_rows else ("ccol_indices", "row_indices")

    def parts(self):
        names = self.names()
        return (names[0], self.starts), (names[1], self.across), ("values", self.elements.detach())

    def batch_dim(self) -> int:
        """How many leading dimensions are a batch."""
        return self.starts.dim() - 1

    def sparse_dim(self) -> int:
        return 2

    def dense_dim(self) -> int:
        return self.elements.dim() - self.batch_dim() - (3 if self.in_blocks else 1)

    def _nnz(self) -> int:
        return self.across.size(-1)

    def block(self):
        """The size of a block; (1, 1) in layouts without blocks."""
        first = self.batch_dim() + 1
        return tuple(self.elements.shape[first:first + 2]) if self.in_blocks else (1, 1)

    def coordinates(self):
        """Batch indices, row and column of each element or block in storage order: [batch dimensions + 2, count]."""
        starts = self.starts.to(int64)
        counts = (starts[..., 1:] - starts[..., :-1]).reshape(-1)
        run = OPS["arange"](counts.size(0)).repeat_interleave(counts)
        sizes = *self.shape[:self.batch_dim()], self.starts.size(-1) - 1
        *batch, run = unravel(run, sizes)
        across = self.across.reshape(-1).to(int64)
        return OPS["stack"]([*batch, *((run, across) if self.by_rows else (across, run))])

    def coo(self):
        """This tensor as a COO tensor whose elements are in the order of this one's."""
        first = self.batch_dim() + 1
        positions, inner = self.coordinates(), tuple(self.elements.shape[first:])
        if not self.in_blocks:
            return made(Coo, self.shape, self.elements.reshape(-1, *inner) if first > 1 else self.elements,
                        positions=positions, coalesced=self.by_rows)
        height, width = self.block()
        count = positions.size(1) * height * width
        *batch, rows, columns = positions.unsqueeze(-1).unsqueeze(-1)
        rows = rows * height + OPS["arange"](height).reshape(1, -1, 1)
        columns = columns * width + OPS["arange"](width)
        spread = [x.expand(positions.size(1), height, width).reshape(count) for x in (*batch, rows, columns)]
        return made(Coo, self.shape, self.elements.reshape(count, *inner[2:]), positions=OPS["stack"](spread),
                    coalesced=False)

    def with_flat(self, elements):
        return self.with_elements(elements.reshape(self.elements.shape))

    def values(self):
        """The elements, run by run."""
        return self.elements

    def asked(self, name, rows: bool, value):
        if self.by_rows is not rows:
            raise RuntimeError(
                f"{name} expected sparse {'row' if rows else 'column'} compressed tensor layout but got "
                f"{convert.spell_layout(self.layout)}")
        return value

    def crow_indices(self):
        """Return the start of each row among the elements: [*batch, rows + 1]."""
        return self.asked("crow_indices", True, self.starts)

    def col_indices(self):
        """The column of each element."""
        return self.asked("col_indices", True, self.across)

    def ccol_indices(self):
        """Return the start of each column among the elements: [*batch, columns + 1]."""
        return self.asked("ccol_indices", False, self.starts)

    def row_indices(self):
        """The row of each element."""
        return self.asked("row_indices", False, self.across)

    def sparse_mask(self, mask):
        """The elements of this tensor at positions that ``mask`` has, too; in the layout of ``mask``."""
        if not isinstance(mask, Compressed):
            raise RuntimeError("sparse_mask_sparse_compressed expects mask to have sparse compressed layout, got "
                               f"{mask.layout}")
        check_sizes("sparse_mask", self, mask)
        own, other = sort_rows(self), sort_rows(mask)
        kept, _ = match_keys(own.flat(), other.flat())
        found = made(Coo, self.shape, own.elements[kept], positions=own.positions[:, kept], coalesced=True)
        return compress(type(mask), found, mask.batch_dim(), mask.block(), mask.starts.dtype)

    def transpose_matrix(self):
        """This tensor with rows and columns swapped: the same indices in the layout of the other direction."""
        first = self.batch_dim()
        shape = list(self.shape)
        shape[first:first + 2] = shape[first + 1], shape[first]
        elements = self.elements.transpose(first + 1, first + 2) if self.in_blocks else self.elements
        return made(TRANSPOSED[type(self)], shape, elements, starts=self.starts, across=self.across)


class Csr(Compressed):
    """A matrix row by row."""

    layout, by_rows, is_sparse_csr = convert.sparse_csr, True, True


class Csc(Compressed):
    """A matrix column by column."""

    layout = convert.sparse_csc


class Bsr(Compressed):
    """A matrix in blocks of one size, row of blocks by row of blocks."""

    layout, by_rows, in_blocks = convert.sparse_bsr, True, True


class Bsc(Compressed):
    """A matrix in blocks of one size, column of blocks by column of blocks."""

    layout, in_blocks = convert.sparse_bsc, True


KINDS = {kind.layout: kind for kind in (Csr, Csc, Bsr, Bsc)}
TRANSPOSED = {Csr: Csc, Csc: Csr, Bsr: Bsc, Bsc: Bsr}


def to_layout(self, layout, blocksize=None, dense_dim=None):
    """A tensor of any layout in a compressed one.  RuntimeError for another ``dense_dim`` than a sparse one has."""
    if not isinstance(self, Sparse):
        return compress_dense(self, layout, blocksize, dense_dim or 0)
    self.check_dense_dim(layout, dense_dim)
    return convert_layout(self, layout, blocksize)


def to_sparse_csr(self, dense_dim=None):
    """The elements other than 0 of a matrix, or a batch of them, compressed by rows."""
    return to_layout(self, convert.sparse_csr, None, dense_dim)


def to_sparse_csc(self, dense_dim=None):
    """A matrix, or a batch of them, compressed by columns."""
    return to_layout(self, convert.sparse_csc, None, dense_dim)


def to_sparse_bsr(self, blocksize, dense_dim=None):
    """A matrix in blocks of ``blocksize``, compressed by rows of blocks."""
    return to_layout(self, convert.sparse_bsr, blocksize, dense_dim)


def to_sparse_bsc(self, blocksize, dense_dim=None):
    """A matrix in blocks of ``blocksize``, compressed by columns of blocks."""
    return to_layout(self, convert.sparse_bsc, blocksize, dense_dim)


def check_indices(kind, starts, across, elements):
    """RuntimeError unless runs rise from 0 to the number of elements, and indices are not negative: kernels read memory
    by both."""
    names = kind.names()
    inner = 3 if kind.in_blocks else 1
    batch = starts.dim() - 1
    if batch < 0 or across.dim() != batch + 1 or elements.dim() < batch + inner:
        raise RuntimeError(
            f"{names[0]} and {names[1]} must have as many dimensions, and values at least {inner} behind those of a "
            f"batch; got sizes {list(starts.shape)}, {list(across.shape)} and {list(elements.shape)}")
    lead, count = tuple(starts.shape[:-1]), across.size(-1)
    if tuple(across.shape[:-1]) != lead or tuple(elements.shape[:batch + 1]) != (*lead, count):
        raise RuntimeError(
            f"{names[0]}, {names[1]} and values must agree in batch dimensions, and {names[1]} and values in the "
            f"number of elements; got sizes {list(starts.shape)}, {list(across.shape)} and {list(elements.shape)}")
    if not starts.size(-1):
        raise RuntimeError(f"{names[0]} must have at least one element, got size {list(starts.shape)}")
    if not starts.numel():
        return
    if bool((starts[..., 0] != 0).any()):
        raise RuntimeError(f"`{names[0]}[..., 0] == 0` is not satisfied.")
    if bool((starts[..., -1] != count).any()) or bool((starts[..., 1:] < starts[..., :-1]).any()):
        raise RuntimeError(f"{names[0]} must rise from 0 to the number of values, {count}; got "
                           f"{starts.reshape(-1)[:8].tolist()}...")
    if across.numel() and int(across.min()) < 0:
        raise RuntimeError(f"found negative index {int(across.min())} in {names[1]}")


def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None,
                             device=None, pin_memory=False, requires_grad=False,
                             check_invariants=None):
    """A tensor by rows, columns or blocks, as ``layout`` says: where runs start, where elements are within them, and
    the elements.  Leading dimensions of all three are a batch.

    RuntimeError for starts that do not fit the values, and for indices beyond size.
    """
    kind = KINDS.get(layout)
    if kind is None:
        raise RuntimeError(
            f"sparse_compressed_tensor expected a compressed layout, such as torch.sparse_csr; got {layout}")
    given = as_tensor(compressed_indices), as_tensor(plain_indices)
    index = int32 if all(x.dtype is int32 for x in given) else int64
    starts, across = (x.to(index) for x in given)
    elements = as_tensor(values, dtype=dtype)
    elements = elements if dtype is None else elements.to(dtype)
    check_indices(kind, starts, across, elements)
    batch = starts.dim() - 1
    block = tuple(elements.shape[batch + 1:batch + 3]) if kind.in_blocks else (1, 1)
    dense = tuple(elements.shape[batch + (3 if kind.in_blocks else 1):])
    counts = starts.size(-1) - 1, int(across.max()) + 1 if across.numel() else 0
    rows, columns = counts if kind.by_rows else counts[::-1]
    shape = given_size(size, (*starts.shape[:-1], rows * block[0], columns * block[1], *dense))
    run = batch + (not kind.by_rows)
    if shape[run] != counts[0] * block[not kind.by_rows] or product(block) == 0:
        raise RuntimeError(f"size {list(shape)} does not fit {kind.names()[0]}, which has {counts[0]} runs in blocks "
                           f"of {list(block)}")
    if wanted(check_invariants):
        compressed(starts, across, elements, shape, layout)
    out = move(made(kind, shape, elements, starts=starts, across=across), device, pin_memory)
    return out.requires_grad_() if requires_grad else out


def maker(layout):
    """The function that makes tensors of one layout; its first parameters are named by rows and columns."""
    starts, across = KINDS[layout].names()

    def make(*given, **options):
        places = (*given, *(options.pop(name) for name in (starts, across)[len(given):] if name in options))
        return sparse_compressed_tensor(*places, layout=layout, **options)
    return make


sparse_csr_tensor, sparse_csc_tensor, sparse_bsr_tensor, sparse_bsc_tensor = map(maker, KINDS)
