"""Wishart: covariance matrices of normal samples."""
from __future__ import annotations

import math
import warnings
from numbers import Number

import rushlight as torch
from . import constraints
from .exp_family import ExponentialFamily
from .multivariate_normal import _precision_to_scale_tril
from .utils import lazy_property

__all__ = ["Wishart"]


def _mvdigamma(x, p):
    """The derivative of the logarithm of the multivariate gamma function."""
    return torch.digamma(x.unsqueeze(-1) - torch.arange(p, dtype=x.dtype).div(2)).sum(-1)


class Wishart(ExponentialFamily):
    """The sum of df outer products of normal vectors, [n, n]; sampled by Bartlett's decomposition."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self):
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
                "df": constraints.greater_than(self._event_shape[-1] - 1)}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {k: v for k, v in given.items() if v is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        (name, matrix), = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = torch.tensor(df, dtype=matrix.dtype) if isinstance(df, Number) else df
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
        event_shape = matrix.shape[-2:]
        self.df = df.expand(batch_shape)
        setattr(self, name, matrix.expand(batch_shape + event_shape))
        if bool(self.df.le(event_shape[-1] - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if bool(self.df.lt(event_shape[-1]).any()):
            warnings.warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.")
        make = {"scale_tril": lambda m: m, "covariance_matrix": torch.linalg.cholesky, "precision_matrix": _precision_to_scale_tril}[name]
        self._unbroadcasted_scale_tril = make(matrix)

    def expand_others(self, new, batch_shape):
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        new._event_shape = self._event_shape

    def whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        return self.whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        return self.whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self):
        return self.whole(torch.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self):
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self):
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = torch.where(factor <= 0, float("nan"), factor)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self.df.view(self._batch_shape + (1, 1)) * (v.pow(2) + torch.einsum("...i,...j->...ij", diagonal, diagonal))

    def rsample(self, sample_shape=torch.Size(), max_try_correction=None):
        p = self._event_shape[-1]
        shape = torch.Size(sample_shape) + self._batch_shape
        degrees = (self.df.unsqueeze(-1) - torch.arange(p, dtype=self.df.dtype)).expand(shape + (p,))
        diagonal = (2 * torch._standard_gamma(degrees / 2)).clamp(min=torch.finfo(self.df.dtype).tiny).sqrt()
        below = torch.randn(shape + (p, p), dtype=self.df.dtype).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (below + torch.diag_embed(diagonal))
        return factor @ factor.mT

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        half_log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        trace = torch.cholesky_solve(value, self._unbroadcasted_scale_tril.expand(value.shape)).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        return (-nu * (p * math.log(2) / 2 + half_log_det) - torch.mvlgamma(nu / 2, p=p) + (nu - p - 1) / 2 * torch.linalg.slogdet(value).logabsdet - trace / 2)

    def entropy(self):
        nu, p = self.df, self._event_shape[-1]
        half_log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return ((p + 1) * (p * math.log(2) / 2 + half_log_det) + torch.mvlgamma(nu / 2, p=p) - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p) + nu * p / 2)

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        return (y + (p + 1) / 2) * (-torch.linalg.slogdet(-2 * x).logabsdet + math.log(2) * p) + torch.mvlgamma(y + (p + 1) / 2, p=p)
