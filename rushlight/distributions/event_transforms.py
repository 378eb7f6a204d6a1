"""Transforms of whole vectors and matrices: to another shape, to the simplex, to triangular and to positive definite
matrices."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .transform import OfEvents, _split
from .utils import tril_matrix_to_vec, vec_to_tril_matrix


def _inside(probability):
    """A probability kept from rounding to 0 or 1."""
    ends = torch.finfo(probability.dtype)
    return probability.clamp(ends.tiny, 1 - ends.eps)


def _softplus(x):
    return torch.nn.functional.softplus(x)


def _log_slope_of_tanh(x, y=None):
    """log(1 - tanh(x)^2), without cancellation."""
    return 2 * (math.log(2) - x - _softplus(-2 * x))


class ReshapeTransform(OfEvents):
    """The last dimensions in another shape.  ValueError for shapes with different numbers of elements."""

    bijective = True
    _parameters = ("in_shape", "out_shape")

    def __init__(self, in_shape, out_shape, cache_size=0):
        super().__init__(cache_size)
        self.in_shape, self.out_shape = torch.Size(in_shape), torch.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                f"in_shape {tuple(in_shape)} and out_shape {tuple(out_shape)} have different numbers of elements")

    domain = constraints.dependent_property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = constraints.dependent_property(lambda self: constraints.independent(constraints.real,
                                                                                   len(self.out_shape)))

    def _image(self, event):
        return self._exchanged(event, self.in_shape, self.out_shape)

    def _origin(self, event):
        return self._exchanged(event, self.out_shape, self.in_shape)

    @staticmethod
    def _exchanged(event, old, new):
        if event != old:
            raise ValueError(f"a value has shape {tuple(event)} where {tuple(old)} is reshaped")
        return new

    def _call(self, x):
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y):
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(_split(x.shape, len(self.in_shape))[0])


class SoftmaxTransform(OfEvents):
    """y = softmax(x): a vector on the simplex, which many share; ``inv`` gives log(y)."""

    domain, codomain = constraints.real_vector, constraints.simplex
    _parameters = ()

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()


class StickBreakingTransform(OfEvents):
    """k real numbers as a vector of k + 1 on the simplex: each takes a part of what the ones before left."""

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True
    _parameters = ()

    def _image(self, event):
        return torch.Size((event[0] + 1,))

    def _origin(self, event):
        return torch.Size((event[0] - 1,))

    @staticmethod
    def _log_waiting(like):
        """The logarithm of how many parts come after each of a vector's: moved by it, zeros give equal parts."""
        return torch.arange(like.size(-1), 0, -1, dtype=like.dtype).log()

    def _call(self, x):
        taken = _inside(torch.sigmoid(x - self._log_waiting(x)))
        left = torch.cumprod(1 - taken, -1)
        one = torch.ones_like(x[..., :1])
        return torch.cat([taken, one], -1) * torch.cat([one, left], -1)

    def _inverse(self, y):
        parts = y[..., :-1]
        left = (1 - parts.cumsum(-1)).clamp(min=torch.finfo(y.dtype).tiny)
        return torch.log(parts / left) + self._log_waiting(parts)

    def log_abs_det_jacobian(self, x, y):
        """The logarithms of each part and of what it leaves of the stick."""
        moved = x - self._log_waiting(x)
        return (y[..., :-1].log() - _softplus(moved)).sum(-1)


class CorrCholeskyTransform(OfEvents):
    """n (n - 1) / 2 real numbers as the Cholesky factor of an n x n correlation matrix (Lewandowski, Kurowicka and Joe
    2009).

    Their tanh are partial correlations: in a row, each takes its part of the length, at most 1, that the ones before
    left.
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True
    _parameters = ()

    def _image(self, event):
        n = (1 + math.isqrt(1 + 8 * event[0])) // 2
        if n * (n - 1) // 2 != event[0]:
            raise ValueError(f"{event[0]} numbers are not the entries below a diagonal: that would be n (n - 1) / 2")
        return torch.Size((n, n))

    def _origin(self, event):
        if event[0] != event[1]:
            raise ValueError(f"a correlation factor is square, and this value has shape {tuple(event)}")
        return torch.Size((event[0] * (event[0] - 1) // 2,))

    @staticmethod
    def _left(kept):
        """Map each entry of a row by the remainder that the entries before it leave."""
        return torch.cat([torch.ones_like(kept[..., :1]), kept[..., :-1]], -1)

    def _call(self, x):
        edge = 1 - torch.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(-edge, edge), diag=-1)
        left = self._left(torch.sqrt(1 - partial.square()).cumprod(-1))
        return left * (partial + torch.eye(partial.size(-1), dtype=x.dtype))

    def _inverse(self, y):
        squares_left = self._left(1 - y.square().cumsum(-1))
        return torch.atanh(tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(squares_left, -1).sqrt())

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        squares_left = tril_matrix_to_vec(1 - y.square().cumsum(-1), -2)
        return _log_slope_of_tanh(x).sum(-1) + squares_left.log().sum(-1) / 2


class LowerCholeskyTransform(OfEvents):
    """A matrix as a lower triangular one with positive diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky
    _parameters = ()

    def _call(self, x):
        return self._with_diagonal(x, torch.exp)

    def _inverse(self, y):
        return self._with_diagonal(y, torch.log)

    @staticmethod
    def _with_diagonal(matrix, function):
        return torch.tril(matrix, -1) + torch.diag_embed(function(matrix.diagonal(dim1=-2, dim2=-1)))


class PositiveDefiniteTransform(OfEvents):
    """A matrix as a positive definite one: the square of a Cholesky factor."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite
    _parameters = ()

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))
