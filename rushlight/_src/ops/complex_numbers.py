"""Complex numbers: their parts, conjugates, angles, and views of them as real tensors."""
from __future__ import annotations

import math

from ..core.dtypes import bool_, type_name
from ..core.kinds import P
from ..core.op import declare, op
from .promotion import floating, is_number


@op(method=False, view=True)
def real(input):
    """The real part, a view; a real tensor itself."""
    return P.real(input) if input.dtype.is_complex else input


@op(method=False, view=True)
def imag(input):
    """The imaginary part, a view."""
    if not input.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return P.imag(input)


@op(view=True, turns=True)
def conj(input):
    """The complex conjugate, a view: writes to it reach ``input``, conjugated.  A real tensor itself.

    >>> import rushlight as rl
    >>> z = rl.zeros(1, dtype=rl.complex64)
    >>> _ = z.conj().fill_(1 + 2j)
    >>> z.tolist(), z.conj().is_conj()
    ([(1-2j)], True)
    """
    return P.conjugated(input) if input.dtype.is_complex else input


declare("_conj", conj.body, None, conj.signature, 0, samples=(), namespace="", method=True, view=True, turns=True,
        doc="``conj`` by its inner name.")


@op(view=True, turns=True, name="_neg_view")
def negative_view(input):
    """The negatives of all elements, a view: writes to it reach ``input``, negated."""
    if input.dtype is bool_:
        raise RuntimeError("_neg_view: bool has no negative numbers.")
    return P.negated(input)


@op(inplace_too=True, out_exact=True)
def conj_physical(input):
    """The complex conjugate, in new storage."""
    return P.conj(input) if input.dtype.is_complex else P.mul(input, 1)


declare("_conj_physical", conj_physical.body, None, conj_physical.signature, 0, samples=(), namespace="", method=True,
        doc="``conj_physical`` by its inner name.")


@op(method=False, view=True)
def view_as_real(input):
    """Interleaved real and imaginary parts: [*] complex -> [*, 2], a view.

    >>> import rushlight as rl
    >>> z = rl.zeros(1, dtype=rl.complex64)
    >>> _ = rl.view_as_real(z).copy_(rl.tensor([1.0, 2.0]))
    >>> z.tolist()
    [(1+2j)]
    """
    if not input.dtype.is_complex:
        raise RuntimeError(f"view_as_real is only supported for complex tensors, got {input.dtype}")
    if input.is_conj():
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors: their imaginary parts are not stored. "
            "resolve_conj() gives a copy that can be viewed.")
    return P.view_as_real(input)


@op(method=False, composite=True)
def view_as_complex(input):
    """Pairs of floats as complex numbers, a view: [*, 2] -> [*].  RuntimeError if the pairs are not contiguous."""
    if input._rush_storage is not None and input._rush_offset % 2:
        raise RuntimeError(f"Tensor must have a storage_offset divisible by 2, got offset {input._rush_offset}")
    return paired(input)


@op(method=False, view=True, name="_view_as_complex")
def paired(input):
    """``view_as_complex`` of a tensor with an even storage offset."""
    if input.dtype.name not in ("float16", "float32", "float64"):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{input.dtype}")
    if not input.shape:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError(f"Tensor must have a last dimension of size 2, got {list(input.shape)}")
    strides = input._rush_meta.strides
    if strides[-1] != 1:
        raise RuntimeError(f"Tensor must have a last dimension with stride 1, got {list(strides)}")
    if any(s % 2 for s in strides[:-1]):
        raise RuntimeError(f"Tensor must have a stride divisible by 2 for all but last dimension, got {list(strides)}")
    return P.view_as_complex(input)


@op(composite=True)
def resolve_conj(input):
    """Return a copy of a tensor with the conj bit (``is_conj()``), any other tensor itself."""
    return input.clone() if input.is_conj() else input


@op(composite=True)
def resolve_neg(input):
    """Return a copy of a tensor with the neg bit (``is_neg()``), any other tensor itself."""
    return input.clone() if input.is_neg() else input


@op
def angle(input):
    """The argument of a complex number; pi for negative reals, 0 for others."""
    if input.dtype.is_complex:
        return P.angle(input)
    x = floating(input)
    return P.where(P.ne(x, x), x, P.mul(P.convert(P.lt(x, 0), dtype=x.dtype), math.pi))


def parts_of_complex(name, first, second):
    """TypeError or RuntimeError for arguments that do not make complex numbers."""
    for given in (first, second):
        if is_number(given):
            raise TypeError(f"{name}(): both arguments must be Tensor, not {type(given).__name__}")
        if given.dtype.name not in ("float16", "float32", "float64"):
            raise RuntimeError(
                f"{name}(): Expected both inputs to be Half, Float or Double tensors but got "
                f"{type_name(first.dtype)} and {type_name(second.dtype)}")
    if first.dtype is not second.dtype:
        raise RuntimeError(
            f"{name}(): Expected object of scalar type {type_name(first.dtype)} but got scalar type "
            f"{type_name(second.dtype)} for second argument; convert one of them")


@op(method=False, out_exact=True)
def complex(real, imag):
    """real + i imag.  real, imag: [*] of one floating dtype -> [*] complex."""
    parts_of_complex("complex", real, imag)
    return P.complex(real, imag)


@op(method=False, out_exact=True, autocast="float32", overwritable=("abs", "angle"))
def polar(abs, angle):
    """abs * exp(i angle).  abs, angle: [*] of one floating dtype -> [*] complex."""
    parts_of_complex("polar", abs, angle)
    return P.complex(P.mul(abs, P.cos(angle)), P.mul(abs, P.sin(angle)))
