"""The machine: executes bytecode on Values, records tensor operations, and notes every assumption as a guard."""
from __future__ import annotations

import re
import types

import numpy as np

from ..core import overriding
from ..core.dtypes import Defaults, bool_
from ..core.expr import INFINITY, Expr, Printer, evaluate, size
from ..core.log import logger
from ..core.meta import Size
from ..core.native import Op, Tensor, mine
from ...nn.modules.module import Module
from ..transforms.level import Wrapped
from .arithmetic import Arithmetic
from .arrays import Arrays
from .attributes import FRAMEWORK, Attributes, is_framework, plain_code
from .bytecode import listing
from .calls import Calls
from .containers import Containers
from .control import Control
from .errors import Again, Break, GraphBreak, Raised
from .guards import Guard, TensorCheck
from .hooks import Hooks
from .instructions import Instructions
from .iterators import Iterators
from . import marks, polyfills
from .output import Output
from .constraints import constraints_of
from .parts import ATTRIBUTES, INSTRUCTIONS, Bound
from .protocols import Protocols
from .unbacked import Assumptions, Reading
from .reals import Real
from .record import Fake, Recorder
from .callables import Callables
from .training import Training
from .transforms import Transforms
from .unknown import Unknown
from .values import (IDENTITIES, NULL, NUMBERS_AND_TEXT, PLAIN, ArrayValue, Cell, Constant, Deferred, ExceptionValue,
                     Handled, Key, Lazy, Mapping, Number, Object,
                     Offset, Sequence, SetValue, Source,
                     TensorValue)

# cannot fail
SIMPLE = frozenset(("NOP", "POP_TOP", "PUSH_NULL", "COPY", "SWAP", "STORE_FAST", "JUMP", "LOAD_CLOSURE", "LOAD_CONST"))
FAKE_ARRAYS = f"{__package__}.fake_arrays"
DEPTH = 120  # frames that one segment may stack up


class Frame:
    """A function call under capture.  ``discard``: its result is dropped; ``generator``: the generator whose body it
    is."""

    __slots__ = ("code", "listing", "namespace", "locals", "cells", "stack", "at", "discard", "now", "generator",
                 "resume")

    def __init__(self, code, namespace):
        self.code, self.listing, self.namespace = code, listing(code), namespace
        self.locals, self.cells, self.stack = {}, {}, []
        self.at, self.discard, self.now = 0, False, None
        self.generator = self.resume = None


class Where(tuple):
    """A place in the program, (file, line), with the calls of modules that it lies in."""

    def __new__(cls, place, modules):
        made = super().__new__(cls, place)
        made.modules = modules
        return made


