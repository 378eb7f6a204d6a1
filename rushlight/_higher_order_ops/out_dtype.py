"""Operators whose result has a dtype of its own, wider than that of what they read."""
from __future__ import annotations

from .._src.api import promote_types
from .._src.core.dtypes import int8, int32
from .._src.core.op import OPS
from .._src.core.tensor import Tensor

__all__ = ["out_dtype"]

PRODUCTS = ("aten::mm", "aten::matmul")


def out_dtype(op, output_dtype, *args):
    """``op(*args)`` computed in the dtype that holds the arguments and ``output_dtype``, given as ``output_dtype``.

    ``op``: an overload such as ``torch.ops.aten.mm.default``.  An int8 matmul with int32 result runs on the integers
    directly.

    >>> import rushlight as torch
    >>> a = torch.full((1, 4), 100, dtype=torch.int8)
    >>> out_dtype(torch.ops.aten.mm.default, torch.int32, a, a.t())
    tensor([[40000]], dtype=torch.int32)
    """
    tensors = [x for x in args if isinstance(x, Tensor)]
    if output_dtype is int32 and op.name() in PRODUCTS and len(tensors) == 2 and all(
            x.dtype is int8 and x.dim() == 2 for x in tensors):
        return OPS["_int_mm"](*tensors)
    wide = output_dtype
    for x in tensors:
        wide = promote_types(wide, x.dtype)
    return op(*[x.to(wide) if isinstance(x, Tensor) else x for x in args]).to(output_dtype)
