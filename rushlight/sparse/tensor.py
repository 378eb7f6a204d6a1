"""Sparse tensors: coordinates (COO) and compressed rows (CSR).  Their elements are an ordinary tensor, through which
gradients flow."""
from __future__ import annotations

from .._src.core import convert
from .._src.core.composed import Composed
from .._src.core.dtypes import INTEGER, int64
from .._src.core.errors import UnsupportedLayoutError
from .._src.core.exchange import as_tensor
from .._src.core.meta import Meta, product, row_major
from .._src.core.native import Tensor, allocate
from .._src.core.op import OPS
from .._src.core.tensor import blank
from .validation import coo, compressed, wanted


class Sparse(Composed):
    """A tensor of which only some elements are kept.  It has the sizes of the whole, and no memory of its own."""

    inner = property(lambda self: self.elements)
    places_of, noted = (), ()  # the fields that say where elements are, and others

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from .rules import answer
        return answer(func, args, kwargs or {})

    def around(self, inner):
        return self.with_elements(inner)

    def as_gradient(self):
        return self.to_dense()

    def inner_gradient(self, value):
        """What a gradient, sparse with any places or dense, is at the place of each element."""
        if type(value) is type(self) and all(getattr(self, name) is getattr(value, name)
                                             for name in self.places_of) and getattr(value, "coalesced", True):
            return value.elements
        wanted = self.coo()
        at, sizes = wanted.flat(), tuple(self.shape)[:wanted.sparse_dim()]
        if not isinstance(value, Sparse):
            return value.reshape(product(sizes), *wanted.elements.shape[1:])[at].reshape(self.elements.shape)
        value = value.coo()
        if value.sparse_dim() != wanted.sparse_dim():
            return self.inner_gradient(value.to_dense())
        value = value.coalesce()
        if not value._nnz():
            return OPS["zeros_like"](self.elements)
        places = value.flat()
        found = OPS["searchsorted"](places, at).clamp(max=places.size(0) - 1)
        hit = (places[found] == at).reshape(-1, *[1] * (wanted.elements.dim() - 1))
        return OPS["where"](hit, value.elements[found], 0).reshape(self.elements.shape)

    def with_flat(self, elements):
        """These elements, one after another, in the places of this tensor's."""
        return self.with_elements(elements)

    def become(self, other: "Sparse"):
        """Takes what another one of this layout keeps, in its own dtype; into its own elements where both keep the same
        places."""
        if all(getattr(self, name) is getattr(other, name)
               for name in self.places_of) and tuple(self.shape) == tuple(other.shape):
            self.elements.copy_(other.elements)
            return
        dtype = self.dtype
        self._meta, self.elements = Meta(tuple(other.shape), (0,) * other.dim(), dtype,
                                         other.device), other.elements.to(dtype)
        for name in self.places_of + self.noted:
            setattr(self, name, getattr(other, name))

    def type(self, dtype=None, non_blocking=False):
        """This tensor with elements of another dtype; the name of its type if none is given."""
        return self.elements.type().replace("torch.", "torch.sparse.",
                                            1) if dtype is None else self.with_elements(self.elements.type(dtype))

    def new(self, *size):
        raise UnsupportedLayoutError(f"new: not implemented for the layout {self.layout}", "tensors by coordinates",
                                     "use new_empty")

    def to_sparse_csr(self, dense_dim=None):
        """A matrix in compressed rows."""
        return self.coo().to_sparse_csr()

    def to_sparse_coo(self):
        """The same by coordinates."""
        return self.coo()

    def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None):
        """The same in another layout, by coordinates if none is named."""
        if layout is self.layout and blocksize is None:
            return self
        if layout is None or layout is convert.sparse_coo:
            return self.coo()
        if layout is convert.sparse_csr:
            return self.to_sparse_csr()
        from .compressed import in_layout
        return in_layout(self, layout, blocksize)

    def _nnz(self) -> int:
        return self.elements.size(0)

    def _values(self):
        return self.elements

    def dense_dim(self) -> int:
        """How many of the last dimensions are kept whole for each element."""
        return self.elements.dim() - 1

    def __getitem__(self, key):
        """A slice, by a number for each of the first dimensions."""
        found = self
        for index in key if isinstance(key, tuple) else (key,):
            if not isinstance(index, int):
                raise UnsupportedLayoutError("a sparse tensor is indexed by numbers", "ints",
                                             "use index_select, or to_dense() first")
            found = OPS["select"](found, 0, index)
        return found

    def to_dense(self, dtype=None, *, masked_grad=None):
        """The whole tensor, zero where nothing is kept."""
        dense = self.coo().spread()
        return dense if dtype is None else dense.to(dtype)

    def detach(self):
        return self.with_elements(self.elements.detach())

    def clone(self, *, memory_format=None):
        return self.with_elements(self.elements.clone())

    def to(self, *args, **kwargs):
        """This tensor with elements of another dtype."""
        return self.with_elements(self.elements.to(*args, **kwargs))

    def __repr__(self, *, tensor_contents=None):
        parts = ",\n".join(f"       {name}={text}".replace("\n", "\n" + " " * (len(name) + 8))
                           for name, text in self.parts())
        history = (f", grad_fn={self.grad_fn}" if self.grad_fn is not None
                   else ", requires_grad=True" if self.requires_grad else "")
        parts = "\n".join(line.rstrip() for line in parts.strip().split("\n"))
        return f"tensor({parts},{self.turn}size={tuple(self.shape)}, nnz={self._nnz()}, layout={self.layout}{history})"


