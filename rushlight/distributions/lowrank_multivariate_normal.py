"""LowRankMultivariateNormal: normal vectors whose covariance is a few directions and a diagonal."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import Distribution
from .multivariate_normal import _batch_mahalanobis, _batch_mv
from .utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def capacitance_factor(factor, diagonal):
    """The Cholesky factor of I + W^T D^-1 W."""
    scaled = factor.mT / diagonal.unsqueeze(-2)
    return torch.linalg.cholesky(torch.matmul(scaled, factor) + torch.eye(factor.size(-1), dtype=factor.dtype))


def log_det(factor, diagonal, capacitance):
    """log det (W W^T + D), by the matrix determinant lemma."""
    return 2 * capacitance.diagonal(dim1=-2, dim2=-1).log().sum(-1) + diagonal.log().sum(-1)


def mahalanobis(factor, diagonal, x, capacitance):
    """x^T (W W^T + D)^-1 x, by Woodbury's formula."""
    scaled = factor.mT / diagonal.unsqueeze(-2)
    return (x.pow(2) / diagonal).sum(-1) - _batch_mahalanobis(capacitance, _batch_mv(scaled, x))


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with mean ``loc`` [*, n] and covariance cov_factor cov_factor^T + diag(cov_diag): [*, n, r] and [*, n]."""

    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        batch_shape = torch.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = loc.expand(batch_shape + event_shape), cov_diag.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = capacitance_factor(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def expand_others(self, new, batch_shape):
        new._unbroadcasted_cov_factor, new._unbroadcasted_cov_diag = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        new._capacitance_tril = self._capacitance_tril

    mean = mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        return (self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        found = torch.matmul(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_factor.mT) + torch.diag_embed(self._unbroadcasted_cov_diag)
        return found.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        return torch.linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self):
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        a = torch.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        found = torch.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - torch.matmul(a.mT, a)
        return found.expand(self._batch_shape + self._event_shape + self._event_shape)

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        few = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype, self.loc.device)
        each = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, few) + self._unbroadcasted_cov_diag.sqrt() * each

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        parts = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        distance = mahalanobis(*parts, value - self.loc, self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + log_det(*parts, self._capacitance_tril) + distance)

    def entropy(self):
        volume = log_det(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril)
        found = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + volume)
        return found.expand(self._batch_shape) if self._batch_shape else found
