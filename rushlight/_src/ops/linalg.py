"""Linear algebra: factorizations, systems, eigenvalues.  Matrices are the last two dimensions; the others are a batch.

Bodies check what they get and name what they give; the work is in the primitives of ``factor.py``.
"""
from __future__ import annotations

import math

from ..core.advice import deprecated
from ..core.dtypes import finfo, int32, int64
from ..core.interpret import top
from ..core.kinds import P
from ..core.meta import broadcast
from ..core.op import op, rule, sample
from ..core.results import named
from ..core.runtime import has_value
from ..core.tensor import Tensor
from .logic import where_
from .factor import full_rank_solution, pivots_with_signs, pseudoinverse, reflected, slogdet_gradient
from .lapack import LinAlgError

AUTOCAST = "float32"  # sensitive to rounding

SQUARE = (sample((3, 3)), sample((2, 4, 4)))
TALL = (sample((5, 3)), sample((2, 3, 5)))


def floating(name, *tensors):
    """RuntimeError for anything but a float or complex matrix."""
    for x in tensors:
        if len(x.shape) < 2:
            raise RuntimeError(
                f"linalg.{name}: The input tensor A must have at least 2 dimensions. Got shape {list(x.shape)}.")
        if not x.dtype.is_inexact:
            raise RuntimeError(
                f"linalg.{name}: Expected a floating point or complex tensor as input. Got {x.dtype}; convert it with "
                ".float() first.")
        if x.dtype.is_half:
            raise RuntimeError(f"linalg.{name}: not implemented for {x.dtype}: use .float() first.")


def square(name, x):
    floating(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: A must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]} "
            "matrices")


def together(a, b):
    """Expand two batches of matrices to one batch shape."""
    batch = broadcast(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    return a.expand((*batch, *a.shape[-2:])), b.expand((*batch, *b.shape[-2:]))


def one_type(name, a, b):
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"linalg.{name}: Expected A and B to have the same dtype, but found A of type {a.dtype} and B of type "
            f"{b.dtype} instead")


# --- systems ----------------------------------------------------------------------------------------------------------
def is_vector(a, b) -> bool:
    """True if b contains one vector for each matrix of a, not a matrix."""
    return b.dim() == 1 or (a.dim() - 1 == b.dim() and tuple(b.shape) == tuple(a.shape[:-1]))


def solved(name, A, B, left, check):
    square(name, A)
    one_type(name, A, B)
    single = is_vector(A, B)
    if single and not left and B.dim() != 1 and B.dim() != A.dim() - 1:
        raise RuntimeError(f"linalg.{name}: Vector broadcasting of the left hand side is not supported for left=False.")
    b = B.unsqueeze(-1) if single else B
    if single and not left:
        raise RuntimeError(
            f"linalg.{name}: Vector broadcasting of the left hand side is not supported for left=False. In this case "
            f"linalg.{name} is "
            "equivalent to B / A.squeeze(-1)")
    if b.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"linalg.{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})")
    a, b = together(A, b)
    x, info = P.solve(a, b, check=check) if left else P.solve(a.mT, b.mT, check=check)
    x = x if left else x.mT
    return (x.squeeze(-1) if single else x), info


@op(namespace="linalg", samples=(sample((3, 3), (3, 2)), sample((2, 4, 4), (2, 4))))
def solve(A, B, *, left=True):
    """x with A @ x = B (x @ A = B if not ``left``).  A: [*, n, n], B: [*, n] or [*, n, k].  LinAlgError if A is
    singular."""
    return solved("solve", A, B, left, True)[0]


@op(composite=True, namespace="linalg")
def solve_ex(A, B, *, left=True, check_errors=False):
    """``solve``, and for each matrix 0 or the column of its first zero pivot."""
    result, info = solved("solve_ex", A, B, left, check_errors)
    return named("linalg_solve_ex", result=result, info=info)


@op(namespace="linalg",
    samples=(sample((3, 3), (3, 2), upper=True), sample((2, 3, 3), (2, 2, 3), upper=False, left=False)))
