"""The largest singular value of a weight, by power iteration: what both forms of spectral norm share."""
from __future__ import annotations

import rushlight as torch

F = torch.nn.functional


def matrix_of(weight, dim):
    """A weight as a matrix whose rows run along ``dim``."""
    return weight.movedim(dim, 0).flatten(1)


def output_dim(module) -> int:
    """The dimension of a module's weight that its outputs run along."""
    return int(isinstance(module, (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d)))


def check_iterations(count):
    """ValueError for power iterations that are none."""
    if count < 1:
        raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={count}")


def unit(vector, eps):
    return F.normalize(vector, dim=0, eps=eps)


def random_unit(matrix, dim, eps):
    """A random vector of length 1 with an entry for each place along a dimension of a matrix."""
    return unit(torch.randn(matrix.size(dim), dtype=matrix.dtype), eps)


def largest(matrix, u, v):
    """The singular value u^H M v, for the singular vectors."""
    return torch.vdot(u, matrix @ v)
