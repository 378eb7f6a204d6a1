"""Factorisations and Fourier transforms as PyTorch writes them with simpler operators."""
from __future__ import annotations

from .._src.core.op import OPS
from .._src.core.results import named
from . import leaves  # noqa: F401 - declares what is called here
from .compositions import composed, narrowed

WAYS = {None: 0, "backward": 0, "ortho": 1, "forward": 2}


@composed("linalg.det")
def det(A):
    return OPS["_linalg_det"](A)[0]


@composed("linalg.slogdet")
def slogdet(A):
    sign, log = OPS["_linalg_slogdet"](A)[:2]
    return named("linalg_slogdet", sign=sign, logabsdet=log)


@composed("linalg.inv")
def inv(A):
    result, info = OPS["linalg.inv_ex"](A)
    OPS["_linalg_check_errors"](info, "linalg.inv", is_matrix=A.dim() == 2)
    return result


@composed("linalg.cholesky")
def cholesky(A, *, upper=False):
    result, info = OPS["linalg.cholesky_ex"](A, upper=upper)
    OPS["_linalg_check_errors"](info, "linalg.cholesky", is_matrix=A.dim() == 2)
    return result


@composed("linalg.solve")
def solve(A, B, *, left=True):
    result, _, _, info = OPS["_linalg_solve_ex"](A, B, left=left)
    OPS["_linalg_check_errors"](info, "torch.linalg.solve", is_matrix=A.dim() == 2)
    return result


@composed("linalg.lu_factor")
def lu_factor(A, *, pivot=True):
    factors, pivots, info = OPS["linalg.lu_factor_ex"](A, pivot=pivot)
    OPS["_linalg_check_errors"](info, "torch.linalg.lu_factor", is_matrix=A.dim() == 2)
    return named("linalg_lu_factor", LU=factors, pivots=pivots)


@composed("linalg.svd")
def svd(A, full_matrices=True, *, driver=None):
    U, S, Vh = OPS["_linalg_svd"](A, full_matrices, driver=driver)
    return named("linalg_svd", U=U, S=S, Vh=Vh)


@composed("linalg.svdvals")
def svdvals(A, *, driver=None):
    return OPS["_linalg_svd"](A, False, A.requires_grad, driver=driver)[1]


@composed("linalg.eigh")
def eigh(A, UPLO="L"):
    values, vectors = OPS["_linalg_eigh"](A, UPLO)
    return named("linalg_eigh", eigenvalues=values, eigenvectors=vectors)


@composed("linalg.eigvalsh")
def eigvalsh(A, UPLO="L"):
    return OPS["_linalg_eigh"](A, UPLO, A.requires_grad)[0]


def resized(input, n, dim):
    """A dimension cut or filled with zeros to n elements."""
    size = input.shape[dim]
    if n is None or n == size:
        return input
    if n < size:
        return narrowed(input, dim, 0, n)
    return OPS["constant_pad_nd"](input, [0, 0] * (input.dim() - 1 - dim % input.dim()) + [0, n - size], 0.0)


def promoted(input, complexes=False):
    """Floating or complex numbers."""
    if not input.dtype.is_inexact:
        input = input.to(default_dtype())
    return input.to(input.dtype.to_complex()) if complexes and not input.dtype.is_complex else input


def default_dtype():
    from .._src.api import get_default_dtype
    return get_default_dtype()


@composed("fft.fft")
def fft(input, n=None, dim=-1, norm=None):
    x, at = resized(promoted(input), n, dim), dim % input.dim()
    if x.dtype.is_complex:
        return OPS["_fft_c2c"](x, [at], WAYS[norm], True)
    return OPS["_fft_r2c"](x, [at], WAYS[norm], False)


@composed("fft.ifft")
def ifft(input, n=None, dim=-1, norm=None):
    x, at = resized(promoted(input), n, dim), dim % input.dim()
    if x.dtype.is_complex:
        return OPS["_fft_c2c"](x, [at], 2 - WAYS[norm], False)
    return OPS["_conj"](OPS["_fft_r2c"](x, [at], 2 - WAYS[norm], False))


@composed("fft.rfft")
def rfft(input, n=None, dim=-1, norm=None):
    if input.dtype.is_complex:
        raise RuntimeError(f"rfft expects a real input tensor, but got {input.dtype}")
    return OPS["_fft_r2c"](resized(promoted(input), n, dim), [dim % input.dim()], WAYS[norm], True)


@composed("fft.irfft")
def irfft(input, n=None, dim=-1, norm=None):
    n = 2 * (input.shape[dim] - 1) if n is None else n
    x = resized(promoted(input, True), n // 2 + 1, dim)
    return OPS["_fft_c2r"](x, [dim % input.dim()], 2 - WAYS[norm], n)


def shaped(input, s, dim):
    """(sizes or None, dimensions) of a transform of several dimensions."""
    s, dim = ([v] if isinstance(v, int) else v for v in (s, dim))
    if dim is None:
        dim = list(range(input.dim() - (len(s) if s is not None else input.dim()), input.dim()))
    return s, [d % input.dim() for d in dim]


def several(name, forward):
    @composed(name)
    def transform(input, s=None, dim=(-2, -1) if name.endswith("2") else None, norm=None):
        s, dims = shaped(input, s, dim)
        x = promoted(input, True)
        for n, d in zip(s or (), dims):
            x = resized(x, None if n == -1 else n, d)
        return OPS["_fft_c2c"](x, dims, WAYS[norm] if forward else 2 - WAYS[norm], forward)


for _name in ("fft2", "fftn"):
    several(f"fft.{_name}", True), several(f"fft.i{_name}", False)
