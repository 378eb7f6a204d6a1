"""Arguments of the constructors of older programs, ``torch.Tensor``, ``torch.FloatTensor`` and ``x.new``: sizes or
data."""
from __future__ import annotations

import operator

import numpy as np

from .expr import Expr
from .meta import Size
from .native import Tensor
from .op import OPS


def is_size(value) -> bool:
    """True if a value counts elements: an integer, also a NumPy one, but no bool."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iu"
    return not isinstance(value, bool) and (isinstance(value, (Expr, Tensor)) or hasattr(type(value), "__index__"))


def construct(args, dtype, device) -> Tensor:
    """An uninitialized tensor of sizes (a ``Size``, or one integer or more; none: no elements), or one of the data in a
    sequence.  TypeError for anything else."""
    from .exchange import tensor
    first = args[0] if len(args) == 1 else None
    if len(args) != 1 or isinstance(first, Size) or is_size(first):
        sizes = (first,) if isinstance(first, Size) else [
            size if isinstance(size, (int, Expr, Tensor)) or not is_size(size) else operator.index(size)
            for size in args or (0,)]
        return OPS["empty"](*sizes, dtype=dtype, device=device)
    if isinstance(first, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(first).__name__}': give sizes or a sequence of numbers")
    if not (hasattr(first, "__len__") and hasattr(first, "__getitem__")) or isinstance(first, dict):
        raise TypeError(
            f"new(): data must be a sequence (got {type(first).__name__}). Use torch.tensor() for a number.")
    return tensor(first, dtype=dtype, device=device)