def made(kind, shape, elements, **fields):
    """A sparse tensor; its metadata show one place in memory for all elements."""
    shape = tuple(shape)
    out = blank(kind)
    out._meta = Meta(shape, (0,) * len(shape), elements.dtype, elements.device)
    out._storage, out._offset, out.itemsize = allocate(elements.dtype.itemsize), 0, elements.dtype.itemsize
    out.elements = elements
    for name, value in fields.items():
        setattr(out, name, value)
    return out


class Coo(Sparse):
    """Elements [n, *dense] at positions [sparse dimensions, n]; of several at one place the sum counts, until
    ``coalesce``."""

    # turn: what stands before the size where it is printed
    layout, is_sparse, turn = convert.sparse_coo, True, "\n       "
    places_of, noted = ("positions",), ("coalesced",)

    def coo(self):
        return self

    def with_elements(self, elements):
        return made(Coo, self.shape, elements, positions=self.positions, coalesced=self.coalesced)

    def gradient(self, inner):
        """One element a place: the gradient of the sum there, which each element there has."""
        if self.coalesced or not self._nnz():
            return self.with_elements(inner)
        return self.at_places(inner, "index_copy")

    def at_places(self, elements, put):
        """Elements of these positions at each place once, in order; ``put``: the operator that puts several of one
        place there."""
        places, at = self.places()
        elements = OPS[put](elements.new_zeros((places.size(0), *elements.shape[1:])), 0, at, elements)
        return made(Coo, self.shape, elements, positions=unravelled(places, tuple(self.shape)[:self.sparse_dim()]),
                    coalesced=True)

    def places(self):
        """(the places that occur, in order, as numbers; which of them each element has)."""
        return OPS["unique"](self.flat(), return_inverse=True)

    def parts(self):
        return ("indices", repr(self.positions)), ("values", repr(self.elements.detach()))

    def sparse_dim(self) -> int:
        """How many dimensions positions have."""
        return self.positions.size(0)

    def is_coalesced(self) -> bool:
        """Whether every place occurs once, in order."""
        return self.coalesced

    def _coalesced_(self, coalesced: bool):
        """Says of this tensor whether every place occurs once, in order; nothing is checked."""
        self.coalesced = bool(coalesced)
        return self

    def indices(self):
        """Positions [sparse dimensions, n] of a coalesced tensor."""
        self.need_coalesced("indices")
        return self.positions

    def values(self):
        """Elements [n, *dense] of a coalesced tensor."""
        self.need_coalesced("values")
        return self.elements

    def _indices(self):
        return self.positions

    def need_coalesced(self, what):
        if not self.coalesced:
            raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")

    def flat(self):
        """Positions as numbers in row-major order of the sparse dimensions."""
        at = self.positions.new_zeros(self._nnz())
        for k, step in enumerate(row_major(self.shape[:self.sparse_dim()])):
            at = at + self.positions[k] * step
        return at

    def spread(self):
        """The dense tensor."""
        sizes = tuple(self.shape)[:self.sparse_dim()]
        rows = self.elements.new_zeros((product(sizes), *self.elements.shape[1:]))
        return rows.index_add(0, self.flat(), self.elements).reshape(tuple(self.shape))

    def coalesce(self):
        """Elements at one place added up, places in order."""
        if self.coalesced:
            return self
        return self.at_places(self.elements, "index_add")

    def to_sparse_csr(self, dense_dim=None):
        """A matrix in compressed rows."""
        if self.sparse_dim() != 2 or self.dense_dim():
            raise RuntimeError(
                f"to_sparse_csr() takes a matrix with two sparse dimensions, got sizes {list(self.shape)}")
        own = self.coalesce()
        rows, columns = own.positions
        counts = OPS["bincount"](rows, minlength=self.shape[0])
        starts = OPS["cat"]([counts.new_zeros(1), counts.cumsum(0)])
        return made(Csr, self.shape, own.elements, starts=starts, columns=columns)

    def _dimI(self) -> int:
        return self.sparse_dim()

    def _dimV(self) -> int:
        return self.dense_dim()

    def new(self, *size):
        """An empty tensor of this layout."""
        return vacant(size[0] if len(size) == 1 and not isinstance(size[0], int) else size or (0,), self.dtype)

    def sparse_resize_(self, size, sparse_dim, dense_dim):
        """Changes the sizes in place; elements are kept, and dense dimensions grow by zeros.  RuntimeError where
        elements would be lost or move."""
        size, kept = tuple(size), self._nnz()
        if sparse_dim + dense_dim != len(size):
            raise RuntimeError(
                f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got "
                f"{len(size)}")
        if kept and (sparse_dim != self.sparse_dim() or dense_dim != self.dense_dim()):
            raise RuntimeError(
                f"changing the number of {'sparse' if sparse_dim != self.sparse_dim() else 'dense'} dimensions on a "
                "non-empty tensor is not supported")
        before = tuple(self.shape)
        if kept and any(new < old for new, old in zip(size, before)):
            part = "sparse" if any(new < old for new, old in zip(size[:sparse_dim], before)) else "dense"
            raise RuntimeError(
                f"shrinking the size of {part} dimensions (from {list(before)} to {list(size)}) on a non-empty tensor "
                "is not supported")
        elements = self.elements.new_zeros((kept, *size[sparse_dim:]))
        if kept:
            elements[tuple(slice(n) for n in self.elements.shape)] = self.elements
        positions = self.positions if kept else self.positions.new_zeros((sparse_dim, 0))
        self.become(made(Coo, size, elements, positions=positions, coalesced=self.coalesced))
        return self

    def sparse_resize_and_clear_(self, size, sparse_dim, dense_dim):
        """Changes the sizes in place; no element is kept."""
        self.become(vacant(size, self.dtype, sparse_dim))
        return self

    def sparse_mask(self, mask):
        return masked(self.to_dense(), mask)


