"""Gradients of attention in WGSL: those of queries by blocks of queries, those of keys and values by blocks of keys.

Probabilities are computed again from each row's logarithm, and sums have one order, without atomics.
"""

from __future__ import annotations

from ...shared.attention import SCORE
from .flash import ByQueries, Put, Scores


class QueryGradient(ByQueries):
    """The gradient of queries, and of each row the sum of its result times the gradient of that ("delta")."""

    own = ("grad", "out", "lse", "grad_q", "delta")
    results, strided, stays = ("grad_q", "delta"), ("grad", "out", "grad_q"), ("size", "value_size")

    def kernel_text(self):
        each = self.tile.each
        self.here()
        self.lines(f"let grad_at = {self.form.first('grad', 'head')};",
                   f"let out_at = {self.form.first('out', 'head')};")
        self.bring("grad", "t1", "grad_at", "row", "q_count")
        self.meet()
        self.variables("lse", each, "from_bits(2139095040u)")
        self.variables("delta", each)
        self.variables("sums", each * self.columns_of("q"))
        self.block(f"for (var i = 0; i < {each}; i++)", self.totals)
        self.along_keys(self.step)
        self.line(f"let grad_q_at = {self.form.first('grad_q', 'head')};")
        self.write("grad_q", "sums", "grad_q_at", "row", "q_count", " * scale")

    def totals(self):
        """Load each row's log-sum-exp, and compute its delta."""
        size = self.form.value_size
        self.line(f"let here = row + y + {self.tile.side} * i;")
        gradient = f"t1[(y + {self.tile.side} * i) * {size + 1} + c]"
        gradient = f"f32({gradient})" if self.element == "f16" else gradient

        def inside():
            self.line(f"lse[i] = {self.read('lse', 'number + here')};")
            self.block(f"for (var c = 0; c < {size}; c++)", lambda: self.line(
                f"delta[i] = delta[i] + {gradient} * {self.read('out', 'out_at + here * out_row + c')};"))
            self.block("if (x == 0)", lambda: self.store(Put(self.made["delta"]), "number + here", "delta[i]"))

        self.block("if (here < q_count)", inside)

    def step(self):
        each = self.tile.each
        self.variables("weights", each**2)
        self.score(lambda: (self.scored(), self.line("weights[n] = exp_of(score - lse[i]);")))
        self.meet()
        self.bring("v", "tx", "v_at", "column", "k_count")
        self.meet()
        self.variables("products", each**2)
        self.dot("products", "t1", self.form.value_size)
        self.elements(self.slope)
        self.meet()
        self.bring("k", "tx", "k_at", "column", "k_count")
        self.meet()
        self.add_up("sums", "q")
        self.meet()

    def slope(self):
        self.line("var product = products[n];")
        if self.form.drops:
            self.line(f"product = select(0.0f, product * larger, {self.survives()});")
        self.line("var slope = weights[n] * (product - delta[i]);")
        self.line("let plain = s[n] * scale;")
        self.scopes[-1].values[SCORE] = "plain"
        self.sloped()
        self.line(f"{self.spot} = slope;")


class KeyGradient(Scores):
    """The gradients of keys and values: a workgroup has a block of keys, and goes along the queries of all heads that
    share them."""

    turned = True
    own = ("grad", "lse", "delta", "grad_k", "grad_v")
    results, strided, stays = ("grad_k", "grad_v"), ("grad", "grad_k", "grad_v"), ("size", "value_size")

    def kernel_text(self):
        size, each = self.tile.size, self.tile.each
        self.threads()
        self.lines(f"let wide = (most_keys + {size - 1}) / {size};", f"let column = unit % wide * {size};",
                   "let sharer = unit / wide % (heads / sharing);", "let batch = unit / wide / (heads / sharing);")
        self.sequence()
        self.lines(f"let k_at = {self.form.first('k', 'sharer')};", f"let v_at = {self.form.first('v', 'sharer')};")
        self.bring("k", "t0", "k_at", "column", "k_count")
        self.bring("v", "t1", "v_at", "column", "k_count")
        self.variables("k_sums", each * self.columns_of("k"))
        self.variables("v_sums", each * self.columns_of("v"))
        self.line("let end = select(0, q_count, column < k_count);")
        self.block("for (var one = 0; one < sharing; one++)", self.of_head)
        for name in ("grad_k", "grad_v"):
            self.line(f"let {name}_at = {self.form.first(name, 'sharer')};")
        self.write("grad_k", "k_sums", "grad_k_at", "column", "k_count", " * scale")
        self.write("grad_v", "v_sums", "grad_v_at", "column", "k_count", " * larger" if self.form.drops else "")

    def of_head(self):
        """All queries of one head: where causal those that see a part of the keys, or all."""
        size = self.tile.size
        self.lines("let head = sharer * sharing + one;", f"let q_at = {self.form.first('q', 'head')};",
                   f"let grad_at = {self.form.first('grad', 'head')};", f"let number = {self.form.number('head')};")
        begin = f"column / {size} * {size}" if self.form.causal else "0"
        self.block(f"for (var row = {begin}; row < end; row += {size})", lambda: self.looked_at(self.step))

    def step(self):
        each = self.tile.each
        self.bring("q", "tx", "q_at", "row", "q_count")
        self.meet()
        for name in ("s", "products", "slopes"):
            self.variables(name, each**2)
        self.dot("s", "t0", self.form.size)
        self.meet()
        self.bring("grad", "tx", "grad_at", "row", "q_count")
        self.meet()
        self.dot("products", "t1", self.form.value_size)
        self.elements(self.weigh)
        self.meet()
        self.add_up("v_sums", "v")
        self.meet()
        self.elements(lambda: self.line(f"{self.spot} = slopes[n];"))
        self.bring("q", "tx", "q_at", "row", "q_count")
        self.meet()
        self.add_up("k_sums", "k")
        self.meet()

    def weigh(self):
        self.lines("var lse = from_bits(2139095040u);", "var delta = 0.0f;")
        self.block("if (query < q_count)", lambda: self.lines(f"lse = {self.read('lse', 'number + query')};",
                                                              f"delta = {self.read('delta', 'number + query')};"))
        self.scored()
        self.lines("let weight = exp_of(score - lse);", "var left = weight;", "var product = products[n];")
        if self.form.drops:
            kept = self.survives()
            self.lines(f"left = select(0.0f, weight, {kept});", f"product = select(0.0f, product * larger, {kept});")
        self.line("var slope = weight * (product - delta);")
        self.sloped()
        self.lines(f"{self.spot} = left;", "slopes[n] = slope;")
