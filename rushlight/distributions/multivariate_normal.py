"""MultivariateNormal: normal vectors."""
from __future__ import annotations

import rushlight as torch
from . import constraints
from .covariance import LOG_2_PI, Covariance, half_log_det, matrix_vector, squared_lengths
from .distribution import checked

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Covariance):
    """Normal vectors with mean ``loc`` [*, n] and one of covariance_matrix, precision_matrix, scale_tril (its Cholesky
    factor), [*, n, n]."""

    arg_constraints = {"loc": constraints.real_vector, **Covariance.arg_constraints}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        matrices = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
                    "scale_tril": scale_tril}
        self._enter_matrix({"loc": loc}, matrices, loc.shape[-1:], validate_args)

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        return self._unbroadcasted_scale_tril.square().sum(-1).expand_as(self.loc)

    def rsample(self, sample_shape=torch.Size()):
        return self.loc + matrix_vector(self._unbroadcasted_scale_tril, self._draw(torch.randn, sample_shape, self.loc))

    def _half_log_det(self):
        """Half the logarithm of the determinant of the covariance."""
        return half_log_det(self._unbroadcasted_scale_tril)

    def _squared_lengths(self, columns):
        """The sum of x^T covariance^-1 x over the columns of [*, n, m]."""
        return squared_lengths(self._unbroadcasted_scale_tril, columns)

    def _precision_diagonal(self):
        return self.precision_matrix.diagonal(dim1=-2, dim2=-1)

    @checked
    def log_prob(self, value):
        length = self._squared_lengths((value - self.loc).unsqueeze(-1))
        return -self._half_log_det() - (length + self._event_shape[0] * LOG_2_PI) / 2

    def entropy(self):
        return (self._half_log_det() + self._event_shape[0] * (1 + LOG_2_PI) / 2).expand(self._batch_shape)
