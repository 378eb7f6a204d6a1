"""What compiled programs put in place of operators: functions by simpler ones, under the compiler's name of PyTorch."""
from __future__ import annotations

from .. import _decomp
from .._src.core.later import later

__all__ = ["decompositions", "register_decomposition"]

__getattr__ = later(__name__)
decompositions: dict = {}  # overload -> function, for programs that are compiled


def register_decomposition(ops):
    """Decorates a function that computes an operator of one's own, or each of several: compiled programs take it in the
    operator's place.

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
