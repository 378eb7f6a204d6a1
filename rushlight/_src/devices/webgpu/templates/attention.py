"""Planning attention for WebGPU: which kernels, which blocks, and the arguments of a launch."""

from __future__ import annotations

import functools
import struct

from ....core.shape_env import guess
from ....ops import dropping
from ...shared.attention import Attention, Form
from ...shared.products import CompiledKernel, Contraction
from ..step import TURNS, modules, refuse_turns
from .flash import Block, Forward
from .flash_backward import KeyGradient, QueryGradient

MOST_SIZE = 256  # of a head
DTYPES = "float32", "bfloat16", "float16"
BLOCKS = Block(16, 2), Block(16, 1), Block(8, 1)  # the fastest first


def float_bits(number: float) -> int:
    """The bits of a float32, as a signed number."""
    return struct.unpack("<i", struct.pack("<f", number))[0]


def workgroup_memory(kernel, form: Form, block: Block, features) -> int:
    """Bytes that a workgroup shares: what stays, what passes by, and scores."""
    element = 2 if form.dtype == "float16" and "f16" in features else 4
    rows = sum(1 + getattr(form, one) for one in kernel.stays) + 1 + max(form.size, form.value_size)
    return element * block.size * rows + 4 * block.size * (block.size + 1)


def turns_of(passing: int, block: Block, size: int, value_size: int) -> int:
    """Return the most loop iterations of a thread if ``passing`` rows are streamed past a block of scores."""
    return -(-passing // block.size) * 3 * (size + value_size)


class Attentions:
    """Plans for a device of these features, with ``memory`` bytes of workgroup memory and ``bindings`` buffers per
    shader."""

    def __init__(self, features: frozenset, memory: int, bindings: int):
        self.features, self.memory, self.bindings = features, memory, bindings
        self.module = functools.lru_cache(maxsize=None)(self.written)

    def refusal(self, dtype: str, size, value_size) -> str | None:
        """Why there is no kernel for heads of these sizes; None where there is one."""
        if dtype not in DTYPES:
            return f"{dtype}"
        if size > MOST_SIZE or value_size > MOST_SIZE:
            return f"heads of {size} and {value_size}; there are kernels for at most {MOST_SIZE}"
        form = Form(dtype, guess(size), guess(value_size), False, False, False)
        if self.block(QueryGradient, form, MOST_SIZE) is None:
            return f"heads of {size} and {value_size}; workgroups of this device share {self.memory} bytes"
        return None

    def suits(self, node, first: int) -> bool:
        """Whether a kernel computes attention, or its gradient; ``first``: the number of the argument with the
        queries."""
        q, k, v = node.args[first:first + 3]
        wide = node.params["drop"] or node.params["longest"] or node.params["mods"] is not None  # which count in int64
        captured = node.args[first + 5]
        return (self.refusal(q.dtype.name, guess(q.shape[-1]), guess(v.shape[-1])) is None
                and (not wide or "i64" in self.features) and len(captured) + 14 <= self.bindings
                and ("loops" in self.features or self.turns(q, k, v) <= TURNS))

    def turns(self, q, k, v) -> int:
        """The most turns of loops that a thread takes, where the least blocks are taken."""
        queries, keys, size, value_size = map(guess, (q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]))
        passing = max(keys, guess(q.shape[1]) // max(guess(k.shape[1]), 1) * queries)
        return turns_of(passing, BLOCKS[-1], size, value_size)

    def block(self, kernel, form: Form, longest: int) -> Block | None:
        """The block of scores of a workgroup, not much longer than there are queries and keys; None where none
        fits."""
        fitting = [one for one in BLOCKS if workgroup_memory(kernel, form, one, self.features) <= self.memory]
        short = [one for one in fitting if one.size <= longest]
        return (short or fitting[-1:] or [None])[0]

    def form(self, p: Attention) -> Form:
        block = p.block if p.spec.mods is not None and p.spec.mods.mask is not None else ()
        return Form(p.dtype, p.size, p.value_size, p.spec.causal, bool(p.spec.longest), p.spec.drop > 0, p.mask,
                    p.spec.mods, block)

    def written(self, kernel, key: str, form: Form, block: Block) -> int:
        return modules.number(kernel(form, block, self.features).module(f"{key} {block} {sorted(self.features)}"))

    # --- plans --------------------------------------------------
    def plan_forward(self, p: Attention) -> Contraction:
        """The result, and the logarithm of each row's total."""
        if not p.batch * p.heads * p.queries * p.value_size:
            return Contraction(())
        return Contraction((self.call(Forward, p),))

    def plan_backward(self, p: Attention) -> Contraction:
        """The gradients of queries, keys and values."""
        if not p.batch * (p.heads // p.sharing) * (p.queries + p.keys) * (p.size + p.value_size):
            return Contraction(())
        delta = 4 * (1 if p.spec.longest else p.batch) * p.heads * p.queries
        return Contraction((self.call(QueryGradient, p), self.call(KeyGradient, p)), {"delta": delta})

    def call(self, kernel, p: Attention) -> CompiledKernel:
        """The launch of a kernel."""
        form = self.form(p)
        block = self.block(kernel, form, max(p.most))
        passing = p.sharing * p.most[0] if kernel.turned else p.most[1]
        refuse_turns(turns_of(passing, block, p.size, p.value_size), self.features,
                     f"attention of {p.most[0]} queries to {p.most[1]} keys")
        if kernel.turned:
            units = p.batch * (p.heads // p.sharing) * -(-p.most[1] // block.size)
        else:
            units = p.batch * p.heads * -(-p.most[0] // block.size)
        sizes = [p.heads, p.sharing, p.queries, p.keys, *p.most]
        for name in ("q", "k", "v", *kernel.strided):
            sizes += getattr(p, name)[:3]
        sizes += p.mask_strides[:3] if form.mask else ()
        sizes += p.blocks if form.block else ()
        sizes += (*p.tiles, p.spec.drop,
                  float_bits(dropping.larger(p.spec.drop))) if form.drops else ()
        wholes = ["seed", "place"] if form.drops else []
        return CompiledKernel(self.module(kernel, form.key, form, block), units, (*form.names(), *kernel.own),
                              (*wholes, *sizes, float_bits(p.spec.scale)), form.checks)
