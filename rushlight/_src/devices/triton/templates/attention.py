"""Planning attention for GPUs: which text, which blocks, and the numbers of a launch."""

from __future__ import annotations

import functools
import hashlib
import struct

from ....ops import dropping
from ...shared.attention import Attention
from ...shared.products import CompiledKernel, Contraction
from ..rates import float32_by, shared_of
from ..step import modules
from .flash import Blocks, Form, Forward, power_of_two
from .flash_backward import KeyGradient, QueryGradient

MOST_SIZE = 256  # of a head
DTYPES = "float32", "bfloat16", "float16"
# by the bytes of an element, then by the most elements of a head: blocks, the likely fastest first
CHOICES = {
    2: {64: ((128, 64, 4, 3), (128, 128, 8, 2), (64, 64, 4, 2), (64, 32, 4, 1), (32, 32, 4, 1)),
        128: ((128, 64, 8, 2), (64, 64, 4, 2), (64, 32, 4, 2), (64, 32, 4, 1), (32, 32, 4, 1)),
        256: ((64, 64, 8, 2), (64, 32, 4, 2), (32, 32, 4, 1), (16, 32, 4, 1), (16, 16, 4, 1))},
    4: {64: ((64, 64, 4, 2), (64, 32, 4, 2), (32, 32, 4, 2), (32, 32, 4, 1), (16, 32, 4, 1)),
        128: ((64, 32, 4, 2), (32, 32, 4, 2), (32, 32, 4, 1), (16, 32, 4, 1), (16, 16, 4, 1)),
        256: ((32, 32, 8, 1), (16, 32, 4, 1), (16, 16, 4, 1))},
}
LEAST_QUERIES = 16  # of a block: what units for products take


def float_bits(number: float) -> int:
    """The bits of a float32."""
    return struct.unpack("<i", struct.pack("<f", number))[0]


def shared_memory(kernel, form: Form, blocks: Blocks) -> int:
    """Bytes that a program's threads share, at most: operands that stay, those that pass by, and scores that turn."""
    element = 4 if form.dtype == "float32" else 2
    head = power_of_two(form.size) + power_of_two(form.value_size)
    stays, passes = (blocks.keys, blocks.queries) if kernel.turned else (blocks.queries, blocks.keys)
    scores = {Forward: 1, QueryGradient: 2, KeyGradient: 3}[kernel] * blocks.queries * blocks.keys
    return element * (stays * head + blocks.stages * passes * head + scores)


def choices(kernel, form: Form, queries: int, keys: int) -> list:
    """Blocks for a kernel, the likely fastest first; none is much longer than there are queries, or keys."""
    element, head = (4 if form.dtype == "float32" else 2), max(form.size, form.value_size)
    listed = CHOICES[element][next(most for most in CHOICES[element] if head <= most)]
    found = []
    for rows, columns, warps, stages in listed:
        rows = min(rows, max(LEAST_QUERIES, power_of_two(queries)))
        columns = min(columns, max(16, power_of_two(keys)))
        if kernel is not Forward:  # which keep twice as much
            rows, warps = min(rows, 64), 4 if head <= 64 else 8 if rows * columns >= 64 * 64 else 4
        found.append(Blocks(rows, columns, warps, stages))
    return list(dict.fromkeys(found))


@functools.lru_cache(maxsize=None)
def module_of(kernel, form: Form, blocks: Blocks) -> int:
    """The number of a kernel's module."""
    key = f"{kernel.__name__} {form.key} {blocks}"
    text = kernel(form, blocks)
    text.text_of_kernel()
    constants = (("BM", blocks.queries), ("BN", blocks.keys), ("D", power_of_two(form.size)),
                 ("DV", power_of_two(form.value_size)))
    name = "a" + hashlib.sha256(key.encode()).hexdigest()[:12]
    return modules.number(text.made(name, constants, blocks.warps, blocks.stages))


class Attentions:
    """Plans of attention for GPUs of these architectures."""

    def __init__(self, architectures=""):
        self.shared, self.precision = shared_of(architectures), float32_by(architectures)

    def refusal(self, dtype: str, size, value_size) -> str | None:
        """Why there is no kernel for heads of these sizes; None where there is one."""
        if dtype not in DTYPES:
            return f"{dtype}"
        if size > MOST_SIZE or value_size > MOST_SIZE:
            return f"heads of {size} and {value_size}; there are kernels for at most {MOST_SIZE}"
        return None

    def form(self, p: Attention) -> Form:
        block = p.block if p.spec.mods is not None and p.spec.mods.mask is not None else ()
        return Form(p.dtype, p.size, p.value_size, p.spec.causal, bool(p.spec.longest), p.spec.drop > 0, p.mask,
                    p.spec.mods, block, self.precision if p.dtype == "float32" else "ieee")

    def chosen(self, kernel, p: Attention) -> Blocks:
        """The first blocks that fit."""
        form, found = self.form(p), choices(kernel, self.form(p), *p.most)
        return next((one for one in found if shared_memory(kernel, form, one) <= self.shared), found[-1])

    # --- plans --------------------------------------------------
    def plan_forward(self, p: Attention) -> Contraction:
        """The result, and the logarithm of each row's total."""
        if not p.batch * p.heads * p.queries * p.value_size:
            return Contraction(())
        blocks = self.chosen(Forward, p)
        units = p.batch * p.heads * -(-p.most[0] // blocks.queries)
        return Contraction((self.call(Forward, p, blocks, units),))

    def plan_backward(self, p: Attention) -> Contraction:
        """The gradients of queries, keys and values."""
        shared = p.heads // p.sharing
        if not p.batch * shared * (p.queries + p.keys) * (p.size + p.value_size):
            return Contraction(())
        first, second = self.chosen(QueryGradient, p), self.chosen(KeyGradient, p)
        steps = (self.call(QueryGradient, p, first, p.batch * p.heads * -(-p.most[0] // first.queries)),
                 self.call(KeyGradient, p, second, p.batch * shared * -(-p.most[1] // second.keys)))
        return Contraction(steps, {"delta": 4 * (1 if p.spec.longest else p.batch) * p.heads * p.queries})

    def call(self, kernel, p: Attention, blocks: Blocks, units: int) -> CompiledKernel:
        """The launch of a kernel."""
        form = self.form(p)
        sizes = [p.heads, p.sharing, p.queries, p.keys, *p.most]
        for name in ("q", "k", "v", *kernel.strided):
            sizes += getattr(p, name)[:3]
        sizes += p.mask_strides[:3] if form.mask else ()
        sizes += p.blocks if form.block else ()
        sizes += (*dropping.tiles(*p.most), dropping.threshold(p.spec.drop)) if form.drops else ()
        wholes = [*(["seed", "place", float_bits(dropping.larger(p.spec.drop))] if form.drops else []),
                  float_bits(p.spec.scale)]
        return CompiledKernel(module_of(kernel, form, blocks), units, (*form.names(), *kernel.own),
                              (*wholes, *sizes), form.checks)
