"""Nested tensors: packed examples of different lengths.  Their rows are an ordinary tensor, through which gradients
flow."""
from __future__ import annotations

from .._src.core import convert
from .._src.core.composed import Composed
from .._src.core.dtypes import int64
from .._src.core.errors import UnsupportedLayoutError
from .._src.core.exchange import as_tensor, from_numpy
from .._src.core.meta import Meta, Size
from .._src.core.native import allocate
from .._src.core.op import OPS
from .._src.core.tensor import blank, wrapped
from .ragged import Ragged

ROW_MAJOR = None, convert.contiguous_format, convert.preserve_format


class Nested(Composed):
    """A batch whose examples differ in the size of one dimension, ``ragged``, number ``at`` of all (the batch is number
    0).

    ``rows`` has all other dimensions; the examples are concatenated along its dimension ``at - 1``.
    """

    is_nested, answers = True, None  # answers: a function of operators and their arguments, see rules.py
    layout = property(lambda self: self.laid_out)
    inner = property(lambda self: self.rows)
    ndim = property(lambda self: self.rows.dim() + 1)
    _ragged_idx = property(lambda self: self.at)
    _max_seqlen = property(lambda self: self.ragged.longest)
    _min_seqlen = property(lambda self: self.ragged.shortest)
    # maximum and minimum lengths that the caller passed are not kept: offsets give them
    _max_seqlen_tensor = _min_seqlen_tensor = None
    _metadata_cache = property(lambda self: {"max_seqlen": self._max_seqlen, "min_seqlen": self._min_seqlen})
    _base = property(lambda self: self.rows._base)
    T = property(lambda self: self.t())
    mT = property(lambda self: OPS["transpose"](self, -2, -1))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if any(getattr(kind, "by_examples", False) for kind in types):
            return NotImplemented  # tensors that differ in several sizes answer for both
        return cls.answers(func, args, kwargs or {})

    @property
    def shape(self):
        sizes = list(self.rows.shape)
        sizes[self.at - 1] = self.ragged
        return Size((self.ragged.count, *sizes))

    def size(self, dim=None):
        """All sizes, or one; that of the ragged dimension is its Ragged."""
        return self.shape if dim is None else self.shape[wrapped(dim, self.dim())]

    def _nested_tensor_size(self):
        """The sizes of each example: [examples, dimensions of one], int64."""
        rows, lengths = list(self.rows.shape), from_numpy(self.ragged.read()[1].copy())
        return OPS["stack"]([lengths if k == self.at - 1 else lengths.new_full(lengths.shape, size)
                             for k, size in enumerate(rows)], 1)

    def _nested_tensor_strides(self):
        """The strides of each example: [examples, dimensions of one], int64."""
        count = self.ragged.count
        return as_tensor(list(self.rows.stride()), dtype=int64).expand(count, -1).contiguous()

    def _nested_tensor_storage_offsets(self):
        """The storage offset of each example: [examples], int64."""
        return as_tensor([x.storage_offset() for x in self.unbind()], dtype=int64)

    def dim(self) -> int:
        return self.rows.dim() + 1

    def numel(self) -> int:
        return contiguous(self).rows.numel()

    nelement = numel
    nbytes = property(lambda self: self.numel() * self.rows.element_size())

    def covers(self) -> bool:
        """Whether every row belongs to an example.  RuntimeError where examples end beyond the rows."""
        rows = self.rows.size(self.at - 1)
        self.ragged.check(rows)
        return not self.ragged.gaps and self.ragged.end == rows

    def is_contiguous(self, memory_format=None) -> bool:
        """True if examples are concatenated in row-major order, or their rows have ``memory_format``."""
        if memory_format not in ROW_MAJOR:
            return self.covers() and self.rows.is_contiguous(memory_format=memory_format)
        return self.at == 1 and self.covers() and self.rows.is_contiguous()

    def contiguous(self, memory_format=None):
        if memory_format not in ROW_MAJOR:
            return self.with_rows(self.rows.contiguous(memory_format=memory_format))
        return self if self.is_contiguous() else contiguous(self)

    # --- parts --------------------------------------------------------------------------------------------------------
    def values(self):
        """Return the concatenated rows of all examples."""
        return self.rows

    _values = property(values)

    def offsets(self):
        """Return the start of each example among the rows, and the end of the last one: [examples + 1]."""
        return self.ragged.starts

    _offsets = property(offsets)

    def lengths(self):
        """How many rows each example has, if offsets do not tell; else None."""
        return self.ragged.lengths

    _lengths = property(lengths)

    def unbind(self, dim=0):
        """The examples, each a view of its rows."""
        if wrapped(dim, self.dim()):
            raise RuntimeError(f"unbind(): only supported for NestedTensor on dim=0, got dim={dim}")
        return tuple(OPS["narrow"](self.rows, self.at - 1, start, length) for start, length in self.ragged.spans())

    def __len__(self):
        return self.ragged.count

    def __iter__(self):
        return iter(self.unbind())

    def __getitem__(self, key):
        """An example by its number, or a slice of dimensions behind the ragged one."""
        first, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(first, int):
            one = self.unbind()[first]
            return one[tuple(rest)] if rest else one
        if first == slice(None) and Ellipsis not in rest and (len(rest) < self.at or rest[self.at - 1]
                                                              == slice(None)) and all(isinstance(k, (int, slice))
                                                                                      for k in rest):
            gone = sum(isinstance(k, int) for k in rest[:self.at])
            return made(self.rows[tuple(rest)], self.ragged, self.at - gone, self.layout)
        raise UnsupportedLayoutError(f"a nested tensor is indexed by {key!r}",
                                     "a number for the batch, then anything; or ':' for the batch and the ragged "
                                     "dimension",
                                     "index the examples, x.unbind(), one by one")

    def tolist(self):
        return [x.tolist() for x in self.unbind()]

    def to_padded_tensor(self, padding, output_size=None):
        """A dense tensor in which shorter examples are filled up with ``padding``; see ``nested.to_padded_tensor``."""
        from .padding import padded
        return padded(self, padding, output_size)

    # --- history ------------------------------------------------------------------------------------------------------
    def retain_grad(self):
        self.rows.retain_grad()

    # --- copies -------------------------------------------------------------------------------------------------------
    def around(self, inner):
        return self.with_rows(inner)

    def with_rows(self, rows):
        return made(rows, self.ragged, self.at, self.layout)

    def to(self, *args, **kwargs):
        """This tensor with rows of another dtype."""
        return self.with_rows(self.rows.to(*(a.rows if isinstance(a, Nested) else a for a in args), **kwargs))

    def __reduce_ex__(self, protocol):
        return restored, (self.rows, self.ragged.starts, self.ragged.lengths, self.at, self.layout)

    def __repr__(self, *, tensor_contents=None):
        if self.layout is convert.strided:
            parts = ",\n".join("  " + repr(x.detach()).replace("\n", "\n  ") for x in self.unbind())
            return f"nested_tensor([\n{parts}\n])"
        history = (f", grad_fn={self.grad_fn}" if self.grad_fn is not None
                   else ", requires_grad=True" if self.requires_grad else "")
        sizes = ", ".join(map(str, self.shape))
        return (f"NestedTensor(size=({sizes}), offsets={self.ragged.starts!r}{history}, "
                f"contiguous={self.is_contiguous()})")

    __str__ = __repr__

    def __format__(self, spec):
        return repr(self)

    def numpy(self):
        raise RuntimeError(
            ".numpy() is not supported for tensor subclasses. Take values().numpy(), or to_padded_tensor(0.0).numpy().")

    def __array__(self, dtype=None, copy=None):
        return self.numpy()


def made(rows, ragged, at=1, layout=convert.jagged) -> Nested:
    """A nested tensor over these rows; its metadata show one place in memory for all of them."""
    out = blank(Nested)
    sizes = (ragged.count, *rows.shape)
    out._rush_meta = Meta(sizes, (0,) * len(sizes), rows.dtype, rows.device)
    out._rush_storage, out._rush_offset, out.itemsize = allocate(rows.dtype.itemsize), 0, rows.dtype.itemsize
    out.rows, out.ragged, out.at, out.laid_out = rows, ragged, at, layout
    return out


def restored(rows, starts, lengths, at, layout):
    """A nested tensor from its pickled parts."""
    return made(rows, Ragged(starts, lengths), at, layout)


def contiguous(x: Nested) -> Nested:
    """Return examples concatenated in row-major order, without unused rows; the ragged dimension stays in its
    position."""
    if x.covers():
        return x.with_rows(OPS["contiguous"](x.rows))
    return made(OPS["index_select"](x.rows, x.at - 1, x.ragged.rows), x.ragged.packed(), x.at, x.layout)
