"""Planning attention for GPUs: which kernels, which blocks, and the arguments of a launch."""

from __future__ import annotations

import functools
import hashlib
import struct

from .... import switches
from ....core.settings import settings
from ....ops import dropping
from ...shared.attention import Attention, Form
from ...shared.products import CompiledKernel, Contraction, span
from ..costs import Work, filled, seconds
from ..rates import float32_by, known, shared_of, tf32_by
from ..step import modules, power_above
from ..tuning import Choice, tuned
from ..vendor.attended import LibraryAttention, VENDOR
from .facts import Facts, facts_of
from .flash import Blocks, Forward, power_of_two
from .flash_backward import KeyGradient, QueryGradient

MOST_SIZE = 256  # of a head
DTYPES = "float32", "bfloat16", "float16"
# where nothing is known of a GPU: by the bytes of an element, then by the most elements of a head
UNKNOWN = {2: {64: ((64, 32, 4, 1), (32, 32, 4, 1)), 128: ((64, 32, 4, 1), (32, 32, 4, 1)), 256: ((16, 16, 4, 1),)},
           4: {64: ((32, 32, 4, 1), (16, 16, 4, 1)), 128: ((16, 16, 4, 1),), 256: ((16, 16, 4, 1),)}}
HEADS = 64, 128, 256  # whose blocks are known
PLAIN = 182  # registers of plain attention that leave room for masks, dropout and functions of scores
KERNELS = {"forward": (Forward,), "backward": (QueryGradient, KeyGradient)}
LEAST_QUERIES = 16  # of a block: the least that tensor cores take


def float_bits(number: float) -> int:
    """The bits of a float32."""
    return struct.unpack("<i", struct.pack("<f", number))[0]


def shared_memory(kernel, form: Form, blocks: Blocks) -> int:
    """Return at most how many bytes a program shares: resident operands, streamed operands, transposed scores."""
    element = 4 if form.dtype == "float32" else 2
    head = power_of_two(form.size) + power_of_two(form.value_size)
    stays, passes = (blocks.keys, blocks.queries) if kernel.turned else (blocks.queries, blocks.keys)
    scores = {Forward: 1, QueryGradient: 2, KeyGradient: 3}[kernel] * blocks.queries * blocks.keys
    return element * (stays * head + blocks.stages * passes * head + scores)


