"""Parametrizations that are used often: weight norm, spectral norm, orthogonal matrices."""
from __future__ import annotations

from enum import Enum, auto

import rushlight as torch
from ..modules.module import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
F = torch.nn.functional


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    """A matrix as an orthogonal one, by the exponential or Cayley map of its skew part, or by Householder reflections."""

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x):
        n, k = x.size(-2), x.size(-1)
        wide = n < k
        if wide:
            x, n, k = x.mT, k, n
        if self.orthogonal_map is _OrthMaps.householder:
            diagonal = x.diagonal(dim1=-2, dim2=-1)
            q = torch.linalg.householder_product(x.tril(-1) + torch.eye(n, k, dtype=x.dtype), 2.0 / (1.0 + (x.tril(-1) ** 2).sum(-2)))
            q = q * diagonal.detach().sign().unsqueeze(-2)
        else:
            a = x.tril()
            if n != k:  # a square matrix whose other columns are 0
                a = torch.cat([a, a.new_zeros(n, n - k).expand(*a.shape[:-2], -1, -1)], dim=-1)
            a = a - a.mH
            if self.orthogonal_map is _OrthMaps.matrix_exp:
                q = torch.matrix_exp(a)
            else:
                identity = torch.eye(n, dtype=a.dtype)
                q = torch.linalg.solve(identity - 0.5 * a, identity + 0.5 * a)
            if n != k:
                q = q[..., :k]
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    @torch.no_grad()
    def right_inverse(self, q):
        if q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}.")
        start = q
        n, k = q.size(-2), q.size(-1)
        wide = n < k
        if wide:
            q, n, k = q.mT, k, n
        if not hasattr(self, "base"):
            if self.orthogonal_map in (_OrthMaps.cayley, _OrthMaps.matrix_exp):
                raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley parametrizations when use_trivialization=False.")
            a, tau = torch.geqrf(q)
            a.diagonal(dim1=-2, dim2=-1).sign_()
            a.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
            return a.mT if wide else a
        if n == k:
            base = orthonormal(q)
        else:
            more = torch.randn(*q.size()[:-2], n, n - k, dtype=q.dtype)
            base = orthonormal(torch.cat([q, more], dim=-1))
        self.base = base
        a = torch.zeros_like(start)
        a.diagonal(dim1=-2, dim2=-1).fill_(-1.0 if self.orthogonal_map is _OrthMaps.householder else 0.0)
        return a


def orthonormal(x):
    """The Q of a QR decomposition whose R has a positive diagonal; x itself where its columns are orthonormal already."""
    gram = x.mH @ x
    identity = torch.eye(x.size(-1), dtype=x.dtype)
    if torch.allclose(gram, identity, atol=10 * x.size(-1) * torch.finfo(x.dtype).eps):
        return x.clone()
    q, r = torch.linalg.qr(x)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Keeps a matrix [*, n, k] orthogonal (its longer side orthonormal).

    ``orthogonal_map``: "matrix_exp", "cayley" or "householder" (by default the first for square or complex ones, else the last).
    ValueError for a tensor that is no matrix, or for another map.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.size(-2) == weight.size(-1) or weight.is_complex() else "householder"
    found = getattr(_OrthMaps, orthogonal_map, None)
    if found is None:
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    parametrize.register_parametrization(module, name, _Orthogonal(weight, found, use_trivialization=use_trivialization), unsafe=True)
    return module


class _WeightNorm(Module):
    """A tensor as its norm over all dimensions but one, and its direction (Salimans and Kingma 2016)."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def norm(self, weight):
        dims = tuple(k for k in range(weight.dim()) if self.dim == -1 or k != self.dim)
        return torch.linalg.vector_norm(weight, dim=dims, keepdim=self.dim != -1)

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / self.norm(weight_v))

    def right_inverse(self, weight):
        return self.norm(weight), weight


def weight_norm(module, name="weight", dim=0):
    """Splits a parameter into its norms over all dimensions but ``dim`` (None: one norm) and its direction: original0 and original1.

    State dicts with the older names ``weight_g`` and ``weight_v`` load too.
    """
    made = _WeightNorm(dim)
    parametrize.register_parametrization(module, name, made, unsafe=True)

    def older_names(state_dict, prefix, *_):
        for old, new in ((f"{prefix}{name}_g", "original0"), (f"{prefix}{name}_v", "original1")):
            if old in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.{new}"] = state_dict.pop(old)

    module._register_load_state_dict_pre_hook(older_names)
    return module


class _SpectralNorm(Module):
    """A matrix over its largest singular value, which power iteration follows (Miyato et al. 2018)."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim, self.eps = dim if dim >= 0 else dim + ndim, eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self.as_matrix(weight)
            h, w = matrix.size()
            self.register_buffer("_u", F.normalize(matrix.new_empty(h).normal_(0, 1), dim=0, eps=self.eps))
            self.register_buffer("_v", F.normalize(matrix.new_empty(w).normal_(0, 1), dim=0, eps=self.eps))
            self._power_method(matrix, 15)

    def as_matrix(self, weight):
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    @torch.no_grad()
    def _power_method(self, matrix, count):
        for _ in range(count):
            self._u.copy_(F.normalize(torch.mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(torch.mv(matrix.H, self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self.as_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / torch.vdot(u, torch.mv(matrix, v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a parameter by its largest singular value, estimated by ``n_power_iterations`` steps in each training forward."""
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        transposed = torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d
        dim = 1 if isinstance(module, transposed) else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
