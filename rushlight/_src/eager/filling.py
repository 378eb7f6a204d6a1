"""Make plans for further sizes of a polymorphic plan with one generated Python function.

``Draft.settle`` substitutes numbers by walking an entire Draft.  The second time that a polymorphic plan serves a call,
the same arithmetic is generated as straight-line Python over the symbols' values: tests, Metas, the encoded program.
Temporaries get disjoint memory there, so programs with several launches and many bytes of temporaries still use
``settle``, as do NumPy calls and programs of other devices.
"""
from __future__ import annotations

import ctypes
import dataclasses
import operator

from ..compiler.items import Generated, Templated
from ..compiler.launch import CONSTANT, Launch
from ..compiler.memory import ALIGNMENT
from ..compiler.outline import LONG
from ..compiler.places import FLAG, Temporary
from ..compiler.target import processor
from ..core.expr import Expr
from ..core.expr_text import Printer
from ..core.meta import PLAIN, Meta, Size
from ..core.native import Plan
from ..core.native.allocator import SMALL
from ..core.tensor import check_size

# what Python computes from sizes
SPELLED = frozenset(("size", "const", "number", "sum", "product", "//", "%", "max", "min", "<", "==", "logical_and",
                     "logical_or", "logical_not"))
MOST_WORDS = 4000  # of a program that is generated


class Unfillable(Exception):
    """A plan that only ``Draft.settle`` can make."""


class Filled:
    """An encoded program, with the objects that its kernels keep alive.  Runs like ``devices.cpu.code.Code``."""

    __slots__ = ("block", "keep")

    def __init__(self, block, keep):
        self.block, self.keep = block, keep


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def templated(plan, problem, more, places: dict, arena: int, at: int):
    """Return (number of launches, their words, the end of the arena, the owners of their kernels and tables) of a
    template; ``places``: its operands, (value, offset) each."""
    made = plan(problem, *more)
    for name, size in made.temporaries.items():
        places[name] = arena, at
        at += aligned(size)

    def place(name, offset):
        value, start = places[name]
        return value, start + offset

    launches = [step.launch(place) for step in made.steps]
    processor().settle()
    return (len(launches), [word for launch in launches for word in launch.words], at,
            (made.keep, [launch.kernel for launch in launches]))