def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """x with A @ x = B for triangular A: [*, n, n], B: [*, n, k]; only that triangle is read."""
    square("solve_triangular", A)
    one_type("solve_triangular", A, B)
    if B.dim() < 2:
        raise RuntimeError(
            f"linalg.solve_triangular: The input tensor B must have at least 2 dimensions. Got shape {list(B.shape)}.")
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            "linalg.solve_triangular: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})")
    a, b = together(A, B)
    if left:
        return P.solve_triangular(a, b, upper=upper, unit=unitriangular)
    return P.solve_triangular(a.mT, b.mT, upper=not upper, unit=unitriangular).mT


@op(composite=True)
def triangular_solve(input, A, upper=True, transpose=False, unitriangular=False):
    """x with A @ x = input (A transposed on request), and A."""
    deprecated("torch.triangular_solve", "torch.linalg.solve_triangular")
    a, b = together(A, input)
    x = P.solve_triangular(a.mT if transpose else a, b, upper=upper != transpose, unit=unitriangular)
    return named("triangular_solve", solution=x, cloned_coefficient=a.clone())


@op(namespace="linalg", samples=SQUARE, method=True)
def inv(A):
    """The inverse.  A: [*, n, n].  LinAlgError if A is singular."""
    square("inv", A)
    return P.inverse(A, check=True)[0]


@op(composite=True, namespace="linalg")
def inv_ex(A, *, check_errors=False):
    """``inv``, and for each matrix 0 or the column of its first zero pivot."""
    square("inv_ex", A)
    inverse, info = P.inverse(A, check=check_errors)
    return named("linalg_inv_ex", inverse=inverse, info=info)


@op(namespace="linalg", method=True, samples=SQUARE)
def det(A):
    """The determinant.  [*, n, n] -> [*]."""
    square("det", A)
    return pivots_with_signs(A)[0].prod(-1)


@rule(det)
def vjp(g, y, A):
    return [g[..., None, None] * P.cofactor(A).conj()]


@op(method=False, name="_slogdet")
def sign_and_log(A):
    """The sign of the determinant, and the log of its absolute value."""
    signs, packed = pivots_with_signs(A, P.sgn if A.dtype.is_complex else P.sign)
    return signs.prod(-1), packed.diagonal(0, -2, -1).abs().log().sum(-1)


@rule(sign_and_log)
def vjp(g, y, A):  # noqa: F811
    return [slogdet_gradient(g, y, A)]


@op(composite=True, namespace="linalg", method=True, samples=SQUARE)
def slogdet(A):
    """Sign and log of the absolute value of the determinant: log|det| does not overflow."""
    square("slogdet", A)
    sign, log = sign_and_log(A)
    return named("linalg_slogdet", sign=sign, logabsdet=log)


@op(composite=True)
def logdet(input):
    """The logarithm of the determinant; NaN if it is negative."""
    square("det", input)
    sign, log = sign_and_log(input)
    return log + sign.log() if sign.is_complex() else where_(sign < 0, math.nan, log)


def tolerance(A, values, atol, rtol):
    """The threshold below which singular values count as zero: max(atol, rtol * largest)."""
    def as_tensor(v):
        if isinstance(v, Tensor):
            return v
        v = float(v)  # beyond the dtype it is infinite, as tensors of it have it
        return values.new_full((), math.copysign(math.inf, v) if abs(v) > finfo(values.dtype).max else v)

    if rtol is None:
        is_given = atol is not None and has_value(atol) and atol > 0
        rtol = as_tensor(0.0 if is_given else max(A.shape[-2:]) * finfo(values.dtype).eps)
        if not has_value(atol):
            rtol = where_(atol > 0, values.new_full((), 0.0), rtol)
    return as_tensor(0.0 if atol is None else atol), as_tensor(rtol)


@op(namespace="linalg", samples=TALL)
def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    """The pseudoinverse (Moore & Penrose); singular values of at most max(atol, rtol * largest) count as zero.  [*, m,
    n] -> [*, n, m]."""
    floating("pinv", A)
    atol, rtol = tolerance(A, A.detach().abs() if A.is_complex() else A.detach(), atol, rcond if rtol is None else rtol)
    return pseudoinverse(A, atol, rtol, bool(hermitian))


