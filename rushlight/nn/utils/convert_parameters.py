"""Parameters as one vector, and back."""
from __future__ import annotations

from ..._src import flat as torch


def parameters_to_vector(parameters):
    """All parameters, flattened, one after the other."""
    return torch.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Takes parameters from one vector."""
    start = 0
    for p in parameters:
        p.data = vec[start:start + p.numel()].view(p.shape).data
        start += p.numel()
