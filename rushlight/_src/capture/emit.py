"""From what the machine found to a Segment: a graph, a guard function, and the Python that runs around the graph."""
from __future__ import annotations

import collections
import functools
import itertools
import types
import weakref

from ..autograd.program import ended, spent
from ..core.expr import Expr, Printer
from ..core.interpret import recording
from ..core.log import logger
from ..core.meta import Meta
from ..core.native import mine, state
from ..core.random import default_generator
from ..graph.graph import nodes_in
from ...nn.parameter import Parameter
from .arithmetic import INPLACE
from . import constraints
from .attributes import DELETED, is_framework
from .errors import Again, Break
from .guards import Described, guard_function
from .instructions import Placeholder
from .iterators import STATELESS
from .output import logged, warned
from .parts import Part, Table
from .polyfills import CaughtWarnings
from .protocols import unpacker
from .record import expressions_in
from .transforms import Transformed, outlives
from .values import (ArrayValue, Cell, Constant, ContainerMethod, Deferred, ExceptionValue, Function,
                     GeneratorValue, Handled, Identity, Instance, IteratorValue, Key, Mapping,
                     Method, NULL, Namespace, Number, Object, Offset, Partial, Rows, Sequence,
                     SetValue, Source, Super, TensorValue, View)

END = object()
ROOT = "<root>"  # what a view is made of, in its text
dynamic_log = logger("dynamic")

BUILT, ENDINGS = Table("code that builds"), Table("the ending")


class Place(collections.namedtuple("Place", "code offset locals cells stack discard calling")):
    """Where a frame goes on, and which of its variables come along.

    ``stack`` has for each slot "V" (a value comes along), "H" (while an exception is handled: the one handled before
    and this one come along), "N" (CPython's NULL), or the offset of the instruction that raised.
    """


class Segment:
    """Compiled code from an entry to the next break: ``guard(V)`` says whether it applies, ``run(V, P)`` runs it."""

    def __init__(self, guard, arming, run, graph, guards, source, roots, varying):
        self.guard, self.arming, self.run, self.graph, self.guards, self.source = (guard, arming, run, graph, guards,
                                                                                   source)
        self.values = None  # what it was captured for, where a program is exported
        self.varying = varying  # text of a size that was said to vary -> whether it may
        self.roots = [(int(str(place)[2:-1]), module) for place, module in roots if str(place).startswith("V")]

    def end_with(self, optimizers, entry):
        """Has the entry forget this as soon as one of these is gone, whose state it holds."""
        ours, its = weakref.ref(self), weakref.ref(entry)

        def ended(_):
            if its() is not None:
                its().segments = [segment for segment in its().segments if segment is not ours()]

        self.ends = [weakref.ref(optimizer, ended) for optimizer in optimizers]

    def concerns(self, values) -> bool:
        """Whether this was captured for the same modules."""
        return all(values[k] is module for k, module in self.roots)


def recorded(statements) -> list[str]:
    """Statements under recording."""
    return ["with GRAD(1):", *(f"    {s}" for s in statements)] if statements else []


def iterator_at(items, position, turned=False):
    """An iterator over something iterable that stands at a position."""
    made = reversed(items) if turned else iter(items)
    for _ in range(position):
        next(made)
    return made


def place(iterator, items, position):
    """Puts a list's iterator to a position, which may lie behind the end of a list that has become shorter."""
    short = max(0, position + 1 - len(items))
    items.extend([None] * short)  # what it is set to is clamped to the length
    iterator.__setstate__(position)
    del items[len(items) - short:]


def unpacked(value, count):
    """``a, b, c = value`` for ``count`` targets, as a list."""
    return unpacker(count)(value)


def traced(error):
    """Gives an exception a traceback, without which CPython's handlers cannot do."""
    try:
        raise error
    except BaseException as caught:
        caught.__context__ = None


def store_item(owner, index, value):
    owner[index] = value


def delete_item(owner, index):
    del owner[index]


def refill(mapping, items):
    """Gives a dict from outside its new contents."""
    dict.clear(mapping)
    dict.update(mapping, items)


def reset(container, gone, new):
    """Takes from and adds to a set from outside."""
    container.difference_update(gone)
    container.update(new)


