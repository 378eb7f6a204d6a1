"""Matrix multiplication."""
from __future__ import annotations

from ..core.dtypes import bfloat16, float32, int8, uint8
from ..core.errors import DtypeMismatchError, ProductError
from ..core.kinds import P
from ..core.meta import broadcast, product
from ..core.op import Scalar, op, sample
from ..core.tensor import Tensor
from .former import former
from .promotion import held, promoted, upcast

AUTOCAST = "half"  # matmuls are faster in 16-bit floats


def one_dtype(name, *tensors):
    if any(x.dtype is not tensors[0].dtype for x in tensors):
        raise DtypeMismatchError(
            f"{name}: expected m1 and m2 to have the same dtype, but got: {' != '.join(str(x.dtype) for x in tensors)}",
            "one dtype", "convert one of them with .to(dtype), or run under autocast")


def unequal_inner(m, k, other, n) -> ProductError:
    """Return the exception for [m, k] @ [other, n]."""
    return ProductError(f"mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {other}x{n})",
                        f"as many rows in the second as columns in the first: {k}",
                        f"transpose one of them, or make the layer take {k} features")


def multiply(a, b):
    """[m, k] @ [k, n] or batches of them."""
    if a.shape[-1] != b.shape[-2]:
        raise unequal_inner(a.shape[-2], a.shape[-1], b.shape[-2], b.shape[-1])
    return P.matmul(a, b)


def folded_operands(input, other) -> tuple:
    """Names of the matmul operands that PyTorch saves as copies: batches of matrices that it transposes to multiply
    them by one matrix."""
    return ("other",) if len(input.shape) < 3 <= len(other.shape) else ()


@op(samples=(sample((3, 4), (4, 5)), sample((4,), (4,)), sample((2, 3, 4), (4, 5)), sample((2, 1, 3, 4), (5, 4, 2))),
    operator="matmul", overwritable=folded_operands)
def matmul(input, other):
    """Matrix multiplication with broadcast batch dimensions; vectors are rows or columns.

    [*, n, k], [*, k, m] -> [*, n, m].  RuntimeError where the inner sizes differ.

    >>> (torch.ones(5, 2, 3) @ torch.ones(3, 4)).shape
    torch.Size([5, 2, 4])
    """
    a, b = input, other
    if not a.shape or not b.shape:
        raise ProductError(
            f"both arguments to matmul need to be at least 1D, but they are {len(a.shape)}D and {len(b.shape)}D")
    one_dtype("matmul", a, b)
    if len(a.shape) == 1 and len(b.shape) == 1 and a.shape[0] != b.shape[0]:
        raise ProductError(
            f"inconsistent tensor size, expected tensor {list(a.shape)} and src {list(b.shape)} to have the same "
            f"number of elements, but got {a.shape[0]} and {b.shape[0]} elements respectively")
    left, right = len(a.shape) == 1, len(b.shape) == 1
    a = P.reshape(a, shape=(1, *a.shape)) if left else a
    b = P.reshape(b, shape=(*b.shape, 1)) if right else b
    if len(b.shape) == 2 and len(a.shape) > 2:  # one matrix for all of the batch: fold the batch into the rows
        out = multiply(P.reshape(a, shape=(product(a.shape[:-1]), a.shape[-1])), b)
        out = P.reshape(out, shape=(*a.shape[:-1], b.shape[-1]))
    elif len(a.shape) == 2 and len(b.shape) == 2:
        out = multiply(a, b)
    else:
        batch = broadcast(a.shape[:-2], b.shape[:-2])
        a = P.expand(a, shape=(*batch, *a.shape[-2:])) if tuple(a.shape[:-2]) != batch else a
        b = P.expand(b, shape=(*batch, *b.shape[-2:])) if tuple(b.shape[:-2]) != batch else b
        out = multiply(a, b)
    if left:
        out = P.reshape(out, shape=(*out.shape[:-2], out.shape[-1]))
    return P.reshape(out, shape=tuple(out.shape[:-1])) if right else out


def of_rank(name, first, second, autocast=AUTOCAST):
    def body(input, mat2):
        for x, rank in ((input, first), (mat2, second)):
            if len(x.shape) != rank:
                raise RuntimeError(
                    f"{name}: expected {'a vector' if rank == 1 else f'a {rank}-D tensor'}, got {len(x.shape)}-D")
        if name == "bmm" and input.shape[0] != mat2.shape[0]:
            raise ProductError(
                f"batch1 and batch2 must have same number of batches, got {input.shape[0]} and {mat2.shape[0]}")
        return matmul.body(input, mat2)
    body.__name__, body.__doc__ = name, "A matrix product of operands of fixed rank."
    return op(body, aliases={"vec": "mat2"}, autocast=autocast)