def vacant(size, dtype, sparse_dim=None):
    """A tensor that keeps no element, by coordinates of the first ``sparse_dim`` dimensions (all)."""
    size = tuple(size)
    count = len(size) if sparse_dim is None else sparse_dim
    return made(Coo, size, OPS["zeros"]((0, *size[count:]), dtype=dtype),
                positions=OPS["zeros"]((count, 0), dtype=int64), coalesced=True)


def unravelled(places, sizes):
    """Row-major numbers as positions [dimensions, n]."""
    steps = row_major(sizes)
    return OPS["stack"]([places // step % max(size, 1)
                         for size, step in zip(sizes, steps)]) if sizes else places.new_zeros((0, places.size(0)))


class Csr(Sparse):
    """A matrix row by row: where each row starts among the elements, and their columns."""

    layout, is_sparse_csr, turn = convert.sparse_csr, True, " "
    places_of = "starts", "columns"

    def coo(self):
        counts = self.starts[1:] - self.starts[:-1]
        rows = OPS["arange"](self.shape[0]).repeat_interleave(counts)
        return made(Coo, self.shape, self.elements, positions=OPS["stack"]([rows, self.columns.to(int64)]),
                    coalesced=True)

    def with_elements(self, elements):
        return made(Csr, self.shape, elements, starts=self.starts, columns=self.columns)

    def parts(self):
        return ("crow_indices", repr(self.starts)), ("col_indices",
                                                     repr(self.columns)), ("values", repr(self.elements.detach()))

    def sparse_dim(self) -> int:
        return 2

    def crow_indices(self):
        """Where each row starts among the elements: [rows + 1]."""
        return self.starts

    def col_indices(self):
        """The column of each element."""
        return self.columns

    def values(self):
        """The elements, row by row."""
        return self.elements

    def to_sparse_csr(self, dense_dim=None):
        return self


