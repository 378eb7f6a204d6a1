"""Matrix decompositions as primitives: LAPACK's results, and their gradients.

Every gradient is that of the real inner product Re tr(g^H dy); see Giles 2008 (An extended collection of matrix
derivative results) and Walter & Lehmann 2018 (Algorithmic differentiation of linear algebra functions).
"""
from __future__ import annotations

from functools import partial

import numpy as np

from ..core import failures
from ..core.dtypes import finfo, int32, int64
from ..core.kinds import Foreign, P
from ..core.op import OPS, op, rule
from . import indefinite, lapack
from .lapack import LinAlgError
from .prims.primitive import primitive as declared

AUTOCAST = "float32"  # sensitive to rounding

primitive = partial(declared, leading=True)  # maps over leading dimensions, equal ones for all arguments, by itself


def batch(x) -> tuple:
    return tuple(x.shape[:-2])


def vector(x, size, dtype=None):
    """Meta of ``size`` elements for each matrix of x."""
    return x.like((*batch(x), size), None, dtype)


def matrix(x, rows, columns, dtype=None):
    return x.like((*batch(x), rows, columns), None, dtype)


def counts(x):
    return x.like(batch(x), None, int32)


def on_diagonal(x):
    return x.diag_embed()


def real_like(x, like):
    """Drop the imaginary part if the argument was real."""
    return x.real if x.dtype.is_complex and not like.dtype.is_complex else x


SINGULAR_SYSTEM = failures.declare(2, LinAlgError,
                                   "linalg.solve: {where}The solver failed because the input matrix is singular.")
SINGULAR_INVERSE = failures.declare(3, LinAlgError,
                                    "linalg.inv: {where}The diagonal element {at} is zero, the inversion could not be "
                                    "completed because the "
                                    "input matrix is singular.")
NOT_POSITIVE = failures.declare(4, LinAlgError,
                                "linalg.cholesky: {where}The factorization could not be completed because the input "
                                "is not positive-definite "
                                "(the leading minor of order {at} is not positive-definite).")
NOT_CONVERGENT = failures.declare(5, LinAlgError,
                                  "linalg.eigh: {where}The algorithm did not converge. The input may contain NaN or "
                                  "infinity.")

NO_PIVOT = failures.declare(7, RuntimeError,
                            "{where}pivots must lie between 1 and the number of rows, LU.size(-2): did you properly "
                            "pass the result of lu_factor?")
NO_SINGULAR_VALUES = failures.declare(6, LinAlgError,
                                      "linalg.svd: {where}The algorithm did not converge. The input may contain NaN or "
                                      "infinity.")


def refuse(kind, info):
    """Raise for the first matrix that failed."""
    wrong = np.flatnonzero(info)
    if wrong.size:
        raise failures.error(failures.word(kind + failures.BATCHED * bool(info.ndim), int(info.reshape(-1)[wrong[0]]),
                                           int(wrong[0])))


def converging(function, name):
    """Wrap ``function``: NumPy's error for non-convergence gets Rushlight's name."""
    def run(*args, **params):
        try:
            return function(*args, **params)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(
                f"linalg.{name}: the algorithm did not converge ({error}). The input may contain NaN or "
                "infinity.") from None
    return run


# --- triangular systems -----------------------------------------------------------------------------------------------
def triangular_gradient(g, x, a, b, upper, unit):
    gb = P.solve_triangular(a.mH, g, upper=not upper, unit=unit)
    ga = -(gb @ x.mH)
    return [ga.triu(int(unit)) if upper else ga.tril(-int(unit)), gb]


P_solve_triangular = primitive("solve_triangular", Foreign(
    lambda a, b, upper, unit: lapack.substitute(a, b, upper, unit), lambda a, b, upper, unit: b.like(tuple(b.shape)),
    triangular_gradient),
    lambda a, b, upper, unit: 0, arity=2, doc="x with a x = b for a triangular [*, n, n], b [*, n, k], of one batch "
                                              "shape.")


# --- general systems and inverses -------------------------------------------------------------------------------------
def solve_numpy(a, b, check):
    x, info = lapack.solve(a, b)
    if check:
        refuse(SINGULAR_SYSTEM, info)
    return x, info


def solve_gradient(g, y, a, b, check):
    if g[0] is None:
        return [None, None]
    gb = P.solve(a.mH, g[0], check=False)[0]
    return [-(gb @ y[0].mH), gb]


