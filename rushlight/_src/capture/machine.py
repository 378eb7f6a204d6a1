"""The bytecode interpreter: executes instructions on Values, records tensor operations, and guards assumptions."""
from __future__ import annotations

from ...nn.modules.module import Module
from ..core.dtypes import Defaults
from ..core.native import Tensor, mine
from . import marks, polyfills
from .absence import Absence
from .arithmetic import Arithmetic
from .arrays import Arrays
from .attributes import Attributes
from .breaks import Breaks
from .building import Building
from .builtin_calls import Builtins
from .callables import Callables
from .calls import Calls
from .classes import Classes, plain_code
from .construction import Construction
from .containers import Containers
from .control import Control
from .conversions import Conversions
from .errors import Again, Break, GraphBreak, Raised
from .framework import Framework
from .generators import Generators
from .guarding import Guarding
from .hooks import Hooks
from .instructions import Instructions
from .iterators import Iterators
from .jumps import Jumps
from .lists import Lists
from .mappings import Mappings
from .output import Output
from .outside import Outside
from .parts import INSTRUCTIONS, Bound
from .protocols import Protocols
from .random_stream import RandomStream
from .ragged import Nesting
from .record import Recorder
from .sets import Sets
from .stack import Frame
from .subclasses import Subclasses
from .training import Training
from .transforms import Transforms
from .unbacked import Assumptions
from .unknown import Unknown
from .values import (NULL, ExceptionValue, Handled, Lazy, Mapping, Object, Offset, Sequence, SetValue, Source,
                     TensorValue)
from .wrappers import Wrappers
from .writes import Writes

# cannot fail
SIMPLE = frozenset(("NOP", "POP_TOP", "PUSH_NULL", "COPY", "SWAP", "STORE_FAST", "JUMP", "LOAD_CLOSURE", "LOAD_CONST"))
# thread state that is tracked while the program is captured
FOLLOWED = ("grad", "inference", "autocast", "plain", "hooks", "packing")
DEPTH = 120  # most frames of one segment


class Where(tuple):
    """A source location (file, line), with the module calls that contain it, and the enclosing frames: (file, line,
    function), outermost first."""

    def __new__(cls, place, modules, frames=()):
        made = super().__new__(cls, place)
        made.modules, made.frames = modules, frames
        return made

    def __reduce__(self):
        return Where, (tuple(self), self.modules, self.frames)


# the components of a machine
PARTS = (Instructions, Building, Jumps, Breaks, Calls, Framework, Construction, Builtins, Attributes, Classes,
         Writes, Containers, Lists, Mappings, Sets, Generators, Iterators, Protocols, Arithmetic,
         Callables, Training, Transforms, Unknown, Output, Hooks, Control, Arrays, Guarding, Outside,
         Conversions, RandomStream, Subclasses, Wrappers, Nesting, Absence)


