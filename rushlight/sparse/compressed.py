"""Sparse matrices compressed by columns (CSC), and in blocks by rows or columns (BSR, BSC)."""
from __future__ import annotations

from .._src.core import convert
from .._src.core.dtypes import int64
from .._src.core.exchange import as_tensor
from .._src.core.op import OPS
from .tensor import Coo, Sparse, check_starts, given_size, made, sparse_csr_tensor
from .validation import compressed, wanted


def starts_of(index, count):
    """Where each of ``count`` runs starts, given which run each element of a sorted vector is in: [count + 1]."""
    counts = OPS["bincount"](index, minlength=count)
    return OPS["cat"]([counts.new_zeros(1), counts.cumsum(0)])


def runs_of(starts):
    """Which run each element is in."""
    counts = starts[1:] - starts[:-1]
    return OPS["arange"](counts.size(0)).repeat_interleave(counts)


class Compressed(Sparse):
    """Elements run by run, where each run starts, and the place of each element across.  ``by_rows``: whether runs are
    rows."""

    by_rows, turn, places_of = False, " ", ("starts", "across")

    def with_elements(self, elements):
        return made(type(self), self.shape, elements, starts=self.starts, across=self.across)

    @classmethod
    def names(cls):
        """What starts and places are called."""
        return ("crow_indices", "col_indices") if cls.by_rows else ("ccol_indices", "row_indices")

    def parts(self):
        names = self.names()
        return (names[0], repr(self.starts)), (names[1], repr(self.across)), ("values", repr(self.elements.detach()))

    def sparse_dim(self) -> int:
        return 2

    def dense_dim(self) -> int:
        return 0

    def places(self):
        """Rows and columns of the elements, or of their blocks: [2, n]."""
        pair = runs_of(self.starts), self.across
        return OPS["stack"](pair if self.by_rows else pair[::-1])

    def values(self):
        """The elements, run by run."""
        return self.elements

    def asked(self, name, rows: bool, value):
        if self.by_rows is not rows:
            raise RuntimeError(
                f"{name} expected sparse {'row' if rows else 'column'} compressed tensor layout but got {self.layout}")
        return value

    def crow_indices(self):
        """Where each row starts among the elements: [rows + 1]."""
        return self.asked("crow_indices", True, self.starts)

    def col_indices(self):
        """The column of each element."""
        return self.asked("col_indices", True, self.across)

    def ccol_indices(self):
        """Where each column starts among the elements: [columns + 1]."""
        return self.asked("ccol_indices", False, self.starts)

    def row_indices(self):
        """The row of each element."""
        return self.asked("row_indices", False, self.across)


class Csc(Compressed):
    """A matrix column by column."""

    layout = convert.sparse_csc

    def coo(self):
        return made(Coo, self.shape, self.elements, positions=self.places(), coalesced=False)


class Bsr(Compressed):
    """A matrix in blocks of one size, row of blocks by row of blocks: elements [n, block rows, block columns]."""

    layout, by_rows = convert.sparse_bsr, True

    def coo(self):
        height, width = self.elements.shape[1:]
        rows, columns = self.places().reshape(2, -1, 1, 1)
        rows = rows * height + OPS["arange"](height).reshape(1, -1, 1)
        columns = columns * width + OPS["arange"](width)
        shape = tuple(self.elements.shape)
        positions = OPS["stack"]([rows.expand(shape).reshape(-1), columns.expand(shape).reshape(-1)])
        return made(Coo, self.shape, self.elements.reshape(-1), positions=positions, coalesced=False)

    def with_flat(self, elements):
        return self.with_elements(elements.reshape(self.elements.shape))


class Bsc(Bsr):
    """A matrix in blocks of one size, column of blocks by column of blocks."""

    layout, by_rows = convert.sparse_bsc, False


KINDS = {kind.layout: kind for kind in (Csc, Bsr, Bsc)}


def matrix_of(x, name):
    """A matrix, or what a sparse one spreads to.  RuntimeError for other ranks."""
    if x.dim() != 2:
        raise RuntimeError(f"{name}() takes a matrix, got sizes {list(x.shape)}")
    return x.to_dense() if isinstance(x, Sparse) else x


def refuse_dense(name, dense_dim):
    """NotImplementedError for elements that are themselves tensors."""
    if dense_dim not in (None, 0):
        raise NotImplementedError(f"{name}(): dense_dim={dense_dim} is not supported; use None or 0")


