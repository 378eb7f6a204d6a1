"""Kernel: loops over axes with Expr bodies, the form between graphs and machine code."""
from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..core.dtypes import dtype, float64
from ..core.expr import Expr, add, extent_of, index, multiply, terms
from ..core.expr_text import show
from ..core.nodes import LEAVES
from ..core import expr


class Buffer:
    """Memory a kernel reads or writes: a program's input, output or temporary (``kind``, ``number``), of ``size``
    elements."""

    __slots__ = ("name", "dtype", "kind", "number", "size")

    def __init__(self, name: str, dtype: dtype, kind="input", number=0, size=0):
        self.name, self.dtype, self.kind, self.number, self.size = name, dtype, kind, number, size

    def __repr__(self):
        return self.name


@dataclass(eq=False)
class Reduction:
    """``result = combine of value over the stage's loops``; for an argmin or argmax, ``at`` numbers the elements.

    The stores of the stage of a ``running`` reduction see its intermediate results.
    """

    result: Expr
    combine: str
    value: Expr
    at: Expr | None = None
    running: bool = False

    def mapped(self, change):
        """The same reduction with other Exprs."""
        return Reduction(self.result, self.combine, change(self.value), None if self.at is None else change(self.at),
                         self.running)


@dataclass
class StoreTo:
    """``buffer[at] = value``, or an update of the stored element if ``combine`` is given."""

    buffer: Buffer
    at: Expr
    value: Expr
    combine: str | None = None


@dataclass
class KernelStage:
    """Loops within one unit of the outer axes, computing reductions and stores; later stages may use its results."""

    loops: tuple
    reductions: list = field(default_factory=list)
    stores: list = field(default_factory=list)

    def exprs(self):
        for r in self.reductions:
            yield r.value
            if r.at is not None:
                yield r.at
        for s in self.stores:
            yield s.at
            yield s.value


@dataclass
class Kernel:
    """Parallel ``outer`` axes; then, if ``lane`` is set, vectors along that axis run all stages, else each stage's last
    loop is vectorized. ``serial``: neither (the order of updates matters). ``across``: an axis along which some loads
    are contiguous while the stores are contiguous along ``lane``: both are cut into square tiles that are transposed in
    registers. ``atomic``: units may update the same memory at the same time."""

    outer: tuple
    lane: Expr | None
    stages: list
    serial: bool = False
    flag: bool = False
    across: Expr | None = None
    atomic: bool = False

    @property
    def running(self) -> bool:
        """True if it is a scan: its loops run in order and are not transformed."""
        return any(r.running for s in self.stages for r in s.reductions)

    def buffers(self):
        """The buffers that it reads and writes, in order of first appearance."""
        found = {}
        for stage in self.stages:
            for e in stage.exprs():
                for load in walk(e, "load"):
                    found.setdefault(load.arg)
            for s in stage.stores:
                found.setdefault(s.buffer)
        return list(found)

    def __str__(self):
        loops = " ".join(f"{i}<{extent_of(i)}" for i in self.outer)
        lines = [f"parallel {loops or 'once'}" + (f" lanes {self.lane}<{extent_of(self.lane)}" if self.lane is not None
                                                  else "")
                 + (" in order" if self.serial else " atomic" if self.atomic else "")
                 + (f" tiles {self.across}<{extent_of(self.across)}" if self.across is not None else "") + ":"]
        for stage in self.stages:
            over = " ".join(f"{i}<{extent_of(i)}" for i in stage.loops)
            lines.append(f"  for {over}:" if over else "  then:")
            lines += [f"    {line}" for line in stage_lines(stage)]
        return "\n".join(lines)


