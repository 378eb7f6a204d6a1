"""Nested tensors of the strided layout whose examples differ in several sizes.  Their elements are one vector, through
which gradients flow: elementwise operators act on the vector, others on each example."""
from __future__ import annotations

import math

from .._src.core import convert
from .._src.core.composed import Composed
from .._src.core.dtypes import int64
from .._src.core.errors import UnsupportedLayoutError
from .._src.core.exchange import as_tensor
from .._src.core.meta import Meta
from .._src.core.native import allocate
from .._src.core.op import OPS
from .._src.core.tensor import blank, wrapped


class Uneven(Composed):
    """A batch of examples of any ``sizes``, all with as many dimensions; ``elements`` has those of one example after
    those of another, in row-major order."""

    is_nested, by_examples, answers = True, True, None  # answers: see uneven_rules.py
    layout = property(lambda self: convert.strided)
    at = None  # no dimension alone is ragged
    inner = property(lambda self: self.elements)
    ndim = property(lambda self: self.dim())

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls.answers(func, args, kwargs or {})

    @property
    def shape(self):
        raise RuntimeError("a nested tensor whose examples differ in several sizes has no shape: ask for size(0), or "
                           "for the shapes of its unbind()")

    def size(self, dim=None):
        """The size of a dimension.  RuntimeError if examples differ in it, or for all dimensions at once."""
        if dim is None:
            return self.shape
        at = wrapped(dim, self.dim())
        found = {sizes[at - 1] for sizes in self.sizes} if at else {len(self.sizes)}
        if len(found) > 1:
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size: examples have "
                               f"{sorted(found)} there")
        return found.pop()

    def dim(self) -> int:
        return 1 + (len(self.sizes[0]) if self.sizes else 0)

    def numel(self) -> int:
        return self.elements.numel()

    nelement = numel
    nbytes = property(lambda self: self.elements.nbytes)

    def _nested_tensor_size(self):
        """The sizes of each example: [examples, dimensions of one], int64."""
        return as_tensor([list(sizes) for sizes in self.sizes], dtype=int64)

    def _nested_tensor_strides(self):
        """The strides of each example: [examples, dimensions of one], int64."""
        return as_tensor([[math.prod(sizes[k + 1:]) for k in range(len(sizes))] for sizes in self.sizes], dtype=int64)

    def _nested_tensor_storage_offsets(self):
        """The storage offset of each example: [examples], int64."""
        return as_tensor([x.storage_offset() for x in self.unbind()], dtype=int64)

    def is_contiguous(self, memory_format=None) -> bool:
        return True

    def contiguous(self, memory_format=None):
        return self

    def unbind(self, dim=0):
        """The examples, each a view of its elements."""
        if wrapped(dim, self.dim()):
            raise RuntimeError(f"unbind(): only supported for NestedTensor on dim=0, got dim={dim}")
        parts = OPS["split_with_sizes"](self.elements, [math.prod(sizes) for sizes in self.sizes]) if self.sizes else ()
        return tuple(OPS["view"](part, sizes) for part, sizes in zip(parts, self.sizes))

    def __len__(self):
        return len(self.sizes)

    def __iter__(self):
        return iter(self.unbind())

    def __getitem__(self, key):
        """An example by its number, and what it gives for the rest of the key."""
        first, *rest = key if isinstance(key, tuple) else (key,)
        if not isinstance(first, int):
            raise unsupported("getitem")
        one = self.unbind()[first]
        return one[tuple(rest)] if rest else one

    def tolist(self):
        return [x.tolist() for x in self.unbind()]

    def to_padded_tensor(self, padding, output_size=None):
        """A dense tensor [examples, *] of the largest sizes, or of ``output_size``, filled up with ``padding``."""
        if not self.sizes:
            raise RuntimeError("to_padded_tensor(): at least one constituent tensor should have non-zero numel, got "
                               "none")
        least = [max(sizes) for sizes in zip(*self.sizes)]
        wanted = least if output_size is None else list(output_size)[1:]
        if output_size is not None and (len(output_size) != self.dim() or output_size[0] < len(self)
                                        or any(want < have for want, have in zip(wanted, least))):
            raise RuntimeError(f"to_padded_tensor(): output_size {tuple(output_size)} does not hold {len(self)} "
                               f"examples of up to {least}")
        parts = []
        for example in self.unbind():
            spare = [n for have, want in zip(reversed(example.shape), reversed(wanted)) for n in (0, want - have)]
            parts.append(OPS["nn.functional.pad"](example, spare, value=padding) if spare else example)
        more = 0 if output_size is None else output_size[0] - len(self)
        return OPS["stack"](parts + [OPS["full_like"](parts[0], padding)] * more)

    def around(self, inner):
        return made_uneven(inner, self.sizes)

    def to(self, *args, **kwargs):
        """This tensor with elements of another dtype."""
        return self.around(self.elements.to(*(getattr(a, "elements", a) for a in args), **kwargs))

    def __reduce_ex__(self, protocol):
        return made_uneven, (self.elements, self.sizes)

    def __repr__(self, *, tensor_contents=None):
        parts = ",\n".join("  " + repr(x.detach()).replace("\n", "\n  ") for x in self.unbind())
        return f"nested_tensor([\n{parts}\n])"

    __str__ = __repr__

    def __format__(self, spec):
        return repr(self)

    def numpy(self):
        raise RuntimeError(".numpy() is not supported for nested tensors: take to_padded_tensor(0.0).numpy()")


def made_uneven(elements, sizes) -> Uneven:
    """The nested tensor of these elements; its metadata show one place in memory for all of them."""
    out = blank(Uneven)
    shape = (len(sizes), *map(max, zip(*sizes)))
    out._rush_meta = Meta(shape, (0,) * len(shape), elements.dtype, elements.device)
    out._rush_storage, out._rush_offset = allocate(elements.dtype.itemsize), 0
    out.itemsize, out.elements, out.sizes = elements.dtype.itemsize, elements, [tuple(s) for s in sizes]
    return out


def concatenate(parts, dtype=None, device=None) -> Uneven:
    """Tensors as the examples of one nested tensor, through which gradients reach them."""
    flat = [x.reshape(-1) for x in parts] or [OPS["empty"]((0,), dtype=dtype, device=device)]
    return made_uneven(OPS["cat"](flat), [tuple(x.shape) for x in parts])


def unsupported(name):
    """Return the error for an operator without a rule for these tensors."""
    return UnsupportedLayoutError(f"{name}: not implemented for nested tensors that differ in several sizes",
                                  "dense tensors", "use to_padded_tensor() or unbind() first")
