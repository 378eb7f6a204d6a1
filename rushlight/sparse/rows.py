"""Rows of a table with a sparse gradient: one row for each row that was read."""
from __future__ import annotations

from ..autograd import Function
from .._src.core.op import OPS
from .tensor import sparse_coo_tensor


class Rows(Function):
    """``weight[indices]``; the gradient keeps the rows of ``indices`` alone, without those of ``padding_idx``."""

    @staticmethod
    def forward(ctx, weight, indices, padding_idx):
        ctx.save_for_backward(indices)
        ctx.shape, ctx.padding_idx = tuple(weight.shape), padding_idx
        return OPS["_embedding"](weight, indices, None)

    @staticmethod
    def backward(ctx, gradient):
        indices, = ctx.saved_tensors
        at, rows = indices.detach().clone().reshape(-1).long(), gradient.reshape(-1, ctx.shape[1])
        if ctx.padding_idx is not None:
            kept = at != ctx.padding_idx
            at, rows = at[kept], rows[kept]
        return sparse_coo_tensor(at.reshape(1, -1), rows, ctx.shape), None, None


with_sparse_gradient = Rows.apply