def stage_lines(stage: KernelStage):
    """The stage's reductions and stores as text, shared parts named."""
    values = [r.value for r in stage.reductions] + [e for s in stage.stores for e in (s.at, s.value)]
    values += [r.at for r in stage.reductions if r.at is not None]
    lines = show(*values)
    count = len(values)
    yield from lines[:len(lines) - count]
    spelled = iter(lines[len(lines) - count:])
    for r in stage.reductions:
        yield f"{r.result} = {'running ' if r.running else ''}{r.combine} {next(spelled)}"
    for s in stage.stores:
        yield f"{s.buffer}[{next(spelled)}] {s.combine or ''}= {next(spelled)}"
    for r in stage.reductions:
        if r.at is not None:
            yield f"{r.result} counts {next(spelled)}"


def walk(e, op: str):
    """The parts of ``e`` with this operation."""
    seen, stack = set(), [e]
    while stack:
        one = stack.pop()
        if not isinstance(one, Expr) or one in seen or op not in one.operations:
            continue
        seen.add(one)
        if one.op == op:
            yield one
        stack.extend(one.args)


def replaceable(kernel: Kernel) -> list:
    """Pairs of buffers (written, read) that may share memory: each element is stored after all reads of the other's
    element."""
    if kernel.serial or kernel.running or kernel.across is not None:
        return []
    writes, reads = {}, {}  # buffer: [(stage, index)]
    for k, stage in enumerate(kernel.stages):
        for s in stage.stores:
            writes.setdefault(s.buffer, []).append((k, s.at if s.combine is None else None))
        for e in stage.exprs():
            for load in walk(e, "load"):
                reads.setdefault(load.arg, []).append((k, load.args[0]))
    found = []
    for written, stored in writes.items():
        first, at = stored[0]
        if at is not None and all(i is at for _, i in stored):
            found += [(written, read) for read, loaded in reads.items() if read not in writes and read.dtype.itemsize
                      == written.dtype.itemsize
                      and all(k <= first and i is at for k, i in loaded)]
    return found


NEAR = 4    # strides up to this are part of the machine code: loads use full vectors
READING = "load", "position", "divisor"  # operations whose value depends on memory contents
SMALL = 16  # divisors and unrolled loops up to this are part of the machine code


class Parameters:
    """Takes the numbers out of a kernel: sizes, strides and other constants become run-time slots, so that one piece of
    machine code serves every shape.  0, 1 and -1 stay.  ``outer``: axes that no vector runs along."""

    def __init__(self):
        self.values, self.memo, self.steps, self.outer = [], {}, {}, frozenset()

    def slot(self, value):
        """A number or symbolic size as a slot."""
        self.values.append(value)
        return Expr("slot", (), (f"p{len(self.values) - 1}",))

    def static(self, value):
        return value if isinstance(value, int) and -1 <= value <= 1 else self.slot(value)

    def step(self, value, moving):
        """The multiplier of a product of axes: one slot for all equal steps, and small strides along vectors as
        constants."""
        if isinstance(value, int) and -1 <= value <= (1 if self.outer.issuperset(moving) else NEAR):
            return value
        key = value, tuple(moving)
        if key not in self.steps:
            self.steps[key] = self.slot(value)
        return self.steps[key]

    def integer(self, e):
        """An integer with its constants as slots."""
        if not isinstance(e, Expr):
            return self.static(e)
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = self._integer(e)
        return found

    def _integer(self, e: Expr):
        if e.operations.isdisjoint(READING) and all(leaf.op == "size" for leaf in e.free):
            return self.static(expr.plain(e))
        if e.op in ("sum", "product"):
            return self._sum(e)
        if e.op in LEAVES:
            return e
        if e.op in ("//", "%") and e.args[1].op == "const" and e.args[1].arg <= SMALL:
            return expr.rebuild(e, [self.any(e.args[0]), e.args[1]])  # a shift, or a window's stride
        args = [self.any(a) for a in e.args]
        return expr.rebuild(e, args)

    def _sum(self, e: Expr):
        parts, fixed = terms(e)
        out = 0
        for monomial, coefficient in parts.items():
            known, moving = coefficient, []
            for atom in expr.factors(monomial):
                if atom.op == "size":
                    known = multiply(known, atom)
                else:
                    moving.append(atom)
            if not moving:
                fixed = add(fixed, known)
                continue
            term = self.step(known, moving)
            for atom in moving:
                term = multiply(term, self.integer(atom))
            out = add(out, term)
        return add(out, self.static(fixed))

    def any(self, e):
        """An Expr of either sort with its integer constants as slots."""
        if not isinstance(e, Expr) or e.dtype is None:
            return self.integer(e)
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = expr.rebuild(e, [self.any(a) for a in e.args]) if e.args else e
        return found