def remove_attribute(owner, name):
    """Deletes an attribute that was there before the program ran."""
    if hasattr(owner, name):
        object.__delattr__(owner, name)


def made(cls, new, attributes):
    """Attributes of an object that the program made."""
    for name, value in attributes.items():
        object.__setattr__(new, name, value)
    return new


NAMES = {"FunctionType": types.FunctionType, "MethodType": types.MethodType, "CellType": types.CellType,
         "Partial": functools.partial,
         "ITERATOR": iterator_at, "PLACE": place, "UNPACK": unpacked, "TRACED": traced, "SET": store_item,
         "DELETE": delete_item, "REFILL": refill, "RESET": reset,
         "EVERY": slice(None), "DELATTR": remove_attribute, "INPLACE": INPLACE, "END": END, "GRAD": recording,
         "SETATTR": object.__setattr__,
         "SPENT": spent, "ENDED": ended, "PARAMETER": Parameter, "LOG": logged, "WARN": warned}


class Writer(Part):
    """Writes one segment's run function."""

    def __init__(self, machine):
        super().__init__(machine)
        self.builds: list[str] = []
        self.late: list[str] = []  # what follows the effects
        self.loads: list[str] = []
        self.names: dict = {}  # id of a Value -> the expression that holds it
        self.outputs: dict = {}  # graph output node -> its name
        self.entries: list = []
        self.kept: list = []
        self.parameters: dict = {}  # the outputs that are parameters made here -> whether they want a gradient
        self.recorded, self.carrying = False, set()  # whether an output carries a gradient; which do
        self.storing = bool(machine.changed or machine.attributes or machine.stores)

    # --- values -------------------------------------------------------------------------------------------------------
    def write(self, value) -> str:
        """An expression for a Value; what has to be built first goes to ``builds``."""
        if isinstance(value, Placeholder):
            return str(value)
        if isinstance(value, Constant):
            return self.literal(value.value)
        if isinstance(value, Number):
            return self.number(value)
        if value.source is not None:
            return self.load(value.source)
        if isinstance(value, TensorValue):
            return self.output(value)
        known = self.names.get(id(value))
        if known is None:
            known = self.names[id(value)] = f"v{len(self.names)}"
            self.kept.append(value)
            BUILT.find(self, type(value))(value, known)
        return known

    def number(self, value) -> str:
        """A varying number: text over the inputs, or an output of the graph."""
        if value.fake is not None:
            return self.output(value)
        if not self.machine.unknown(value):
            return self.early(self.machine.text_of(value))
        return f"({self.expression(value.expr)})"

    def expression(self, expr) -> str:
        """An expression over numbers that the graph computes."""
        machine, names = self.machine, {}
        for symbol in expr.free:
            node = machine.facts.unbacked.get(symbol)
            names[symbol] = self.early(machine.symbols[symbol]) if node is None else self.outputs.setdefault(
                node, f"o{len(self.outputs)}")
        return Printer(names).text(expr)

    def literal(self, value) -> str:
        if self.machine.facts.unknown(value):
            return self.expression(value)
        if isinstance(value, slice):
            return f"slice({self.literal(value.start)}, {self.literal(value.stop)}, {self.literal(value.step)})"
        return self.machine.literal(value)

    def load(self, source) -> str:
        """What a source holds; read before the program changes anything."""
        return str(source) if source.parent is None else self.early(str(source))

    def early(self, text):
        """An expression over the inputs, as they were when the segment began."""
        if not self.storing:
            return text
        known = self.names.get(text)
        if known is None:
            known = self.names[text] = f"l{len(self.names)}"
            self.loads.append(f"{known} = {text}")
        return known

    def output(self, value):
        if value.fake._needs_grad:
            self.recorded = True
            if value.fake.node not in self.machine.recorder.leaves:
                self.carrying.add(value.fake.node)
        if value.fake.like is state.parameter:
            self.parameters[value.fake.node] = bool(value.fake._needs_grad)
        return self.outputs.setdefault(value.fake.node, f"o{len(self.outputs)}")

    def all(self, values) -> str:
        return ", ".join(map(self.write, values))

    def tuple_of(self, values) -> str:
        return f"({''.join(self.write(v) + ', ' for v in values)})"

    @BUILT.by(Sequence)
    def build_sequence(self, value, name):
        items = value.items
        if value.kind is list:
            self.builds.append(f"{name} = []")
            self.builds.append(f"{name} += [{self.all(items)}]")  # after its items: a list may contain itself
        elif value.kind is tuple:
            self.builds.append(f"{name} = {self.tuple_of(items)}")
        elif issubclass(value.kind, tuple):
            self.builds.append(f"{name} = tuple.__new__({self.constant(value.kind)}, {self.tuple_of(items)})")
            self.attributes_of(value, name)
        else:
            limit = f", {value.limit}" if value.limit is not None else ""
            self.builds.append(f"{name} = {self.constant(value.kind)}([{self.all(items)}]{limit})")

    def constant(self, value) -> str:
        return self.machine.constant_name(value)

    def pairs(self, items) -> str:
        return f"{{{', '.join(f'{self.key(k)}: {self.write(v)}' for k, v in items.items())}}}"

    def key(self, key) -> str:
        return self.write(key.value) if isinstance(key, Key) else self.literal(key)

    @BUILT.by(Mapping)
    def build_mapping(self, value, name):
        kind = value.kind
        factory = (f"({self.write(value.factory) if value.factory is not None else None})"
                   if kind is collections.defaultdict else "()")
        self.builds.append(f"{name} = {'{}' if kind is dict else self.constant(kind) + factory}")
        self.builds.append(f"{name}.update({self.pairs(value.items)})")

    @BUILT.by(SetValue)
    def build_setvalue(self, value, name):
        self.builds.append(f"{name} = {value.kind.__name__}([{self.all(value.items[k] for k in value.order)}])")

    @BUILT.by(ArrayValue)
    def build_arrayvalue(self, value, name):
        from .fake_arrays import array_of
        self.builds.append(
            f"{name} = {self.constant(array_of)}({self.write(self.machine.tensor_of_array(value))}, "
            f"{value.array.scalar})")

    @BUILT.by(Identity)
    def build_identity(self, value, name):
        self.builds.append(f"{name} = id({self.write(value.of)})")

    @BUILT.by(Namespace)
    def build_namespace(self, value, name):
        self.builds.append(f"{name} = {self.write(value.owner)}.__dict__")

    @BUILT.by(View)
    def build_view(self, value, name):
        self.builds.append(f"{name} = {self.write(value.mapping)}.{value.part}()")

    @BUILT.by(Function)
    def build_function(self, value, name):
        cells = self.tuple_of(value.closure)
        self.builds.append(
            f"{name} = FunctionType({self.constant(value.code)}, {self.constant(value.namespace)}, {value.name!r}, "
            f"{self.tuple_of(value.defaults) if value.defaults else None}, {cells if value.closure else None})")
        if value.keyword_defaults:
            self.builds.append(f"{name}.__kwdefaults__ = {self.pairs(value.keyword_defaults)}")
        for attribute, given in value.attributes.items():
            self.builds.append(f"{name}.{attribute} = {self.write(given)}")

    @BUILT.by(Deferred)
    def build_deferred(self, value, name):
        self.builds.append(f"{name} = {self.deferred(value)}")

    def deferred(self, value) -> str:
        """The code that makes a text, or puts one out."""
        return value.template.format(*map(self.write, value.operands))

    @BUILT.by(Cell)
    def build_cell(self, value, name):
        self.builds.append(f"{name} = CellType()")
        if value.content is not None:
            content = self.write(value.content)
            self.builds.append(f"{name}.cell_contents = {content}")

    @BUILT.by(Method)
    def build_method(self, value, name):
        function, owner = value.function, value.owner
        if isinstance(owner, TensorValue) or not isinstance(self.machine.force(function),
                                                            (Function, Object)) or not isinstance(
getattr(function, "value", None) or types.FunctionType, (types.FunctionType, type)):
            self.builds.append(f"{name} = Partial({self.write(function)}, {self.write(owner)})")
        else:
            self.builds.append(f"{name} = MethodType({self.write(function)}, {self.write(owner)})")

    @BUILT.by(ContainerMethod)
    def build_containermethod(self, value, name):
        self.builds.append(f"{name} = {self.write(value.owner)}.{value.name}")

    @BUILT.by(Partial)
    def build_partial(self, value, name):
        parts = [self.write(value.function), *map(self.write, value.arguments)] + [f"{k}={self.write(v)}"
                                                                                   for k, v in value.keywords.items()]
        self.builds.append(f"{name} = Partial({', '.join(parts)})")
        self.attributes_of(value, name)

    @BUILT.by(IteratorValue)
    def build_iteratorvalue(self, value, name):
        of = value.of
        if getattr(getattr(of, "mapping", of), "changed", False) and not isinstance(of, Sequence):
            of = None  # it holds what it is to hold after the effects only: over what is left then
        sequence, turned = self.write(of or value.sequence), value.turned and of is not None
        over = of or value.sequence
        # a list has its items after the effects
        if isinstance(over, Sequence) and over.kind is list and (value.position or turned):
            place = len(value.sequence.items) - 1 - value.position if turned else value.position
            self.builds.append(f"{name} = {'reversed' if turned else 'iter'}({sequence})")
            self.late.append(f"PLACE({name}, {sequence}, {place})")
        else:
            self.builds.append(f"{name} = ITERATOR({sequence}, {value.position}, {turned})")

    @BUILT.by(Rows)
    def build_rows(self, value, name):
        parts = [*map(self.write, value.parts), *([str(value.position)] if value.kind is enumerate else [])]
        self.builds.append(f"{name} = {value.kind.__name__}({', '.join(parts)})")

    @BUILT.by(GeneratorValue)
    def build_generatorvalue(self, value, name):
        positional, named = value.arguments
        if value.started:
            state, add = value.frame.locals, self.machine.binary
            if value.kind is enumerate:
                positional, named = [positional[0], add("+", state["k"], Constant(1))], {}
            elif value.kind is itertools.count:
                positional, named = [add("+", state["k"], state["step"]), state["step"]], {}
            elif value.kind not in STATELESS:
                raise Again("generators")
        function = self.constant(value.kind) if value.kind else self.write(value.function)
        parts = [*map(self.write, positional)] + [f"{k}={self.write(v)}" for k, v in named.items()]
        self.builds.append(f"{name} = {function}({', '.join(parts)})")

    @BUILT.by(Instance)
    def build_instance(self, value, name):
        if value.cls is CaughtWarnings:
            raise Again("warnings")
        cls = self.constant(value.cls)
        self.builds.append(f"{name} = {cls}.__new__({cls})")
        payload = value.payload
        if isinstance(payload, Sequence) and payload.items:
            self.builds.append(f"list.extend({name}, [{self.all(payload.items)}])")
        elif isinstance(payload, Mapping):
            store = f"{self.constant(payload.kind)}.__setitem__"
            for k, v in payload.items.items():
                self.builds.append(f"{store}({name}, {self.key(k)}, {self.write(v)})")
        self.attributes_of(value, name)

    def attributes_of(self, value, name):
        for (owner, attribute), given in list(self.machine.attributes.items()):
            if owner == id(value) and given is not DELETED:
                self.builds.append(f"SETATTR({name}, {attribute!r}, {self.write(given)})")

    @BUILT.by(ExceptionValue)
    def build_exceptionvalue(self, value, name):
        cls = self.constant(value.cls)
        self.builds.append(f"{name} = {cls}.__new__({', '.join([cls, *map(self.write, value.arguments)])})")
        self.builds.append(f"BaseException.__init__({', '.join([name, *map(self.write, value.arguments)])})")
        if value.raised:
            self.builds.append(f"TRACED({name})")
        for attribute, other in (("__context__", value.context), ("__cause__", value.cause)):
            if other is not None:
                self.builds.append(f"{name}.{attribute} = {self.write(other)}")
        if value.suppress != (value.cause is not None):
            self.builds.append(f"{name}.__suppress_context__ = {value.suppress}")
        self.attributes_of(value, name)

    @BUILT.by(Object)
    def build_object(self, value, name):
        self.builds.append(f"{name} = {self.constant(value.value)}")

    @BUILT.by(Transformed)
    def build_transformed(self, value, name):
        outlives(value)

    @BUILT.by(Super)
    def build_super(self, value, name):
        self.builds.append(f"{name} = super({self.constant(value.cls)}, {self.write(value.owner)})")

    # --- effects ------------------------------------------------------------------------------------------------------
    def effects(self) -> list[str]:
        """Statements that change what is outside, in the state that the program left it."""
        machine, lines = self.machine, []
        for container in filter(differs, machine.changed):
            place = self.load(container.source)
            if isinstance(container, Sequence):
                items = f"[{self.all(container.items)}]"
                lines.append(f"list.__setitem__({place}, EVERY, {items})" if container.kind is list
                             else f"{place}.clear(); {place}.extend({items})")
            elif isinstance(container, Mapping):
                lines.append(f"REFILL({place}, {self.pairs(container.items)})")
            elif isinstance(container, SetValue):
                lines.append(f"RESET({place}, {self.constant(container.original - container.items.keys())}, "
                             f"[{self.all(v for k, v in container.items.items() if k not in container.original)}])")
            else:
                lines.append(f"{place}.cell_contents = {self.write(container.content)}"
                             if container.content is not None else f"del {place}.cell_contents")
        for (owner_id, name), value in machine.attributes.items():
            owner, raw = machine.owners[owner_id, name]
            if isinstance(owner, TensorValue) and owner.source is None:
                if owner.fake.node in self.outputs:
                    lines.append(f"{self.write(owner)}._gradient = {self.write(value)}")
            elif isinstance(owner, TensorValue):
                lines.append(f"{self.machine.place_of(owner)}._gradient = {self.write(value)}")
            elif isinstance(owner, Object) or owner.source is not None:
                place = self.write(owner)
                if value is DELETED:
                    lines.append(f"DELATTR({place}, {name!r})")
                    continue
                lines.append(f"SETATTR({place}, {name!r}, {self.write(value)})" if raw
                             and getattr(owner, "value", None) is not mine else f"{place}.{name} = {self.write(value)}")
        for namespace, name, value in ((n, k[1], v) for k, (n, v) in machine.stores.items()):
            lines.append(f"{self.constant(namespace)}[{name!r}] = {self.write(value)}")
        return lines

    # --- entries ------------------------------------------------------------------------------------------------------
    def entry(self, frames, offset, native=False) -> str:
        """``(entry, values)`` to go on with at an offset of the last of these frames."""
        places, values = [], []
        for k, frame in enumerate(frames):
            last = k == len(frames) - 1
            if frame.generator is not None:
                raise Again("generators")
            where = offset if last else frame.now.next
            stack = tuple(map(kind_of, frame.stack))
            places.append(Place(frame.code, where, tuple(frame.locals), tuple(frame.cells), stack, frame.discard,
                                None if last else frame.now.offset))
            values += [*frame.locals.values(), *frame.cells.values(),
                       *(v for slot in frame.stack for v in carried(slot))]
        found = self.machine.entry.owner.entry(tuple(places), tuple(f.namespace for f in frames), native)
        self.entries.append(found)
        written = "".join(self.write(v) + ", " for v in values)
        return f"E[{len(self.entries) - 1}], ({written})"

    def handler(self):
        """The entry of the handler that the breaking instruction is under, or None."""
        frames = self.machine.frames
        for k in range(len(frames) - 1, -1, -1):
            found = frames[k].listing.handler(frames[k].now.offset)
            if found:
                target, depth, push = found
                frame, stack = frames[k], frames[k].stack
                frame.stack = stack[:depth] + ([Offset(frame.now.offset)] if push else []) + [Placeholder("error")]
                written = self.entry(frames[:k + 1], target)
                frame.stack = stack
                return written
        return None

    def guarded(self, statements) -> list[str]:
        """Statements that run user code: an exception goes to its handler; the one that is being handled is seen
        there."""
        handler, handling = self.handler(), self.machine.handling
        if handling and statements:
            statements = [f"try: raise {self.write(handling[-1])}", "except BaseException:",
                          *(f"    {s}" for s in statements)]
        if handler is None:
            return statements
        return ["try:", *(f"    {s}" for s in statements), "except BaseException as caught:", "    error = caught",
                f"    return {handler}"]

    # --- endings ------------------------------------------------------------------------------------------------------
    def finish(self, ending) -> list[str]:
        frames, frame = self.machine.frames, self.machine.frames[-1] if self.machine.frames else None
        kind = ending[0]
        if kind == "return":
            return [f"return None, {self.write(ending[1])}"]
        if kind == "raise":
            return [f"raise {self.write(ending[1])}"]
        if kind == "native":
            return [f"return {self.entry(frames, ending[1], True)}"]
        return ENDINGS.find(self, kind)(frames, frame, frame.now, *ending[1:])

    @ENDINGS.by("operation")
    def finish_operation(self, frames, frame, one, template, operands, gives, null_after):
        written = template.format(*map(self.write, operands))
        if gives:
            frame.stack.append(Placeholder("result"))
        if null_after:
            frame.stack.append(NULL)
        after = self.entry(frames, one.next)
        if gives:
            del frame.stack[-1 - null_after:]
        return [*self.guarded([("result = " if gives else "") + written]), f"return {after}"]

    @ENDINGS.by("jump")
    def finish_jump(self, frames, frame, one, target, template, operand, keep):
        test = template.format(self.write(operand))
        taken = self.entry(frames, target)
        if keep:
            frame.stack.pop()
        return [*self.guarded([f"test = {test}"]), f"if test: return {taken}", f"return {self.entry(frames, one.next)}"]

    @ENDINGS.by("for")
    def finish_for(self, frames, frame, one, target, iterator):
        written = self.write(iterator)
        frame.stack[-1:] = [Placeholder("iterator"), Placeholder("result")]
        more = self.entry(frames, one.next)
        del frame.stack[-2:]
        return [f"iterator = {written}", *self.guarded(["result = next(iterator, END)"]),
                f"if result is END: return {self.entry(frames, target)}", f"return {more}"]

    @ENDINGS.by("unpack")
    def finish_unpack(self, frames, frame, one, count, operand):
        written = self.write(operand)
        frame.stack += [Placeholder(f"items[{k}]") for k in reversed(range(count))]
        after = self.entry(frames, one.next)
        del frame.stack[len(frame.stack) - count:]
        return [*self.guarded([f"items = UNPACK({written}, {count})"]), f"return {after}"]

    @ENDINGS.by("with")
    def finish_with(self, frames, frame, one, manager):
        written = self.write(manager)
        frame.stack += [Placeholder("leave"), Placeholder("result")]
        after = self.entry(frames, one.next)
        del frame.stack[-2:]
        return [*self.guarded([f"manager = {written}", "leave = manager.__exit__", "result = manager.__enter__()"]),
                f"return {after}"]

    # --- the whole ----------------------------------------------------------------------------------------------------
    def graph_call(self):
        """Statements that call the graph, the graph (None where nothing is computed), and the sources of module state
        that it takes."""
        machine, sources, tensors, arguments = self.machine, [], [], []
        fetched = sources, tensors
        lines = []
        if machine.stream is not None:  # an empty draw takes no place, but its program reads where it stands
            seed, position = machine.stream
            drawn = machine.expression(machine.drawn) if isinstance(machine.drawn, Expr) else machine.drawn
            lines = [f"{seed.node.name}, {position.node.name} = "
                     f"{machine.constant_name(default_generator)}.reserve({drawn})"]
        lines += [f"numbers{k} = {machine.constant_name(plan)}({', '.join(texts)})"
                  for k, (plan, texts) in enumerate(machine.numbers)]
        views = self.views()
        after = self.histories()
        graph = machine.recorder.graph(list(self.outputs), machine.symbols)
        if not graph.nodes and not self.outputs:
            return lines, None, fetched
        held = []
        for node in graph.inputs:
            text, source = machine.graph_inputs.get(node) or (graph_symbol(machine, node), None)
            if source is not None and source.covered and source.parent is not None:
                text = f"P[{len(sources)}]"
                sources.append(source)
                tensors.append(machine.real[node])
                held.append(node)
            arguments.append(text)
        graph.held = frozenset(held)
        results = "".join(f"{name}, " for name in self.outputs.values())
        statement = f"{results + '= ' if results else ''}graph({', '.join(arguments)})"
        if (self.recorded or machine.recorder.graded) and not machine.modes["grad"]:
            return [*lines, *recorded([statement]), *after, *recorded(views)], graph, fetched
        return [*lines, statement, *after, *views], graph, fetched

    def views(self) -> list[str]:
        """Statements that make views of other outputs, which are no outputs themselves: they share memory as they do in
        the program."""
        recorder, families = self.machine.recorder, collections.defaultdict(list)
        if recorder.leaves or not recorder.bases or self.machine.entry.owner.exporting:
            return []
        for node in self.outputs:
            root = recorder.root(node)
            if root.op is not None and all(type(n.meta) is Meta for n in (node, root)):
                families[root].append(node)
        statements = []
        for root, members in families.items():
            shown = [(node, text) for node in members if node is not root
                     and (text := self.view(node, root)) is not None]
            if len(members) < 2 or not shown:
                continue
            if not self.carrying.isdisjoint(members):
                self.carrying.add(root)
            name = self.outputs.setdefault(root, f"o{len(self.outputs)}")
            statements += [f"{self.outputs.pop(node)} = {text.replace(ROOT, name)}" for node, text in shown]
            self.carrying.difference_update(node for node, _ in shown)
        return statements

    def view(self, node, root):
        """An expression that makes a view of ROOT; None where another tensor decides what it shows."""
        if node is root:
            return ROOT
        base = self.machine.recorder.bases[node]
        others = [*node.args, *node.params.values()]
        if others.count(base) != 1 or any(n is not base for n in nodes_in(others)) or any(self.machine.facts.unknown(e)
                                                                                          for e in expressions_in(
                                                                                                  others)):
            return None
        inner = self.view(base, root)

        def written(value):
            if type(value) in (tuple, list) and any(expressions_in(value)):
                return f"{type(value).__name__}([{', '.join(map(written, value))}])"
            return inner if value is base else self.early(self.machine.expression(value)) if type(
                value) is Expr else self.literal(value)

        return inner and f"{self.constant(node.op)}({', '.join([*map(written, node.args), *(f'{k}={written(v)}' for k, v in node.params.items())])})"

    def histories(self) -> list[str]:
        """Statements that give outputs the history they have left, after backward passes in the graph."""
        machine = self.machine
        statements = self.leaves()
        if not machine.used:
            machine.unseen(self.carrying)
            return statements
        carrying = [(node, name) for node, name in self.outputs.items() if node in self.carrying]
        spent = machine.spent([node for node, _ in carrying])
        machine.unseen([node for over, (node, _) in zip(spent, carrying) if not over])
        machine.recorder.plain = all(spent)
        machine.recorder.history |= any(spent) and not all(spent)
        return [*statements, *(f"SPENT({name})" for over, (_, name) in zip(spent, carrying) if over)]

    def leaves(self) -> list[str]:
        """Statements that make leaves of outputs; a Break where one was made that cannot be computed apart from what is
        outside."""
        machine, recorder = self.machine, self.machine.recorder
        made = [f"{self.outputs[node]} = PARAMETER({self.outputs[node]}, {wanted})"
                for node, wanted in self.parameters.items()]
        if not recorder.leaves:
            return made
        alive = [node for node in self.outputs if node in recorder.leaves]
        reached = machine.reach(alive)
        entangled = {one for node in self.carrying for one in reached.get(node, ())}
        written = {recorder.root(t) for targets in recorder.targets.values() for t in targets}
        for node, leaf in recorder.leaves.items():
            seen = node in written and (leaf.origin in self.outputs or self.read_after(node, leaf.origin))
            if node in entangled or seen or leaf.shares is not None and (node in alive or leaf.shares in written
                                                                         or node in written):
                raise Again(leaf.place, Break(
                    "RB011", "a tensor that requires grad, made here, lives on with what depends on it or shares its "
                             "memory"))
        made += [f"{self.outputs[node]}.requires_grad_()" for node in alive if node not in self.parameters]
        return made + [f"ENDED({name})" for node, name in self.outputs.items() if node in self.carrying
                       and self.is_closed(node, alive)]

    def is_closed(self, node, alive) -> bool:
        """Whether the history of an output goes back only to leaves made here that are gone."""
        machine = self.machine
        starts = [n for n, value in machine.inputs().items() if value.fake._needs_grad]
        return not machine.reach([*starts, *alive]).get(node) and bool(machine.reach(list(machine.recorder.leaves))
                                                                       .get(node))

    def read_after(self, node, other) -> bool:
        """Whether a node is read after another."""
        nodes = self.machine.recorder.nodes
        return any(other in nodes_in((n.args, tuple(n.params.values()))) for n in nodes[nodes.index(node) + 1:])


