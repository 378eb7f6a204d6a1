"""LKJCholesky: Cholesky factors of random correlation matrices."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .beta import Beta
from .distribution import Distribution, checked

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Factors of ``dim`` x ``dim`` correlation matrices with density proportional to det ** (concentration - 1).

    Sampled by the onion method of Lewandowski, Kurowicka and Joe (2009): row k is a direction on a sphere and a Beta
    radius.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"a correlation matrix has at least 2 rows, and dim is {dim}")
        self.dim = dim
        self._enter({"concentration": concentration}, (dim, dim), validate_args)
        self._beta = self._radii()

    def _radii(self):
        """The distribution of the squared length of each row below the diagonal; of the first, which has none,
        anything."""
        row = torch.arange(self.dim, dtype=self.concentration.dtype)
        before = (row - 1).clamp(min=0)
        return Beta(before + 0.5, self.concentration.unsqueeze(-1) + 0.5 * (self.dim - 2 - before), validate_args=False)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            length = self._beta.sample(sample_shape).sqrt()
            direction = self._draw(torch.randn, sample_shape, self.concentration).tril(-1)
            norm = direction.norm(dim=-1, keepdim=True)
            below = length.unsqueeze(-1) * direction / torch.where(norm == 0, 1, norm)
            rest = 1 - below.square().sum(-1)
            return below + torch.diag_embed(rest.clamp(min=torch.finfo(rest.dtype).tiny).sqrt())

    @checked
    def log_prob(self, value):
        """The sum of the logarithms of the diagonal, row k (from 2) dim - k + 2 (concentration - 1) times; less that of
        the integral."""
        excess = self.concentration - 1
        row = torch.arange(2, self.dim + 1, dtype=excess.dtype)
        powers = self.dim - row + 2 * excess.unsqueeze(-1)
        return (powers * torch.diagonal(value, dim1=-2, dim2=-1)[..., 1:].log()).sum(-1) - self._log_constant()

    def _log_constant(self):
        below = self.dim - 1
        alpha = self.concentration + below / 2
        return below * (math.log(math.pi) / 2 - alpha.lgamma()) + torch.mvlgamma(alpha - 0.5, p=below)
