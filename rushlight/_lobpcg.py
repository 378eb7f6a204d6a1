"""A few extreme eigenvalues of a large symmetric matrix, by locally optimal steps (Knyazev 2001)."""
from __future__ import annotations

import math

from ._src.autograd.mode import no_grad
from ._src.core.dtypes import float32
from ._src.core.op import OPS
from ._src.core.overriding import overridable

NITER = 1000


@overridable
def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None, tracker=None,
           ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):
    """The ``k`` largest (or smallest) eigenvalues of A x = e B x and their vectors: [m, m] -> [k], [m, k].

    A and B are symmetric, B is positive-definite (None: the identity); both may be sparse. X [m, n] is where to begin,
    iK is about the inverse of A.  Gradients reach A and B through the eigenvalues.  ValueError where m is less than 3
    k.
    """
    size = A.shape[-1]
    count = k or (X.shape[-1] if X is not None else 1)
    width = n or (X.shape[-1] if X is not None else count)
    if size < 3 * width:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={size}) is smaller than 3 x the number "
            f"of requested eigenpairs (={width})")
    if A.dim() > 2:
        found = [lobpcg(one, k, B if B is None or B.dim() == 2 else B[j], X if X is None else X[j], n, iK, niter, tol,
                        largest, method, tracker) for j, one in enumerate(A)]
        return tuple(OPS["stack"](list(parts)) for parts in zip(*found))
    dtype = A.dtype
    tolerance = tol if tol is not None else math.sqrt(1.2e-7 if dtype is float32 else 2.2e-16)
    with no_grad():
        start = OPS["randn"](size, width, dtype=dtype) if X is None else X
        vectors = refined(A.detach(), None if B is None else B.detach(), start, iK, niter or NITER, tolerance,
                          largest is not False, count)[:, :count]
    values = (vectors * (A @ vectors)).sum(0) / (vectors * (vectors if B is None else B @ vectors)).sum(0)
    return values, vectors


def refined(A, B, x, inverse, niter, tolerance, largest, count):
    """The vectors after as many rounds as are needed; in each, the best in the span of what there is, the residuals and
    the last steps."""
    step = None
    for _ in range(niter):
        values, x, step = best(A, B, x, step, largest)
        residual = A @ x - (x if B is None else B @ x) * values
        if float((residual.norm(dim=0) / (x.norm(dim=0) * (values.abs() + 1)))[:count].max()) < tolerance:
            break
        found = residual if inverse is None else inverse @ residual
        step = found if step is None else OPS["cat"]([found, step], 1)
    return x


def best(A, B, x, more, largest):
    """Return eigenvalues and vectors of the problem in the span of x and ``more``, and the vectors' part outside x."""
    span = x if more is None else OPS["cat"]([x, more], 1)
    span = span / span.norm(dim=0).clamp(min=1e-30)
    weights, turn = OPS["linalg.eigh"](span.mT @ (span if B is None else B @ span))
    kept = weights > weights[-1] * (1e-6 if span.dtype is float32 else 1e-13)
    turn = turn[:, kept] / weights[kept].sqrt()
    basis = span @ turn
    values, inner = OPS["linalg.eigh"](basis.mT @ (A @ basis))
    order = values.argsort(descending=largest)[:x.shape[1]]
    mixed = turn @ inner[:, order]
    outside = None if more is None else span[:, x.shape[1]:] @ mixed[x.shape[1]:]
    return values[order], span @ mixed, outside