@op(autocast=None)
def _int_mm(input, mat2):
    """Multiply a matrix of int8 or uint8 by one of int8, exactly, as int32.  [m, k], [k, n] -> [m, n]."""
    if input.dtype not in (int8, uint8) or mat2.dtype is not int8:
        raise RuntimeError(
            f"_int_mm: expected a matrix of int8 or uint8 and one of int8, but got {input.dtype} and {mat2.dtype}; mm "
            "accepts other dtypes")
    for x in (input, mat2):
        if len(x.shape) != 2:
            raise RuntimeError(f"_int_mm: expected two matrices, but got {len(input.shape)}-D and {len(mat2.shape)}-D")
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"_int_mm: mat1 and mat2 shapes cannot be multiplied ({input.shape[0]}x{input.shape[1]} and "
            f"{mat2.shape[0]}x{mat2.shape[1]})")
    return P.int_matmul(input, mat2)


FEW_ROWS = 16  # their matmul takes as long as reading the weights


@op(autocast=None, method=False)
def _weight_int8pack_mm(input, mat2, scales):
    """input @ mat2.T * scales, with int8 weights and one scale for each row.  [m, k] of float32 or 16-bit floats, [n,
    k] of int8, [n] of input's dtype -> [m, n].

    Sums and scales are float32, rounded once.  RuntimeError for other dtypes and shapes.

    Example:
        >>> import rushlight as torch
        >>> weight = torch.tensor([[1, 2], [-3, 4]], dtype=torch.int8)
        >>> torch._weight_int8pack_mm(torch.ones(1, 2), weight, torch.tensor([0.5, 2.0]))
        tensor([[1.5000, 2.0000]])
    """
    if input.dtype is not float32 and not input.dtype.is_half:
        raise RuntimeError(
            f"_weight_int8pack_mm: expect A to be either 32-bit or 16-bit float tensor, but it is {input.dtype}")
    if len(input.shape) != 2 or len(mat2.shape) != 2:
        raise RuntimeError(
            f"_weight_int8pack_mm: expect A to be 2D tensor, and B, but they have the shapes {list(input.shape)} and "
            f"{list(mat2.shape)}")
    if mat2.dtype is not int8:
        raise RuntimeError(f"_weight_int8pack_mm: expect B to be int8 tensor, but it is {mat2.dtype}")
    if mat2.shape[1] != input.shape[1]:
        raise RuntimeError(f"_weight_int8pack_mm: expect B.size(1) == {input.shape[1]}, but it is {mat2.shape[1]}")
    if tuple(scales.shape) != (mat2.shape[0],):
        raise RuntimeError(
            f"_weight_int8pack_mm: expect scales to be 1d tensor with size {mat2.shape[0]}, but its shape is "
            f"{list(scales.shape)}")
    if scales.dtype is not input.dtype:
        raise RuntimeError(f"_weight_int8pack_mm: expected scales of {input.dtype}, but they are {scales.dtype}")
    # bfloat16 holds integers up to 256
    exact = bfloat16 if input.dtype is bfloat16 and input.shape[0] > FEW_ROWS else float32
    weight = P.permute(P.convert(mat2, dtype=exact), dims=(1, 0))
    out = P.mul(upcast(P.matmul(input if exact is input.dtype else upcast(input), weight)), upcast(scales))
    return out if out.dtype is input.dtype else P.convert(out, dtype=input.dtype)


mm, mv, bmm = of_rank("mm", 2, 2), of_rank("mv", 2, 1, None), of_rank("bmm", 3, 3)


@op(samples=(sample((4,), (4,)),), autocast=None)
def dot(input, tensor):
    """The dot product of vectors."""
    if len(input.shape) != 1 or len(tensor.shape) != 1:
        raise RuntimeError(f"1D tensors expected, but got {len(input.shape)}D and {len(tensor.shape)}D tensors")
    if input.dtype is not tensor.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {input.dtype} and {tensor.dtype}")
    if input.shape[0] != tensor.shape[0]:
        raise ProductError(
            f"inconsistent tensor size, expected tensor {list(input.shape)} and src {list(tensor.shape)} to have the "
            "same number of elements")
    return P.reshape(P.sum(P.mul(input, tensor), (0,)), shape=())


@op(autocast=None)
def vdot(input, other):
    """The dot product, the first vector conjugated."""
    return dot.body(P.conj(input) if input.dtype.is_complex else input, other)


