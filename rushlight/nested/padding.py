"""Padded batches as nested tensors and back: what a mask says is padding is left out."""
from __future__ import annotations

import numpy as np

from .._src.core.exchange import from_numpy
from .._src.core.op import OPS
from .ragged import Ragged
from .tensor import Nested, made

STEP = 128  # the number of rows is rounded up to this, so that programs for other batches serve again


def from_mask(x, kept, step=1) -> Nested:
    """The rows of ``x`` [batch, n, *] where ``kept`` [batch, n] is true; beyond the examples there may be spare rows,
    up to a multiple of ``step``."""
    if kept.dim() != 2 or tuple(kept.shape) != tuple(x.shape[:2]):
        raise RuntimeError(
            f"a mask of padding has the first two sizes of its tensor: got {list(kept.shape)} for {list(x.shape)}")
    seen = kept.numpy()
    at = np.flatnonzero(seen)
    spare = -len(at) % step
    rows = x.flatten(0, 1).index_select(0, from_numpy(np.append(at, np.zeros(spare, np.int64))))
    return made(rows, Ragged.of(seen.sum(1)))


def to_mask(x: Nested, kept, shape):
    """The dense tensor of this shape with the rows of ``x`` where ``kept`` is true, and zeros elsewhere."""
    seen = kept.numpy().reshape(-1)
    at = from_numpy(np.where(seen, np.cumsum(seen) - 1, x.rows.size(0)))
    rows = OPS["cat"]([x.rows, x.rows.new_zeros((1, *x.rows.shape[1:]))])
    return rows.index_select(0, at).reshape(shape)
