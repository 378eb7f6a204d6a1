"""Limiting gradients."""
from __future__ import annotations

from ..._src import flat as torch
from ..._src.autograd.mode import no_grad
from ..._src.core.advice import deprecated
from ..._src.core.native import Tensor


def listed(tensors):
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors as one vector."""
    tensors = listed(tensors)
    if not tensors:
        return torch.tensor(0.0)
    norms = torch.stack([t.detach().norm(float(norm_type)) for t in tensors])
    total = norms.norm(float(norm_type))
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {float(norm_type)} for gradients from `parameters` is non-finite, so it cannot "
            "be clipped.")
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales gradients so that their norm, which is given, is at most ``max_norm``."""
    scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for p in listed(parameters):
        if p.grad is not None:
            p.grad.mul_(scale.to(p.grad.dtype))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales gradients so that their norm is at most ``max_norm``; returns the norm before."""
    parameters = listed(parameters)
    with no_grad():
        total = get_total_norm([p.grad for p in parameters if p.grad is not None], norm_type, error_if_nonfinite)
        clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """``clip_grad_norm_`` by its older name."""
    deprecated("torch.nn.utils.clip_grad_norm", "torch.nn.utils.clip_grad_norm_", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits each gradient element to [-clip_value, clip_value]."""
    with no_grad():
        for p in listed(parameters):
            if p.grad is not None:
                p.grad.clamp_(-float(clip_value), float(clip_value))
