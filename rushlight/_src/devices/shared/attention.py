"""Attention as a problem of templates, and the user's modifications of its scores, elementwise.

The modifications are Exprs of the score, its indices (head, query, key), and the tensors that they read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from ...compiler.target import leaf
from ...core import dtypes
from ...core.dtypes import bool_, float32, int64, uint8
from ...core.expr import Expr, index
from ...core.expr_text import text
from ...ops import dropping
from ...ops.flash import AttentionSpec

LOG2E = 1 / math.log(2)

# The block mask, for each block of queries and keys: 0, all masked; 1, the mask decides; 2, all visible.
BLOCKS = ("flag", "blocks", "blocks_batch", "blocks_head", "blocks_row", "block_queries", "block_keys")

SCORE, GRADIENT = leaf("score"), leaf("gradient")
SPOT = ("batch", "head", "query", "key")  # the indices of a score


def spot(extents):
    """The indices of a score among [batch, heads, queries, keys], as Exprs.

    Example:
        >>> spot((2, 4, 16, 16))
        (batch, head, query, key)
    """
    return tuple(index(name, extent) for name, extent in zip(SPOT, extents))


@dataclass(frozen=True)
class Modification:
    """`score`: the modified SCORE (None: unmodified); `slope`: its gradient from GRADIENT, that of the result; `mask`:
    True if a query attends to a key (None: always). `at`: the indices in these Exprs; `buffers`: the memory they
    read."""

    score: Expr | None
    slope: Expr | None
    mask: Expr | None
    at: tuple
    buffers: tuple

    @property
    def key(self):
        """Names the code completely."""
        shown = [None if e is None else text(e) for e in (self.score, self.slope, self.mask)]
        extents = [e.arg[1] for e in self.at]
        return f"{shown} of {extents} and {[(b.name, str(b.dtype)) for b in self.buffers]}"

    @property
    def names(self):
        """The slots that kernels take for this: the error flag, the map of blocks, and what is read."""
        return (*BLOCKS, *(b.name for b in self.buffers))

    @property
    def pointers(self):
        return ("flag", "blocks", *(b.name for b in self.buffers))


@dataclass(frozen=True)
class Attention:
    """out[b, h] = softmax(q[b, h] k[b, h / sharing]^T * scale + mask[b, h]) v[b, h / sharing].

    q: [batch, heads, queries, size], k: [batch, heads / sharing, keys, size], v: [batch, heads / sharing, keys,
      value_size], with
    strides in elements, one a dimension, the last 1. `mask` is "" (none), "bool" (True: may look) or a float dtype
    (added); its strides are 0 where it is broadcast, the last is 1. `spec` says how it is computed: its `mods` are what
    is done to scores (modify.Modification); weights are dropped as the stream from the operands "seed" and "place" on
    says; with `longest` lengths, `batch` sequences are concatenated in the rows of one, and begin at the rows in the
    int64 operands "q_starts" and "k_starts" [batch + 1]. `blocks`: the strides, batch, head and row, of the block mask
    for blocks of `block` queries and keys.
    """

    batch: int
    heads: int
    sharing: int
    queries: int
    keys: int
    size: int
    value_size: int
    q: tuple
    k: tuple
    v: tuple
    out: tuple
    dtype: str
    spec: AttentionSpec
    mask: str = ""
    mask_strides: tuple = (0, 0, 0, 1)
    grad: tuple = (0, 0, 0, 1)
    grad_q: tuple = (0, 0, 0, 1)
    grad_k: tuple = (0, 0, 0, 1)
    grad_v: tuple = (0, 0, 0, 1)
    blocks: tuple = (0, 0, 0)
    block: tuple = (128, 128)

    @property
    def most(self):
        """The most queries, and keys, that look at each other."""
        return self.spec.longest or (self.queries, self.keys)

    @property
    def tiles(self):
        """The tiles of dropout over the queries, and keys, of a head."""
        return self.spec.part[:2] or dropping.tiles(*self.most)


class Form(NamedTuple):
    """The parameters of attention's source, which does not depend on the numbers of queries, keys and heads.

    ``size``, ``value_size``: of a head, of queries and of values.  ``mask``: its dtype, "" without one.  ``block``:
    queries and keys of a block of the block mask, () without one.  ``precision``: of float32 matmuls, as Triton's
    ``input_precision``.
    """

    dtype: str
    size: int
    value_size: int
    causal: bool
    ragged: bool
    drops: bool
    mask: str = ""
    mods: Modification | None = None
    block: tuple = ()
    precision: str = "ieee"

    @property
    def key(self) -> str:
        """Names the text completely."""
        return f"{self._replace(mods=None)} {self.mods and self.mods.key}"

    def first(self, name: str, head: str) -> str:
        """Return the source of the offset of an operand's first row for a head of the batch; concatenated sequences
        have no batch."""
        row = f"{'k' if name in ('k', 'v', 'grad_k', 'grad_v') else 'q'}_first * {name}_row"
        return f"{'' if self.ragged else f'batch * {name}_batch + '}{head} * {name}_head + {row}"

    def number(self, head: str) -> str:
        """The place of a head's first row among rows' totals, as text."""
        return f"{head} * queries + q_first" if self.ragged else f"(batch * heads + {head}) * queries"

    @property
    def plain(self) -> bool:
        """True if scores are plain matmul results, except for causal masking."""
        return not (self.mask or self.drops or self.ragged or self.mods)

    @property
    def checks(self) -> bool:
        """True if the reads of a user's functions may be out of range."""
        mods = self.mods
        exprs = () if mods is None else (e for e in (mods.score, mods.slope, mods.mask) if e is not None)
        return any({"position", "divisor"} & set(e.operations) for e in exprs)

    def names(self) -> tuple:
        """Return the names of the common operands, in order; a kernel has its own in addition."""
        return ("q", "k", "v", *(["mask"] if self.mask else []), *(["q_starts", "k_starts"] if self.ragged else []),
                *(["blocks"] if self.block else []), *(b.name for b in (self.mods.buffers if self.mods else ())))

    def dtypes(self) -> dict:
        """The dtypes of all that is read."""
        found = dict.fromkeys(("q", "k", "v", "out", "grad", "grad_q", "grad_k", "grad_v"), getattr(dtypes, self.dtype))
        found |= {"lse": float32, "delta": float32, "q_starts": int64, "k_starts": int64, "blocks": uint8}
        found["mask"] = bool_ if self.mask in ("", "bool") else getattr(dtypes, self.mask)
        return found
