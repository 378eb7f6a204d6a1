"""Parameters: numbers and tensors of one shape, probabilities as logits and back, properties computed once."""
from __future__ import annotations

from numbers import Number

import rushlight as torch
from rushlight.overrides import is_tensor_like


euler_constant = 0.57721566490153286060
__all__ = ["broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property", "tril_matrix_to_vec",
           "vec_to_tril_matrix"]


def as_tensors(*values):
    """Return numbers and tensors as tensors; numbers take the dtype of the first tensor among them.  ValueError for
    other types."""
    dtype = torch.get_default_dtype()
    for value in reversed(values):
        if isinstance(value, torch.Tensor):
            dtype = value.dtype
        elif not isinstance(value, Number) and not is_tensor_like(value):
            raise ValueError(f"parameters must be numbers or tensors, and one is {value!r} ({type(value).__name__})")
    return [torch.tensor(value, dtype=dtype) if isinstance(value, Number) else value for value in values]


def broadcast_all(*values):
    """Return numbers and tensors as tensors of one shape; numbers take the dtype of the tensors among them.
    ValueError for other types.

    >>> from rushlight.distributions.utils import broadcast_all
    >>> broadcast_all(0.0, 1)
    (tensor(0.), tensor(1.))
    """
    return tuple(torch.broadcast_tensors(*as_tensors(*values)))


def _standard_normal(shape, dtype, device):
    """Normal numbers with mean 0 and deviation 1; other libraries draw by this name."""
    return torch.randn(shape, dtype=dtype, device=device)


def through(holder, *names):
    """A property for each name, which reads that attribute of what ``holder`` names."""
    def reader(name):
        return property(lambda self: getattr(getattr(self, holder), name))
    return [reader(name) for name in names]


def log_odds_density(logits, value):
    """value log p + (1 - value) log(1 - p) for log odds ``logits`` of p: the density of a yes or no."""
    return -torch.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")


def _sum_rightmost(value, dim):
    """A tensor summed over its last ``dim`` dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


def logits_to_probs(logits, is_binary=False):
    """Probabilities from logits: log odds if ``is_binary``, else log probabilities up to a constant."""
    if is_binary:
        return logits.sigmoid()
    return logits.softmax(-1)


def clamp_probs(probs):
    """Probabilities kept away from 0 and 1 by the precision of their dtype."""
    margin = torch.finfo(probs.dtype).eps
    return probs.clamp(margin, 1 - margin)


def probs_to_logits(probs, is_binary=False):
    """Logits from probabilities."""
    kept = clamp_probs(probs)
    return torch.log(kept) - torch.log1p(-kept) if is_binary else torch.log(kept)


class lazy_property:
    """A property that is computed once, and then is an attribute."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat, diag=0):
    """The entries of [*, n, n] on and below a diagonal, row by row: [*, m].  ValueError for a diagonal outside the
    matrix."""
    n = mat.size(-1)
    if diag not in range(-n, n):
        raise ValueError(f"diag ({diag}) is outside a matrix of {n} rows: it must be from {-n} to {n - 1}")
    return mat[(..., *torch.tril_indices(n, n, diag))]


def vec_to_tril_matrix(vec, diag=0):
    """Entries [*, m] as lower triangular matrices [*, n, n], row by row.  ValueError where no n has m entries on and
    below the diagonal."""
    count, n = vec.size(-1), max(0, -diag)
    while (entries := sum([min(n, max(0, row + 1 + diag)) for row in range(n)])) < count:
        n += 1
    if entries != count:
        raise ValueError(f"{count} entries do not fill a lower triangle: the next one, of {n} rows, has {entries}")
    rows, columns = torch.tril_indices(n, n, diag)
    flat = vec.new_zeros(vec.shape[:-1] + (n * n,))
    return flat.scatter(-1, (rows * n + columns).expand(vec.shape), vec).reshape(vec.shape[:-1] + (n, n))