P_solve = primitive("solve", Foreign(solve_numpy, lambda a, b, check: (b.like(tuple(b.shape)), counts(a)),
                                     solve_gradient),
                    lambda a, b, check: 0, arity=2,
                    doc="x with a x = b, and the column of the first zero pivot of a singular a.")


def inverse_numpy(a, check):
    x, info = lapack.solve(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))
    if check:
        refuse(SINGULAR_INVERSE, info)
    return x, info


P_inverse = primitive("inverse", Foreign(
    inverse_numpy, lambda a, check: (a.like(tuple(a.shape)), counts(a)),
    lambda g, y, a, check: [None if g[0] is None else -(y[0].mH @ g[0] @ y[0].mH)]), lambda a, check: 0, arity=1)


@op(method=False, name="_pinv")
def pseudoinverse(a, atol, rtol, hermitian):
    """V diag(1 / s) U^H, singular values of at most max(atol, rtol * largest) counting as zero."""
    rows, columns = a.shape[-2:]
    if rows == 0 or columns == 0:
        return P.full(shape=(*batch(a), columns, rows), value=0, dtype=a.dtype)
    if hermitian:  # the lower triangle counts, and the real part of the diagonal
        below, diagonal = a.tril(-1), a.diagonal(0, -2, -1)
        a = below + below.mH + on_diagonal(diagonal.real.to(a.dtype) if a.dtype.is_complex else diagonal)
    u, s, vh = P.svd(a, full=False)
    cut = P.maximum(atol, P.mul(rtol, s.amax(-1)))
    inverse = P.where(P.le(s, cut[..., None]), 0.0, P.div(1.0, s))
    return vh.mH @ (inverse[..., None].to(a.dtype) * u.mH)


@rule(pseudoinverse)
def vjp(g, y, a, atol, rtol, hermitian):
    return [pinv_slope(g, y, a), None, None]


def pinv_slope(g, y, a):
    """Golub & Pereyra 1973: the cotangent of a from that of its pseudoinverse y."""
    gh, yh = g.mH, y.mH
    return (gh - a @ (y @ gh)) @ y @ yh + yh @ y @ (gh - (gh @ y) @ a) - yh @ g @ yh


@op(method=False, name="_full_rank_solution")
def full_rank_solution(a, b):
    """Return the x of least norm that minimizes |a x - b| if a has full rank, by QR factors, and a bound of the
    condition of each a: |R| |R^-1|."""
    m, n = a.shape[-2:]
    q, r = P.qr(a if m >= n else a.mH, mode="reduced")
    one = identity_like(r)
    backward = P.solve_triangular(r, one, upper=True, unit=False)
    bound = (r.abs().square().sum((-2, -1)) * backward.abs().square().sum((-2, -1))).sqrt()
    if m >= n:
        return P.solve_triangular(r, q.mH @ b, upper=True, unit=False), bound
    return q @ P.solve_triangular(r.mH, b, upper=False, unit=False), bound


def lstsq_gradient(g, y, a, b, cutoff):
    if g[0] is None:
        return [None, None]
    least = finfo(a.dtype).eps * max(a.shape[-2:]) if cutoff is None else float(cutoff)
    none, least = (P.full(shape=(), value=value, dtype=a.dtype.to_real()) for value in (0.0, least))
    inverse = pseudoinverse(a, none, least, False)
    return [pinv_slope(g[0] @ b.mH, inverse, a), inverse.mH @ g[0]]


P_lstsq = primitive("lstsq", Foreign(
    converging(lapack.least_squares, "lstsq"),
    lambda a, b, cutoff: (matrix(b, a.shape[-1], b.shape[-1]), a.like(batch(a), None, int64),
                          vector(a, min(a.shape[-2:]), a.dtype.to_real())),
    lstsq_gradient), lambda a, b, cutoff: 0, arity=2)


# --- determinants -----------------------------------------------------------------------------------------------------
def without_one(s):
    """Products of all but one of the singular values s, [..., n] -> [..., n]."""
    ones = np.ones((*s.shape[:-1], 1), s.dtype)
    left = np.cumprod(np.concatenate([ones, s[..., :-1]], -1), -1)
    right = np.cumprod(np.concatenate([ones, s[..., :0:-1]], -1), -1)[..., ::-1]
    return left * right if s.shape[-1] else s