def kind_of(slot):
    """How a slot of the value stack is passed on: see Place."""
    if isinstance(slot, Offset):
        return slot.offset
    return "N" if slot is NULL else "H" if isinstance(slot, Handled) else "V"


def carried(slot):
    """The values that a slot of the value stack comes along as."""
    kind = kind_of(slot)
    return (slot,) if kind == "V" else (slot.before, slot.error) if kind == "H" else ()


def differs(container) -> bool:
    """Whether a container or cell from outside does not hold at the end just what it held at first."""
    if not isinstance(container, Mapping) or container.original != list(container.items):
        return True
    return any(str(v.source) != f"{container.source}[{k!r}]" for k, v in container.items.items())


def graph_symbol(machine, node):
    """The text of a symbol that is an input of the graph."""
    return next(text for symbol, text in machine.symbols.items() if symbol.arg[0] == node.name)


def guard_classes(machine):
    """One guard for all functions that were found in users' classes, and one for each other attribute."""
    functions = {}
    for (cls, name), raw in machine.relied.items():
        if isinstance(raw, types.FunctionType):
            functions[f"{machine.constant_name(cls)}.{name}"] = raw
        else:
            base = next((b for b in cls.__mro__ if name in b.__dict__), None)
            if base is not None and base.__dict__[name] is raw and not is_framework(base.__module__):
                machine.guard(f"{machine.constant_name(base)}.__dict__[{name!r}] is {machine.constant_name(raw)}")
    if machine.codes:
        codes = "".join(f"{machine.constant_name(function)}.__code__, " for function in machine.codes)
        machine.guard(f"({codes}) == {machine.constant_name(tuple(machine.codes.values()))}")
    if functions:
        machine.guard(f"({', '.join(functions)},) == {machine.constant_name(tuple(functions.values()))}")