def scalar_inputs(kernel: Kernel) -> list:
    """The run-time scalars a kernel uses, in order of first appearance."""
    found = {}
    for stage in kernel.stages:
        for e in stage.exprs():
            for s in walk(e, "scalar"):
                found.setdefault(s)
    return list(found)


def parametrise(kernel: Kernel) -> tuple[Kernel, list, list, list]:
    """The kernel with canonical names and all numbers as slots: (kernel, values of the slots, its buffers, its scalars:
    names of inputs, or numbers)."""
    buffers = kernel.buffers()
    renamed = {b: Buffer(f"b{k}.{b.dtype.name}", b.dtype) for k, b in enumerate(buffers)}
    slots, count, axes = Parameters(), 0, {}
    loops = [*kernel.outer] + [i for i in (kernel.lane, kernel.across) if i is not None] + [i for s in kernel.stages
                                                                                            for i in s.loops]
    for i in loops:
        if i not in axes:
            extent = extent_of(i)
            extent = slots.integer(expr.substitute(extent, axes)) if isinstance(extent, Expr) else slots.slot(extent)
            axes[i] = index(f"i{count}", extent)
            count += 1
    slots.outer = frozenset(axes[i] for i in kernel.outer)
    scalars = scalar_inputs(kernel)
    memo = axes | {s: Expr("scalar", (), f"s{k}.{s.dtype.name}", s.dtype) for k, s in enumerate(scalars)}
    numbers = uncommon_numbers(kernel)
    for k, n in enumerate(numbers, len(scalars)):
        memo[n] = expr.convert(Expr("scalar", (), f"s{k}.float64", float64), n.dtype)

    def rename(e):
        return expr.const(slots.any(swap_buffers(expr.substitute(e, axes, memo), renamed, swapped)))

    swapped: dict = {}
    stages = [KernelStage(tuple(axes[i] for i in s.loops),
                    [r.mapped(rename) for r in s.reductions],
                    [StoreTo(renamed[t.buffer], rename(t.at), rename(t.value), t.combine) for t in s.stores])
              for s in kernel.stages]
    lane = axes[kernel.lane] if kernel.lane is not None else None
    across = axes[kernel.across] if kernel.across is not None else None
    made = Kernel(tuple(axes[i] for i in kernel.outer), lane, stages, kernel.serial, kernel.flag, across, kernel.atomic)
    return made, slots.values, buffers, [s.arg for s in scalars + numbers]


def uncommon_numbers(kernel: Kernel) -> list:
    """Floats that may come from sizes (1/768) rather than from a formula (0.5): they become slots too, so that a new
    size finds its machine code made already."""
    found = {}
    for stage in kernel.stages:
        for e in stage.exprs():
            for n in walk(e, "number"):
                if n.dtype.is_floating_point and math.isfinite(n.arg) and (abs(n.arg) > 16 or n.arg * 4 % 1):
                    found.setdefault(n)
    return list(found)


def swap_buffers(e, renamed, memo):
    """``e`` reading from other buffers."""
    if not isinstance(e, Expr) or not e.args:
        return e
    found = memo.get(e)
    if found is None:
        args = [swap_buffers(a, renamed, memo) for a in e.args]
        found = expr.load(renamed[e.arg], expr.plain(args[0]), e.dtype,
                          *args[1:]) if e.op == "load" else expr.rebuild(e, args)
        memo[e] = found
    return found
