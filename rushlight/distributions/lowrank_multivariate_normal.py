"""LowRankMultivariateNormal: normal vectors whose covariance is a few directions and a diagonal."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .covariance import LOG_2_PI, half_log_det, matrix_vector, squared_lengths
from .distribution import Distribution, checked
from .utils import lazy_property

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with mean ``loc`` [*, n] and covariance W W^T + D for W = cov_factor [*, n, r] and D the diagonal
    cov_diag [*, n].

    Inverse and determinant go by Woodbury's formula and the matrix determinant lemma, over the r x r matrix I + W^T
    D^-1 W, whose factor is ``_capacitance_tril``.
    """

    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True
    _shared = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        n = loc.shape[-1:]
        if cov_factor.shape[-2:-1] != n or cov_diag.shape[-1:] != n:
            raise ValueError(
                f"loc {tuple(loc.shape)}, cov_factor {tuple(cov_factor.shape)} and cov_diag {tuple(cov_diag.shape)} "
                "must end in [n], [n, r] and [n]")
        self._enter({"loc": loc, "cov_factor": cov_factor, "cov_diag": cov_diag}, n, validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = torch.linalg.cholesky(self._over_diagonal() @ cov_factor
                                                       + torch.eye(cov_factor.size(-1), dtype=cov_factor.dtype))

    def _over_diagonal(self):
        """W^T D^-1"""
        return (self._unbroadcasted_cov_factor / self._unbroadcasted_cov_diag.unsqueeze(-1)).mT

    def _reduced(self):
        """The matrix A [*, r, n] with which the precision is D^-1 - A^T A."""
        return torch.linalg.solve_triangular(self._capacitance_tril, self._over_diagonal(), upper=False)

    def _half_log_det(self):
        """Half the logarithm of the determinant of the covariance."""
        return half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1) / 2

    def _squared_lengths(self, columns):
        """The sum of x^T (W W^T + D)^-1 x over the columns of [*, n, m]."""
        own = (columns.square() / self._unbroadcasted_cov_diag.unsqueeze(-1)).sum((-2, -1))
        return own - squared_lengths(self._capacitance_tril, self._over_diagonal() @ columns)

    def _precision_diagonal(self):
        return self._unbroadcasted_cov_diag.reciprocal() - self._reduced().square().sum(-2)

    mean = mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        """The diagonal of the covariance."""
        return self.cov_factor.square().sum(-1) + self.cov_diag

    def _matrix(self, matrix):
        return matrix.expand(self._batch_shape + 2 * self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        """W W^T + D"""
        return self._matrix(self._unbroadcasted_cov_factor @ self._unbroadcasted_cov_factor.mT
                            + torch.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the covariance."""
        return torch.linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        reduced = self._reduced()
        return self._matrix(torch.diag_embed(1 / self._unbroadcasted_cov_diag) - reduced.mT @ reduced)

    def rsample(self, sample_shape=torch.Size()):
        directions = torch.randn(torch.Size(sample_shape) + self._batch_shape + self.cov_factor.shape[-1:],
                                 dtype=self.loc.dtype)
        own = self._draw(torch.randn, sample_shape, self.loc)
        return self.loc + own * self._unbroadcasted_cov_diag.sqrt() + matrix_vector(self._unbroadcasted_cov_factor,
                                                                                    directions)

    @checked
    def log_prob(self, value):
        return -self._half_log_det() - (self._squared_lengths((value - self.loc).unsqueeze(-1)) + self._event_shape[0]
                                        * LOG_2_PI) / 2

    def entropy(self):
        return (self._half_log_det() + self._event_shape[0] * (1 + LOG_2_PI) / 2).expand(self._batch_shape)
