"""Primitives of complex numbers: parts, conjugates, angles, and real views."""
from __future__ import annotations

import builtins

import numpy as np

from ...core.kinds import Bytes, Elementwise, P, Recast, Turn, sum_to
from ...core.meta import CONJUGATED, NEGATED, Meta
from ...core.narrow import narrow, widen
from .elementwise import abs, real_result, sgn
from .indexed import zeros_like
from .primitive import primitive, unary


# --- elementwise: complex ---------------------------------------------------------------------------------------------
def component_alias(which):
    def alias(m):
        turned = m.turned & NEGATED ^ (NEGATED if which and m.turned & CONJUGATED else 0)
        return Meta(tuple(m.shape), tuple(2 * s for s in m.strides), m.dtype.to_real(), m.device, turned), which
    return alias


def pairs_alias(m):
    if m.turned & CONJUGATED:
        return None
    return Meta((*m.shape, 2), (*(2 * s for s in m.strides), 1), m.dtype.to_real(), m.device, m.turned), 0


def unpaired_alias(m):
    if m.strides[-1] != 1 or builtins.any(s % 2 for s in m.strides[:-1]):
        return None
    return Meta(tuple(m.shape[:-1]), tuple(s // 2 for s in m.strides[:-1]), m.dtype.to_complex(), m.device, m.turned), 0


real = primitive("real", Recast(np.real, component_alias(0), lambda x, value: P.complex(value, P.imag(x)),
                                lambda g: P.complex(g, zeros_like(g, g.dtype))), lambda x: 0)
imag = primitive("imag", Recast(np.imag, component_alias(1), lambda x, value: P.complex(P.real(x), value),
                                lambda g: P.complex(zeros_like(g, g.dtype), g)), lambda x: 0)
view_as_real = primitive("view_as_real", Recast(
    lambda x: np.stack((x.real, x.imag), -1), pairs_alias, lambda x, value: P.view_as_complex(value),
    lambda g: P.view_as_complex(g)), lambda x: 0)
view_as_complex = primitive("view_as_complex", Recast(
    lambda x: x[..., 0] + x.dtype.type(1) * 1j * x[..., 1], unpaired_alias, lambda x, value: P.view_as_real(value),
    lambda g: P.view_as_real(g)), lambda x: 0)
bytes_as = primitive("bytes_as", Bytes(
    lambda x, old, dtype: widen(np.ascontiguousarray(narrow(x, old)).view(dtype.numpy), dtype)),
                     lambda x, old, dtype: 0)
conj = unary("conj", np.conj)
angle = unary("angle", np.angle, lambda y, x: P.mul(x, 0) if not x.dtype.is_complex else None, real_result)
make_complex = primitive("complex", Elementwise(
    lambda a, b: (a + 1j * b).astype(np.complex64 if a.dtype == np.float32 else np.complex128),
    None, lambda a, b: a.dtype.to_complex()), lambda x, y: 0)
conjugated = primitive("conjugated", Turn(np.conj, CONJUGATED, lambda x: P.conj(x)), lambda x: 0)
negated = primitive("negated", Turn(np.negative, NEGATED, lambda x: P.neg(x)), lambda x: 0)
conj.rules["vjp"] = lambda g, y, x: [P.conj(g)]
make_complex.rules["vjp"] = lambda g, y, a, b: [sum_to(P.real(g), a.shape), sum_to(P.imag(g), b.shape)]
abs.rules["vjp"] = lambda g, y, x: [P.mul(P.convert(g, dtype=x.dtype), P.sgn(x)) if x.dtype.is_complex
                                    else P.mul(g, P.sign(x))]


def sgn_vjp(g, y, x):
    if not x.dtype.is_complex:
        return [zeros_like(g, g.dtype)]
    size = P.abs(x)
    zero = P.eq(size, 0)
    along = P.real(P.mul(P.conj(y), g))
    flat = P.div(P.sub(g, P.mul(y, P.convert(along, dtype=g.dtype))), P.convert(P.where(zero, 1, size), dtype=g.dtype))
    return [P.where(zero, 0, flat)]


def angle_vjp(g, y, x):
    if not x.dtype.is_complex:
        return [zeros_like(g, g.dtype)]
    a, b = P.real(x), P.imag(x)
    square = P.add(P.mul(a, a), P.mul(b, b))
    zero = P.eq(square, 0)
    square = P.where(zero, 1, square)
    turned = P.complex(P.div(P.neg(P.mul(b, g)), square), P.div(P.mul(a, g), square))
    return [P.where(zero, 0, turned)]


sgn.rules["vjp"], angle.rules["vjp"] = sgn_vjp, angle_vjp