@op(composite=True)
def pinverse(input, rcond=1e-15):
    """``linalg.pinv`` with a relative threshold."""
    return pinv(input, rcond)


def least_squares(a, b, cutoff, driver):
    """Return the solution, rank and singular values (only ``gelsd`` and ``gelss`` return these): by QR factors if these
    prove that every matrix has full rank."""
    least = min(a.shape[-2:])
    cutoff = None if driver == "gels" else cutoff  # which assumes full rank
    if driver == "gelss" and cutoff is not None and cutoff >= 1:  # no singular value is above the largest; others take
        x, rank, values = P.lstsq(a, b, cutoff=cutoff)            # such a cutoff for that of the dtype
        return P.mul(x, 0), P.mul(rank, 0), values
    if driver in ("gels", "gelsy") and top() is None and 0 not in (*a.shape, *b.shape):
        x, bound = full_rank_solution(a, b)
        limit = finfo(a.dtype).eps * max(a.shape[-2:]) if cutoff is None else cutoff
        if bool((bound * limit < 1).all()):
            from .create import full
            return x, full(tuple(a.shape[:-2]), least, dtype=int64), bound[..., None].detach()
    return P.lstsq(a, b, cutoff=cutoff)


@op(composite=True, namespace="linalg", samples=(sample((5, 3), (5, 2)),))
def lstsq(A, B, rcond=None, *, driver=None):
    """The x of least norm that minimizes |A x - B|: solution, residuals, rank, singular_values.  A: [*, m, n], B: [*,
    m, k]."""
    floating("lstsq", A)
    one_type("lstsq", A, B)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver}")
    driver = driver or "gelsy"
    single = is_vector(A, B)
    b = B.unsqueeze(-1) if single else B
    if b.dim() < 2 or A.shape[-2] != b.shape[-2]:
        raise RuntimeError(
            f"torch.linalg.lstsq: input.size(-2) should match other.size(-2), got {list(A.shape)} and {list(B.shape)}")
    a, b = together(A, b)
    x, rank, values = least_squares(a, b, rcond, driver)
    full = A.shape[-2] > A.shape[-1] and driver != "gelsy" and bool((rank == A.shape[-1]).all())
    residuals = (a @ x - b).abs().square().sum(-2) if full else x.real.reshape(-1)[:0]
    return named("linalg_lstsq", solution=x.squeeze(-1) if single else x, residuals=residuals,
                 rank=rank if driver != "gels" else rank.new_empty((0,)),
                 singular_values=values.detach() if driver in ("gelsd", "gelss") else values.new_empty((0,)))


# --- triangular factors -----------------------------------------------------------------------------------------------
@op(method=False, name="_other_triangle")
def other_triangle(A):
    """A Hermitian matrix, with its upper triangle copied to the lower one."""
    return A.mH


@rule(other_triangle)
def vjp(g, y, A):  # noqa: F811
    """The argument is Hermitian and returned unchanged: so is ``g``, as in PyTorch, even if it is not Hermitian."""
    return [g]


@op(namespace="linalg", overwritable=("A",))
def cholesky(A, *, upper=False):
    """The triangular L with L @ L^H = A, for Hermitian positive-definite A: [*, n, n].  LinAlgError for other A."""
    square("cholesky", A)
    low = P.cholesky(other_triangle(A) if upper else A, check=True)[0]  # reads the lower triangle
    return low.mH if upper else low


@op(composite=True, namespace="linalg")
def cholesky_ex(A, *, upper=False, check_errors=False):
    """``cholesky``, and for each matrix 0 or the order of its first minor that is not positive-definite."""
    square("cholesky_ex", A)
    low, info = P.cholesky(other_triangle(A) if upper else A, check=check_errors)
    return named("linalg_cholesky_ex", L=low.mH.resolve_conj() if upper else low, info=info)


@op(name="cholesky", overwritable=("input",))
def cholesky_(input, upper=False):
    """``linalg.cholesky``."""
    deprecated("torch.cholesky", "torch.linalg.cholesky")
    return cholesky(input, upper=upper)


