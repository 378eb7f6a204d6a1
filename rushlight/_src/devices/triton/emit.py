"""Kernel -> Triton: a Python function that needs only pointers and numbers as arguments.

A program of the grid processes one block at a time: work units, each of which runs its loops in order ("thread");
elements of the loops of one outer index, whose reductions are combined ("group") or whose prefix results are stored
("scan").  For "order", one program runs everything.

Arguments: a pointer to each buffer, to each table of constants, and to the error flag if there is one; the number of
units; scalars as int64 or as the bits of float64; parameters.
"""

from __future__ import annotations

import re

from ...compiler.kernel import Kernel, KernelStage, scalar_inputs
from ...core.expr import Expr, const, extent_of
from ..shared.writer import Refused, Writer, form
from .functions import called_in
from .scalars import FLOATS, MEMORY, OPERATIONS, TYPES, Operation, convert, literal, typed

ALL = "(zero == 0)"  # the mask of what no mask leaves out
WORD = re.compile(r"\b[a-z]\w*")
NAME = re.compile(r"[a-z]\w*")
SYMBOLS = {"add": "+", "mul": "*", "and": "&", "or": "|"}
MEETING = {"add": "added", "mul": "multiplied", "and": "both", "or": "either", "max": "greater", "min": "lesser"}
# of these one operand may be a literal, which takes the other's type
BESIDE = frozenset("add sub mul eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor left_shift right_shift".split())


