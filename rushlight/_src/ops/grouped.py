"""Grouped matmul with groups of different sizes, and scaled float8 matmul."""
from __future__ import annotations

from ..core.dtypes import bfloat16, float16, float32, int32
from ..core.kinds import P
from ..core.meta import product
from ..core.op import OPS, op, rule
from .histories import without_derivative
from .prims.codes import NO_DERIVATIVE

F = "nn.functional"


def check_groups(a, b, offs, bias, out_dtype):
    if a.dtype not in (float32, bfloat16, float16) or b.dtype is not a.dtype:
        raise RuntimeError(
            f"Expected mat_a to be Float32, BFloat16 or Float16 matrix and mat_b of the same dtype, got {a.dtype} and "
            f"{b.dtype}")
    if a.dim() not in (2, 3) or b.dim() not in (2, 3):
        raise RuntimeError(
            f"mat_a and mat_b have to be 2 or 3 dimensional tensors, got {a.dim()} and {b.dim()} dimensions")
    if a.size(-1) != b.size(-2):
        raise RuntimeError(
            f"contraction dimension of mat_a and mat_b must match, got {list(a.shape)} and {list(b.shape)}")
    if (offs is None) != (a.dim() == b.dim() == 3):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is not None and (offs.dtype is not int32 or offs.dim() != 1):
        raise RuntimeError(
            f"Offsets have to be int32, in one dimension; got {offs.dtype} with sizes {list(offs.shape)}")
    groups = {x.size(0) for x in (a, b) if x.dim() == 3} | ({offs.numel()} if offs is not None else set())
    if len(groups) > 1:
        raise RuntimeError(
            f"matrix batch sizes have to match: there are {' and '.join(map(str, sorted(groups)))} groups")
    if bias is not None:
        raise RuntimeError("Bias not supported yet: add it to the result")
    if out_dtype not in (None, a.dtype):
        raise RuntimeError(f"Grouped gemm output dtype must match `mat_a` dtype, got {out_dtype} and {a.dtype}")


@op(composite=True, method=False, namespace=F)
def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Grouped matmul; ``offs`` [g] (int32) gives the end of each group along the dimension of the operand without a
    group dimension.

    mat_a [rows, k], mat_b [g, k, n] -> [rows, n]; [g, m, k], [k, columns] -> [m, columns]; [m, all k], [all k, n] ->
    [g, m, n]; [g, m, k], [g, k, n] -> [g, m, n].  The result is 0 past the last group.  RuntimeError for invalid sizes
    and dtypes.
    """
    check_groups(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return OPS["bmm"](mat_a, mat_b)
    ends = offs.tolist()
    spans = list(zip([0, *ends[:-1]], ends))
    if mat_a.dim() == mat_b.dim() == 2:
        return OPS["stack"]([mat_a[:, start:end] @ mat_b[start:end] for start, end in spans])
    if mat_a.dim() == 2:
        parts, dim, total = [mat_a[start:end] @ b for (start, end), b in zip(spans, mat_b)], 0, mat_a.size(0)
    else:
        parts, dim, total = [a @ mat_b[:, start:end] for (start, end), a in zip(spans, mat_a)], 1, mat_b.size(1)
    rest = total - (ends[-1] if ends else 0)
    if rest:
        parts.append(mat_a.new_zeros((rest, mat_b.size(-1)) if dim == 0 else (mat_a.size(-2), rest)))
    return OPS["cat"](parts, dim)


@op(autocast=None, composite=True, method=False)
def _scaled_mm(input, mat2, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
    """(input * scale_a) @ (mat2 * scale_b) + bias of float8 operands: [m, k], [k, n] -> [m, n].

    Scales are scalars, or one for each row of input [m, 1] and one for each column of mat2 [1, n].  Sums are float32;
    with ``use_fast_accum`` a GPU may use fewer bits.  ValueError for other dtypes and scales, RuntimeError for invalid
    sizes and if a gradient is required.
    """
    given = (input, mat2, scale_a, scale_b, bias, scale_result)
    return without_derivative(NO_DERIVATIVE, given, lambda *given: scaled_product(*given, out_dtype, use_fast_accum))


@op(autocast=None, method=False, name="_scaled_product")
def scaled_product(input, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum):
    """Compute the result of ``_scaled_mm``."""
    if not (input.dtype.is_byte and mat2.dtype.is_byte):
        raise ValueError(
            f"Expected float8 matrices, such as torch.float8_e4m3fn; got {input.dtype} and {mat2.dtype}")
    if len(input.shape) != 2 or len(mat2.shape) != 2 or input.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, input.shape))} and "
            f"{'x'.join(map(str, mat2.shape))})")
    for name, scale, wanted in (("scale_a", scale_a, (input.shape[0], 1)), ("scale_b", scale_b, (1, mat2.shape[1]))):
        if scale.dtype is not float32 or product(scale.shape) != 1 and tuple(scale.shape) != wanted:
            raise ValueError(
                f"{name} must be a float32 number, or {list(wanted)} of them; got {list(scale.shape)} of {scale.dtype}")
    out = P.byte_matmul(input, mat2, fast=bool(use_fast_accum))
    for factor in (scale_a, scale_b):  # one after the other: templates compute them along
        out = P.mul(out, single(factor))
    out = out if bias is None else P.add(out, P.convert(bias, dtype=float32))
    out = out if scale_result is None else P.mul(out, single(scale_result))
    return P.convert(out, dtype=out_dtype or input.dtype)


@rule(scaled_product)
def vjp(g, y, *args):
    raise RuntimeError(NO_DERIVATIVE)


def single(x):
    """Return a one-element tensor without dimensions; others unchanged."""
    return P.reshape(x, shape=()) if product(x.shape) == 1 else x
