"""Decompositions of compiled programs: operators as functions of simpler ones, under PyTorch's name."""
from __future__ import annotations

from .. import _decomp
from .._src.core.later import later

__all__ = ["decompositions", "register_decomposition"]

__getattr__ = later(__name__)
decompositions: dict = {}  # overload -> function, for programs that are compiled


def register_decomposition(ops):
    """Decorate a function that computes a custom operator, or each of several: compiled programs call it instead.

    >>> import rushlight as torch
    >>> @torch.library.custom_op("readme::opaque_cube", mutates_args=())
    ... def cube(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(x.numpy() ** 3)
    >>> @register_decomposition([torch.ops.readme.opaque_cube])
    ... def simpler(x):
    ...     return x * x * x
    >>> torch.compile(lambda x: cube(x) + 1)(torch.tensor([2.0]))
    tensor([9.])
    """
    return _decomp.register_decomposition(ops, decompositions)