class Emitter(Writer):
    """Emit the source of one parametrized kernel; ``tables`` are the constants that it reads from memory."""

    shape = "[BLOCK]"
    over, both, larger, floored = "//", "&", "tl.{}imum", "{}_whole"
    atomic = False  # whether other programs may update the same memory at the same time

    def __init__(self, kernel: Kernel, count: int, shape=""):
        super().__init__()
        self.kernel, self.form, self.buffers, self.tables = kernel, shape or form(kernel), kernel.buffers(), {}
        self.atomic = kernel.atomic
        self.written = {s.buffer for stage in kernel.stages for s in stage.stores}
        self.wide = {"lane", "zeros"}
        for k, buffer in enumerate(self.buffers):
            if buffer.dtype.name not in TYPES:
                raise Refused(f"numbers of {buffer.dtype}")
            self.names[buffer] = f"b{k}"
        self.numbers = sorted(scalar_inputs(kernel), key=lambda s: int(s.arg[1:].split(".")[0]))
        self.count = count
        self.barriers = any(map(self.reads_written, kernel.stages))

    def leaves(self):
        """Define the values that depend on the arguments only."""
        self.line("zero = units * 0")
        self.line("lane = tl.arange(0, BLOCK)")
        self.line("zeros = lane * 0")
        scope = self.scopes[0]
        for k, s in enumerate(self.numbers):
            bits = f"s{k}.to(tl.int64)"
            if s.dtype.is_floating_point:
                bits = f"{bits}.to(tl.float64, bitcast=True)"
            scope.values[s] = self.let(f"({bits} != 0)" if s.dtype.name == "bool"
                                       else f"{bits}.to({self.type(s.dtype)})")
        for k in range(self.count):
            leaf = Expr("slot", (), (f"p{k}",))
            scope.values[leaf] = f"p{k}"
            scope.leaves.add(leaf)

    # --- lines --------------------------------------------------
    def let_line(self, name: str, text: str) -> str:
        if self.is_wide(text):
            self.wide.add(name)
        return f"{name} = {text}"

    def enclosed(self, head: str, lines: list) -> list:
        return [f"{head}:", *(f"    {line}" for line in lines or ["pass"])] if head else list(lines)

    def is_wide(self, text: str) -> bool:
        """Whether a text is a block rather than one number."""
        return any(name in self.wide for name in WORD.findall(text))

    def one(self, text: str) -> str:
        """Names one number that is made of a block."""
        name = self.let(text)
        self.wide.discard(name)
        return name

    def widened(self, text: str, kind: str) -> str:
        """A value as a block."""
        return text if self.is_wide(text) else f"tl.full({self.shape}, {text}, {kind})"

    def type(self, dtype) -> str:
        kind = TYPES.get(dtype.name)
        if kind is None:
            raise Refused(f"numbers of {dtype}")
        return kind

    def literal(self, number, dtype) -> str:
        return literal(number, self.type(dtype))

    def whole_literal(self, number) -> str:
        return literal(number, "tl.int32")

    def opaque(self, text: str, dtype) -> str:
        return self.tensor(text, self.type(dtype))

    def tensor(self, text: str, kind: str) -> str:
        """A literal with its type; what has one as it is."""
        return text if NAME.fullmatch(text) and text not in ("True", "False") else (
            text if text.startswith("tl.full") or ".to(" in text else typed(text, kind))

    # --- the kernel --------------------------------------------------
    def text(self, name: str) -> str:
        """The module of the kernel, a function of this name."""
        kernel = self.kernel
        axes = [*kernel.outer] + [a for a in (kernel.lane,) if a is not None]
        self.leaves()
        if self.form == "order":
            at = self.name()
            self.block(f"for {at} in range(0, units)", lambda: self.unit(axes, self.let(f"{at} + zero")))
        else:
            at = self.let("tl.program_id(0).to(units.dtype)" + (" * BLOCK + lane" if self.form == "thread" else ""))
            if self.form == "thread":
                self.scopes[0].mask = self.let(f"{at} < units")
            self.unit(axes, at)
        return self.whole(name)

    def arguments(self) -> list:
        """The names of the arguments, constants aside."""
        return [*(self.names[b] for b in self.buffers), *self.tables.values(), *(["flag"] if self.kernel.flag else []),
                "units", *(f"s{k}" for k in range(len(self.numbers))), *(f"p{k}" for k in range(self.count))]

    constants = ("BLOCK",)

    def whole(self, name: str) -> str:
        body = "\n".join(f"    {line}" for line in self.scopes[0].lines)
        given = ", ".join([*self.arguments(), *(f"{c}: tl.constexpr" for c in self.constants)])
        main = f"@triton.jit\ndef {name}({given}):\n{body}\n"
        return "\n".join(["import triton", "import triton.language as tl", "\n", called_in(main), main])

    def unit(self, axes, rest: str):
        """One index of all outer axes, or a block of such."""
        self.taken_apart(rest, axes, self.extent)
        for stage in self.kernel.stages:
            self.stage(stage)

    def stage(self, stage: KernelStage):
        if self.form == "scan":
            self.scan(stage)
            return
        shared = self.form == "group" and stage.loops
        names = [self.accumulators(r, shared) for r in stage.reductions]
        if shared:
            self.shared(stage, names)
        elif stage.loops:
            self.in_order(stage, stage.loops, names, "")
        else:
            self.body(stage, names, "")
        for r, own in zip(stage.reductions, names):
            found = self.folded(r, own) if shared else own
            self.scopes[-1].leaves.add(r.result)
            made = (self.converted(found[-1], r.value.dtype, r.result.dtype) if r.at is None
                    else f"{found[-1]}.to({self.type(r.result.dtype)})")
            self.scopes[-1].values[r.result] = self.let(made)

    def scan(self, stage):
        """A scan of one row, block by block: each continues from the total of the blocks before it."""
        (axis,), carried = stage.loops, [self.accumulators(r, False)[0] for r in stage.reductions]
        start, end = self.name(), self.extent(stage.loops[0])

        def inside():
            at, scope = self.let(f"{start} + lane"), self.scopes[-1]
            guard = scope.mask = self.let(f"{at} < {end}")
            scope.leaves.add(axis)
            scope.values[axis] = at
            for r, before in zip(stage.reductions, carried):
                kind, meeting = self.type(r.value.dtype), MEETING[r.combine]
                new = self.widened(self.tensor(self.value(r.value), kind), kind)
                new = self.let(f"tl.where({guard}, {new}, tl.full([], {self.identity(r, kind)[0]}, {kind}))")
                found = self.let(f"tl.associative_scan({new}, 0, {meeting})")
                found = self.let(self.update(r.combine, kind, before, found))
                whole = self.one(f"tl.reduce({new}, 0, {meeting})")
                self.line(f"{before} = {self.update(r.combine, kind, before, whole)}")
                scope.leaves.add(r.result)
                scope.values[r.result] = self.let(self.converted(found, r.value.dtype, r.result.dtype))
            self.stores(stage)

        self.block(f"for {start} in range(0, {end}, BLOCK)", inside)

    def in_order(self, stage, loops, names, guard):
        """Nested loops, one index at a time; ``guard``: the source of the mask of a block's active elements."""
        if not loops:
            self.body(stage, names, guard)
            return
        axis = loops[0]
        at, end = self.name(), self.extent(axis)
        ragged = self.is_wide(end)

        def inside():
            scope, own = self.scopes[-1], guard
            scope.leaves.add(axis)
            scope.values[axis] = self.let(f"{at} + zero")
            if ragged:  # each of the block has its own end
                own = scope.mask = self.let(f"({at} < {end})" + (f" & {scope.mask}" if scope.mask else ""))
            self.in_order(stage, loops[1:], names, own)

        self.block(f"for {at} in range(0, {f'tl.max({end})' if ragged else end})", inside)

    def shared(self, stage, names):
        """The loops of a stage, a block at a time: all as one, if no extent depends on another's index."""
        loops = stage.loops
        if any(isinstance(extent_of(a), Expr) and extent_of(a).free & set(loops) for a in loops):
            self.nested(stage, loops, names)
            return
        ends = {a: self.extent(a) for a in loops}
        total = ends[loops[0]] if len(ends) == 1 else self.let(" * ".join(ends.values()))
        self.blocks(stage, names, total, loops, ends)

    def blocks(self, stage, names, total, loops, ends):
        """Loop over blocks of the flattened ``loops``, which have ``total`` elements."""
        start = self.name()

        def inside():
            at, scope = self.let(f"{start} + lane"), self.scopes[-1]
            guard = scope.mask = self.let(f"{at} < {total}")
            self.taken_apart(at, loops, ends.get)
            self.body(stage, names, guard)

        self.block(f"for {start} in range(0, {total}, BLOCK)", inside)

    def nested(self, stage, loops, names):
        """The last loop by blocks, those around it in order."""
        axis, end = loops[0], self.extent(loops[0])
        if len(loops) == 1:
            self.blocks(stage, names, end, loops, {axis: end})
            return
        at = self.name()

        def inside():
            self.scopes[-1].leaves.add(axis)
            self.scopes[-1].values[axis] = self.let(f"{at} + zero")
            self.nested(stage, loops[1:], names)

        self.block(f"for {at} in range(0, {end})", inside)

    # --- reductions and stores --------------------------------------------------
    def accumulators(self, r, shared) -> list:
        """Declare the accumulators of a reduction and return their names."""
        shape = self.shape if shared or self.form == "thread" else "[]"
        kinds = [self.type(r.value.dtype)] + (["tl.int64"] if r.at is not None else [])
        found = []
        for value, kind in zip(self.identity(r, kinds[0]), kinds):
            found.append(self.let(f"tl.full({shape}, {value}, {kind})"))
            if shape != "[]":
                self.wide.add(found[-1])
        return found

    def identity(self, r, kind) -> list:
        if r.combine in ("argmax", "argmin", "max", "min"):
            least = self.extreme(kind, r.value.dtype, r.combine.endswith("min"))
            return [least] + ([str((1 << 63) - 1)] if r.combine.startswith("arg") else [])
        if r.combine in ("and", "or"):
            whole = -1 if r.value.dtype.is_signed else (1 << 8 * r.value.dtype.itemsize) - 1
            return [literal((kind == "tl.int1" or whole) if r.combine == "and" else 0, kind)]
        return [literal(r.combine == "mul", kind)]

    def extreme(self, kind, dtype, largest) -> str:
        if kind == "tl.int1":
            return literal(largest, kind)
        if kind in FLOATS:
            return literal(float("inf") if largest else float("-inf"), kind)
        bits = 8 * dtype.itemsize
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)
        return literal(high if largest else low, kind)

    def combine(self, r, old, new) -> list:
        """Combine two states of a reduction, each a list of names of values; return the result's names."""
        if r.at is not None:
            function = "first_greatest" if r.combine == "argmax" else "first_least"
            name = self.name(), self.name()
            x, y = old[0], new[0]
            if r.value.dtype.name == "bool":
                x, y = f"{x}.to(tl.int8)", f"{y}.to(tl.int8)"
            self.line(f"{', '.join(name)} = {function}({x}, {old[1]}, {y}, {new[1]})")
            self.wide.update(name if self.is_wide(f"{old} {new}") else ())
            if r.value.dtype.name == "bool":
                return [self.let(f"({name[0]} != 0)"), name[1]]
            return list(name)
        return [self.let(self.update(r.combine, self.type(r.value.dtype), old[0], new[0]))]

    def update(self, combine, kind, x, y) -> str:
        if kind == "tl.int1":
            return f"({x} {'|' if combine in ('add', 'max', 'or') else '&'} {y})"
        if combine in ("max", "min"):
            return f"{MEETING[combine]}({x}, {y})"
        return f"({x} {SYMBOLS[combine]} {y})"

    def body(self, stage, names, guard):
        """One step of every reduction and store."""
        for r, own in zip(stage.reductions, names):
            kinds = [self.type(r.value.dtype), "tl.int64"]
            new = [self.tensor(self.value(r.value), kinds[0])]
            if r.at is not None:
                new.append(self.let(f"{self.tensor(self.value(r.at), 'tl.int64')}.to(tl.int64)"))
            if self.is_wide(own[0]):
                new = [self.widened(one, kind) for one, kind in zip(new, kinds)]
            made = self.combine(r, own, [one if NAME.fullmatch(one) else self.let(one) for one in new])
            for name, value in zip(own, made):
                self.line(f"{name} = tl.where({guard}, {value}, {name})" if guard else f"{name} = {value}")
            if r.running:
                self.scopes[-1].leaves.add(r.result)
                self.scopes[-1].values[r.result] = self.let(self.converted(own[0], r.value.dtype, r.result.dtype))
        self.stores(stage)

    def stores(self, stage):
        values = [(self.value(const(s.at)), self.value(s.value)) for s in stage.stores]
        for s, (at, value) in zip(stage.stores, values):
            self.store(s, at, value)

    def store(self, s, at, value):
        dtype, mask = s.buffer.dtype, self.scopes[-1].mask
        if self.atomic:  # each number of the block, wherever its place is
            value, kind = self.tensor(value, self.type(dtype)), MEMORY[dtype.name]
            value = value if kind == self.type(dtype) else f"{value}.to({kind})"
            entry, order = (f"atomic_{s.combine}", ", sem='relaxed'") if s.combine else ("store", "")
            self.line(f"tl.{entry}({self.names[s.buffer]} + {at} + zeros, {value}, mask={mask}{order})")
            return
        if s.combine:
            old = self.let(self.from_memory(s.buffer, at, mask))
            value = self.let(self.update(s.combine, self.type(dtype), old, value))
        value, kind = self.tensor(value, self.type(dtype)), MEMORY[dtype.name]
        self.put(self.names[s.buffer], at, value if kind == self.type(dtype) else f"{value}.to({kind})", mask)
        if self.barriers:
            self.line("tl.debug_barrier()")  # what is read next may have been written by another thread

    def put(self, pointer, at, value, mask):
        """A store, by one of the block where the place is one."""
        if self.is_wide(at):
            self.line(f"tl.store({pointer} + {at}, {value}{f', mask={mask}' if mask else ''})")
        elif self.is_wide(value):  # all that the block has is the same
            inside = f"(lane == 0){f' & {mask}' if mask else ''}"
            self.line(f"tl.store({pointer} + {at} + zeros, {value}, mask={inside})")
        else:
            self.line(f"tl.store({pointer} + {at}, {value})")

    def folded(self, r, own) -> list:
        """The parts of a block combined."""
        if r.at is not None:
            function = "first_greatest" if r.combine == "argmax" else "first_least"
            names = self.name(), self.name()
            value = f"{own[0]}.to(tl.int8)" if r.value.dtype.name == "bool" else own[0]
            self.line(f"{', '.join(names)} = tl.reduce(({value}, {own[1]}), 0, {function})")
            return list(names)
        if r.value.dtype.name == "bool":
            any_of = r.combine in ("add", "max", "or")
            return [self.one(f"some({own[0]})" if any_of else f"(some(~{own[0]}) == False)")]
        return [self.one(f"tl.reduce({own[0]}, 0, {MEETING[r.combine]})")]

    # --- expressions --------------------------------------------------
    def opaque_whole(self, text: str) -> str:
        return self.tensor(text, "tl.int32")

    def position(self, e, x) -> str:
        """A place, which is looked at: the error flag says where it is none."""
        at = f"{self.tensor(x[0], 'tl.int64')}.to(tl.int64)"
        return f"place({at}, {x[1]}, {self.asked(x[0])}, flag)"

    def divisor(self, e, x) -> str:
        """A divisor, which is looked at."""
        return f"divisor({self.tensor(x[0], self.type(e.dtype))}, {self.asked(x[0])}, flag)"

    def counted(self, e, x) -> str:
        """A position as a number."""
        at = self.tensor(x[0], "tl.int64")
        return f"({at} != 0)" if e.dtype.name == "bool" else f"{at}.to({self.type(e.dtype)})"

    def drawn(self, e, x) -> str:
        """A random number."""
        return f"philox({', '.join(self.tensor(one, 'tl.int64') for one in x)})"

    def changed(self, e, x) -> str:
        """A number of another dtype."""
        return self.converted(self.tensor(x[0], self.type(e.args[0].dtype)), e.args[0].dtype, e.dtype)

    def asked(self, x: str) -> str:
        """The mask of what a check looks at: one number is there if any of the block is."""
        return self.place.mask if self.place.mask and self.is_wide(x) else ALL

    def operation(self, e, x) -> str:
        kinds = [self.type(a.dtype) for a in e.args]
        if e.op == "where":
            x[:2] = [self.tensor(x[0], kinds[0]), x[1] if NAME.fullmatch(x[2]) else self.tensor(x[1], kinds[1])]
        elif e.op not in BESIDE or kinds[0] == "tl.int1":
            x = [self.tensor(one, kind) for one, kind in zip(x, kinds)]
        if e.op in ("fmod", "remainder", "floor_divide") and kinds[0] in FLOATS:  # loops that blocks leave together
            x = [self.widened(one, kind) for one, kind in zip(x, kinds)]
        return self.written_as(Operation(e, x, kinds[-1], self.type(e.dtype)), OPERATIONS)

    def converted(self, x, source, target) -> str:
        self.type(source), self.type(target)
        return convert(x, source, target)

    def table(self, e, x) -> str:
        """Load an element of a table of constants."""
        key = e.arg, e.dtype.name
        pointer = self.tables.setdefault(key, f"t{len(self.tables)}")
        return f"tl.load({pointer} + {self.tensor(x[0], 'tl.int32')})"

    def from_memory(self, buffer, at, mask) -> str:
        """An element; ``mask``: where there is one, else it is 0."""
        if self.is_wide(mask) and not self.is_wide(at):
            at = f"{at} + zeros"
        read = f"tl.load({self.names[buffer]} + {at}{f', mask={mask}, other=0' if mask else ''})"
        if buffer.dtype.name == "bool":
            return f"({read} != 0)"
        return f"{read}.to(tl.float32)" if buffer.dtype.is_half else read

    def load(self, e, x) -> str:
        mask = self.place.mask if self.is_wide(x[0]) else ""  # one number is there if any of the block is
        if len(x) > 1:
            mask = self.tensor(x[1], "tl.int1") if not mask else f"{mask} & {x[1]}"
        return self.from_memory(e.arg, x[0], mask)

    def rarely(self, e) -> str:
        """A ``where`` that evaluates its rare operand only if some element of the block needs it."""
        kind = self.type(e.dtype)
        condition, usual = self.value(e.args[0]), self.tensor(self.value(e.args[2]), kind)
        name, mask = self.name(), self.scopes[-1].mask
        self.wide.add(name)
        self.line(f"{name} = {self.widened(usual, kind)}")
        wanted = self.let(self.widened(condition + (f" & {mask}" if mask else ""), "tl.int1"))
        self.block(f"if some({wanted})",
                   lambda: self.line(f"{name} = tl.where({wanted}, {self.value(e.args[1])}, {name})"), branch=True)
        self.scopes[-1].values[e] = name
        return name

    def repeat(self, e) -> str:
        """A loop within one value, which ends when no number of the block goes on."""
        (at, state, count), kind = e.arg, self.type(e.dtype)
        name, k, going = self.name(), self.name(), self.name()
        self.wide |= {name, going}
        self.line(f"{name} = {self.widened(self.tensor(self.value(e.args[0]), kind), kind)}")
        mask = self.scopes[-1].mask
        self.line(f"{going} = {mask if self.is_wide(mask) else 'zeros == 0'}")
        self.line(f"{k} = zero")

        def inside():
            counted = self.let(f"{k}.to({kind})")
            scope = self.scopes[-1]
            scope.leaves |= {at, state}
            scope.values |= {at: counted, state: self.let(f"{name}")}
            self.line(f"{going} = {going} & {self.value(e.args[2])}")
            self.line(f"{name} = tl.where({going}, {self.value(e.args[1])}, {name})")
            self.line(f"{k} = {k} + 1")

        self.block(f"while ({k} < {count}) & some({going})", inside, branch=True)
        self.scopes[-1].values[e] = name
        return name


def emit(kernel: Kernel, count: int, name: str) -> tuple:
    """(the text, the tables it reads) of a parametrised kernel with ``count`` parameters.

    Refused where a type or an operation is missing.
    """
    emitter = Emitter(kernel, count)
    text = emitter.text(name)
    return text, tuple(emitter.tables)
