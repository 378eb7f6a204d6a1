"""Masked operators of sparse tensors, and with sparse masks: the result has a value where the mask of the result holds.

They are computed on dense tensors.
"""
from __future__ import annotations

from .._src.core.convert import sparse_coo, sparse_csr
from .._src.core.dtypes import bool_
from .._src.core.errors import UnsupportedLayoutError
from .._src.core.op import OPS
from ..masked.masks import ELEMENTWISE, REDUCTIONS, _output_mask, dense, kept_as
from .rules import rule
from .tensor import Coo, Sparse, made

ZERO_IS_NEUTRAL = ("sum", "norm")  # without a mask, elements that are not kept count as 0


def places_of(input):
    """Where a sparse tensor keeps elements, as a dense mask."""
    own = input.coo()
    return made(Coo, input.shape, OPS["ones_like"](own.elements, dtype=bool_), positions=own.positions).to_dense()


def enter(name):
    operator = OPS[f"masked.{name}"]

    def call(input, *args, mask=None, **kwargs):
        held = dense(mask)
        if not isinstance(input, Sparse):
            return operator(input, *args, mask=held, **kwargs)
        layout = input.layout
        if layout not in (sparse_coo, sparse_csr):
            raise UnsupportedLayoutError(f"masked.{name}: not implemented for the layout {layout}",
                                         "torch.sparse_coo or torch.sparse_csr", "convert with to_dense() first")
        if layout is sparse_csr and name in REDUCTIONS and not kwargs.get("keepdim"):
            raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
        if held is None and name not in ZERO_IS_NEUTRAL:
            raise ValueError(f"masked {name} expects explicit mask for {layout.name} tensor input")
        pattern = places_of(input) if held is None else held
        out = operator(dense(input), *args, mask=held, **kwargs)
        where = _output_mask(operator, dense(input), *args, mask=pattern, **kwargs)
        return kept_as(out, where, layout)

    call.__name__, call.__doc__ = name, f"masked.{name} in the layout of its input."
    rule(f"masked.{name}")(call)


for _name in (*REDUCTIONS, *ELEMENTWISE):
    if f"masked.{_name}" in OPS:
        enter(_name)
