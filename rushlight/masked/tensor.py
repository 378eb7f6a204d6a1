"""Tensors some of whose elements are masked out: data and a mask of the same sizes, True where an element counts.

What an operator does follows from what its body is made of: one that computes element by element acts on the data; one
that only moves elements acts on data and mask; a reduction leaves out what the mask does.  What is none of these is
refused.
"""
from __future__ import annotations

from .._src.core.composed import Composed, member
from .._src.core.convert import strided
from .._src.core.dtypes import bool_
from .._src.core.native import Op, Tensor
from .._src.core.op import OPS
from .._src.core.overriding import DisableTorchFunctionSubclass
from .._src.core.tensor import blank, show
from .._src.ops import library
from .._src.transforms.elementwise import consists_of, is_elementwise

MOVES = frozenset(("view", "join", "gather"))  # kinds of primitive whose results are elements of their arguments
ASKING = frozenset(("shape", "dtype", "device", "ndim", "dim", "size", "numel", "nelement", "element_size",
                    "is_floating_point",
                    "is_complex", "stride", "is_contiguous", "type", "__len__"))  # members that ask for no elements
CONVERSIONS = frozenset(("float", "double", "half", "bfloat16", "int", "long", "to"))
REDUCTIONS = library.namespace("masked")
RULES: dict = {}


class MaskedTensor(Composed):
    """Data with a mask: ``masked_tensor(data, mask)``.  Gradients flow through the data, and are masked as it is."""

    inner = property(lambda self: self.data_)

    def __new__(cls, data, mask, requires_grad=False):
        return masked_tensor(data, mask, requires_grad)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return answer(func, args, kwargs or {})

    def around(self, inner):
        return made(inner, self.mask_)

    def get_data(self):
        """The data, those masked out too, without history."""
        return self.data_.detach()

    def get_mask(self):
        """bool, of the same sizes: True where an element counts."""
        return self.mask_

    def to_tensor(self, value):
        """An ordinary tensor, with ``value`` where elements are masked out."""
        return OPS["where"](self.mask_, self.data_, value)

    def is_sparse_coo(self) -> bool:
        return False

    is_sparse_csr = is_sparse_coo

    def numpy(self, *, force=False):
        raise RuntimeError(
            ".numpy() of a masked tensor: what masked elements are is not said. Use to_tensor(value).numpy()")

    def tolist(self):
        raise RuntimeError(
            ".tolist() of a masked tensor: what masked elements are is not said. Use to_tensor(value).tolist()")

    def item(self):
        """The number, of a tensor with one element that counts."""
        with DisableTorchFunctionSubclass():
            return self.data_.item()

    def __repr__(self, *, tensor_contents=None):
        return f"MaskedTensor({shown(self.data_.detach(), self.mask_)})"

    __str__ = __repr__


def shown(data, mask, indent=2) -> str:
    """Elements, -- for those masked out, one row a line."""
    def text(value):
        return f"{value:8.4f}" if data.dtype.is_floating_point else str(value)

    if not data.dim():
        return f"{text(data.item()) if mask.item() else '--'}, {mask.item()}"
    space = " " * indent
    if data.dim() == 1:
        parts = [text(v) if m else "      --" for v, m in zip(data.tolist(), mask.tolist())]
        return f"\n{space}[{', '.join(parts)}]\n{space[2:]}"
    rows = [shown(d, m, indent + 2).rstrip().lstrip("\n") for d, m in zip(data, mask)]
    if data.dim() > 2:
        rows = [f"{' ' * (indent + 2)}{row.lstrip()}" for row in rows]
    return f"\n{space}[\n" + ",\n".join(rows) + f"\n{space}]\n{space[2:]}"


def made(data, mask) -> MaskedTensor:
    out = blank(MaskedTensor)
    show(out, data)
    out.data_, out.mask_ = data, mask
    return out


def checked(data, mask):
    """TypeError and ValueError where these cannot be one masked tensor."""
    for value, name in ((data, "data"), (mask, "mask")):
        if not isinstance(value, Tensor) or is_masked_tensor(value):
            raise TypeError(f"{name} must be a Tensor that is not masked, got {type(value).__name__}")
        if value.layout is not strided:
            raise TypeError(f"{name} must be a strided Tensor, got {value.layout}")
    if mask.dtype is not bool_:
        raise TypeError(f"mask must have dtype bool, got {mask.dtype}")
    if tuple(data.shape) != tuple(mask.shape):
        raise ValueError(f"data and mask must have the same sizes, got {tuple(data.shape)} and {tuple(mask.shape)}")


def masked_tensor(data, mask, requires_grad=False) -> MaskedTensor:
    """A masked leaf with a copy of ``data`` and of ``mask`` (bool, of the same sizes; True where an element counts).

    >>> import rushlight as torch
    >>> x = torch.masked.masked_tensor(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True]))
    >>> x.sum().item(), (x * 2).to_tensor(0).tolist()
    (4.0, [2.0, 0.0, 6.0])
    """
    checked(data, mask)
    return made(data.detach().clone().requires_grad_(requires_grad), mask.clone())