def without_two(s):
    """Products of all but two of the singular values s, [..., n] -> [..., n, n]; 0 on the diagonal."""
    n = s.shape[-1]
    found, before = np.zeros((*s.shape, n), s.dtype), np.ones_like(s)  # before[i]: the product of s before i
    between, after = np.ones_like(s), np.ones_like(s)  # between[i]: of s after i and before j
    before[..., 1:] = np.cumprod(s[..., :-1], -1)
    after[..., :-1] = np.cumprod(s[..., :0:-1], -1)[..., ::-1]
    for j in range(1, n):
        found[..., :j, j] = found[..., j, :j] = (before * between)[..., :j] * after[..., j, None]
        between[..., :j] *= s[..., j, None]
    return found


def factors_with_sign(a):
    """Return which matrices have finite cofactors, the singular values and vectors (of zeros for matrices that are not
    finite), and the sign of the determinant, a phase if they are complex."""
    finite = np.isfinite(a).all((-2, -1), keepdims=True)
    u, s, vh = np.linalg.svd(np.where(finite, a, 0))
    return finite | (a.shape[-1] == 1), u, s, vh, (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]


def cofactor_numpy(a):
    """det(a) a^-T without division, from the singular values: right for singular matrices too; NaN if an element is
    infinite or NaN, unless it is the only one."""
    finite, u, s, vh, sign = factors_with_sign(a)
    return np.where(finite, sign * np.conj((u * without_one(s)[..., None, :]) @ vh), np.nan)


def cofactor_slope_numpy(a, e):
    """The derivative of the cofactor matrix of a in the direction e, without division; NaN if an element of a is
    infinite or NaN."""
    finite, u, s, vh, sign = factors_with_sign(a)
    turned, others = np.swapaxes(u, -1, -2).conj() @ e @ np.swapaxes(vh, -1, -2).conj(), without_two(s)
    slope = -np.swapaxes(turned, -1, -2) * others
    k = np.arange(s.shape[-1])
    slope[..., k, k] = (others * turned[..., k, k][..., None, :]).sum(-1)
    return np.where(finite, sign * (u.conj() @ slope @ vh.conj()), np.nan)


def cofactor_slope_gradient(g, y, a, e):
    """The cofactor matrix is holomorphic in a, and its derivative symmetric: sum(h * slope(e)) = sum(e * slope(h))."""
    w, h = P.inverse(a, check=False)[0].mT, g.conj()
    along_e, along_h = ((w * x).sum((-2, -1), keepdim=True) for x in (e, h))
    q, r = w @ e.mT @ w, w @ h.mT @ w
    scale = (a * P.cofactor(a)).sum((-2, -1), keepdim=True) / max(a.shape[-1], 1)  # the determinant
    slope = w * (h * y).sum((-2, -1), keepdim=True)
    return [(slope + scale * (q @ h.mT @ w + w @ h.mT @ q - along_h * q - along_e * r)).conj(),
            P.cofactor_slope(a, h).conj()]


P_cofactor_slope = primitive("cofactor_slope", Foreign(
    converging(cofactor_slope_numpy, "det"), lambda a, e: a.like(tuple(a.shape)), cofactor_slope_gradient),
    lambda a, e: 0, arity=2)


def cofactor_gradient(g, y, a):
    return [P.cofactor_slope(a, g.conj()).conj()]


P_cofactor = primitive("cofactor", Foreign(converging(cofactor_numpy, "det"), lambda a: a.like(tuple(a.shape)),
                                           cofactor_gradient), lambda a: 0, arity=1)
def pivots_with_signs(a, change=lambda x: x):
    """Pivots of a, multiplied by the sign of each interchange: their product has the sign of the permutation."""
    packed, exchanges, _ = P.lu(a)
    pivots = change(packed.diagonal(0, -2, -1))
    return P.where(P.eq(exchanges, P.add(P.iota(size=a.shape[-1], dtype=int32), 1)), pivots, P.neg(pivots)), packed


def slogdet_gradient(g, y, a):
    inverse = P.inverse(a, check=False)[0].mH
    scale = g[1] if g[1] is not None else y[1] * 0
    if a.dtype.is_complex:
        scale = scale.to(a.dtype)
        if g[0] is not None:  # the phase turns with the imaginary part of the logarithm
            turn = (y[0].conj() * g[0]).imag
            scale = scale + P.complex(turn * 0, turn)
    return scale[..., None, None] * inverse


