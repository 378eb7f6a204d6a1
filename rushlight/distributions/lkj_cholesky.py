"""LKJCholesky: Cholesky factors of random correlation matrices."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Factors of ``dim`` x ``dim`` correlation matrices with density proportional to det ** (concentration - 1).

    Sampled by the onion method of Lewandowski, Kurowicka and Joe (2009): row k is a direction on a sphere and a Beta radius.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration, = broadcast_all(concentration)
        super().__init__(self.concentration.size(), torch.Size((dim, dim)), validate_args)
        self._beta = self.radii()

    def radii(self):
        """The distribution of the squared length of each row below the diagonal."""
        marginal = self.concentration + 0.5 * (self.dim - 2)
        offset = torch.arange(self.dim - 1, dtype=self.concentration.dtype)
        offset = torch.cat([offset.new_zeros((1,)), offset])
        return Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)

    def expand_others(self, new, batch_shape):
        new.dim, new._beta = self.dim, self._beta.expand(batch_shape + (self.dim,))

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            direction = torch.randn(self._extended_shape(sample_shape), dtype=y.dtype).tril(-1)
            direction = direction / direction.norm(dim=-1, keepdim=True)
            direction = torch.cat([torch.zeros_like(direction[..., :1, :]), direction[..., 1:, :]], -2)
            w = torch.sqrt(y) * direction
            rest = torch.clamp(1 - torch.sum(w ** 2, dim=-1), min=torch.finfo(w.dtype).tiny).sqrt()
            return w + torch.diag_embed(rest)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = torch.arange(2, self.dim + 1, dtype=self.concentration.dtype)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalised = torch.sum(order * diagonal.log(), dim=-1)
        below = self.dim - 1
        alpha = self.concentration + 0.5 * below
        constant = 0.5 * below * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, p=below) - torch.lgamma(alpha) * below
        return unnormalised - constant
