"""Parametrizations that are used often: weight norm, spectral norm, orthogonal matrices."""
from __future__ import annotations

from enum import Enum

import rushlight as torch
from ..modules.module import Module
from . import parametrize
from .singular import check_iterations, largest, matrix_of, output_dim, random_unit, unit

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
_OrthMaps = Enum("_OrthMaps", ["matrix_exp", "cayley", "householder"])


def tensor_of(module, name):
    """A parameter, buffer or parametrized tensor of a module; ValueError where there is none of that name."""
    found = getattr(module, name, None)
    if not isinstance(found, torch.Tensor):
        raise ValueError(f"{name!r} is neither a parameter nor a buffer of {module}")
    return found


class _Orthogonal(Module):
    """A matrix as an orthogonal one, by the exponential or Cayley map of its skew part, or by Householder reflections.

    With ``use_trivialization`` the map starts at ``base``, an orthogonal matrix, so that any value can be assigned.
    """

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if orthogonal_map == _OrthMaps.householder and weight.is_complex():
            raise ValueError(
                "The householder parametrization does not support complex tensors: choose matrix_exp or cayley")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x):
        tall = x.mT if x.size(-2) < x.size(-1) else x
        made = self._reflections(tall) if self.orthogonal_map is _OrthMaps.householder else self._rotation(tall)
        if hasattr(self, "base"):
            made = self.base @ made
        return made.mT if tall is not x else made

    @staticmethod
    def _reflections(x):
        """The product of the reflections whose vectors are the columns below the diagonal; the signs of the diagonal
        choose the columns'."""
        vectors, signs = x.tril(-1), x.diagonal(dim1=-2, dim2=-1).detach().sign()
        made = torch.linalg.householder_product(vectors + torch.eye(*x.shape[-2:], dtype=x.dtype),
                                                2 / (1 + vectors.square().sum(-2)))
        return made * signs.unsqueeze(-2)

    def _rotation(self, x):
        """The map of the skew matrix A - A^H, A the lower triangle of x, which zeros make square."""
        rows, columns = x.shape[-2:]
        square = torch.nn.functional.pad(x.tril(), (0, rows - columns))
        skew = square - square.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            return torch.matrix_exp(skew)[..., :columns]
        identity = torch.eye(rows, dtype=x.dtype)
        return torch.linalg.solve(identity - skew / 2, identity + skew / 2)[..., :columns]

    @torch.no_grad()
    def right_inverse(self, q):
        """Return an argument that forward maps to an orthogonal matrix.  ValueError for another shape,
        NotImplementedError if that needs a base."""
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {tuple(self.shape)}. Got a tensor of shape "
                f"{tuple(q.shape)}.")
        tall = q.mT if q.size(-2) < q.size(-1) else q
        if hasattr(self, "base"):
            return self._rebased(q, tall)
        if self.orthogonal_map is not _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False.")
        vectors, tau = torch.geqrf(tall)
        diagonal = vectors.diagonal(dim1=-2, dim2=-1)
        diagonal.sign_()
        diagonal[tau == 0] *= -1
        return vectors.mT if tall is not q else vectors

    def _rebased(self, q, tall):
        """Moves the base to q; then its own start, zeros or (of reflections) a diagonal of -1, stands for it."""
        rows, columns = tall.shape[-2:]
        more = torch.randn(*tall.shape[:-2], rows, rows - columns, dtype=q.dtype)
        self.base = orthonormal(torch.cat([tall, more], dim=-1))
        start = torch.zeros_like(q)
        if self.orthogonal_map is _OrthMaps.householder:
            start.diagonal(dim1=-2, dim2=-1).fill_(-1)
        return start


def orthonormal(x):
    """The Q of a QR decomposition whose R has a positive diagonal; x itself where its columns are orthonormal
    already."""
    gram = x.mH @ x
    identity = torch.eye(x.size(-1), dtype=x.dtype)
    if torch.allclose(gram, identity, atol=10 * x.size(-1) * torch.finfo(x.dtype).eps):
        return x.clone()
    q, r = torch.linalg.qr(x)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Keeps a matrix [*, n, k] orthogonal (its longer side orthonormal).

    ``orthogonal_map``: "matrix_exp", "cayley" or "householder" (by default the first for square or complex ones, else
      the last).
    ValueError for a tensor that is no matrix, or for another map.
    """
    weight = tensor_of(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.is_complex() or weight.size(-1) == weight.size(-2) else "householder"
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    made = _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """A tensor as its norm over all dimensions but one, and its direction (Salimans and Kingma 2016)."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / torch.norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight):
        return torch.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Splits a parameter into its norms over all dimensions but ``dim`` (None: one norm) and its direction: original0
    and original1.

    State dicts with the older names ``weight_g`` and ``weight_v`` load too.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def older_names(state_dict, prefix, *_):
        for old, new in ((f"{prefix}{name}_g", "original0"), (f"{prefix}{name}_v", "original1")):
            if old in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.{new}"] = state_dict.pop(old)

    module._register_load_state_dict_pre_hook(older_names)
    return module


class _SpectralNorm(Module):
    """A matrix over its largest singular value, which power iteration follows (Miyato et al. 2018); a vector over its
    length."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if dim not in range(-weight.dim(), weight.dim()):
            raise IndexError(f"Dimension out of range: dim is {dim}, and the weight has {weight.dim()} dimensions")
        check_iterations(n_power_iterations)
        self.dim, self.eps = dim % weight.dim(), eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            matrix = matrix_of(weight, self.dim)
            self.register_buffer("_u", random_unit(matrix, 0, eps))
            self.register_buffer("_v", random_unit(matrix, 1, eps))
            self._power_method(matrix, 15)  # so that the first forward finds the value nearly right

    @torch.no_grad()
    def _power_method(self, matrix, count):
        for _ in range(count):
            self._u.copy_(unit(matrix @ self._v, self.eps))
            self._v.copy_(unit(matrix.H @ self._u, self.eps))

    def forward(self, weight):
        if weight.dim() == 1:
            return unit(weight, self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        return weight / largest(matrix, self._u.clone(), self._v.clone())  # the buffers move on before backward runs

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a parameter by its largest singular value, estimated by ``n_power_iterations`` steps in each training
    forward."""
    made = _SpectralNorm(tensor_of(module, name), n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return parametrize.register_parametrization(module, name, made)