@op(composite=True, aliases={"input2": "L"})
def cholesky_solve(input, L, upper=False):
    """x with A @ x = input, given the Cholesky factor L of A."""
    if input.dim() < 2 or L.dim() < 2:
        raise RuntimeError(
            f"b and u should have at least 2 dimensions, but have {input.dim()} and {L.dim()} dimensions instead")
    square("cholesky_solve", L)
    one_type("cholesky_solve", input, L)
    if input.shape[-2] != L.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {L.shape[-2]} by {L.shape[-1]} but each "
            f"b matrix is {input.shape[-2]} by {input.shape[-1]}")
    return cholesky_solved(*reversed(together(L.mH if upper else L, input)))


@op(method=False, name="_cholesky_solve")
def cholesky_solved(input, low):
    """(low low^H)^-1 input."""
    return P.solve_triangular(low.mH, P.solve_triangular(low, input, upper=False, unit=False), upper=True, unit=False)


@rule(cholesky_solved)
def vjp(g, y, input, low):  # noqa: F811
    """Gradient with respect to all of low, as in PyTorch."""
    gx = cholesky_solved(g, low)
    along = gx @ y.mH
    return [gx, -((along + along.mH) @ low)]


@op(composite=True)
def cholesky_inverse(input, upper=False):
    """The inverse of A, given its Cholesky factor."""
    square("cholesky_inverse", input)
    from .create import eye
    one = eye(input.shape[-1], dtype=input.dtype).expand(input.shape)
    return cholesky_solve(one, input, upper)


def unpacked(packed):
    """The unit lower and the upper factor of packed factors."""
    m, n = packed.shape[-2:]
    k = min(m, n)
    from .create import eye
    low = packed[..., :, :k].tril(-1) + eye(m, k, dtype=packed.dtype)
    return low, packed[..., :k, :].triu()


def pivot_matrix(pivots, size, dtype):
    """The permutation matrix P with A = P L U."""
    order = P.row_order(pivots, size=size)
    from .create import eye
    return eye(size, dtype=dtype)[order].mT.contiguous()


def without_pivots(name, pivot):
    if not pivot:
        raise RuntimeError(f"linalg.{name}: LU without pivoting is not implemented on the CPU; use pivot=True")


@op(composite=True, namespace="linalg")
def lu_factor(A, *, pivot=True):
    """Packed factors of A = P L U and the 1-based row interchanges.  A: [*, m, n]."""
    floating("lu_factor", A)
    without_pivots("lu_factor", pivot)
    packed, pivots, _ = P.lu(A)
    return named("linalg_lu_factor", LU=packed, pivots=pivots)


@op(composite=True, namespace="linalg")
def lu_factor_ex(A, *, pivot=True, check_errors=False):
    """``lu_factor``, and for each matrix 0 or the column of its first zero pivot."""
    floating("lu_factor_ex", A)
    without_pivots("lu_factor_ex", pivot)
    packed, pivots, info = P.lu(A)
    if check_errors and bool((info != 0).any()):
        raise LinAlgError(
            f"linalg.lu_factor: U[{int(info.max())},{int(info.max())}] is zero and using it on lu_solve would result "
            "in a division by zero.")
    return named("linalg_lu_factor_ex", LU=packed, pivots=pivots, info=info)


@op(composite=True, namespace="linalg", name="lu")
def lu_(A, *, pivot=True):
    """P, L, U with A = P @ L @ U: L unit lower, U upper triangular.  A: [*, m, n]."""
    floating("lu", A)
    without_pivots("lu", pivot)
    packed, pivots, _ = P.lu(A)
    low, up = unpacked(packed)
    return named("linalg_lu", P=pivot_matrix(pivots, A.shape[-2], A.dtype), L=low, U=up)


