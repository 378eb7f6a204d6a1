"""Gradients of attention in Triton: those of queries by blocks of queries, those of keys and values by blocks of keys.

Probabilities are computed again from each row's logarithm, and sums have one order, without atomics.
"""

from __future__ import annotations

from ...shared.attention import LOG2E
from .flash import ByQueries, Scores


class QueryGradient(ByQueries):
    """The gradient of queries, and of each row the sum of its result times the gradient of that ("delta")."""

    own = ("grad", "out", "lse", "grad_q", "delta")
    results, strided = ("grad_q", "delta"), ("grad", "out", "grad_q")

    def text_of_kernel(self):
        self.here()
        self.lines(f"grad_at = {self.form.first('grad', 'head')}", f"out_at = {self.form.first('out', 'head')}")
        self.read("grad", "grad", "grad_at", "rows", "q_count")
        self.read("out", "out", "out_at", "rows", "q_count")
        self.lines("delta = tl.sum(out.to(tl.float32) * grad.to(tl.float32), 1)",
                   f"tl.store({self.at['delta']} + number + rows, delta, mask=rows < q_count)",
                   f"lse = {LOG2E} * tl.load({self.at['lse']} + number + rows, mask=rows < q_count, "
                   "other=float('inf'))",
                   "sums = tl.zeros([BM, D], tl.float32)")
        self.along_keys(self.step)
        self.line(f"grad_q_at = {self.form.first('grad_q', 'head')}")
        self.write("grad_q", "sums * scale", "grad_q_at", "rows", "q_count")

    def step(self, bounded: bool):
        self.score(bounded)
        self.line("weight = tl.exp2(score - lse[:, None])")
        self.read("v", "v", "v_at", "columns", "k_count")
        self.line(f"product = {self.dot('grad', 'tl.trans(v)')}")
        if self.form.drops:
            self.kept("kept", "row", "columns")
            self.line("product = tl.where(kept, product * larger, 0.0)")
        self.line("slope = weight * (product - delta[:, None])")
        self.sloped()
        self.line(f"sums = {self.dot(f'slope.to({self.kind})', 'k', 'sums')}")


class KeyGradient(Scores):
    """The gradients of keys and values: a program has a block of keys, and goes along the queries of all heads that
    share them."""

    turned = True
    own = ("grad", "lse", "delta", "grad_k", "grad_v")
    results, strided = ("grad_k", "grad_v"), ("grad", "grad_k", "grad_v")

    def text_of_kernel(self):
        self.called()
        self.lines("program = tl.program_id(0).to(units.dtype)",
                   "zero = units * 0",
                   "wide = (most_keys + BN - 1) // BN",
                   "column = program % wide * BN",
                   "shared = program // wide % (heads // sharing)",
                   "batch = program // wide // (heads // sharing)")
        self.sequence()
        self.lines("columns = column + tl.arange(0, BN)",
                   f"k_at = {self.form.first('k', 'shared')}",
                   f"v_at = {self.form.first('v', 'shared')}")
        self.read("k", "k", "k_at", "columns", "k_count")
        self.read("v", "v", "v_at", "columns", "k_count")
        self.lines("k_sums = tl.zeros([BN, D], tl.float32)",
                   "v_sums = tl.zeros([BN, DV], tl.float32)",
                   "end = tl.where(column < k_count, q_count, 0)")
        self.block("for one in range(0, sharing)", self.of_head)
        self.lines(f"grad_k_at = {self.form.first('grad_k', 'shared')}",
                   f"grad_v_at = {self.form.first('grad_v', 'shared')}")
        self.write("grad_k", "k_sums * scale", "grad_k_at", "columns", "k_count")
        self.write("grad_v", "v_sums" + (" * larger" if self.form.drops else ""), "grad_v_at", "columns", "k_count")

    def of_head(self):
        """All queries of one head: where causal those that see a part of the keys first, then those that see all."""
        self.lines("head = shared * sharing + one",
                   f"q_at = {self.form.first('q', 'head')}",
                   f"grad_at = {self.form.first('grad', 'head')}",
                   f"number = {self.form.number('head')}")
        if self.form.block:
            self.line("blocks_at = batch * blocks_batch + head * blocks_head")
        if not self.form.causal:
            self.along("for row in range(0, end, BM)", False)
            return
        self.lines("begin = column // BM * BM",
                   "whole = tl.minimum((column + BN - 1 + BM - 1) // BM * BM, end)")
        self.along("for row in range(begin, whole, BM)", True)
        self.along("for row in range(tl.maximum(begin, whole), end, BM)", False)

    def along(self, head: str, bounded: bool):
        self.block(head, lambda: self.looked_at("row", "column", lambda: self.step(bounded)))

    def step(self, bounded: bool):
        self.line("rows = row + tl.arange(0, BM)")
        self.read("q", "q", "q_at", "rows", "q_count")
        self.read("grad", "grad", "grad_at", "rows", "q_count")
        for name, other in (("lse", "float('inf')"), ("delta", "0.0")):
            self.line(f"{name} = tl.load({self.at[name]} + number + rows, mask=rows < q_count, other={other})")
        self.placed("rows", "columns")
        self.scored(self.dot("k", "tl.trans(q)"), bounded)
        self.lines(f"weight = tl.exp2(score - (lse * {LOG2E})[None, :])",
                   f"product = {self.dot('v', 'tl.trans(grad)')}",
                   *(["weight = tl.where(there, weight, 0.0)"] if self.form.mods is not None else []), "left = weight")
        if self.form.drops:
            self.kept("kept", "row", "columns")
            self.lines("left = tl.where(kept, weight, 0.0)", "product = tl.where(kept, product * larger, 0.0)")
        self.line(f"v_sums = {self.dot(f'left.to({self.kind})', 'grad', 'v_sums')}")
        self.line("slope = weight * (product - delta[None, :])")
        self.sloped()
        self.line(f"k_sums = {self.dot(f'slope.to({self.kind})', 'q', 'k_sums')}")
