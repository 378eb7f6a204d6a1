"""Padded batches as nested tensors and back: what a mask says is padding is left out."""
from __future__ import annotations

import numpy as np

from .._src.core.exchange import from_numpy
from .._src.core.op import OPS
from .ragged import Ragged
from .tensor import Nested, contiguous, made

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


def padded(input, padding, output_size=None):
    """Return the stacked examples, padded with ``padding`` (or truncated) to a common length."""
    if getattr(input, "by_examples", False):
        return input.to_padded_tensor(padding, output_size)
    if not isinstance(input, Nested):
        raise RuntimeError(
            f"to_padded_tensor(): expected a nested tensor, got {type(input).__name__} of size {list(input.shape)}")
    x = contiguous(input)
    sizes = list(x.shape)
    sizes[x.at] = length = x.ragged.longest if output_size is None else output_size[x.at]
    if output_size is not None and any(have > want
                                       for have, want in zip(sizes, output_size)) or output_size is not None and len(
                                               output_size) != len(sizes):
        raise RuntimeError(
            f"to_padded_tensor(): output_size {tuple(output_size)} does not hold examples of size {tuple(x.shape)}")
    rows = x.rows.movedim(x.at - 1, 0)
    at = x.ragged.owners * length + x.ragged.places
    if length < x.ragged.longest:
        kept = (x.ragged.places < length).nonzero().reshape(-1)
        rows, at = rows[kept], at[kept]
    out = OPS["full"]((x.ragged.count * length, *rows.shape[1:]), padding, dtype=rows.dtype).index_copy(0, at, rows)
    out = out.reshape(x.ragged.count, length, *rows.shape[1:]).movedim(1, x.at)
    if output_size is None or tuple(out.shape) == tuple(output_size):
        return out
    spare = [n for have, want in zip(reversed(out.shape), reversed(output_size)) for n in (0, want - have)]
    return OPS["nn.functional.pad"](out, spare, value=padding)