class Writer:
    """Source of a function from the numbers of a call to a plan: ``lines``, and the ``names`` it uses."""

    def __init__(self, symbols: dict, tests: str):
        self.printer, self.lines, self.names, self.memo = Printer(symbols), [], {}, {}
        self.names.update(Plan=Plan, Meta=Meta, Size=Size, logical_not=operator.not_, check_size=check_size,
                          addressof=ctypes.addressof, c_int64=ctypes.c_int64, Filled=Filled,
                          templated=templated, aligned=aligned)
        self.lines.append(f"if not ({tests}): return None")

    def constant(self, value) -> str:
        """Return a name for an object."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def line(self, text: str, prefix="v") -> str:
        """Return a name for the value of an expression."""
        name = f"{prefix}{len(self.lines)}_"
        self.lines.append(f"{name} = {text}")
        return name

    def number(self, value) -> str:
        """Return the source of an int or Expr."""
        if type(value) is not Expr:
            return repr(int(value))
        if not value.operations <= SPELLED:
            raise Unfillable(f"{value} is not size arithmetic")
        return f"({self.printer.text(value)})"

    def spell(self, value) -> str:
        """Return the source of any value, as ``settled`` would make it."""
        kind = type(value)
        if kind is Expr:
            return self.number(value)
        if kind in PLAIN and kind is not float:
            return repr(value)
        if kind in (tuple, list, Size, dict) or dataclasses.is_dataclass(value) or kind is Meta:
            if id(value) not in self.memo:
                self.memo[id(value)] = self.compound(kind, value), value  # ids are those of live values
            return self.memo[id(value)][0]
        return self.constant(value)

    def compound(self, kind, value) -> str:
        if not has_symbols(value):
            return self.constant(value)
        if kind is Meta:
            return self.line(
                f"Meta({self.display(value.shape)}, {self.display(value.strides)}, {self.constant(value.dtype)}, "
                f"{self.constant(value.device)}, {value.turned})")
        if kind is dict:
            return "{" + ", ".join(f"{k!r}: {self.spell(v)}" for k, v in value.items()) + "}"
        if dataclasses.is_dataclass(value):
            given = ", ".join(f"{f.name}={self.spell(getattr(value, f.name))}" for f in dataclasses.fields(value)
                              if f.init)
            return f"{self.constant(type(value))}({given})"
        return (f"[{', '.join(map(self.spell, value))}]" if kind is list else f"Size({self.display(value)})"
                if kind is Size else self.display(value))

    def display(self, values) -> str:
        return f"({''.join(f'{self.spell(v)}, ' for v in values)})"

    # --- a plan -------------------------------------------------------------------------------------------------------
    def plan(self, draft, symbols):
        """Generate the plan of a Draft."""
        if draft.around is not None:
            raise Unfillable("it runs another plan")
        fields = {name: value for name, value in vars(draft).items() if name not in draft.OWN}
        program = self.program(draft.outline) if draft.outline is not None else {}
        self.lines.append("plan = Plan()")
        self.lines.append("plan.op = op")
        empty = dict.fromkeys(("outputs", "sizes", "itemsizes", "temporaries", "inside", "reused", "wanted",
                               "cotangents", "saves", "lent", "constants", "passed", "views", "written"), "()")
        if draft.derived is not None:
            derived, donating = draft.open_backward(tuple(symbols))
            program |= {"derived": self.constant(derived), "donating": self.constant(donating),
                        "constants": self.display(symbols)}
        for name, text in {**empty, **{name: self.spell(value) for name, value in fields.items()}, **program}.items():
            self.lines.append(f"plan.{name} = {text}")

    def program(self, outline) -> dict:
        """Return the plan fields of a program."""
        if outline.target is not processor():
            raise Unfillable("it is encoded for a device's hot path")
        if outline.held:
            raise Unfillable("parts of it ran when it was made")
        writing = ProgramWriter(self, outline)
        for item in outline.items:
            if type(item) not in (Generated, Templated):
                raise Unfillable("a NumPy call")
            (writing.generated if type(item) is Generated else writing.templated)(item)
        outputs = [self.spell(meta) for meta in outline.outputs]
        for name, meta in zip(outputs, outline.outputs):
            if has_symbols(meta):
                self.lines.append(f"check_size({name})")
        arena = writing.finish()
        block = self.line("(c_int64 * len(words))(*words)" if writing.varying
                          else f"{self.constant(ctypes.c_int64 * writing.count)}({writing.text()})")
        work = " or ".join(f"{self.number(w)} > {LONG}" for w in outline.work) or "False"
        large = calls_more_than_room(len(outputs) + bool(arena))
        return {"outputs": f"({''.join(f'{o}, ' for o in outputs)})",
                "sizes": f"({''.join(f'{o}.nbytes, ' for o in outputs)})",
                "itemsizes": repr(tuple(m.itemsize for m in outline.outputs)), "temporaries": f"({arena}, )" if arena
                else "()",
                "code": f"addressof({block})",
                "code_owner": f"Filled({block}, ({self.constant(outline)}, {'kept' if writing.varying else 'None'}))",
                "long": f"int({work})", "large": repr(int(large))}

    def function(self, name: str):
        """Return the function (op, numbers) -> plan, or None."""
        source = (f"def fill(op, v):\n    {chr(10).join(self.lines).replace(chr(10), chr(10) + '    ')}\n    return "
                  "plan\n")
        exec(compile(source, f"<sizes of {name}>", "exec"), self.names)
        return self.names["fill"]


class ProgramWriter:
    """An encoded program under construction: as source if its length is known, else as statements that extend a list
    (``varying``)."""

    def __init__(self, writer: Writer, outline):
        self.writer, self.outline = writer, outline
        self.varying = any(type(item) is Templated for item in outline.items)
        self.words, self.steps, self.temporaries, self.count = [], 0, {}, 1
        self.arena = len(outline.given) + len(outline.outputs)
        self.in_arena = self.varying or any(item.program.temporaries for item in outline.items
                                            if type(item) is Generated) or any(
            isinstance(value, Temporary) for item in outline.items for value, _ in item.places())
        after = self.arena + self.in_arena
        self.numbers = {node: after + k for k, node in enumerate(outline.stream)}
        self.numbers[FLAG] = after + len(outline.stream)
        writer.lines.append("at = 0")
        if self.varying:
            writer.lines += ["words, count, kept = [0], 0, []"]

    def place(self, value, offset) -> tuple:
        """Return (value, offset) as strings; the offset of a temporary is that in the arena."""
        if not isinstance(value, Temporary):
            return str(self.numbers.get(value, value)), self.writer.number(offset)
        if value not in self.temporaries:
            self.temporaries[value] = self.writer.line("at", "t")
            self.writer.lines.append(f"at += aligned(max({self.writer.number(value.nbytes)}, {ALIGNMENT}))")
        start = self.temporaries[value]
        return str(self.arena), start if type(
            offset) is int and not offset else f"{start} + {self.writer.number(offset)}"

    def generated(self, item: Generated):
        """Add the launches of generated kernels."""
        program, number = item.program, self.writer.number
        sizes = [Temporary(t.size * t.buffer.dtype.itemsize) for t in program.temporaries]
        values = [*item.values, *((one, 0) for one in sizes), (FLAG, 0)]
        for step in program.steps:
            extents = ", ".join("None" if e is None else number(e) for e in step.extents())
            geometry = self.writer.line(f"{self.writer.constant(step.geometry)}({extents})", "g")
            slots = step.slots(program.number_of, 2, 3)
            geometric = len(slots) - bool(step.kernel.flag) - 2 if step.lane_size is not None else len(slots)
            texts = []
            for k, (source, constant) in enumerate(slots):
                if source == CONSTANT:
                    texts.append((str(CONSTANT), f"{geometry}[{constant}]" if geometric <= k < geometric + 2
                                  else number(constant)))
                else:
                    texts.append(self.place(*values[source]))
            self.add(Launch(self.writer.constant(step.address), f"{geometry}[0]", f"{geometry}[1]", tuple(texts)))

    def add(self, launch: Launch):
        """Add one launch."""
        words = list(map(str, launch.words))
        self.steps, self.count = self.steps + 1, self.count + len(words)
        if self.count > MOST_WORDS:
            raise Unfillable("a program of many words")
        if self.varying:
            self.writer.lines += [f"words += {', '.join(words)}", "count += 1"]
        else:
            self.words += words

    def templated(self, item: Templated):
        """Add the kernel calls of a template."""
        writer = self.writer
        places = ", ".join(f"{name!r}: ({', '.join(self.place(place.value, place.offset))})"
                           for name, place in item.operands.items())
        more = writer.constant(item.more) if not has_symbols(item.more) else writer.spell(tuple(item.more))
        made = writer.line(
            f"templated({writer.constant(item.plan)}, {writer.spell(item.problem)}, {more}, {{{places}}}, "
            f"{self.arena}, at)")
        writer.lines += [f"count += {made}[0]", f"words += {made}[1]", f"at = {made}[2]", f"kept.append({made}[3])"]

    def text(self) -> str:
        return ", ".join([str(self.steps), *self.words])

    def finish(self) -> str:
        """Return the arena's size; empty if there is none."""
        if self.varying:
            self.writer.lines.append("words[0] = count")
        if self.in_arena:
            if len(self.outline.items) > 1:
                self.writer.lines.append(f"if at > {SMALL}: return None")
            return self.writer.line(f"max(at, {ALIGNMENT})")
        return ""


def calls_more_than_room(more: int) -> bool:
    from ..core.native import calls
    return calls.MOST + more + 4 > calls.ROOM


def has_symbols(value) -> bool:
    """True if a value contains symbolic sizes, however deep."""
    kind = type(value)
    if kind is Expr:
        return True
    if kind is Meta:
        return has_symbols(tuple(value.shape)) or has_symbols(value.strides)
    if kind in (tuple, list, Size):
        return any(map(has_symbols, value))
    if kind is dict:
        return any(map(has_symbols, value.values()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(has_symbols(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init)
    return False


def filler(draft, symbols: dict, tests: str):
    """Return the function (op, numbers of a call) -> plan of a polymorphic plan; it returns None for sizes that need
    ``Draft.settle``.  ``symbols``: the source of each.  Unfillable for plans that are not just size arithmetic."""
    writer = Writer(symbols, tests)
    writer.plan(draft, symbols)
    return writer.function(draft.op.name)
