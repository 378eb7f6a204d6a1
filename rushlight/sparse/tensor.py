"""Sparse tensors, and those of the COO layout.  Their elements are an ordinary tensor, through which gradients flow."""
from __future__ import annotations

from .._src.core import convert
from .._src.core.composed import Composed
from .._src.core.dtypes import INTEGER, int64
from .._src.core.errors import UnsupportedLayoutError
from .._src.core.exchange import as_tensor
from .._src.core.later import entered
from .._src.core.meta import Meta, product
from .._src.core.native import Tensor, allocate
from .._src.core.op import OPS, pinned
from .._src.core.tensor import blank
from .indices import ravel, unravel
from .text import spell
from .validation import coo, wanted

answer = entered("sparse.rules", "answer")
convert_sparse, compress_dense = (entered("sparse.conversion", name) for name in ("convert_sparse", "compress_dense"))


class Sparse(Composed):
    """A tensor that stores only some elements.  It has the sizes of the dense tensor, and no memory of its own."""

    inner = property(lambda self: self.elements)
    real = property(lambda self: self.with_elements(self.elements.real) if self.is_complex() else self)
    places_of, noted = (), ()  # the fields that say where elements are, and others

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return answer(func, args, kwargs or {})

    def around(self, inner):
        return self.with_elements(inner)

    def as_gradient(self):
        return self.to_dense()

    def inner_gradient(self, value):
        """Return the values of a gradient, sparse with any indices or dense, at the index of each element."""
        if type(value) is type(self) and all(getattr(self, name) is getattr(value, name)
                                             for name in self.places_of) and getattr(value, "coalesced", True):
            return value.elements
        wanted = self.coo()
        if not isinstance(value, Sparse):
            return value[tuple(wanted.positions)].reshape(self.elements.shape)
        value = value.coo()
        if value.sparse_dim() != wanted.sparse_dim():
            value, wanted = value.expand_dense(), wanted.expand_dense()
        return look_up(value.coalesce(), wanted.flat()).reshape(self.elements.shape)

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
        self._rush_meta, self.elements = Meta(tuple(other.shape), (0,) * other.dim(), dtype,
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
        """This matrix, or batch of matrices, in the CSR layout.  RuntimeError for another ``dense_dim`` than its
        own."""
        self.check_dense_dim(convert.sparse_csr, dense_dim)
        return convert_layout(self, convert.sparse_csr)

    def to_sparse_coo(self):
        """This tensor in the COO layout."""
        return convert_layout(self, convert.sparse_coo)

    def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
        """This tensor in another layout, COO by default; stored zeros stay.  RuntimeError for another ``sparse_dim`` or
        ``dense_dim`` than its own."""
        if sparse_dim not in (None, self.sparse_dim()):
            raise RuntimeError(f"to_sparse: conversion from {convert.spell_layout(self.layout)} to Sparse with "
                               f"sparse_dim argument !={self.sparse_dim()} is not supported, got {sparse_dim}")
        layout = layout or convert.sparse_coo
        self.check_dense_dim(layout, dense_dim)
        return convert_layout(self, layout, blocksize)

    def check_dense_dim(self, layout, dense_dim):
        """Raise RuntimeError for another ``dense_dim`` than this tensor's: conversions keep dense dimensions."""
        if dense_dim not in (None, self.dense_dim()):
            raise RuntimeError(f"to_sparse: conversion from {convert.spell_layout(self.layout)} to "
                               f"{convert.spell_layout(layout)} with dense_dim argument !={self.dense_dim()} is not "
                               f"supported, got {dense_dim}")

    def _nnz(self) -> int:
        return self.elements.size(0)

    def _values(self):
        return self.elements.detach()

    def dense_dim(self) -> int:
        """How many of the last dimensions are kept whole for each element."""
        return self.elements.dim() - 1

    def __getitem__(self, key):
        """A slice, by an int, ``None`` or a full slice for each of the first dimensions."""
        found, dim = self, 0
        for index in key if isinstance(key, tuple) else (key,):
            if index is None:
                found = OPS["unsqueeze"](found, dim)
            elif isinstance(index, int) and not isinstance(index, bool):
                found, dim = OPS["select"](found, dim, index), dim - 1
            elif not isinstance(index, slice) or index != slice(None):
                raise UnsupportedLayoutError(
                    f"a sparse tensor takes ints, None and full slices as indices, got {index!r}", "ints",
                    "use index_select, or to_dense() first")
            dim += 1
        return found

    def to_dense(self, dtype=None, *, masked_grad=None):
        """The whole tensor, zero where nothing is kept."""
        dense = self.coo().spread()
        return dense if dtype is None else dense.to(dtype)

    def detach(self):
        return self.with_elements(self.elements.detach())

    def clone(self, *, memory_format=None):
        refuse_format(memory_format)
        return self.with_elements(self.elements.clone())

    def to(self, *args, **kwargs):
        """This tensor with elements of another dtype."""
        return self.with_elements(self.elements.to(*args, **kwargs))

    def sparse_mask(self, mask):
        """The elements of this tensor at the positions of ``mask``, 0 where this tensor has none."""
        need_sparse("sparse_mask", mask)
        check_sizes("sparse_mask", self, mask)
        own, wanted = self.coo().coalesce(), mask.coo()
        if own.sparse_dim() != wanted.sparse_dim():
            raise RuntimeError(f"sparse_mask(): expected as many sparse dimensions, got {own.sparse_dim()} and "
                               f"{wanted.sparse_dim()}")
        return mask.with_flat(look_up(own, wanted.flat()))

    def __repr__(self, *, tensor_contents=None):
        return spell(self, self.is_sparse)


def made(kind, shape, elements, **fields):
    """A sparse tensor; its metadata show one place in memory for all elements."""
    shape = tuple(shape)
    out = blank(kind)
    out._rush_meta = Meta(shape, (0,) * len(shape), elements.dtype, elements.device)
    out._rush_storage, out._rush_offset, out.itemsize = allocate(elements.dtype.itemsize), 0, elements.dtype.itemsize
    out.elements = elements
    for name, value in fields.items():
        setattr(out, name, value)
    return out


def make_unordered(shape, elements, positions):
    """Return a COO tensor with unsorted, possibly duplicate indices: coalesced if it has at most one element."""
    return made(Coo, shape, elements, positions=positions, coalesced=elements.size(0) < 2)


class Coo(Sparse):
    """Elements [n, *dense] at positions [sparse dimensions, n]; of several at one place the sum counts, until
    ``coalesce``."""

    layout, is_sparse = convert.sparse_coo, True
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
        return made(Coo, self.shape, elements, positions=unravel(places, tuple(self.shape)[:self.sparse_dim()]),
                    coalesced=True)

    def places(self):
        """(the places that occur, in order, as numbers; which of them each element has)."""
        return OPS["unique"](self.flat(), return_inverse=True)

    def parts(self):
        """The names and tensors that are printed."""
        return ("indices", self.positions), ("values", self.elements.detach())

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
        return ravel(self.positions, tuple(self.shape)[:self.sparse_dim()])

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

    def expand_dense(self):
        """This tensor with every dimension sparse: an element for each element of the dense dimensions."""
        inner = tuple(self.elements.shape[1:])
        if not inner:
            return self
        count = self._nnz()
        within = unravel(OPS["arange"](product(inner)), inner).repeat(1, count)
        outer = self.positions.repeat_interleave(product(inner), 1)
        return made(Coo, self.shape, self.elements.reshape(-1), positions=OPS["cat"]([outer, within]),
                    coalesced=self.coalesced)

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
        if len(size) != sparse_dim + dense_dim:
            raise RuntimeError(f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
                               f"sparse_dim = {sparse_dim}, dense_dim = {dense_dim}")
        self.become(vacant(size, self.dtype, sparse_dim))
        return self



def move(tensor, device, pin_memory=False):
    """Return a new tensor on a device, if one is given, and in pinned memory."""
    tensor = tensor if device is None else tensor.to(device)
    if not pin_memory:
        return tensor
    return tensor.with_elements(pinned(tensor.elements)) if isinstance(tensor, Sparse) else pinned(tensor)


def refuse_format(memory_format):
    """Raise RuntimeError for a memory format, which sparse tensors do not have."""
    if memory_format is not None:
        raise RuntimeError("memory format option is only supported by strided tensors: expected None, got "
                           f"{memory_format}")


def vacant(size, dtype, sparse_dim=None):
    """A tensor that keeps no element, by coordinates of the first ``sparse_dim`` dimensions (all)."""
    size = tuple(size)
    count = len(size) if sparse_dim is None else sparse_dim
    return made(Coo, size, OPS["zeros"]((0, *size[count:]), dtype=dtype),
                positions=OPS["zeros"]((count, 0), dtype=int64), coalesced=True)


def given_size(size, needed):
    """Return the requested size; RuntimeError if indices exceed it."""
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
    if at.dtype.category != INTEGER and at.numel():  # an empty list has the default dtype
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
    out = make_unordered(shape, elements if dtype is None else elements.to(dtype), at)
    if is_coalesced is not None:
        out.coalesced = bool(is_coalesced)
    out = move(out, device, pin_memory)
    return out.requires_grad_() if requires_grad else out


def need_sparse(name, x):
    """RuntimeError for tensors that are not sparse."""
    if not isinstance(x, Sparse):
        raise RuntimeError(f"{name}: expected a sparse tensor, got the layout {x.layout}. Convert it with to_sparse() "
                           "first.")


def check_sizes(name, a, b):
    """RuntimeError unless two tensors have the same size."""
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(f"{name}(): operands have incompatible sizes; self has size {list(a.shape)} but mask has "
                           f"size {list(b.shape)}")


def look_up(x, at):
    """The elements of a coalesced COO tensor at row-major positions ``at``; 0 where it has none."""
    if not x._nnz():
        return x.elements.new_zeros((at.size(0), *x.elements.shape[1:]))
    positions = x.flat()
    found = OPS["searchsorted"](positions, at).clamp(max=positions.size(0) - 1)
    hit = (positions[found] == at).reshape(-1, *[1] * (x.elements.dim() - 1))
    return OPS["where"](hit, x.elements[found], OPS["zeros"]((), dtype=x.dtype))


def check_blocksize(source, layout, blocksize):
    """Raise RuntimeError for a size of blocks where the layout has none."""
    if blocksize is not None and layout not in (convert.sparse_bsr, convert.sparse_bsc):
        raise RuntimeError(f"to_sparse: conversion from {convert.spell_layout(source)} to "
                           f"{convert.spell_layout(layout)} with blocksize argument given is not supported")


def convert_layout(x, layout, blocksize=None):
    """A sparse tensor in another layout, by sorting its indices."""
    check_blocksize(x.layout, layout, blocksize)
    return x if layout is x.layout and blocksize is None else convert_sparse(x, layout, blocksize)


def to_sparse(dense, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The elements other than 0 of a strided tensor: in the COO layout by its first ``sparse_dim`` dimensions (all but
    the last ``dense_dim``), or in a compressed layout."""
    check_blocksize(dense.layout, layout, blocksize)
    if layout is convert.strided:
        return dense
    dense_dim = dense_dim or 0
    if not 0 <= dense_dim <= dense.dim():
        raise RuntimeError(f"to_sparse: dense_dim argument must be in range [0, {dense.dim()}], got {dense_dim}")
    if layout not in (None, convert.sparse_coo):
        return compress_dense(dense, layout, blocksize, dense_dim)
    count = dense.dim() - dense_dim if sparse_dim is None else sparse_dim
    if not min(dense.dim(), 1) <= count <= dense.dim():
        raise RuntimeError(f"sparse_dim must be in [1, {dense.dim()}], got {count}")
    hit = dense.detach() != 0
    hit = hit.flatten(count).any(-1) if count < dense.dim() else hit
    at = hit.nonzero().t()
    return made(Coo, dense.shape, dense[tuple(at)] if count else dense.reshape(1)[hit.reshape(1)], positions=at,
                coalesced=True)


def masked(dense, mask):
    """The elements of a dense tensor at the positions of a sparse one, in its layout."""
    need_sparse("sparse_mask", mask)
    check_sizes("sparse_mask", dense, mask)
    own = mask.coo()
    kept = dense[tuple(own.positions)]
    out = made(Coo, mask.shape, kept, positions=own.positions, coalesced=own.coalesced)
    return out if isinstance(mask, Coo) else mask.with_flat(out.elements)
