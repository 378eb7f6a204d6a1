"""Make a Segment from a finished capture: a graph, a guard function, and the Python that runs around the graph."""
from __future__ import annotations

import collections
import itertools
import types

from ..core.expr_text import Printer
from ..core import overriding
from ..core.log import logger
from ..core.native import mine, state
from ...nn.modules.module import Module
from . import constraints
from .breaks import Placeholder
from .classes import is_framework
from .endings import Endings
from .graph_calls import GraphCalls
from .errors import Again
from .guards import Described, loaded, weakly
from .iterators import STATELESS, native_iteration
from .parts import Table
from .polyfills import CaughtWarnings
from .segment import Segment
from .sharing import SegmentCode
from .transforms import Transformed, outlives
from .values import (ArrayValue, Cell, Comparison, Constant, ContainerMethod, Deferred, ExceptionValue, Function,
                     GeneratorValue, HookHandle, Identity, Instance, IteratorValue, Key, Mapping, Method, Namespace,
                     NestedValue, Number, Object, Partial, RaggedValue, Rows, Sequence, SetValue, Source, Super,
                     TensorValue, View, WrapperValue)
from .writes import DELETED

dynamic_log = logger("dynamic")
BUILT = Table("code that builds")


class Writer(Endings, GraphCalls):
    """Writer of one segment's run function."""

    def __init__(self, machine):
        super().__init__(machine)
        self.builds: list[str] = []
        self.late: list[str] = []  # statements after the side effects
        self.loads: list[str] = []
        self.names: dict = {}  # id of a Value -> the expression for it
        self.outputs: dict = {}  # graph output node -> its name
        self.entries: list = []
        self.kept: list = []
        self.parameters: dict = {}  # the outputs that are parameters made here -> whether they require grad
        self.recorded, self.carrying = False, set()  # True if an output carries a gradient; those that do
        self.storing = bool(machine.writes.changed or machine.writes.set_attributes or machine.writes.set_globals)

    # --- values -------------------------------------------------------------------------------------------------------
    def write(self, value) -> str:
        """Return an expression for a Value; statements that it needs are appended to ``builds``."""
        if isinstance(value, Placeholder):
            return str(value)
        if isinstance(value, Comparison):
            return f"({self.expression(value.condition)})"
        if isinstance(value, Constant):
            return self.literal(value.value)
        if isinstance(value, Number):
            return self.number(value)
        if value.source is not None:
            return self.load(value.source)
        if type(value) is TensorValue and overriding.kind_of(value.fake.like) == overriding.PLAIN:
            return self.output(value)
        known = self.names.get(id(value))
        if known is None:
            known = self.names[id(value)] = f"v{len(self.names)}"
            self.kept.append(value)
            BUILT.find(self, type(value))(value, known)
        return known

    def number(self, value) -> str:
        """Return the expression of a varying number: source over the inputs, or an output of the graph."""
        if value.fake is not None:
            return self.output(value)
        if not self.machine.numbers.unknown(value):
            return self.early(self.machine.guarding.text_of(value))
        return f"({self.expression(value.expr)})"

    def expression(self, expr) -> str:
        """Return an expression over numbers that the graph computes."""
        machine, names = self.machine, {}
        for symbol in expr.free:
            node = machine.shape_env.unbacked.get(symbol)
            names[symbol] = self.early(machine.guarding.symbols[symbol]) if node is None else self.outputs.setdefault(
                node, f"o{len(self.outputs)}")
        return Printer(names).text(expr)

    def literal(self, value) -> str:
        if self.machine.shape_env.unknown(value):
            return self.expression(value)
        if isinstance(value, slice):
            return f"slice({self.literal(value.start)}, {self.literal(value.stop)}, {self.literal(value.step)})"
        return self.machine.guarding.literal(value)

    def load(self, source) -> str:
        """Return an expression for a source's value; read before the program changes anything."""
        return str(source) if source.parent is None else self.early(str(source))

    def early(self, text):
        """Return an expression over the inputs, as they were when the segment began."""
        if not self.storing:
            return text
        known = self.names.get(text)
        if known is None:
            known = self.names[text] = f"l{len(self.names)}"
            self.loads.append(f"{known} = {text}")
        return known

    def output(self, value):
        if value.fake._rush_needs_grad:
            self.recorded = True
            if value.fake.node not in self.machine.recorder.leaves:
                self.carrying.add(value.fake.node)
        if value.fake.like is state.parameter:
            self.parameters[value.fake.node] = bool(value.fake._rush_needs_grad)
        return self.outputs.setdefault(value.fake.node, f"o{len(self.outputs)}")

    def all(self, values) -> str:
        return ", ".join(map(self.write, values))

    def tuple_of(self, values) -> str:
        return f"({''.join(self.write(v) + ', ' for v in values)})"

    @BUILT.by(TensorValue)
    def build_subclass(self, value, name):
        """Build a tensor of a class that answers operators."""
        self.builds.append(f"{name} = SUBCLASS({self.output(value)}, {self.constant(value.fake.like)})")

    @BUILT.by(WrapperValue)
    def build_wrapper(self, value, name):
        self.builds.append(f"{name} = {self.machine.wrappers.written(value, self.write)}")
        self.attributes_of(value, name)

    @BUILT.by(NestedValue)
    def build_nested(self, value, name):
        self.builds.append(f"{name} = NESTED({self.machine.nesting.written(value, self.write)})")

    @BUILT.by(RaggedValue)
    def build_ragged(self, value, name):
        self.builds.append(f"{name} = RAGGED({self.write(value.starts)})")

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
        return self.machine.guarding.constant_name(value)

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
            f"{name} = {self.constant(array_of)}({self.write(self.machine.arrays.tensor_of_array(value))}, "
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
        """Return the code that makes or outputs a string."""
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
        if isinstance(owner, TensorValue) or not isinstance(self.machine.values.force(function),
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
        if value.watched is not None:
            if value.size < 0 or value.watched.changed and value.watched.source is not None:
                raise native_iteration(value)  # its state depends on the side effects
        elif getattr(getattr(of, "mapping", of), "changed", False) and not isinstance(of, Sequence):
            of = None  # at its end
        sequence, turned = self.write(of or value.sequence), value.turned and of is not None
        over = of or value.sequence
        # a list is filled after the side effects
        if isinstance(over, Sequence) and over.kind is list and (value.position or turned):
            place = value.position
            self.builds.append(f"{name} = {'reversed' if turned else 'iter'}({sequence})")
            self.late.append(f"PLACE({name}, {sequence}, {place})")
        else:
            steps = len(over.items) - 1 - value.position if self.machine.iterators.counts_down(value) \
                else value.position
            self.builds.append(f"{name} = ITERATOR({sequence}, {steps}, {turned})")

    @BUILT.by(Rows)
    def build_rows(self, value, name):
        parts = [*map(self.write, value.parts), *([str(value.position)] if value.kind is enumerate else [])]
        self.builds.append(f"{name} = {value.kind.__name__}({', '.join(parts)})")

    @BUILT.by(GeneratorValue)
    def build_generatorvalue(self, value, name):
        positional, named = value.arguments
        if value.started:
            state, add = value.frame.locals, self.machine.arithmetic.binary
            if value.kind is enumerate:
                positional, named = [positional[0], add("+", state["k"], Constant(1))], {}
            elif value.kind is itertools.count:
                positional, named = [add("+", state["k"], state["step"]), state["step"]], {}
            elif value.kind is itertools.repeat:
                times, given = state["times"], add("+", state["k"], Constant(1))
                bounded = not isinstance(times, Constant) or times.value is not None
                positional, named = [state["x"], *([add("-", times, given)] if bounded else [])], {}
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
        for (owner, attribute), given in list(self.machine.writes.set_attributes.items()):
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

    @BUILT.by(HookHandle)
    def build_handle(self, value, name):
        if value.removed:
            self.builds.append(f"{name} = HANDLE({{}}, None)")
        else:
            place = self.machine.attributes.place_of(value.tensor)
            self.builds.append(f"{name} = {place}.{value.method}({self.write(value.hook)})")

    @BUILT.by(Super)
    def build_super(self, value, name):
        self.builds.append(f"{name} = super({self.constant(value.cls)}, {self.write(value.owner)})")

    # --- side effects -------------------------------------------------------------------------------------------------
    def effects(self) -> list[str]:
        """Return statements that bring outside objects into the state in which the program left them."""
        machine, lines = self.machine, []
        for handle in machine.hooks.left():
            self.write(handle)
        for container in filter(differs, machine.writes.changed):
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
        left = []  # attributes of tensors that no statement refers to yet
        for (owner_id, name), value in machine.writes.set_attributes.items():
            owner, raw = machine.writes.owners[owner_id, name]
            if isinstance(owner, TensorValue):
                if not self.tensor_attribute(owner, name, value, lines):
                    left.append((owner, name, value))
            elif isinstance(owner, Object) or owner.source is not None:
                place = self.write(owner)
                if value is DELETED:
                    lines.append(f"DELATTR({place}, {name!r})")
                    continue
                lines.append(f"SETATTR({place}, {name!r}, {self.write(value)})" if raw
                             and getattr(owner, "value", None) is not mine else f"{place}.{name} = {self.write(value)}")
        for namespace, name, value in ((n, k[1], v) for k, (n, v) in machine.writes.set_globals.items()):
            lines.append(f"{self.constant(namespace)}[{name!r}] = {self.write(value)}")
        before = None
        while before != len(left):  # new statements may refer to further tensors
            before, left = len(left), [given for given in left if not self.tensor_attribute(*given, lines)]
        return lines

    def tensor_attribute(self, owner, name, value, lines) -> bool:
        """Add the statement that sets an attribute of a tensor; False if no statement refers to the tensor."""
        if owner.source is None and id(owner) not in self.names and owner.fake.node not in self.outputs:
            return False
        if name == "grad":
            place = self.machine.attributes.place_of(owner) if owner.source is not None else self.write(owner)
            name = "_rush_gradient"
        else:
            place = self.write(owner)
        lines.append(f"{place}.{name} = {self.write(value)}")
        return True


def differs(container) -> bool:
    """True if the content of a container or cell from outside has changed at the end."""
    if not isinstance(container, Mapping) or container.original != list(container.items):
        return True
    return any(str(v.source) != f"{container.source}[{k!r}]" for k, v in container.items.items())


def guard_classes(machine):
    """Add one guard for all functions found in users' classes, and one for each other attribute."""
    functions = {}
    for (cls, name), raw in machine.guarding.relied.items():
        if isinstance(raw, types.FunctionType):
            functions[f"{machine.guarding.constant_name(cls)}.{name}"] = raw
        else:
            base = next((b for b in cls.__mro__ if name in b.__dict__), None)
            if base is not None and base.__dict__[name] is raw and not is_framework(base.__module__):
                machine.guarding.guard(
                    f"{machine.guarding.constant_name(base)}.__dict__[{name!r}] is "
                    f"{machine.guarding.constant_name(raw)}")
    if machine.guarding.codes:
        codes = "".join(f"{machine.guarding.constant_name(function)}.__code__, " for function in machine.guarding.codes)
        machine.guarding.guard(f"({codes}) == {machine.guarding.constant_name(tuple(machine.guarding.codes.values()))}")
    if functions:
        machine.guarding.guard(
            f"({', '.join(functions)},) == {machine.guarding.constant_name(tuple(functions.values()))}")


def kept(guards, machine) -> list:
    """Return the guards that a user's filter keeps."""
    keep = machine.entry.owner.keep
    if keep is None:
        return guards
    return [guard for guard, wanted in zip(guards, keep([Described(guard, machine.guarding.constants)
                                                         for guard in guards]))
            if wanted]


def write_segment(machine, ending) -> Segment:
    """Return the Segment of a finished capture."""
    machine.generators.check_dropped()
    writer = Writer(machine)
    last = writer.finish(ending)
    effects = [*map(writer.deferred, machine.output.notes), *writer.effects()]
    calls, graph, fetched = writer.graph_call()
    body = [*writer.loads, *calls, *writer.builds, *effects, *writer.late, *last]
    varying = constraints.checked(machine)  # after results are written, which decides the comparisons among them
    for node in machine.recorder.sizes_read:
        if node in machine.outside.checks:
            machine.outside.checks[node].exact = True
    compiled = machine.entry.owner.graph(graph, machine.recorder) if graph is not None else None
    for condition, outcome in machine.shape_env.guards:
        dynamic_log.debug("assumed: (%s) is %s", condition, outcome)
        machine.guarding.guard(f"({machine.guarding.expression(condition)}) is {outcome}")
    guard_classes(machine)
    for owner, name in machine.recorder.settings_read:
        machine.guarding.guard(f"{{0}}.{name} == {machine.guarding.constant_name(getattr(owner, name))}",
                      Source(None, machine.guarding.constant_name(owner)))
    names = weakly({f"k{k}": v for k, v in enumerate(machine.guarding.constants)})
    source = "\n".join(["def run(V, P):", *(f"    {line}" for line in [*loaded(names, body), *body])])
    # classes made at a break record their module
    module = machine.frames[-1].namespace.get("__name__") if machine.frames else None
    sources, inputs = fetched
    guards = kept(list(machine.guarding.guards.values()), machine)
    code = SegmentCode(source, module, compiled, guards, sources, varying,
                       [(entry.places, entry.namespaces, entry.native) for entry in writer.entries])
    made = code.bind(machine.entry.owner, names, inputs, machine.outside.modules)
    modules = [value for value in machine.guarding.constants if isinstance(value, Module)]
    made.end_with([*machine.training.ends_with, *modules], machine.entry)
    made.values = machine.given if machine.entry.owner.exporting else None
    if not machine.guarding.is_tied and not machine.training.ends_with:
        settings = [owner for owner, _ in machine.recorder.settings_read]
        code.offer(machine.entry, names, machine.outside.modules, settings)
    return made