class Machine(Instructions, Calls, Attributes, Containers, Iterators, Protocols, Arithmetic, Callables, Training,
              Transforms, Unknown, Output, Hooks, Control, Arrays):
    """Captures one segment: from an entry to a return, a raise or a break."""

    def __init__(self, entry, values, rules=()):
        self.entry, self.values, self.rules = entry, values, dict(rules)
        self.guards: dict = {}
        self.callables: dict = {}  # id of a Function -> (what framework code calls, it)
        self.wrapped: dict = {}  # id of an outside object -> its Value
        self.alive: list = []
        self.constants: list = []  # what the segment refers to
        self.constant_at: dict = {}
        self.attributes: dict = {}  # (id of a Value, name) -> Value set there; DELETED where deleted
        self.owners: dict = {}
        self.relied: dict = {}  # (user's class, name) -> what it was found to have
        self.codes: dict = {}  # user's function -> its code, which tools that reload source replace
        self.class_stores: set = set()  # names of attributes that were set on classes
        self.changed: list = []  # containers and cells from outside that were changed
        self.stores: dict = {}  # (id of a namespace, name) -> (namespace, Value)
        self.handling: list = []  # exceptions whose handlers are running
        self.graph_inputs: dict = {}  # graph input node -> (text of the expression, Source or None)
        self.entered: dict = {}  # text of a number -> the Fake that stands for it in the graph
        self.stream, self.drawn = None, 0  # seed and position in the random stream, and how many blocks are drawn
        self.facts, self.symbols = Assumptions(), {}  # what is assumed of varying ints; symbol -> text that computes it
        self.constrained: dict = {}  # text of a size -> (the size, the constraint that users gave)
        self.roots: list = []  # (source, module) of modules that are values of the entry
        self.real: dict = {}  # graph input node -> the tensor it stands for now
        self.checks: dict = {}  # graph input node -> TensorCheck
        self.recorder = Recorder(self.lift, self.draw, self.where)
        self.facts.number, self.recorder.within_try = self.ratio, self.within_try
        self.recorder.real, self.recorder.assume = self.run_time_number, self.guard
        self.recorder.start = self.start_of_input
        self.recorder.facts, self.recorder.place = self.facts, lambda: (self.frames[-1].code,
                                                                        self.frames[-1].now.offset)
        self.used: set = set()  # nodes of backward passes that use their history up
        self.numbers: list = []  # what optimizers compute in Python before the graph runs
        self.ends_with: list = []  # optimizers without which the segment is of no use
        self.later: dict = {}  # id -> an object that a call put off to the end will change
        self.observers: list = []  # hooks with effects on gradients
        self.notes: list = []  # statements of output, for the end
        # for each catch_warnings() around: the categories that are ignored there, or None for other filters
        self.quiet: tuple = ()
        self.frames: list[Frame] = []
        # id of a frame of a module's forward -> (number of the call, the frame), for exported programs
        self.calls: dict = {}
        self.rule_of, self.reader_of = Bound(INSTRUCTIONS, self), Bound(ATTRIBUTES, self)
        self.loaded: list = []  # frames of the entry, whose calls were made before

    # --- constants and guards -----------------------------------------------------------------------------------------
    def constant_name(self, value) -> str:
        at = self.constant_at.get(id(value))
        if at is None:
            at = self.constant_at[id(value)] = len(self.constants)
            self.constants.append(value)
        return f"k{at}"

    def constant_source(self, value) -> Source:
        return Source(None, self.constant_name(value), True)

    def guard(self, check: str, *sources):
        key = check, sources
        if key not in self.guards:
            self.guards[key] = Guard(check, sources, self.where_text())

    def where(self):
        for frame in reversed(self.frames):
            if frame.now is not None and not frame.code.co_filename.startswith(HERE):
                place = frame.code.co_filename, frame.now.line
                return Where(place, self.modules_now()) if self.entry.owner.exporting else place
        return (self.frames[0].code.co_filename, self.frames[0].code.co_firstlineno) if self.frames else ("?", 0)

    def modules_now(self) -> tuple:
        """(number of the call, module) for each call of a module that is running, outermost first."""
        found = []
        for frame in self.frames:
            if frame.code.co_name == "forward" and frame.code.co_argcount:
                first = frame.code.co_varnames[0]
                owner = frame.locals.get(first) or getattr(frame.cells.get(first), "content", None)
                if isinstance(getattr(owner, "value", None), Module):
                    self.calls[id(frame)] = number, _ = self.calls.get(id(frame)) or (len(self.calls), frame)
                    found.append((number, owner.value))
        return tuple(found)

    def where_text(self) -> str:
        return "%s:%s" % self.where()

    # --- values from outside ------------------------------------------------------------------------------------------
    def wrap(self, value, source: Source):
        """An outside value as a Value, with the guards that make this safe."""
        kind = type(value)
        if kind in PLAIN:
            return self.wrap_plain(value, source)
        known = self.wrapped.get(id(value))
        if known is not None:
            return self.again(known, value, source)
        made = self.wrap_new(value, kind, source)
        self.wrapped[id(value)] = made
        self.alive.append(value)  # while its id is a key
        return made

    def wrap_plain(self, value, source):
        kind = type(value)
        if value is None or kind is bool or value is ... or value is NotImplemented:
            self.guard(f"{{0}} is {value!r}", source)
        elif kind in (int, float) and "static" not in self.rules and self.entry.varies(source, value):
            self.guard(f"type({{0}}) is {kind.__name__}", source)
            return Number(value, self.symbol(value, str(source),
                                             -INFINITY)) if kind is int else Number(value, text=str(source))
        else:
            self.guard(f"type({{0}}) is {self.type_name(kind)} and {self.equality('{0}', value)}", source)
        return Constant(value, source)

    def type_name(self, kind) -> str:
        return kind.__name__ if kind in (int, float, str, bytes, list, tuple, dict, set) else self.constant_name(kind)

    def equality(self, text, value) -> str:
        """The check that an expression still has this value, be it NaN or a zero with a sign."""
        if value != value:
            return f"{text} != {text}"
        return f"str({text}) == '{value}'" if isinstance(
            value, (float, np.floating)) and value == 0 else f"{text} == {self.literal(value)}"

    def literal(self, value) -> str:
        if type(value) in (int, bool, type(None)) or type(value) in (str, bytes) and "{" not in (
                text := repr(value)) and "}" not in text or \
                type(value) is float and abs(value) < float("inf"):
            return repr(value)  # no braces: checks are templates
        return self.expression(value) if type(value) is Expr else self.constant_name(value)

    def again(self, known, value, source):
        """An object that was met before, elsewhere."""
        if getattr(known, "loose", False):
            if known.source != source:
                self.guard("{0} is {1}", source, known.source)
        elif isinstance(value, IDENTITIES) or isinstance(value, Module):
            if source.parent is not None or source.suffix.startswith("V"):
                self.guard(f"{{0}} is {self.constant_name(value)}", source)
        elif known.source is not None and known.source != source:
            self.guard("{0} is {1}", source, known.source)
        return known

    def wrap_new(self, value, kind, source):
        if isinstance(value, np.generic):
            self.guard(f"type({{0}}) is {self.constant_name(kind)} and {self.equality('{0}', value)}", source)
            return Constant(value, source)
        if isinstance(value, Tensor):
            return self.wrap_tensor(value, source)
        if isinstance(value, Module):
            self.guard(f"{{0}} is {self.constant_name(value)}", source)
            place = self.constant_source(value)
            self.guard(f"type({{0}}) is {self.constant_name(kind)}", place)
            if source.parent is None:
                self.roots.append((source, value))
            return Object(value, place)
        if kind is types.FunctionType and not source.covered and not value.__dict__ and not is_framework(
                value.__module__) and marks.of(value) is None:
            return self.wrap_function(value, source)
        if kind is np.ndarray:
            return self.wrap_array(value, source)
        if kind is slice:
            self.guard("type({0}) is slice", source)
            return self.builtin_slice(*(Lazy(getattr(value, name), source.attribute(name))
                                        for name in ("start", "stop", "step")))
        if isinstance(value, (*IDENTITIES, Op)) or value is mine:
            self.guard(f"{{0}} is {self.constant_name(value)}", source)
            return Object(value, source if not isinstance(value, (type, types.ModuleType))
                          else self.constant_source(value))
        if kind is types.CellType:
            return self.wrap_cell(value, source)
        wrapped = self.wrap_container(value, kind, source)
        if wrapped is not None:
            return wrapped
        if isinstance(value, types.MethodType):
            self.guard(f"type({{0}}) is {self.constant_name(kind)}", source)
            return self.bound_method(value, source)
        if immutable(value):
            self.guard(f"{{0}} == {self.constant_name(value)}", source)
            return Object(value, source)
        self.guard(f"type({{0}}) is {self.constant_name(kind)}", source)
        if isinstance(value, NUMBERS_AND_TEXT):
            base = next(b for b in NUMBERS_AND_TEXT if isinstance(value, b))
            self.guard(f"{base.__name__}({{0}}) == {self.literal(base(value))}", source)
        return Object(value, source)

    def wrap_function(self, value, source):
        """A function of the program's: one made anew from the same code does as well, until it matters which it is."""
        code, space = self.constant_name(value.__code__), self.constant_name(value.__globals__)
        self.guard(f"type({{0}}) is {self.constant_name(types.FunctionType)} and {{0}}.__code__ is {code} and "
                   f"{{0}}.__globals__ is {space} and "
                   f"len({{0}}.__defaults__ or ()) == {len(value.__defaults__ or ())} and list({{0}}.__kwdefaults__ "
                   f"or ()) == {list(value.__kwdefaults__ or ())}", source)
        made = Object(value, source)
        made.loose = True
        return made

    def pin(self, value):
        """Assumes that a function from outside is this very one."""
        if type(value) is Object and value.loose:
            value.loose = False
            self.guard(f"{{0}} is {self.constant_name(value.value)}", value.source)

    def wrap_cell(self, value, source):
        self.guard(f"type({{0}}) is {self.constant_name(types.CellType)}", source)
        content = source.attribute("cell_contents")
        try:
            return Cell(Lazy(value.cell_contents, content), source)
        except ValueError:
            self.guard(f"{self.constant_name(empty_cell)}({{0}})", source)
            return Cell(None, source)

    def wrap_tensor(self, value, source):
        if overriding.kind_of(type(value)) != overriding.PLAIN:
            raise Break("RB014", f"{type(value).__name__}")
        self.guard(f"type({{0}}) is {self.constant_name(type(value))} and {{0}}._needs_grad == {value._needs_grad}",
                   source)
        free = self.entry.free_sizes(source, value) if "static" not in self.rules else frozenset()
        fake = self.recorder.input(self.symbolic(value._meta, free, source, constraints_of(value)), value._needs_grad,
                                   type(value))
        node = fake.node
        self.graph_inputs[node], self.real[node] = (str(source), source), value
        check = self.checks[node] = TensorCheck(value._meta, free)
        name = self.constant_name(check)
        self.guard(f"{{0}}._meta in {name}.seen or {name}({{0}}._meta)", source)
        made = fake.value = TensorValue(fake, source)
        made.real = value
        return made

    def symbolic(self, meta, free, source, constraints):
        """The metadata with a symbol for each size that varies."""
        if not free:
            return meta
        return meta.like([self.free_size(size, f"{source}.shape[{k}]", constraints.get(k)) if k in free else size
                          for k, size in enumerate(meta.shape)])

    def free_size(self, size, text, constraint):
        """A symbol for a size, within the bounds of its constraint."""
        made = self.symbol(size, text, 2)
        if constraint is not None:
            self.constrained[text] = made, constraint
            bounds = [str(constraint.low)] * (constraint.low is not None), [str(constraint.high)] * (
                constraint.high is not None)
            if any(bounds):
                self.guard(" <= ".join([*bounds[0], text, *bounds[1]]))
        return made

    def symbol(self, value, text, low):
        """A new symbol for an int that ``text`` computes; a multiple of a new symbol, where it is to be taken as
        one."""
        unit = self.rules.get(("multiple", text), 1)
        if unit > 1 and value % unit == 0:
            self.guard(f"{text} % {unit} == 0")
            return unit * self.symbol(value // unit, f"({text} // {unit})", 1 if low > 0 else low)
        made = size(f"n{len(self.symbols)}", low)
        self.symbols[made] = text
        dynamic_log.debug("%s stands for %s, which is %s now", made.arg[0], text, value)
        self.facts.hints[made] = value
        self.recorder.symbolic = True
        return made

    def text_of(self, value) -> str:
        """Python text over the inputs that computes a Number or Constant."""
        if isinstance(value, Constant):
            return self.literal(value.value)
        return f"({self.expression(value.expr)})" if value.expr is not None else value.text

    def expression(self, expr) -> str:
        return Printer(self.symbols).text(expr)

    def lift(self, tensor) -> Fake:
        """A tensor that framework code met: an input that is the same at every call."""
        known = self.wrapped.get(id(tensor))
        if known is None:
            source = self.constant_source(tensor)
            fake = self.recorder.input(tensor._meta, tensor._needs_grad, type(tensor))
            self.graph_inputs[fake.node] = str(source), source
            known = fake.value = self.wrapped[id(tensor)] = TensorValue(fake, source)
            known.real = tensor
        return known.fake

    def start_of_input(self, node) -> int:
        """``storage_offset()`` of the tensor behind an input of the graph, guarded."""
        source, found = self.graph_inputs[node][1], self.real.get(node)
        if found is None or source is None:
            raise Break("RB015", "storage_offset()")
        start = found.storage_offset()
        self.guard(f"{{0}}.storage_offset() == {start}", source)
        return start

    def draw(self, blocks):
        """A place in the random stream.  All of a segment's are taken at once when it runs: a seed, and a position that
        is counted on from."""
        if self.stream is None:
            self.stream = self.recorder.number(), self.recorder.number()
            for drawn in self.stream:
                self.graph_inputs[drawn.node] = drawn.node.name, None
        if self.facts.unknown(blocks):
            raise Break("RB012", "random numbers, as many as data decide")
        seed, position = self.stream
        place = self.recorder.shifted(position, self.drawn) if self.drawn else position
        self.drawn += blocks
        return seed, place

    def force(self, value):
        """The value with what is behind a Lazy looked at."""
        return self.wrap(value.value, value.source) if type(value) is Lazy else value

    # --- values made here ---------------------------------------------------------------------------------------------
    def from_python(self, value):
        """A result of Python code as a Value."""
        kind = type(value)
        if kind in PLAIN or kind is slice or isinstance(value, np.generic):
            return Constant(value)
        if kind is Key:
            return value.value
        if kind is Real:
            return value.number
        if kind is Expr:
            return Number(evaluate(value, self.facts.hints), value)
        if isinstance(value, Fake):
            if value.weak and isinstance(value.node.op, Reading):
                return Number((float if value.dtype.is_floating_point else bool if value.dtype is bool_ else int)(3),
                              fake=value)
            made = getattr(value, "value", None)
            if made is None:
                made = value.value = TensorValue(value)
            return made
        if isinstance(value, Wrapped):
            return self.of_level(value)
        if kind.__name__ == "FakeArray" and kind.__module__ == FAKE_ARRAYS:
            value.value = value.value or ArrayValue(value)
            return value.value
        if isinstance(value, Tensor):
            return self.from_python(self.lift(value))
        if kind in (list, tuple, Size) or isinstance(value, tuple) and hasattr(kind, "_fields"):
            return Sequence(kind, [self.from_python(v) for v in value])
        if kind is dict or kind is types.MappingProxyType:
            return Mapping({k: self.from_python(v) for k, v in value.items()})
        if kind in (set, frozenset):
            return SetValue({k: self.from_python(k) for k in value}, kind=kind)
        known = self.wrapped.get(id(value))
        if known is not None:
            return known
        made = self.wrapped[id(value)] = Object(value, self.constant_source(value))
        return made

    def known(self, value):
        """The Python value of a Value that is known altogether; Break where it is not."""
        value = self.force(value)
        if isinstance(value, Constant):
            return value.value
        if isinstance(value, Number):
            if value.expr is not None:
                return self.facts.integer(value.expr)
            if value.fake is not None:
                raise Break("RB003", f"a {type(value.hint).__name__} that depends on data has to be known here")
            self.guard(self.equality(value.text, value.hint))
            return value.hint
        if isinstance(value, Object) and (isinstance(value.value, (*IDENTITIES, *NUMBERS_AND_TEXT))
                                          or immutable(value.value)):
            self.pin(value)
            return value.value
        if isinstance(value, Sequence) and value.kind in (list, tuple, Size):
            return value.kind([self.known(self.item(value, k)) for k in range(len(value.items))])
        if isinstance(value, Mapping) and value.kind is dict:
            return {k: self.known(self.lookup(value, k)) for k in value.items}
        if isinstance(value, SetValue):
            return value.kind(value.items)
        if isinstance(value, ExceptionValue) and not self.python_class(value.cls):
            return value.cls(*map(self.known, value.arguments))
        raise Break("RB003" if isinstance(value, Deferred) else "RB004",
                    f"a {self.describe(value)} where a known value is needed")

    def describe(self, value) -> str:
        if isinstance(value, (TensorValue, Fake)):
            return "tensor"
        if isinstance(value, Deferred):
            return "text that data decide"
        if isinstance(value, ArrayValue):
            return "array"
        if isinstance(value, Object):
            return type(value.value).__name__
        return type(value).__name__.lower()

    def concrete(self, value):
        """The Python value that framework code gets: tensors as Fakes."""
        value = self.force(value)
        if isinstance(value, TensorValue):
            return value.fake
        if isinstance(value, ArrayValue):
            return value.array
        if isinstance(value, Number) and (value.expr is not None or value.fake is not None):
            return value.fake if value.expr is None else value.expr
        if isinstance(value, Sequence) and value.kind is not SetValue and hasattr(value, "items"):
            items = [self.concrete(self.item(value, k)) for k in range(len(value.items))]
            return tuple.__new__(value.kind, items) if issubclass(value.kind, tuple) else value.kind(items)
        if isinstance(value, Mapping):
            return {k: self.concrete(self.lookup(value, k)) for k in value.items}
        if isinstance(value, Object) and not isinstance(value.value, Module):
            if is_framework(type(value.value).__module__) or isinstance(value.value, IDENTITIES):
                if value.source is not None and not value.source.covered:
                    self.guard(f"{{0}} is {self.constant_name(value.value)}", value.source)
                return value.value
        return self.known(value)

    # --- the loop -----------------------------------------------------------------------------------------------------
    def load_entry(self):
        """Rebuilds the frames of the entry around the values that it was called with."""
        position = 0

        def value():
            nonlocal position
            position += 1
            return self.values[position - 1], Source(None, f"V[{position - 1}]")

        for place, namespace in zip(self.entry.places, self.entry.namespaces):
            frame = Frame(place.code, namespace)
            frame.discard = place.discard
            self.frames.append(frame)
            for name in place.locals:
                frame.locals[name] = Lazy(*value())
            for name in place.cells:
                frame.cells[name] = self.wrap(*value())
            for kind in place.stack:
                slot = NULL if kind == "N" else Lazy(*value()) if kind in ("V", "H") else Offset(kind)
                if kind == "H":
                    slot = Handled(slot, self.force(Lazy(*value())))
                    self.handling.append(slot.error)
                frame.stack.append(slot)
            frame.at = frame.listing.at[place.offset]
            if place.calling is not None:
                frame.now = frame.listing.instructions[frame.listing.at[place.calling]]
        self.loaded = list(self.frames)

    def capture(self, emit):
        """Runs until the segment ends; ``emit(machine, ending)`` makes the Segment."""
        self.emit = emit
        before = mine.grad, mine.inference, mine.autocast
        try:
            with self.recorder, self.facts:
                self.load_entry()
                self.guard_modes()
                while True:
                    done = self.step()
                    if done is not None:
                        return done
        finally:
            mine.grad, mine.inference, mine.autocast = before

    def guard_modes(self):
        source = Source(None, self.constant_name(mine))
        self.modes = {name: getattr(mine, name) for name in ("grad", "inference", "autocast")}
        for name, value in self.modes.items():
            self.guard(f"{{0}}.{name} == {value}", source)
        self.guard(f"{{0}}.device is {self.constant_name(mine.device)}", source)
        self.guard(f"{{0}}.floating is {self.constant_name(Defaults.floating)}", self.constant_source(Defaults))

    def step(self):
        """One instruction; what ``emit`` made if it ended the segment."""
        frame = self.frames[-1]
        one = self.fetch(frame)
        if one.op in SIMPLE:
            self.rule_of[one.op](frame, one)
            return None
        depth = len(self.frames)
        self.nested = False
        before = list(frame.stack), dict(frame.locals), len(self.recorder.nodes), len(self.recorder.inputs), (
            self.stream, self.drawn)
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
            return None if self.find_handler(raised.value) else self.emit(self, ("raise", raised.value))
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
        """The result of a call of the program's own functions, within one instruction; a Break in there is one of the
        instruction."""
        self.nested = True
        caller, depth = self.frames[-1], len(self.frames)
        result = self.call(function, arguments, keywords or {})
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
                    raise
        return caller.stack.pop()

    def leave(self, frame):
        value = frame.stack.pop()
        if frame.generator is not None:
            return self.exhaust(frame, value)
        if len(self.frames) == 1:
            return self.emit(self, ("return", value))
        self.frames.pop()
        if not frame.discard:
            self.frames[-1].stack.append(value)
        return None

    def stop(self, stop: Break, frame, one, depth, before):
        """Ends the segment before the instruction at hand, which then runs as Python."""
        if (frame.code, one.offset) not in self.rules:
            frames = self.frames[:depth] if self.nested else self.frames
            caller = self.caller_of_polyfill(frames) or self.caller_of_plain(frames)
            if caller is not None and not stop.whole:
                stop.whole = True
                raise Again((caller.code, caller.now.offset), stop)
            if self.nested:
                # what ran within the instruction may have changed state: break before it
                raise Again((frame.code, one.offset), stop)
        del self.frames[depth:]
        if any(f.generator is not None for f in self.frames) and "generators" not in self.rules:
            raise Again("generators")
        frame.stack, frame.locals = before[0], before[1]
        del self.recorder.nodes[before[2]:]
        for node in self.recorder.inputs[before[3]:]:
            self.graph_inputs.pop(node, None)
        del self.recorder.inputs[before[3]:]
        self.stream, self.drawn = before[4]
        file, line = self.where()
        if stop.noted or self.entry.owner.fullgraph:
            self.entry.owner.note(GraphBreak(stop.code, stop.detail, file, line, frame.code.co_name))
        if not stop.native:
            snapshot, self.whole = list(frame.stack), stop.whole
            ending = self.break_ending(frame, one)
            if ending is not None:
                return self.emit(self, ending)
            frame.stack = snapshot
        return self.emit(self, ("native", one.offset))

    def caller_of_polyfill(self, frames):
        """The frame that called the builtin of which the top frame is a part, so that the builtin itself runs; None for
        other frames."""
        top = next((k for k in range(len(frames) - 1, -1, -1) if frames[k].code.co_filename != polyfills.__file__), -1)
        if 0 <= top < len(frames) - 1 and not any(f in self.loaded or f.generator is not None
                                                  for f in frames[top + 1:]):
            return frames[top]
        return None

    def caller_of_plain(self, frames):
        """Of these the frame that called the outermost of the functions on top that have nothing to do with tensors;
        None where the top one has."""
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
        """Goes to the handler of an exception, dropping frames down to ``floor``; whether there is one."""
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
                value = self.left(frame, value)
                if value is None:
                    return True
        return False

    def new_frame(self, code, namespace):
        return Frame(code, namespace)

    def push_frame(self, frame):
        if len(self.frames) > DEPTH:
            raise Break("RB013", frame.code.co_name)
        self.frames.append(frame)


dynamic_log = logger("dynamic")
HERE = __file__.rpartition("/")[0]


def empty_cell(cell) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return True
    return False


def immutable(value) -> bool:
    """Whether an object's identity says all about it: enum members, layouts, memory formats."""
    import enum
    kind = type(value)
    if isinstance(value, (enum.Enum, types.UnionType, types.GenericAlias, re.Pattern,
                          re.Match)) or kind.__module__ == "typing":
        return True
    return kind.__module__ == f"{FRAMEWORK}._src.core.convert" or value is NotImplemented


def holds_tensors(value, names) -> bool:
    """Whether a Value is a tensor, a module with state by one of these names, or a container of such."""
    if isinstance(value, (Sequence, SetValue, Mapping)):
        return any(holds_tensors(v, names)
                   for v in (value.items.values() if isinstance(value, (Mapping, SetValue)) else value.items))
    inner = value.value if isinstance(value, (Lazy, Object)) else None
    if isinstance(inner, Module):
        return any(name in place for place in (inner._parameters, inner._buffers, inner._modules) for name in names)
    return isinstance(value, TensorValue) or isinstance(inner, Tensor)