# --- triangular factors -----------------------------------------------------------------------------------------------
def cholesky_numpy(a, check):
    factor, info = lapack.cholesky(a)
    if check:
        refuse(NOT_POSITIVE, info)
    return factor, info


def cholesky_gradient(g, y, a, check):
    if g[0] is None:
        return [None]
    low = y[0]
    half = low.mH @ g[0]
    return [between(low.mH, (half.tril() + half.tril(-1).mH) * 0.5, low, upper=True)]


def between(left, middle, right, upper):
    """left^-1 middle right^-1 for triangular left; right has the opposite triangle."""
    inner = P.solve_triangular(left, middle, upper=upper, unit=False)
    return P.solve_triangular(right.mH, inner.mH, upper=upper, unit=False).mH


P_cholesky = primitive("cholesky", Foreign(cholesky_numpy, lambda a, check: (a.like(tuple(a.shape)), counts(a)),
                                           cholesky_gradient),
                       lambda a, check: 0, arity=1)


def lu_numpy(a):
    return lapack.lu(a)


def lu_gradient(g, y, a):
    """Gradient through the packed factors: a leading square part, then the rows below or columns right of it."""
    if g[0] is None:
        return [None]
    packed, pivots = y[0], y[1]
    m, n = a.shape[-2:]
    k = min(m, n)
    square = packed[..., :k, :k]
    low = square.tril(-1) + identity_like(square)
    up = square.triu()
    gs = g[0][..., :k, :k]
    gl, gu = gs.tril(-1), gs.triu()
    beside = None
    if m > n:  # L2 = A2 U^-1
        beside = right_solve(up, g[0][..., k:, :])
        gu = gu - (packed[..., k:, :].mH @ beside).triu()
    elif n > m:  # U2 = L^-1 A2
        beside = P.solve_triangular(low.mH, g[0][..., :, k:], upper=True, unit=True)
        gl = gl - (beside @ packed[..., :, k:].mH).tril(-1)
    middle = (low.mH @ gl).tril(-1) + (gu @ up.mH).triu()
    inner = P.solve_triangular(low.mH, middle, upper=True, unit=True)
    ga = right_solve(up, inner)
    if beside is not None:
        ga = P.cat((ga, beside), dim=len(a.shape) - (2 if m > n else 1))
    order = P.row_order(pivots, size=m)
    where = P.sort(order, dim=len(order.shape) - 1, descending=False)[1]
    return [P.gather(ga, where[..., None].expand(ga.shape), dim=len(ga.shape) - 2)]


def right_solve(up, x):
    """x up^-H."""
    return P.solve_triangular(up, x.mH, upper=True, unit=False).mH


def identity_like(x):
    return on_diagonal(x.diagonal(0, -2, -1) * 0 + 1)


P_lu = primitive("lu", Foreign(lu_numpy, lambda a: (a.like(tuple(a.shape)), vector(a, min(a.shape[-2:]), int32),
                                                    counts(a)), lu_gradient), lambda a: 0, arity=1, overwritable=("a",))
P_row_order = primitive("row_order", Foreign(
    lapack.permutation, lambda p, size: p.like((*p.shape[:-1], size), None, int64)), lambda pivots, size: 0, arity=1,
    doc="The order of rows that 1-based exchanges make: [*, k] -> [*, size].")


def qr_gradient(g, y, a, mode):
    q, r = y
    m, n = a.shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, "
            "mode='reduced') "
            "if you are going to require gradients.")
    if mode == "complete" and m > n:
        raise RuntimeError(
            f"The QR decomposition is not differentiable when mode='complete' and nrows > ncols ({m} > {n}).")
    gq, gr = (part if part is not None else whole * 0 for part, whole in zip(g, y))
    k = min(m, n)
    if m >= n:
        return [qr_slope(gq, gr, q, r)]
    rest = gr[..., :, k:]
    first = qr_slope(gq + a[..., :, k:] @ rest.mH, gr[..., :, :k], q, r[..., :, :k])
    return [P.cat((first, q @ rest), dim=len(a.shape) - 1)]


def qr_slope(gq, gr, q, r):
    middle = r @ gr.mH - gq.mH @ q
    low = middle.tril(-1)
    diagonal = middle.diagonal(0, -2, -1)
    if diagonal.dtype.is_complex:  # the phase of R's diagonal is fixed
        diagonal = diagonal.real.to(diagonal.dtype)
    return right_solve(r, gq + q @ (low + low.mH + on_diagonal(diagonal)))


