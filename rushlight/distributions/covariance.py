"""The spread of vectors, given as one of three matrices."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import Distribution
from .utils import lazy_property

__all__ = ["Covariance"]
LOG_2_PI = math.log(2 * math.pi)


def matrix_vector(matrix, vector):
    """Matrices [*, n, m] times vectors [*, m]: [*, n]."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def squared_lengths(factor, columns):
    """The sum of x^T (L L^T)^-1 x for Cholesky factors L [*, n, n] over the columns x of [*, n, m]: of their squared
    Mahalanobis lengths."""
    return torch.linalg.solve_triangular(factor, columns, upper=False).square().sum((-2, -1))


def half_log_det(factor):
    """log det(L L^T) / 2 for Cholesky factors [*, n, n]."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def factor_of_inverse(matrix):
    """The Cholesky factor of the inverse of a matrix, without forming the inverse: rows and columns in reverse order
    make an upper factor a lower one."""
    reversed_factor = torch.linalg.cholesky(matrix.flip(-2, -1))
    return torch.linalg.solve_triangular(reversed_factor.flip(-2, -1).mT,
                                         torch.eye(matrix.size(-1), dtype=matrix.dtype), upper=False)


class Covariance(Distribution):
    """A distribution with one of the parameters covariance_matrix, precision_matrix (its inverse) and scale_tril (its
    Cholesky factor), [*, n, n].

    The factor of the matrix as it was given, ``_unbroadcasted_scale_tril``, is what all formulas use.
    """

    arg_constraints = {"covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    _alternatives = ("covariance_matrix", "precision_matrix", "scale_tril")
    _shared = ("_unbroadcasted_scale_tril",)

    def _enter_matrix(self, others, matrices, event_shape, validate_args):
        """The parameters ``others`` and the one of the three matrices that was given."""
        self._enter({**others, **matrices}, event_shape, validate_args)
        (name, matrix), = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        factor_of = {"covariance_matrix": torch.linalg.cholesky, "precision_matrix": factor_of_inverse}
        self._unbroadcasted_scale_tril = factor_of[name](matrix) if name in factor_of else matrix

    def _whole(self, matrix):
        """A matrix over the batch."""
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """scale_tril scale_tril^T"""
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        return self._whole(torch.cholesky_inverse(self._unbroadcasted_scale_tril))