def to_sparse_csc(self, dense_dim=None):
    """A matrix compressed by columns."""
    refuse_dense("to_sparse_csc", dense_dim)
    if isinstance(self, Csc):
        return self
    turned = matrix_of(self, "to_sparse_csc").t().to_sparse_csr()
    return made(Csc, self.shape, turned.elements, starts=turned.starts, across=turned.columns)


def in_blocks(kind, x, blocksize):
    """A matrix in blocks of a size that divides it; those of zeros are left out."""
    name = "to_sparse_bsr" if kind.by_rows else "to_sparse_bsc"
    height, width = (blocksize, blocksize) if type(blocksize) is int else blocksize if blocksize is not None else (0, 0)
    dense = matrix_of(x, name)
    if height < 1 or width < 1 or dense.size(0) % height or dense.size(1) % width:
        raise RuntimeError(
            f"{name}: blocksize must divide the sizes of the matrix, got {blocksize} and {list(dense.shape)}. Pad the "
            "matrix, or choose another blocksize")
    blocks = dense.reshape(dense.size(0) // height, height, dense.size(1) // width, width).transpose(1, 2)
    blocks = blocks if kind.by_rows else blocks.transpose(0, 1)
    run, across = (blocks.detach() != 0).flatten(2).any(-1).nonzero().t()
    return made(kind, dense.shape, blocks[run, across], starts=starts_of(run, blocks.size(0)), across=across)


def to_sparse_bsr(self, blocksize, dense_dim=None):
    """A matrix in blocks of ``blocksize``, compressed by rows of blocks."""
    refuse_dense("to_sparse_bsr", dense_dim)
    return in_blocks(Bsr, self, blocksize)


def to_sparse_bsc(self, blocksize, dense_dim=None):
    """A matrix in blocks of ``blocksize``, compressed by columns of blocks."""
    refuse_dense("to_sparse_bsc", dense_dim)
    return in_blocks(Bsc, self, blocksize)


def in_layout(x, layout, blocksize=None):
    """A matrix in one of these layouts."""
    return to_sparse_csc(x) if layout is convert.sparse_csc else in_blocks(KINDS[layout], x, blocksize)


def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None,
                             device=None, pin_memory=False, requires_grad=False,
                             check_invariants=None):
    """A matrix by rows, columns or blocks, as ``layout`` says: where runs start, the places across, and the elements of
    each place.

    RuntimeError for starts that do not fit the values, and for places beyond size.
    """
    if layout is convert.sparse_csr:
        return sparse_csr_tensor(compressed_indices, plain_indices, values, size, dtype=dtype,
                                 requires_grad=requires_grad, check_invariants=check_invariants)
    kind = KINDS.get(layout)
    if kind is None:
        raise RuntimeError(
            f"sparse_compressed_tensor expected a compressed layout, such as torch.sparse_csr; got {layout}")
    starts, across, elements = as_tensor(compressed_indices).to(int64), as_tensor(plain_indices).to(int64), as_tensor(
        values, dtype=dtype)
    rank = 3 if issubclass(kind, Bsr) else 1
    if elements.dim() != rank or starts.dim() != 1 or across.dim() != 1 or across.size(0) != elements.size(0):
        raise RuntimeError(
            f"{layout}: starts and places are vectors, with a place for each of the values, which have {rank} "
            f"dimensions; got sizes {list(starts.shape)}, "
            f"{list(across.shape)} and {list(elements.shape)}")
    check_starts(starts, across, elements.size(0), "crow_indices" if kind.by_rows else "ccol_indices")
    block = tuple(elements.shape[1:]) or (1, 1)
    counts = starts.size(0) - 1, int(across.max()) + 1 if across.numel() else 0
    rows, columns = counts if kind.by_rows else counts[::-1]
    shape = given_size(size, (rows * block[0], columns * block[1]))
    if shape[not kind.by_rows] != counts[0] * block[not kind.by_rows]:
        raise RuntimeError(f"size {list(shape)} does not have the {counts[0]} runs that the starts tell of")
    if wanted(check_invariants):
        compressed(starts, across, elements, shape, layout)
    out = made(kind, shape, elements, starts=starts, across=across)
    return out.requires_grad_() if requires_grad else out


def maker(layout):
    """The function that makes tensors of one layout; its first parameters are named by rows and columns."""
    starts, across = KINDS[layout].names()

    def make(*given, **options):
        places = (*given, *(options.pop(name) for name in (starts, across)[len(given):] if name in options))
        return sparse_compressed_tensor(*places, layout=layout, **options)
    return make


sparse_csc_tensor, sparse_bsr_tensor, sparse_bsc_tensor = map(maker, KINDS)