def given_size(size, needed):
    """The size asked for; RuntimeError where positions lie beyond it."""
    if size is None:
        return needed
    size = tuple(size)
    if len(size) != len(needed):
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({len(needed)} with the dense ones), but got size {list(size)}")
    if any(n > s for n, s in zip(needed, size)):
        raise RuntimeError(
            f"size is inconsistent with indices: size {list(size)} is given, and {list(needed)} at least is needed by "
            "indices and values")
    return size


def sparse_coo_tensor(indices, values=None, size=None, *, dtype=None, device=None, pin_memory=False,
                      requires_grad=False, check_invariants=None, is_coalesced=None):
    """A tensor of ``size`` with ``values`` [n, *dense] at ``indices`` [sparse dimensions, n], zero elsewhere.

    RuntimeError for indices that are negative, beyond size, or not as many as values.
    """
    if values is None or isinstance(values, (tuple, list)) and size is None and not isinstance(indices, Tensor):
        if values is None:
            size, indices = tuple(indices), OPS["zeros"]((len(tuple(indices)), 0), dtype=int64)
            values = OPS["zeros"]((0,), dtype=dtype)
    at, elements = as_tensor(indices), as_tensor(values, dtype=dtype)
    if at.dtype.category != INTEGER:
        raise TypeError(f"indices must be integers, got {at.dtype}")
    at = at.to(int64)
    if at.dim() == 1 and elements.dim() <= 1:
        at = at.reshape(1, -1) if elements.dim() else at.reshape(-1, 1)
    elements = elements.reshape(1) if not elements.dim() else elements
    if at.dim() != 2 or at.size(1) != elements.size(0):
        raise RuntimeError(
            f"indices and values must have same nnz: indices have size {list(at.shape)}, values {list(elements.shape)}")
    if at.numel() and int(at.min()) < 0:
        raise RuntimeError(f"found negative index {int(at.min())}")
    # their own sizes may change
    at, elements = at.detach() if at is indices else at, elements.view(
        tuple(elements.shape)) if elements is values else elements
    needed = (*(at.max(1).values + 1).tolist(),) if at.numel() else (0,) * at.size(0)
    shape = given_size(size, (*needed, *elements.shape[1:]))
    if wanted(check_invariants):
        coo(at, elements, shape, is_coalesced)
    out = made(Coo, shape, elements if dtype is None else elements.to(dtype), positions=at,
               coalesced=bool(is_coalesced))
    return out.requires_grad_() if requires_grad else out