def as_masked_tensor(data, mask) -> MaskedTensor:
    """A masked tensor over these very tensors: gradients flow on to ``data``."""
    checked(data, mask)
    return made(data, mask)


def is_masked_tensor(obj, /) -> bool:
    """Whether this is a masked tensor."""
    return isinstance(obj, MaskedTensor)


# --- what operators do ------------------------------------------------------------------------------------------------
def answer(func, args, kwargs):
    """The result of a call with masked arguments.  TypeError for an operator that has no meaning under a mask."""
    name = (func.name.rpartition(".")[2] if isinstance(func, Op) else member(func))
    if func in RULES:
        return RULES[func](*args, **kwargs)
    if name in ASKING:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if name in REDUCTIONS:
        return reduced(name, *args, **kwargs)
    whole = parts(args, "data_"), parts(kwargs, "data_")
    if isinstance(func, Op) and is_elementwise(func, *whole):
        return rewrapped(func(*whole[0], **whole[1]), common(args, kwargs), args)
    if name in CONVERSIONS or name.endswith("_like"):
        return made(func(*whole[0], **whole[1]), args[0].mask_)
    if consists_of(func, *whole, MOVES):
        return moved(func(*whole[0], **whole[1]), func(*parts(args, "mask_"), **parts(kwargs, "mask_")))
    raise TypeError(
        f"{name} has no meaning for masked tensors: it neither computes element by element, nor moves elements, nor "
        "reduces. "
        "Fill the masked elements with to_tensor(value) first")


def parts(value, which):
    """Arguments with the data, or the mask, of masked tensors in their place."""
    if isinstance(value, MaskedTensor):
        return getattr(value, which)
    if type(value) in (tuple, list):
        return type(value)(parts(v, which) for v in value)
    if type(value) is dict:
        return {k: parts(v, which) for k, v in value.items()}
    return value


def common(args, kwargs):
    """The one mask of all masked arguments.  ValueError where they differ."""
    masks = [v.mask_ for v in (*args, *kwargs.values()) if isinstance(v, MaskedTensor)]
    if any(tuple(m.shape) != tuple(masks[0].shape) or not bool((m == masks[0]).all()) for m in masks[1:]):
        raise ValueError("Input masks must match: say which elements count by to_tensor() and masked_tensor()")
    return masks[0]


def rewrapped(result, mask, args):
    """An elementwise result under its mask; the argument itself where it was written in place."""
    if isinstance(args[0], MaskedTensor) and result is args[0].data_:
        return args[0]
    return made(result, mask.expand(result.shape) if tuple(mask.shape) != tuple(result.shape) else mask)


def moved(data, mask):
    """Masked tensors of results that were moved alike."""
    if isinstance(data, (tuple, list)):
        return type(data)(map(moved, data, mask))
    return made(data, mask)


def reduced(name, input, dim=None, keepdim=False, **kwargs):
    """A reduction, or what is computed along a dimension, of the elements that count; whether any did is the result's
    mask."""
    found = REDUCTIONS[name]
    if not isinstance(dim, (int, tuple, list)) and (dim is not None or name == "median"):
        raise TypeError(f"{name} of a masked tensor takes a dimension, got {dim!r}")
    data, mask = input.data_, input.mask_
    if name in ("softmax", "log_softmax", "softmin", "cumsum", "cumprod"):
        return made(found(data, dim, mask=mask, **kwargs), mask)
    value = found(data, dim=dim, keepdim=keepdim, mask=mask, **kwargs)
    seen = mask.any() if dim is None or dim == () else OPS["any"](mask, dim, keepdim)
    return made(value, seen.expand(value.shape) if seen.dim() < value.dim() else seen)


def norm(input, p=2.0, dim=None, keepdim=False, dtype=None):
    """The norm of the elements that count."""
    return reduced("norm", input, dim, keepdim, dtype=dtype, ord=2.0 if p == "fro" else p)


def where(condition, input, other):
    """Elements of two masked tensors, each with its mask."""
    return made(*(OPS["where"](condition, parts(input, p), parts(other, p)) for p in ("data_", "mask_")))


def all_(input, dim=None, keepdim=False):
    return counted("all", input, True, dim, keepdim)


def any_(input, dim=None, keepdim=False):
    return counted("any", input, False, dim, keepdim)


def counted(name, input, neutral, dim, keepdim):
    """Whether all, or any, of the elements that count are true."""
    given = () if dim is None else (dim, keepdim)
    return made(OPS[name](input.to_tensor(neutral), *given), OPS["any"](input.mask_, *given))


RULES.update({OPS["where"]: where, OPS["norm"]: norm, OPS["all"]: all_, OPS["any"]: any_})