def qr_numpy(a, mode):
    if mode == "r":
        r = np.linalg.qr(a, mode="r")
        return np.empty((0,), a.dtype), r
    return tuple(np.linalg.qr(a, mode=mode))


def qr_meta(a, mode):
    m, n = a.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    return (a.like((0,)) if mode == "r" else matrix(a, m, k)), matrix(a, k, n)


P_qr = primitive("qr", Foreign(qr_numpy, qr_meta, qr_gradient), lambda a, mode: 0, arity=1)
P_geqrf = primitive("geqrf", Foreign(lapack.geqrf, lambda a: (a.like(tuple(a.shape)), vector(a, min(a.shape[-2:])))),
                    lambda a: 0, arity=1)


def reflected(a, tau, x, adjoint):
    """Q x (Q^H x), Q the product of the reflectors I - tau v v^H with v below the diagonal of a, as I - V T V^H
    (Schreiber & Van Loan 1989).

    With S the part of V^H V above the diagonal, T is (I + diag(tau) S)^-1 diag(tau), which permits scales of 0.
    """
    count, size = tau.shape[-1], a.shape[-2]
    v = a[..., :, :count].tril(-1) + OPS["eye"](size, count, dtype=a.dtype)
    scales = tau[..., :, None]
    within = OPS["eye"](count, dtype=a.dtype) + scales * (v.mH @ v).triu(1)
    along = v.mH @ x
    if adjoint:
        along = scales.conj() * P.solve_triangular(within.mH, along, upper=False, unit=True)
    else:
        along = P.solve_triangular(within, scales * along, upper=True, unit=True)
    return x - v @ along


# --- symmetric factors ------------------------------------------------------------------------------------------------
P_ldl = primitive("ldl", Foreign(indefinite.factors,
                                 lambda a, hermitian: (a.like(tuple(a.shape)), vector(a, a.shape[-1], int32),
                                                       counts(a))), lambda a, hermitian: 0, arity=1)
P_ldl_solve = primitive("ldl_solve",
                        Foreign(indefinite.solution, lambda a, pivots, b, hermitian: b.like(tuple(b.shape)),
                                lambda g, y, a, pivots, b, hermitian: [None, None, P.ldl_solve(a if hermitian
                                                                                               else a.conj(), pivots, g,
                                                                                               hermitian=hermitian)]),
                        lambda a, pivots, b, hermitian: 0, arity=3)


# --- eigenvalues and singular values ----------------------------------------------------------------------------------
def gaps(values):
    """values[j] - values[i], with 1 on the diagonal."""
    return values[..., None, :] - values[..., :, None] + on_diagonal(values * 0 + 1)


def off_diagonal(x):
    return x - on_diagonal(x.diagonal(0, -2, -1))


def eigh_gradient(g, y, a, uplo):
    values, v = y
    inner = on_diagonal(g[0]).to(v.dtype) if g[0] is not None else None
    if g[1] is not None:
        turned = off_diagonal(v.mH @ g[1]) / gaps(values).to(v.dtype)
        inner = turned if inner is None else inner + turned
    return [v @ inner @ v.mH]


P_eigvalsh = primitive("eigvalsh", Foreign(converging(lambda a, uplo: np.linalg.eigvalsh(a, uplo), "eigvalsh"),
                                           lambda a, uplo: vector(a, a.shape[-1], a.dtype.to_real()),
                                           lambda g, y, a, uplo: eigh_gradient((g, None), P.eigh(a, uplo=uplo), a,
                                                                               uplo)), lambda a, uplo: 0, arity=1)
P_eigh = primitive("eigh", Foreign(
    converging(lambda a, uplo: tuple(np.linalg.eigh(a, uplo)), "eigh"),
    lambda a, uplo: (vector(a, a.shape[-1], a.dtype.to_real()), a.like(tuple(a.shape))), eigh_gradient),
                   lambda a, uplo: 0, arity=1, alone=(0, P_eigvalsh))


def eig_gradient(g, y, a):
    values, v = y
    inner = on_diagonal(g[0]) if g[0] is not None else None
    if g[1] is not None:
        along = v.mH @ g[1]
        free = along - (v.mH @ v) * along.diagonal(0, -2, -1).real.to(v.dtype)[..., None, :]
        turned = off_diagonal(free) / gaps(values).conj()
        inner = turned if inner is None else inner + turned
    return [real_like(P.solve(v.mH, inner @ v.mH, check=False)[0], a)]


