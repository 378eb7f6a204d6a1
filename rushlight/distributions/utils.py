"""Parameters: numbers and tensors of one shape, probabilities as logits and back, properties computed once."""
from __future__ import annotations

from numbers import Number

import rushlight as torch
from rushlight.overrides import is_tensor_like

euler_constant = 0.57721566490153286060
__all__ = ["broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property", "tril_matrix_to_vec", "vec_to_tril_matrix"]


def broadcast_all(*values):
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the tensors beside them.  ValueError for anything else.

    >>> from rushlight.distributions.utils import broadcast_all
    >>> broadcast_all(0.0, 1)
    (tensor(0.), tensor(1.))
    """
    if not all(is_tensor_like(v) or isinstance(v, Number) for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.")
    if all(is_tensor_like(v) for v in values):
        return tuple(torch.broadcast_tensors(*values))
    like = next((v for v in values if isinstance(v, torch.Tensor)), None)
    dtype = torch.get_default_dtype() if like is None else like.dtype
    return tuple(torch.broadcast_tensors(*(v if is_tensor_like(v) else torch.tensor(v, dtype=dtype) for v in values)))


def _standard_normal(shape, dtype, device):
    return torch.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value, dim):
    """A tensor summed over its last ``dim`` dimensions."""
    return value if dim == 0 else value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits, is_binary=False):
    """Probabilities from (for binary, log odds; else unnormalised log probabilities) logits."""
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, dim=-1)


def clamp_probs(probs):
    """Probabilities kept away from 0 and 1 by the precision of their dtype."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


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
    """The entries of [*, n, n] on and below a diagonal, row by row: [*, m]."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = torch.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec, diag=0):
    """Entries [*, m] as lower triangular matrices [*, n, n], row by row."""
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > torch.finfo(vec.dtype).eps:
        raise ValueError(f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of a square D x D matrix.")
    n = round(n)
    rows, columns = torch.tril_indices(n, n, diag)
    flat = torch.zeros(vec.shape[:-1] + (n * n,), dtype=vec.dtype)
    at = (rows * n + columns).expand(vec.shape)
    return flat.scatter(-1, at, vec).reshape(vec.shape[:-1] + (n, n))


def number_shape(*values):
    """The batch shape of parameters: () where all of them are numbers."""
    return torch.Size() if all(isinstance(v, Number) for v in values) else None
