"""Functions that masked tensors support, under PyTorch's list names, and comparison of masked tensors."""
from __future__ import annotations

from .._src.core.later import facade
from .tensor import MaskedTensor

UNARY_NAMES = """abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh
bitwise_not ceil clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma
log log10 log1p log2 logit i0 isnan nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn
signbit sin sinc sinh sqrt square tan tanh trunc""".split()
BINARY_NAMES = """add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide
floor_divide fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge greater
greater_equal gt less_equal lt less maximum minimum fmax fmin not_equal""".split()


def operators(names) -> list:
    """The operators of ``torch.ops.aten`` with these names, where there are such."""
    aten = facade().ops.aten
    return [getattr(aten, name) for name in names if hasattr(aten, name)]


INPLACE_UNARY_NAMES = [op.__name__ for op in operators(f"{name}_" for name in UNARY_NAMES)]
INPLACE_BINARY_NAMES = [op.__name__ for op in operators(f"{name}_" for name in BINARY_NAMES)]
NATIVE_UNARY_FNS, NATIVE_INPLACE_UNARY_FNS = operators(UNARY_NAMES), operators(INPLACE_UNARY_NAMES)
NATIVE_BINARY_FNS, NATIVE_INPLACE_BINARY_FNS = operators(BINARY_NAMES), operators(INPLACE_BINARY_NAMES)


def _tensors_match(a, b, exact=True, rtol=1e-05, atol=1e-08) -> bool:
    """True if two tensors have the same layout, dtype and elements; with ``exact=False`` within the tolerances.
    ValueError for two masked tensors, whose masked-out elements cannot be compared."""
    if isinstance(a, MaskedTensor) or isinstance(b, MaskedTensor):
        raise ValueError("Neither `a` nor `b` can be a MaskedTensor.")
    if a.layout is not b.layout:
        raise ValueError(f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}")
    if a.dtype is not b.dtype:
        b = b.to(a.dtype)
    if not a.layout == facade().strided:
        a, b = a.to_dense(), b.to_dense()
    if a.dim() != b.dim() or a.shape != b.shape:
        return False
    return bool((a == b).all()) if exact else bool(a.isclose(b, rtol=rtol, atol=atol).all())


def _masks_match(a, b) -> bool:
    """Whether two masked tensors have equal masks; True where one of them has none."""
    if isinstance(a, MaskedTensor) and isinstance(b, MaskedTensor):
        return _tensors_match(a.get_mask(), b.get_mask(), exact=True)
    return True