def check_starts(starts, across, count, name="crow_indices"):
    """The starts as a list.  RuntimeError unless they rise from 0 to the number of elements, and for places below 0."""
    ends = starts.tolist()
    if ends and ends[0] != 0:
        raise RuntimeError(f"`{name}[..., 0] == 0` is not satisfied.: the first is {ends[0]}")
    if not ends or ends[-1] != count or any(a > b for a, b in zip(ends, ends[1:])):
        raise RuntimeError(f"compressed indices must rise from 0 to the number of values, {count}; got {ends[:8]}...")
    if across.numel() and int(across.min()) < 0:
        raise RuntimeError(f"found negative column or row {int(across.min())}")
    return ends


def sparse_csr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False,
                      requires_grad=False, check_invariants=None):
    """A matrix by rows: row i has ``values[crow_indices[i]:crow_indices[i + 1]]`` in columns ``col_indices`` of these.

    RuntimeError for starts that do not fit the values, and for columns beyond size.
    """
    starts, columns, elements = as_tensor(crow_indices).to(int64), as_tensor(col_indices).to(int64), as_tensor(
        values, dtype=dtype)
    if starts.dim() != 1 or columns.dim() != 1 or columns.size(0) != elements.size(0):
        raise RuntimeError(
            "crow_indices and col_indices are vectors, and there is a column for each value; got sizes "
            f"{list(starts.shape)}, {list(columns.shape)} and "
            f"{list(elements.shape)}")
    ends = check_starts(starts, columns, elements.size(0))
    shape = given_size(size, (len(ends) - 1, int(columns.max()) + 1 if columns.numel() else 0))
    if shape[0] != len(ends) - 1:
        raise RuntimeError(f"size {list(shape)} has {shape[0]} rows, but crow_indices tell of {len(ends) - 1}")
    if wanted(check_invariants):
        compressed(starts, columns, elements, shape, convert.sparse_csr)
    out = made(Csr, shape, elements if dtype is None else elements.to(dtype), starts=starts, columns=columns)
    return out.requires_grad_() if requires_grad else out


def to_sparse(dense, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The elements that are not zero, by coordinates of the first ``sparse_dim`` dimensions (all), or in compressed
    rows."""
    if layout is convert.sparse_csr:
        return to_sparse(dense).to_sparse_csr()
    if layout in (convert.sparse_csc, convert.sparse_bsr, convert.sparse_bsc):
        from .compressed import in_layout
        return in_layout(dense, layout, blocksize)
    if layout not in (None, convert.sparse_coo):
        raise NotImplementedError(
            f"to_sparse: layouts are torch.sparse_coo, sparse_csr, sparse_csc, sparse_bsr and sparse_bsc, got {layout}")
    count = dense.dim() if sparse_dim is None else sparse_dim
    if not min(dense.dim(), 1) <= count <= dense.dim():
        raise RuntimeError(f"sparse_dim must be in [1, {dense.dim()}], got {count}")
    hit = dense.detach() != 0
    hit = hit.flatten(count).any(-1) if count < dense.dim() else hit
    at = hit.nonzero().t()
    return made(Coo, dense.shape, dense[tuple(at)] if count else dense.reshape(1)[hit.reshape(1)], positions=at,
                coalesced=True)


def masked(dense, mask):
    """The elements of a dense tensor at the places that a sparse one keeps."""
    own = mask.coo()
    kept = dense[tuple(own.positions)]
    out = made(Coo, mask.shape, kept, positions=own.positions, coalesced=own.coalesced)
    return out if isinstance(mask, Coo) else mask.with_flat(out.elements)