@op(autocast=None)
def inner(input, other):
    """Sums of products over the last dimensions."""
    if not input.shape or not other.shape:
        return P.mul(input, other)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}")
    a = P.reshape(input, shape=(product(input.shape[:-1]), input.shape[-1]))
    b = P.reshape(other, shape=(product(other.shape[:-1]), other.shape[-1]))
    return P.reshape(P.matmul(a, P.permute(b, dims=(1, 0))), shape=(*input.shape[:-1], *other.shape[:-1]))


@op(autocast=None)
def outer(input, vec2):
    """Products of all pairs of two vectors' elements."""
    if len(input.shape) != 1 or len(vec2.shape) != 1:
        raise RuntimeError(f"outer: Expected 1-D arguments, but got {len(input.shape)}D and {len(vec2.shape)}D")
    a, b = promoted(input, vec2)
    return P.mul(P.reshape(a, shape=(*a.shape, 1)), P.reshape(b, shape=(1, *b.shape)))


ger = op(lambda input, vec2: outer.body(input, vec2), name="ger", autocast=None, doc=outer.doc)


def plus(name, product_of, ranks, autocast=AUTOCAST, **aliases):
    def body(input, mat1, mat2, *, beta: Scalar = 1, alpha: Scalar = 1):
        for x, rank in zip((mat1, mat2), ranks):
            if len(x.shape) != rank:
                raise RuntimeError(
                    f"{name}: expected {rank}-D operands, got {len(mat1.shape)}-D and {len(mat2.shape)}-D")
        if product_of is outer.body:
            input, mat1, mat2 = promoted(input, mat1, mat2)
        one_dtype(name, input, mat1, mat2)
        result = mat1.dtype
        out = product_of(upcast(mat1), upcast(mat2))  # 16-bit floats are rounded once, after the sum
        if broadcast(tuple(input.shape), tuple(out.shape)) != tuple(out.shape):
            raise RuntimeError(f"{name}: input of shape {list(input.shape)} does not expand to {list(out.shape)}")
        if isinstance(alpha, Tensor) or alpha != 1:
            out = P.mul(out, held(alpha, out.dtype))
        if isinstance(beta, Tensor) or beta != 0:  # at 0 no NaN of the input counts
            input = upcast(input)
            if isinstance(beta, Tensor) or beta != 1:
                factor = held(beta, out.dtype)
                input = P.mul(input, factor)
                if isinstance(beta, Tensor):  # which may turn out to be 0
                    input = P.where(P.ne(factor, 0), input, 0)
            out = P.add(input, out)
        return out if out.dtype is result else P.convert(out, dtype=result)
    body.__name__, body.__doc__ = name, "beta * input + alpha * (mat1 @ mat2)."
    return op(body, inplace_too=True, aliases=aliases, otherwise=former(name), autocast=autocast)


def summed(a, b):
    out = matmul.body(a, b)
    return P.reshape(P.sum(out, (0,)), shape=tuple(out.shape[1:]))


BATCHES = {"batch1": "mat1", "batch2": "mat2"}
addmm, baddbmm = plus("addmm", matmul.body, (2, 2)), plus("baddbmm", matmul.body, (3, 3), **BATCHES)
addmv = plus("addmv", matmul.body, (2, 1), None, mat="mat1", vec="mat2")
addr = plus("addr", outer.body, (1, 1), None, vec1="mat1", vec2="mat2")
addbmm = plus("addbmm", summed, (3, 3), **BATCHES)


@op(samples=(sample((2, 3, 4), (5, 4), (5,)), sample((4,), (5, 4))), namespace="nn.functional", by_rows=True)
def linear(input, weight, bias=None):
    """input @ weight.T + bias.  [*, in], [out, in], [out] -> [*, out].

    >>> torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3), torch.zeros(4)).shape
    torch.Size([2, 4])
    """
    if len(weight.shape) == 1:
        out = matmul.body(input, weight)
        return out if bias is None else P.add(out, bias)
    if len(weight.shape) != 2:
        raise RuntimeError(f"linear: weight must be [out, in], but is {list(weight.shape)}")
    one_dtype("linear", input, weight, *(() if bias is None else (bias,)))
    rows = product(input.shape[:-1])
    if input.shape[-1] != weight.shape[-1]:
        raise unequal_inner(rows, input.shape[-1], weight.shape[-1], weight.shape[0])
    flat = P.reshape(input, shape=(rows, input.shape[-1])) if len(input.shape) != 2 else input
    out = P.matmul(flat, P.permute(weight, dims=(1, 0)))
    out = out if bias is None else P.add(out, bias)
    return P.reshape(out, shape=(*input.shape[:-1], weight.shape[0])) if len(input.shape) != 2 else out
