"""Members of tensors: of other layouts and devices, those that PyTorch has removed, and transposed matrices."""
from __future__ import annotations

import numpy as np

from .advice import warn
from . import legacy_types  # noqa: F401 - attaches its methods
from .convert import contiguous_format, spell_layout, to_type
from .native import Tensor
from .op import OPS
from .overriding import NOBODY, answered
from .tensor import attach

OF_LAYOUTS = {"sparse coordinate": ("indices", "coalesce", "is_coalesced", "_indices", "_nnz"),
              "sparse row compressed": ("crow_indices", "col_indices"),
              "sparse column compressed": ("ccol_indices", "row_indices"), "sparse": ("values",),
              "nested": ("to_padded_tensor",)}
REMOVED = {"symeig": "torch.linalg.eigh", "eig": "torch.linalg.eig", "lstsq": "torch.linalg.lstsq",
           "solve": "torch.linalg.solve"}


def of_layout(name: str, layout: str):
    """A method that tensors of another layout have."""
    def refuse(self, *args, **kwargs):
        own = getattr(type(self), name)
        if own is not refuse:  # asked for as Tensor.name(x)
            return own(self, *args, **kwargs)
        raise RuntimeError(
            f"{name} expected {layout} tensor layout but got {spell_layout(self.layout)}: convert it by to_sparse() or "
            "to_sparse_csr() first")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Of tensors of {layout} layout; RuntimeError for others."
    attach(refuse)


def removed(name: str, instead: str):
    """A method that PyTorch removed."""
    def refuse(self, *args, **kwargs):
        raise RuntimeError(
            f"Tensor.{name} is removed from PyTorch: write {instead}, whose arguments and results may come in another "
            "order")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Removed from PyTorch: RuntimeError that names {instead}."
    attach(refuse)


for _layout, _names in OF_LAYOUTS.items():
    for _name in _names:
        of_layout(_name, _layout)
for _name, _instead in REMOVED.items():
    removed(_name, _instead)
for _name in ("xpu", "mtia", "ipu", "hpu"):
    attach(to_type(_name))
for _name in ("is_xla", "is_ipu", "is_maia", "is_mtia", "is_hpu"):
    setattr(Tensor, _name, False)
Tensor.name = None  # of a Variable, long ago
Tensor._cdata = property(id, doc="A number that no other tensor has while this one lives.")


@attach
def sparse_dim(self) -> int:
    """How many dimensions are sparse: none."""
    return 0


@attach
def dense_dim(self) -> int:
    """How many dimensions are dense: all."""
    return self.dim()


@attach
@property
def output_nr(self) -> int:
    """The index of the tensor among its operator's results."""
    return self._rush_output


@attach
@property
def volatile(self) -> bool:
    """False: ``no_grad`` took its place."""
    warn("volatile was removed (Variable.volatile is always False)")
    return False


@attach
def __dir__(self):
    """The names that every tensor of this kind has, and those of this one."""
    found = set(object.__dir__(self)) - {"volatile"}
    return sorted(found if self.is_cuda else found - {"__cuda_array_interface__"})


@attach
def is_distributed(self) -> bool:
    """False: the elements are all here."""
    return False


@attach
def record_stream(self, stream):
    """Record that a stream uses a tensor that was made on another: after it is freed, its memory is reused only when
    the work queued on the stream by then is done."""
    where = self._rush_meta.device
    where.provider.used_by(where.index or 0, self._rush_storage, stream.stream_id)


@attach
def dim_order(self, *, ambiguity_check=False) -> tuple:
    """The dimensions, that of the largest stride first; RuntimeError with ``ambiguity_check`` where strides leave a
    choice.

    >>> import rushlight as torch
    >>> torch.empty(2, 3, 4).transpose(0, 2).dim_order()
    (2, 1, 0)
    """
    strides = self.stride()
    if ambiguity_check and len({s for s, n in zip(strides, self.shape) if n > 1}) < sum(n > 1 for n in self.shape):
        raise RuntimeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats: "
            f"strides {strides} of sizes {tuple(self.shape)}")
    return tuple(sorted(range(self.dim()), key=lambda d: -strides[d]))


@attach
def resize(self, *sizes):
    """``reshape`` by an older name, for as many elements as there are."""
    warn("non-inplace resize is deprecated: write reshape")
    return OPS["reshape"](self, *sizes)


@attach
def resize_as(self, tensor):
    """``reshape_as`` by an older name."""
    return self.resize(tuple(tensor.shape))


@attach
def map2_(self, x, y, function):
    """Sets every element to ``function(it, the element of x, the element of y)``, in place."""
    from .exchange import to_numpy
    if any(t.requires_grad for t in (self, x, y)):
        raise RuntimeError("map2_: not supported for a tensor that requires grad: pass its detach()")
    mine, first, second = (to_numpy(t.expand(tuple(self.shape))) for t in (self, x, y))
    for index in np.ndindex(mine.shape):
        mine[index] = function(mine[index].item(), first[index].item(), second[index].item())
    return self


@attach
def i0_(self):
    """``i0`` in place."""
    return self.copy_(OPS["special.i0"](self))


@attach
def polygamma_(self, n):
    """``polygamma`` in place."""
    return self.copy_(OPS["polygamma"](n, self))


@attach
def module_load(self, other, assign=False):
    """The replacement of this tensor when a module loads ``other``: other itself with ``assign``, else this one with
    other's elements. Classes of either that override functions answer."""
    found = answered(Tensor.module_load, (self, other), {"assign": assign})
    if found is not NOBODY:
        return found
    if assign:
        return other.detach()
    return self.detach().copy_(other)


legacy_contiguous_format = contiguous_format


# --- dimensions exchanged ---------------------------------------------------------------------------------------------
def _transposed(self):
    """The dimensions in reverse order."""
    if self.dim() not in (0, 2):
        warn(f"x.T of a tensor of {self.dim()} dimensions is deprecated and will become an error: write x.mT for a "
             "batch of matrices, x.permute(*range(x.ndim - 1, -1, -1)) to "
             "reverse all dimensions.")
    return OPS["permute"](self, tuple(reversed(range(self.dim()))))


def _adjoint(self):
    """The conjugate transpose of a matrix."""
    if self.dim() not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.dim()}-D tensor. For batches of "
            "matrices, consider using tensor.mH")
    return OPS["adjoint"](self) if self.dim() else self


Tensor.T, Tensor.H = property(_transposed), property(_adjoint)


def turned(name, operator):
    """The property that exchanges the last two dimensions; without dimensions, the tensor."""
    def of(self):
        if self.dim() == 1:
            raise RuntimeError(f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")
        return operator(self) if self.dim() else self
    of.__name__ = name
    return property(of)


Tensor.mT, Tensor.mH = turned("mT", lambda x: OPS["transpose"](x, -2, -1)), turned("mH", lambda x: OPS["adjoint"](x))