def kept(guards, machine) -> list:
    """The guards that a user's filter leaves."""
    keep = machine.entry.owner.keep
    if keep is None:
        return guards
    return [guard for guard, wanted in zip(guards, keep([Described(guard, machine.constants) for guard in guards]))
            if wanted]


def write_segment(machine, ending) -> Segment:
    """The Segment of what a machine captured."""
    varying = constraints.checked(machine)
    writer = Writer(machine)
    last = writer.finish(ending)
    effects = [*map(writer.deferred, machine.notes), *writer.effects()]
    calls, graph, fetched = writer.graph_call()
    body = [*writer.loads, *calls, *writer.builds, *effects, *writer.late, *last]
    source = "\n".join(["def run(V, P):", *(f"    {line}" for line in body)])
    for node in machine.recorder.sizes_read:
        if node in machine.checks:
            machine.checks[node].exact = True
    compiled = machine.entry.owner.graph(graph, machine.recorder) if graph is not None else None
    for condition, outcome in machine.facts.guards:
        dynamic_log.debug("assumed: (%s) is %s", condition, outcome)
        machine.guard(f"({machine.expression(condition)}) is {outcome}")
    guard_classes(machine)
    for owner, name in machine.recorder.settings_read:
        machine.guard(f"{{0}}.{name} == {machine.constant_name(getattr(owner, name))}",
                      Source(None, machine.constant_name(owner)))
    names = {f"k{k}": v for k, v in enumerate(machine.constants)}
    frames = machine.frames
    # classes made at a break say where they come from
    module = frames[-1].namespace.get("__name__") if frames else None
    namespace = {**NAMES, **names, "E": writer.entries, "graph": compiled, "__name__": module}
    exec(compile(source, "<capture>", "exec"), namespace)
    guards = kept(list(machine.guards.values()), machine)
    guard, arming = guard_function(guards, *fetched, names)
    # popped: no cycle, it goes with the last that holds it
    made = Segment(guard, arming, namespace.pop("run"), compiled, guards, source, machine.roots, varying)
    made.end_with(machine.ends_with, machine.entry)
    made.values = machine.values if machine.entry.owner.exporting else None
    return made