class Machine:
    """Capture of one segment: from an entry to a return, a raise or a break."""

    def __init__(self, entry, given, rules=()):
        self.entry, self.given, self.rules = entry, given, dict(rules)
        self.frames: list[Frame] = []
        self.loaded: list = []  # frames of the entry, whose calls were made before
        self.handling: list = []  # exceptions whose handlers are running
        self.unhandled = None  # the last exception that left all frames, which generators may have replaced
        self.nested = self.whole = False  # within an instruction; True if the breaking call runs uncompiled
        # id of a frame of a module's forward -> (number of the call, the frame), for exported programs
        self.module_calls: dict = {}
        self.shape_env = Assumptions()  # assumptions about varying ints
        for part in PARTS:
            setattr(self, part.part, part(self))
        for part in PARTS:
            getattr(self, part.part).connect()
        self.rule_of = Bound(INSTRUCTIONS, self)
        self.recorder = self.make_recorder()

    def make_recorder(self) -> Recorder:
        recorder = Recorder(self.outside.lift, self.random.draw, self.where)
        self.shape_env.number, recorder.within_try = self.numbers.ratio, self.numbers.within_try
        self.shape_env.check, recorder.misses_errors = self.numbers.expected, self.numbers.misses_errors
        recorder.real, recorder.assume = self.arithmetic.run_time_number, self.guarding.guard
        recorder.start, recorder.spelled = self.outside.start_of_input, self.entry.owner.spelled
        recorder.shape_env, recorder.place = self.shape_env, lambda: (self.frames[-1].code, self.frames[-1].now.offset)
        return recorder

    def where(self):
        for frame in reversed(self.frames):
            if frame.now is not None and not frame.code.co_filename.startswith(HERE):
                place = frame.code.co_filename, frame.now.line
                return Where(place, self.modules_now(), self.frames_now()) if self.entry.owner.exporting else place
        return (self.frames[0].code.co_filename, self.frames[0].code.co_firstlineno) if self.frames else ("?", 0)

    def frames_now(self) -> tuple:
        """Return (file, line, function) of each frame of the program, outermost first."""
        return tuple((f.code.co_filename, f.now.line, f.code.co_name) for f in self.frames
                     if f.now is not None and not f.code.co_filename.startswith(HERE))

    def modules_now(self) -> tuple:
        """Return (number of the call, module) for each active module call, outermost first."""
        found = []
        for frame in self.frames:
            if frame.code.co_name == "forward" and frame.code.co_argcount:
                first = frame.code.co_varnames[0]
                owner = frame.locals.get(first) or getattr(frame.cells.get(first), "content", None)
                if isinstance(getattr(owner, "value", None), Module):
                    self.module_calls[id(frame)] = number, _ = self.module_calls.get(id(frame)) or (
                        len(self.module_calls), frame)
                    found.append((number, owner.value))
        return tuple(found)

    def where_text(self) -> str:
        return "%s:%s" % self.where()

    # --- the loop -----------------------------------------------------------------------------------------------------
    def load_entry(self):
        """Rebuild the frames of the entry around the values that it was called with."""
        position = 0

        def value():
            nonlocal position
            position += 1
            return self.given[position - 1], Source(None, f"V[{position - 1}]")

        for place, namespace in zip(self.entry.places, self.entry.namespaces):
            frame = Frame(place.code, namespace)
            frame.discard = place.discard
            self.frames.append(frame)
            for name in place.locals:
                frame.locals[name] = Lazy(*value())
            for name in place.cells:
                frame.cells[name] = self.outside.wrap(*value())
            for kind in place.stack:
                slot = NULL if kind == "N" else Lazy(*value()) if kind in ("V", "H") else Offset(kind)
                if kind == "H":
                    slot = Handled(slot, self.values.force(Lazy(*value())))
                    self.handling.append(slot.error)
                frame.stack.append(slot)
            frame.at = frame.listing.at[place.offset]
            if place.calling is not None:
                frame.now = frame.listing.instructions[frame.listing.at[place.calling]]
        self.loaded = list(self.frames)

    def capture(self, emit):
        """Run until the segment ends; ``emit(machine, ending)`` makes the Segment."""
        self.emit = emit
        before, others = [getattr(mine, name) for name in FOLLOWED], [dict(vars(one)) for one in marks.followed]
        try:
            with self.recorder, self.shape_env:
                self.load_entry()
                self.guard_modes()
                while True:
                    done = self.step()
                    if done is not None:
                        return done
        finally:
            for name, value in zip(FOLLOWED, before):
                setattr(mine, name, value)
            for one, attributes in zip(marks.followed, others):
                vars(one).clear()
                vars(one).update(attributes)

    def release(self):
        """Drop all values: reference cycles with them keep no object of the caller alive."""
        for value in self.outside.wrapped.values():
            vars(value).clear()
        for part in PARTS:
            vars(getattr(self, part.part)).clear()
        vars(self).clear()

    def guard_modes(self):
        source = Source(None, self.guarding.constant_name(mine))
        self.modes = {name: getattr(mine, name) for name in ("grad", "inference", "autocast")}
        self.recorder.outright = self.entry.owner.exporting and not self.modes["grad"]
        for name, value in self.modes.items():
            self.guarding.guard(f"{{0}}.{name} == {value}", source)
        self.guarding.guard(f"{{0}}.device is {self.guarding.constant_name(mine.device)}", source)
        self.guarding.guard(f"{{0}}.floating is {self.guarding.constant_name(Defaults.floating)}",
                            self.guarding.constant_source(Defaults))

    def step(self):
        """Execute one instruction; return the result of ``emit`` if it ended the segment."""
        frame = self.frames[-1]
        one = self.fetch(frame)
        if one.op in SIMPLE:
            self.rule_of[one.op](frame, one)
            return None
        depth = len(self.frames)
        self.nested = False
        before = list(frame.stack), dict(frame.locals), len(self.recorder.nodes), len(self.recorder.inputs), (
            self.random.stream, self.random.drawn, self.random.agreed)
        try:
            if one.op == "RETURN_VALUE":
                return self.leave(frame)
            known = self.rules.get((frame.code, one.offset))
            if known is not None:
                raise known
            self.execute(frame, one)
        except Raised as raised:
            if not raised.inside:
                del self.frames[depth:]
            return None if self.find_handler(raised.value) else self.emit(self, ("raise", self.unhandled))
        except Break as stop:
            return self.stop(stop, frame, one, depth, before)
        return None

    def fetch(self, frame):
        one = frame.now = frame.listing.instructions[frame.at]
        frame.at += 1
        return one

    def execute(self, frame, one):
        handler = self.rule_of[one.op]
        if handler is None:
            raise Break("RB005", one.op)
        handler(frame, one)

    def now(self, function, arguments, keywords=None):
        """Return the result of a call of the program's own functions, within one instruction; a Break in it is one of
        the instruction."""
        self.nested = True
        caller, depth = self.frames[-1], len(self.frames)
        result = self.calls.call(function, arguments, keywords or {})
        if result is not None:
            return result
        while len(self.frames) > depth:
            frame = self.frames[-1]
            one = self.fetch(frame)
            try:
                if one.op == "RETURN_VALUE":
                    self.leave(frame)
                else:
                    self.execute(frame, one)
            except Raised as raised:
                if not self.find_handler(raised.value, depth):
                    raise Raised(self.unhandled, raised.inside) from None
        return caller.stack.pop()

    def leave(self, frame):
        value = frame.stack.pop()
        if frame.generator is not None:
            return self.generators.exhaust(frame, value)
        if len(self.frames) == 1:
            return self.emit(self, ("return", value))
        self.frames.pop()
        if not frame.discard:
            self.frames[-1].stack.append(value)
        return None

    def stop(self, stop: Break, frame, one, depth, before):
        """End the segment before the current instruction, which then runs as Python."""
        if (frame.code, one.offset) not in self.rules:
            frames = self.frames[:depth] if self.nested else self.frames
            caller = self.caller_of_polyfill(frames) or self.caller_of_plain(frames)
            if caller is not None and not stop.whole:
                stop.whole = True
                raise Again((caller.code, caller.now.offset), stop)
            if self.nested:
                # code run within the instruction may have changed state: break before it
                raise Again((frame.code, one.offset), stop)
        del self.frames[depth:]
        if any(f.generator is not None for f in self.frames) and "generators" not in self.rules:
            raise Again("generators")
        frame.stack, frame.locals = before[0], before[1]
        del self.recorder.nodes[before[2]:]
        for node in self.recorder.inputs[before[3]:]:
            self.outside.graph_inputs.pop(node, None)
        del self.recorder.inputs[before[3]:]
        self.random.stream, self.random.drawn, self.random.agreed = before[4]
        file, line = self.where()
        if stop.noted or self.entry.owner.fullgraph:
            self.entry.owner.note(GraphBreak(stop.code, stop.detail, file, line, frame.code.co_name))
        if not stop.native:
            snapshot, self.whole = list(frame.stack), stop.whole
            ending = self.breaks.break_ending(frame, one)
            if ending is not None:
                return self.emit(self, ending)
            frame.stack = snapshot
        return self.emit(self, ("native", one.offset))

    def caller_of_polyfill(self, frames):
        """Return the frame that called the builtin that the top frame implements, so that the builtin itself runs; None
        for other frames."""
        top = next((k for k in range(len(frames) - 1, -1, -1) if frames[k].code.co_filename not in polyfills.FILES), -1)
        if 0 <= top < len(frames) - 1 and not any(f in self.loaded or f.generator is not None
                                                  for f in frames[top + 1:]):
            return frames[top]
        return None

    def caller_of_plain(self, frames):
        """Return the frame that called the outermost of the top functions that do not use tensors; None if the top one
        does."""
        found = None
        for caller, frame in zip(frames[-2::-1], frames[:0:-1]):
            values = (*frame.locals.values(), *(cell.content for cell in frame.cells.values()), *frame.stack)
            if frame in self.loaded or not plain_code(frame.code, frame.namespace) or any(
                    holds_tensors(v, frame.code.co_names) for v in values):
                break
            if frame.generator is None and caller.generator is None:
                found = caller
        return found

    def find_handler(self, value, floor=0) -> bool:
        """Go to the handler of an exception, dropping frames down to ``floor``; return whether there is one."""
        if isinstance(value, ExceptionValue):
            value.raised = True
        while len(self.frames) > floor:
            value.raised = True
            frame = self.frames[-1]
            found = frame.listing.handler(frame.now.offset)
            if found:
                target, depth, push = found
                del frame.stack[depth:]
                if push:
                    frame.stack.append(Offset(frame.now.offset))
                frame.stack.append(value)
                frame.at = frame.listing.at[target]
                return True
            self.frames.pop()
            if frame.generator is not None:
                value = self.generators.left(frame, value)
                if value is None:
                    return True
        self.unhandled = value
        return False

    def new_frame(self, code, namespace):
        return Frame(code, namespace)

    def push_frame(self, frame):
        if len(self.frames) > DEPTH:
            raise Break("RB013", frame.code.co_name)
        self.frames.append(frame)


HERE = __file__.rpartition("/")[0]


def holds_tensors(value, names) -> bool:
    """True if a Value is a tensor, a module with state by one of these names, or a container of such."""
    if isinstance(value, (Sequence, SetValue, Mapping)):
        return any(holds_tensors(v, names)
                   for v in (value.items.values() if isinstance(value, (Mapping, SetValue)) else value.items))
    inner = value.value if isinstance(value, (Lazy, Object)) else None
    if isinstance(inner, Module):
        return any(name in place for place in (inner._parameters, inner._buffers, inner._modules) for name in names)
    return isinstance(value, TensorValue) or isinstance(inner, Tensor)
