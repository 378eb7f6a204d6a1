"""Wishart: the covariance of a sample of normal vectors."""
from __future__ import annotations

import math
import warnings

import rushlight as torch
from . import constraints
from .covariance import Covariance, half_log_det
from .distribution import checked
from .exp_family import ExponentialFamily

__all__ = ["Wishart"]


class Wishart(Covariance, ExponentialFamily):
    """The sum of ``df`` outer products of normal vectors of a covariance, [n, n]; sampled by Bartlett's
    decomposition."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        matrices = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
                    "scale_tril": scale_tril}
        self._event_shape = torch.Size(next((matrix.shape[-2:] for matrix in matrices.values() if matrix is not None),
                                            ()))
        self._enter_matrix({"df": df}, matrices, self._event_shape, validate_args)
        rows = self._event_shape[-1]
        if bool((self.df <= rows - 1).any()):
            raise ValueError(f"df={df} is not above {rows - 1}: matrices of {rows} rows need more degrees of freedom")
        if bool((self.df < rows).any()):
            warnings.warn(f"df is below {rows}, the number of rows: samples will often be singular")

    @property
    def arg_constraints(self):
        rows = self._event_shape[-1] if self._event_shape else 0
        return {**Covariance.arg_constraints, "df": constraints.greater_than(rows - 1)}

    _degrees = property(lambda self: self.df[..., None, None])
    mean = property(lambda self: self._degrees * self.covariance_matrix)

    @property
    def mode(self):
        more = self._degrees - (self._event_shape[-1] + 1)
        return torch.where(more > 0, more, math.nan) * self.covariance_matrix

    @property
    def variance(self):
        """df (V_ij^2 + V_ii V_jj)"""
        diagonal = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        return self._degrees * (self.covariance_matrix.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape=torch.Size(), max_try_correction=None):
        shape = torch.Size(sample_shape) + self._batch_shape + self._event_shape[-1:]
        degrees = self.df.unsqueeze(-1) - torch.arange(shape[-1], dtype=self.df.dtype)
        squares = 2 * torch._standard_gamma(degrees.expand(shape) / 2)
        diagonal = squares.clamp(min=torch.finfo(squares.dtype).tiny).sqrt()
        factor = self._unbroadcasted_scale_tril @ (self._draw(torch.randn, sample_shape, self.df).tril(-1)
                                                   + diagonal.diag_embed())
        return factor @ factor.mT

    def _log_volume(self, weight):
        """``weight`` times log det(2 V) / 2."""
        return weight * (half_log_det(self._unbroadcasted_scale_tril) + self._event_shape[-1] * math.log(2) / 2)

    @checked
    def log_prob(self, value):
        rows, half = self._event_shape[-1], self.df / 2
        solved = torch.cholesky_solve(value, self._unbroadcasted_scale_tril.expand(value.shape))
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(-1)
        log_det = torch.linalg.slogdet(value).logabsdet
        return (half - (rows + 1) / 2) * log_det - trace / 2 - self._log_volume(self.df) - torch.mvlgamma(half, rows)

    def entropy(self):
        rows, half = self._event_shape[-1], self.df / 2
        digammas = torch.digamma(half.unsqueeze(-1) - torch.arange(rows, dtype=half.dtype) / 2).sum(-1)
        return self._log_volume(rows + 1) + torch.mvlgamma(half, rows) - (half - (rows + 1)
                                                                          / 2) * digammas + rows * half

    @property
    def _natural_params(self):
        return self.precision_matrix / -2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, negative_half_precision, excess):
        rows = self._event_shape[-1]
        half = excess + (rows + 1) / 2
        return torch.mvlgamma(half, rows) - half * torch.linalg.slogdet(-negative_half_precision).logabsdet