@op(composite=True)
def lu(input, pivot=True, get_infos=False):
    """Packed factors, row interchanges and, on request, the columns of zero pivots."""
    deprecated("torch.lu", "torch.linalg.lu_factor")
    floating("lu", input)
    packed, pivots, info = P.lu(input)
    return named("lu_info", A_LU=packed, pivots=pivots, infos=info) if get_infos else named("lu_factor", A_LU=packed,
                                                                                            pivots=pivots)


@op(composite=True, method=False)
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """P, L, U of packed factors."""
    if LU_pivots.dtype is not int32 and unpack_pivots:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this "
            "function is intended to be "
            "used with the output produced by torch.linalg.lu_factor")
    low, up = unpacked(LU_data) if unpack_data else (LU_data.new_empty((0,)), LU_data.new_empty((0,)))
    order = pivot_matrix(LU_pivots, LU_data.shape[-2], LU_data.dtype) if unpack_pivots else LU_data.new_empty((0,))
    return named("lu_unpack", P=order, L=low, U=up)


@op(composite=True, namespace="linalg", name="lu_solve")
def lu_solve_(LU, pivots, B, *, left=True, adjoint=False):
    """x with A @ x = B (A^H for ``adjoint``, x @ A = B if not ``left``), given the factors of A."""
    square("lu_solve", LU)
    one_type("lu_solve", LU, B)
    packed, b = together(LU, B if left else B.mH)
    exchanges = pivots.expand((*packed.shape[:-2], pivots.shape[-1])).contiguous()
    order = pivot_matrix(exchanges, LU.shape[-1], LU.dtype)
    if adjoint != (not left):  # A^H = U^H L^H P^T
        inner = P.solve_triangular(packed.mH, b, upper=False, unit=False)
        x = order @ P.solve_triangular(packed.mH, inner, upper=True, unit=True)
    else:
        inner = P.solve_triangular(packed, order.mT @ b, upper=False, unit=True)
        x = P.solve_triangular(packed, inner, upper=True, unit=False)
    return x if left else x.mH


@op(composite=True)
def lu_solve(input, LU_data, LU_pivots):
    """x with A @ x = input, given the factors of A."""
    return lu_solve_(LU_data, LU_pivots, input)


# --- orthogonal factors -----------------------------------------------------------------------------------------------
@op(composite=True, namespace="linalg", name="qr")
def qr_(A, mode="reduced"):
    """Q, R with A = Q @ R: Q with orthonormal columns, R upper triangular; mode "reduced", "complete" or "r".  A: [*,
    m, n]."""
    floating("qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    q, r = P.qr(A, mode=mode)
    return named("linalg_qr", Q=q, R=r)


@op(composite=True)
def qr(input, some=True):
    """``linalg.qr``, reduced or complete."""
    deprecated("torch.qr", "torch.linalg.qr")
    return named("qr", **qr_(input, "reduced" if some else "complete")._asdict())


@op(composite=True)
def geqrf(input):
    """Reflectors of a QR factorization below the diagonal with R on and above it, and their scales."""
    floating("geqrf", input)
    a, tau = P.geqrf(input)
    return named("geqrf", a=a, tau=tau)


@op(composite=True, namespace="linalg", samples=(sample((4, 3), (3,)),))
def householder_product(A, tau):
    """The first n columns of the product of reflectors I - tau_i v_i v_i^H, v_i below the diagonal of A: [*, m, n] ->
    [*, m, n]."""
    floating("householder_product", A)
    m, n = A.shape[-2:]
    if m < n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1], got "
            f"{m} < {n}")
    if tau.shape[-1] > n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1], got "
            f"{n} < {tau.shape[-1]}")
    from .create import eye
    return reflected(A, tau, eye(m, n, dtype=A.dtype).expand(A.shape), False)


@op(composite=True)
def orgqr(input, tau):
    """``linalg.householder_product``."""
    return householder_product(input, tau)


@op(composite=True)
def ormqr(input, tau, other, left=True, transpose=False):
    """Q @ other (other @ Q if not ``left``), Q the square product of the reflectors in input; Q^H with
    ``transpose``."""
    floating("ormqr", input)
    if left:
        return reflected(input, tau, other, transpose)
    return reflected(input, tau, other.mH, not transpose).mH.resolve_conj()