def complex_eigenvalues(a):
    return np.linalg.eigvals(a).astype(np.result_type(a, np.complex64))


P_eigvals = primitive("eigvals", Foreign(
    converging(complex_eigenvalues, "eigvals"), lambda a: vector(a, a.shape[-1], a.dtype.to_complex()),
    lambda g, y, a: eig_gradient((g, None), P.eig(a), a)), lambda a: 0, arity=1)
P_eig = primitive("eig", Foreign(
    converging(lambda a: tuple(np.linalg.eig(a)), "eig"),
    lambda a: (vector(a, a.shape[-1], a.dtype.to_complex()), a.like(tuple(a.shape), None, a.dtype.to_complex())),
    eig_gradient), lambda a: 0, arity=1, alone=(0, P_eigvals))


def svd_gradient(g, y, a, full):
    u, s, vh = y
    k = s.shape[-1]
    u, v = u[..., :, :k], vh[..., :k, :].mH
    gu, gs, gvh = g[0], g[1], g[2]
    inner = on_diagonal(gs).to(u.dtype) if gs is not None else None
    if gu is None and gvh is None:
        return [u @ inner @ v.mH]
    scale = s.to(u.dtype)
    square = gaps(s * s).to(u.dtype)
    tail = None
    if gu is not None:
        gu = gu[..., :, :k]
        along = u.mH @ gu
        skew = along - along.mH
        part = off_diagonal(skew / square) * scale[..., None, :]
        if u.dtype.is_complex:  # the joint phase of each pair of vectors
            part = part + on_diagonal(skew.diagonal(0, -2, -1) / (scale * 2.0))
        inner = part if inner is None else inner + part
        if a.shape[-2] > k:
            tail = ((gu - u @ along) / scale[..., None, :]) @ v.mH
    if gvh is not None:
        gv = gvh[..., :k, :].mH
        along = v.mH @ gv
        part = scale[..., :, None] * off_diagonal((along - along.mH) / square)
        inner = part if inner is None else inner + part
        if a.shape[-1] > k:
            rest = u @ ((gv - v @ along) / scale[..., None, :]).mH
            tail = rest if tail is None else tail + rest
    whole = u @ inner @ v.mH
    return [whole if tail is None else whole + tail]


def svd_meta(a, full):
    m, n = a.shape[-2:]
    k = min(m, n)
    return matrix(a, m, m if full else k), vector(a, k, a.dtype.to_real()), matrix(a, n if full else k, n)


def svd_numpy(a, **how):
    """NumPy's, which might not end for infinities or NaN: NaN for matrices with infinities, an error for NaN."""
    if np.isnan(a).any():
        raise np.linalg.LinAlgError("an element is NaN")
    infinite = np.isinf(a).any((-2, -1))
    found = np.linalg.svd(np.where(infinite[..., None, None], 0, a), **how)
    for factor in found if isinstance(found, tuple) else (found,):
        factor[infinite] = np.nan
    return found


P_svdvals = primitive("svdvals", Foreign(converging(lambda a, full: svd_numpy(a, compute_uv=False), "svdvals"),
                                         lambda a, full: svd_meta(a, full)[1],
                                         lambda g, y, a, full: svd_gradient((None, g, None), P.svd(a, full=False), a,
                                                                            False)), lambda a, full: 0, arity=1)
P_svd = primitive("svd", Foreign(converging(lambda a, full: tuple(svd_numpy(a, full_matrices=full)), "svd"),
                                 svd_meta, svd_gradient),
                  lambda a, full: 0, arity=1, alone=(1, P_svdvals))


# --- the exponential --------------------------------------------------------------------------------------------------
def exponential_gradient(g, y, a):
    """The derivative along g is in the corner of the exponential of a block matrix (Najfeld & Havel 1995)."""
    n, rank = a.shape[-1], len(a.shape)
    ah = a.mH
    top = P.cat((ah, g), dim=rank - 1)
    bottom = P.cat((ah * 0, ah), dim=rank - 1)
    return [P.matrix_exp(P.cat((top, bottom), dim=rank - 2))[..., :n, n:]]


P_matrix_exp = primitive("matrix_exp", Foreign(lapack.exponential, lambda a: a.like(tuple(a.shape)),
                                               exponential_gradient), lambda a: 0, arity=1)