def choices(kernel, form: Form, queries: int, keys: int, architectures="") -> dict:
    """{blocks: Facts} for a kernel, none of which keeps registers in memory; none is much longer than there are
    queries, or keys.  Where all do, the one that keeps the fewest."""
    single, head = form.dtype == "float32", max(map(power_of_two, (form.size, form.value_size)))
    head = next(most for most in HEADS if head <= most)
    rows = facts_of(architectures, "single" if single else "half", head, kernel.__name__)
    if not rows:
        listed = UNKNOWN[4 if single else 2][head]
        rows = {blocks: Facts(255, 0, shared_memory(kernel, form, Blocks(*blocks))) for blocks in listed}
    room = {blocks: facts for blocks, facts in rows.items() if not facts.spilled and
            (form.plain or facts.registers <= PLAIN)}
    best = min(rows, key=lambda blocks: (rows[blocks].spilled, rows[blocks].registers))
    found: dict = {}
    for blocks, facts in (room or {best: rows[best]}).items():
        clipped = Blocks(min(blocks[0], max(LEAST_QUERIES, power_of_two(queries))),
                         min(blocks[1], max(16, power_of_two(keys))), *blocks[2:])
        found.setdefault(clipped, facts)
    return found


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

    def __init__(self, kind="cuda", architectures="", libraries=None):
        self.kind, self.architectures, self.library = kind, architectures, LibraryAttention(self, libraries)
        self.gpu, self.shared = known(architectures), shared_of(architectures)

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
                    p.spec.mods, block, self.precision() if p.dtype == "float32" else "ieee")

    def precision(self) -> str:
        """Return Triton's ``input_precision`` for float32."""
        return (tf32_by if switches.allows_tf32("matmul") else float32_by)(self.architectures)

    def fitting(self, kernel, p: Attention) -> dict:
        """{blocks: Facts} of those that fit, by the model of cost; the smallest where none seems to."""
        form = self.form(p)
        listed = choices(kernel, form, *p.most, self.architectures)
        found = {one: facts for one, facts in listed.items() if facts.shared <= self.shared} or dict(
            [min(listed.items(), key=lambda item: item[1].shared)])
        return dict(sorted(found.items(), key=lambda item: self.estimate(kernel, form, p, *item)))

    def units(self, kernel, p: Attention, blocks: Blocks) -> int:
        """The programs of a launch."""
        if kernel.turned:
            return p.batch * (p.heads // p.sharing) * -(-p.most[1] // blocks.keys)
        return p.batch * p.heads * -(-p.most[0] // blocks.queries)

    def estimate(self, kernel, form: Form, p: Attention, blocks: Blocks, facts: Facts) -> float:
        """The seconds of a launch by the model of cost."""
        element, units = (4 if form.dtype == "float32" else 2), self.units(kernel, p, blocks)
        head, products = p.size + p.value_size, {"Forward": 2, "QueryGradient": 3, "KeyGradient": 4}[kernel.__name__]
        scores = p.batch * p.heads * p.most[0] * p.most[1] * (0.5 if p.spec.causal else 1.0)
        passing = scores / (blocks.keys if kernel.turned else blocks.queries)
        threads = blocks.warps * self.gpu.warp
        kind = "half" if element == 2 else "tf32" if form.precision == "tf32" else "float32"
        return seconds(self.gpu, Work(
            units, scores * products * head / max(units, 1), passing * head * element / max(units, 1),
            element * p.batch * head * (p.heads * p.queries + 2 * p.heads // p.sharing * p.keys), threads,
            facts.registers, facts.shared, kind, filled(blocks.queries, blocks.keys), facts.spilled))

    # --- plans --------------------------------------------------
    def plan_forward(self, p: Attention) -> Contraction:
        """The result, and the logarithm of each row's total."""
        if not p.batch * p.heads * p.queries * p.value_size:
            return Contraction(())
        return self.plan(p, "forward")

    def plan_backward(self, p: Attention) -> Contraction:
        """The gradients of queries, keys and values."""
        if not p.batch * (p.heads // p.sharing) * (p.queries + p.keys) * (p.size + p.value_size):
            return Contraction(())
        return self.plan(p, "backward")

    def plan(self, p: Attention, direction: str) -> Contraction:
        """Launches of kernels one after another, or of the vendor's library: as chosen by the model of cost, or
        measured.  What depends on data, as maps of blocks and sequences' ends do, is not measured."""
        kernels, form, found = KERNELS[direction], self.form(p), self.listed(p, direction)
        others = self.library.choices(p, direction, found[0].estimate)
        if p.spec.kernel == VENDOR and not others:
            raise RuntimeError(
                f"cuDNN does not compute this attention: {self.library.refusal(p, direction) or 'it has no engine'}")
        if others and (p.spec.kernel == VENDOR or settings.vendor == "always"):
            found = others
        sizes = [power_above(size) for size in (p.batch, p.heads, p.sharing, *p.most)]
        return tuned(self.kind, f"attention {[kernel.__name__ for kernel in kernels]} {form.key} {sizes}",
                     [*found, *others] if found is not others else others, lambda: self.bytes_of(p))

    def own(self, p: Attention, direction: str) -> Contraction:
        """Return the plan with Rushlight's kernels that the cost model prefers."""
        return self.listed(p, direction)[0].plan()

    def listed(self, p: Attention, direction: str) -> list:
        """Return the Choices of Rushlight's kernels, the likely fastest first."""
        kernels, form = KERNELS[direction], self.form(p)
        temporaries = {"delta": 4 * (1 if p.spec.longest else p.batch) * p.heads * p.queries} if (
            direction == "backward") else {}
        listed = [self.fitting(kernel, p) for kernel in kernels]
        pairs = [tuple(list(own)[min(k, len(own) - 1)] for own in listed) for k in range(max(map(len, listed)))]
        found = []
        for blocks in pairs[:1] if form.block or form.ragged or form.mods is not None else pairs:
            estimate = sum(self.estimate(kernel, form, p, one, own[one])
                           for kernel, own, one in zip(kernels, listed, blocks))
            found.append(Choice(str([tuple(one) for one in blocks]), estimate,
                                functools.partial(self.planned, p, kernels, blocks, temporaries)))
        return sorted(found, key=lambda choice: choice.estimate)

    def planned(self, p: Attention, kernels: tuple, blocks: tuple, temporaries: dict) -> Contraction:
        steps = (self.call(kernel, p, one, self.units(kernel, p, one)) for kernel, one in zip(kernels, blocks))
        return Contraction(tuple(steps), temporaries)

    def bytes_of(self, p: Attention) -> dict:
        """The most bytes that each operand reaches over."""
        rows = {"q": (p.heads, p.queries, p.size), "k": (p.heads // p.sharing, p.keys, p.size),
                "v": (p.heads // p.sharing, p.keys, p.value_size)}
        rows |= {"out": (p.heads, p.queries, p.value_size), "mask": (p.heads, p.queries, p.keys)}
        rows |= {"grad": rows["out"]} | {f"grad_{name}": rows[name] for name in "qkv"}
        strides = {name: p.mask_strides if name == "mask" else getattr(p, name) for name in rows}
        return {name: 4 * span(strides[name], (p.batch, *shape)) for name, shape in rows.items()} | {
            "lse": 4 * p.batch * p.heads * p.queries, "seed": 8, "place": 8}

    def call(self, kernel, p: Attention, blocks: Blocks, units: int) -> CompiledKernel:
        """The launch of a kernel."""
        form = self.form(p)
        sizes = [p.heads, p.sharing, p.queries, p.keys, *p.most]
        for name in ("q", "k", "v", *kernel.strided):
            sizes += getattr(p, name)[:3]
        sizes += p.mask_strides[:3] if form.mask else ()
        sizes += p.blocks if form.block else ()
        sizes += (*p.tiles, p.spec.drop) if form.drops else ()
        wholes = [*(["seed", "place", float_bits(dropping.larger(p.spec.drop))] if form.drops else []),
                  float_bits(p.spec.scale)]
        return CompiledKernel(module_of(kernel, form, blocks), units, (*form.names(), *kernel.own),
                              (*wholes, *sizes), form.checks)