# --- eigenvalues and singular values ----------------------------------------------------------------------------------
@op(method=False, name="_only")
def only(input, factors, which, **how):
    """Return one result of a factorization, so that its gradient does not go through the others."""
    return getattr(P, factors)(input, **how)[which]


@op(composite=True, namespace="linalg")
def eigh(A, UPLO="L"):
    """Eigenvalues (ascending, real) and eigenvectors of Hermitian A: [*, n, n]; only one triangle is read."""
    square("eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    values, vectors = P.eigh(A, uplo=UPLO.upper())
    return named("linalg_eigh", eigenvalues=values, eigenvectors=vectors)


@op(namespace="linalg", overwritable=("A",))
def eigvalsh(A, UPLO="L"):
    """The eigenvalues (ascending) of Hermitian A."""
    square("eigvalsh", A)
    return only(A, "eigh", 0, uplo=UPLO.upper())


@op(composite=True, namespace="linalg")
def eig(A):
    """Complex eigenvalues and eigenvectors of A: [*, n, n]."""
    square("eig", A)
    values, vectors = P.eig(A)
    return named("linalg_eig", eigenvalues=values, eigenvectors=vectors)


@op(composite=True, namespace="linalg")
def eigvals(A):
    """The complex eigenvalues of A: [*, n, n]."""
    square("eigvals", A)
    return only(A, "eig", 0)


@op(composite=True, namespace="linalg", name="svd")
def svd_(A, full_matrices=True, *, driver=None):
    """U, S, Vh with A = U @ diag(S) @ Vh, S descending.  A: [*, m, n]; U square with ``full_matrices``."""
    floating("svd", A)
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")
    u, s, vh = P.svd(A, full=bool(full_matrices))
    return named("linalg_svd", U=u, S=s, Vh=vh)


@op(namespace="linalg", samples=TALL, overwritable=("A",))
def svdvals(A, *, driver=None):
    """The singular values, descending.  [*, m, n] -> [*, min(m, n)]."""
    floating("svdvals", A)
    return only(A, "svd", 1, full=False)


@op(composite=True)
def svd(input, some=True, compute_uv=True):
    """U, S, V with input = U @ diag(S) @ V^H; zeros for U and V without ``compute_uv``."""
    if not compute_uv:
        m, n = input.shape[-2:]
        batch = tuple(input.shape[:-2])
        return named("svd", U=input.new_zeros((*batch, m, m)), S=svdvals(input), V=input.new_zeros((*batch, n, n)))
    u, s, vh = svd_(input, not some)
    return named("svd", U=u, S=s, V=vh.mH)


@op(composite=True, namespace="linalg")
def ldl_factor(A, *, hermitian=False):
    """Packed factors of Hermitian (or symmetric) A = L D L^H and pivots, by Bunch & Kaufman 1977.  A: [*, n, n]."""
    square("ldl_factor", A)
    packed, pivots, _ = P.ldl(A, hermitian=hermitian)
    return named("linalg_ldl_factor", LD=packed, pivots=pivots)


@op(composite=True, namespace="linalg")
def ldl_factor_ex(A, *, hermitian=False, check_errors=False):
    """``ldl_factor``, and for each matrix 0 or the index of a zero in D."""
    square("ldl_factor_ex", A)
    packed, pivots, info = P.ldl(A, hermitian=hermitian)
    if check_errors and bool((info != 0).any()):
        raise LinAlgError(f"torch.linalg.ldl_factor_ex: the factor D is singular at {int(info.max())}")
    return named("linalg_ldl_factor_ex", LD=packed, pivots=pivots, info=info)


@op(composite=True, namespace="linalg")
def ldl_solve(LD, pivots, B, *, hermitian=False):
    """x with A @ x = B, given the factors of A.  LD: [*, n, n], B: [*, n, k]."""
    square("ldl_solve", LD)
    if B.dim() < 2:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has "
            f"{B.dim()} dimensions instead")
    a, b = together(LD, B)
    return P.ldl_solve(a, pivots.expand((*a.shape[:-2], pivots.shape[-1])), b, hermitian=hermitian)
