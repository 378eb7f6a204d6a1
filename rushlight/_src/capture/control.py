"""Data-dependent control flow in a graph: functions become sub-programs, which Python selects or repeats between
programs."""
from __future__ import annotations

from ..._higher_order_ops.associative_scan import associative_scan
from ..._higher_order_ops.cond import cond
from ..._higher_order_ops.operators import operator_named
from ..._higher_order_ops.scan import loop, steps
from ..._higher_order_ops.while_loop import while_loop
from ..._higher_order_ops.wrap import wrap
from ..core.exchange import tensor
from ..core.native import Tensor, mine
from ..core.op import OPS
from ..eager.arguments import NUMBER_METAS
from ..graph.graph import Graph, Node
from ..transforms.batch import differs
from . import polyfills
from .errors import Break, Raised
from .parts import CALLED, Part
from .unbacked import Effect, Reading, in_stages
from .record import expressions_in
from .values import (Cell, Comparison, Constant, Function, Instance, IteratorValue, Lazy, Mapping, Method, Number,
                     Object, Partial, Rows, Sequence, SetValue, TensorValue, WrapperValue)

WRITTEN_OUT = 256  # steps of a scan that are unrolled; longer scans are a loop
PURE = ("HigherOrderOperator: Mutating a variable not in the current scope (SideEffects): a function of control flow "
        "that does more than compute")


class Body:
    """A captured function of the program: the nodes that compute its results, and their tree structure (``spec``)."""

    def __init__(self, nodes, results, spec):
        self.nodes, self.results, self.spec = nodes, results, spec

    metas = property(lambda self: [r.fake._rush_meta for r in self.results])

    def reads(self, recorder, known) -> tuple:
        """Return (the nodes from outside that it reads, except those ``known``; the symbols in its arguments)."""
        within = {*self.nodes, *known}
        outside = dict.fromkeys(n for node in self.nodes for n in recorder.read_by(node) if n not in within)
        symbols = {s for node in self.nodes for e in expressions_in((node.args, tuple(node.params.values())))
                   for s in e.free}
        unbacked = recorder.shape_env.unbacked
        return [n for n in outside
                if n not in unbacked.values()], sorted((s for s in symbols if unbacked.get(s) not in within),
                                                       key=lambda s: s.arg[0])


class Flow(Reading):
    """Node operator of control flow over ``programs`` with the names ``parts``; ``apply(programs, *values)`` runs
    it."""

    parts: tuple = ()
    public = None  # its function in graphs of users

    @staticmethod
    def arguments(programs, values) -> tuple:
        """Arguments of ``public``: programs, and the values of a call."""
        return *programs, *values

    def __init__(self, name, programs):
        super().__init__(name, self.run)
        self.programs = programs

    def run(self, *values):
        return self.apply(self.programs, *values)

    def __getstate__(self):
        return {**vars(self), "programs": ()}  # the code that saves it has them as modules


class Chosen(Flow):
    """The first of two programs if a condition holds, else the second."""

    parts = "true_graph", "false_graph"
    public = operator_named("cond")

    @staticmethod
    def arguments(programs, values) -> tuple:
        return values[0], *programs, tuple(values[1:])

    def apply(self, programs, condition, *values):
        return programs[not condition](*values)


class Repeated(Flow):
    """A program, applied to the ``carried`` values while another's only result holds; both also get the values around
    them."""

    parts = "cond_graph", "body_graph"

    def __init__(self, name, programs, before, carried):
        super().__init__(name, programs)
        self.before, self.after = before, before + carried

    def apply(self, programs, *values):
        test, body = programs
        first, carried, last = values[:self.before], values[self.before:self.after], values[self.after:]
        given = carried
        while test(*first, *carried, *last)[0]:
            carried = body(*first, *carried, *last)
        return tuple(v.clone() for v in carried) if carried is given else carried


class Scanned(Flow):
    """A program, applied to the ``carried`` values and each row of the next ``rows``: the last values, and the other
    results stacked."""

    parts = "combine_graph",

    def __init__(self, name, programs, before, carried, rows):
        super().__init__(name, programs)
        self.before, self.middle, self.after = before, before + carried, before + carried + rows

    def apply(self, programs, *values):
        first, carried, last = values[:self.before], values[self.before:self.middle], values[self.after:]
        count, found = len(carried), []
        for row in zip(*[x.unbind(0) for x in values[self.middle:self.after]]):
            results = programs[0](*first, *carried, *row, *last)
            carried = results[:count]
            found.append(results[count:])
        return (*carried, *(OPS["stack"](list(column)) for column in zip(*found)))


class Associated(Flow):
    """A program that combines two rows, applied to each of ``rows`` tensors along the first dimension."""

    parts = "combine_graph",

    def __init__(self, name, programs, before, rows):
        super().__init__(name, programs)
        self.before, self.rows = before, rows

    def groups(self, values) -> tuple:
        """Return (the rows, the other values) of arguments, which contain the rows twice."""
        end = self.before + self.rows
        return values[self.before:end], [*values[:self.before], *values[end + self.rows:]]

    def apply(self, programs, *values):
        rows, rest = self.groups(values)
        first, last = rest[:self.before], rest[self.before:]

        def combine(a, b):
            found = [programs[0](*first, *one, *other, *last) for one, other in zip(zip(*a_rows(a)), zip(*a_rows(b)))]
            return tuple(OPS["stack"](list(column)) for column in zip(*found))

        return tuple(associative_scan(combine, tuple(rows), 0))


def a_rows(tensors) -> list:
    """Return the rows of each of several tensors."""
    return [x.unbind(0) for x in tensors]


class Wrapped(Flow):
    """A call of a sub-program."""

    parts = "body",
    public = staticmethod(wrap)

    def apply(self, programs, *values):
        return programs[0](*values)


class Control(Part, part="control"):
    """Capture component that records control flow."""

    needs = "builtins", "calls", "classes", "containers", "framework", "mappings", "numbers", "transforms", "values"

    @CALLED.by(cond)
    def cond(self, pred, true_fn, false_fn, operands=None):
        """``torch.cond``."""
        chooses = isinstance(pred, Comparison)
        pred = Number(True, pred.condition) if chooses else self.values.force(pred)
        operands = self.values.force(operands or Sequence(tuple, []))
        right = isinstance(operands, Sequence) and all(self.builtins.builtin_callable(f).value
                                                       for f in (true_fn, false_fn))
        if right and isinstance(pred, Constant) and type(pred.value) is bool:
            return self.calls.call(true_fn if pred.value else false_fn, self.containers.items_of(operands), {})
        unknown = chooses or self.numbers.unknown(pred)
        if not right or not unknown and not (isinstance(pred, TensorValue) and pred.fake.numel() == 1):
            return self.calls.inline(self.calls.as_function(self.values.from_python(cond)),
                                     [pred, true_fn, false_fn, operands], {})
        given = self.containers.items_of(operands)
        if isinstance(pred, TensorValue) and differs(pred.fake):
            return self.selected(pred, *(self.machine.now(function, list(given)) for function in (true_fn, false_fn)))
        condition = self.machine.recorder.lowered(
            pred.expr if chooses else self.numbers.operand(pred) if unknown else
            self.machine.recorder.entered(pred.fake))
        bodies = [self.followed(function, given) for function in (true_fn, false_fn)]
        self.agree(bodies[0].spec, bodies[1].spec, *bodies)
        grad = any(r.fake._rush_needs_grad for body in bodies for r in body.results)
        programs, arguments, _ = self.programs(bodies, [])
        return self.resulting(Chosen("cond", programs), (condition, *arguments), bodies, bodies[0].metas, grad,
                              bodies[0].spec)

    @CALLED.by(wrap)
    def wrap_call(self, function, /, *arguments, **keywords):
        """``wrap``: a call that is one node."""
        body = self.followed(function, arguments, keywords)
        programs, given, _ = self.programs([body], [])
        return self.resulting(Wrapped("wrap", programs), given, [body], body.metas,
                              any(r.fake._rush_needs_grad for r in body.results), body.spec)

    def selected(self, pred, yes, no):
        """Select between two trees of tensors for each example of a vmap."""
        first, second = [], []
        spec = self.flattened(yes, first)
        if spec != self.flattened(no, second):
            raise Break("RB007", "a choice between trees that are nested differently")
        return self.tree_of(spec, iter([self.framework.run_framework(OPS["where"], [pred, a, b], {})
                                        for a, b in zip(first, second)]))

    @CALLED.by(while_loop)
    def while_loop(self, cond_fn, body_fn, carried_inputs, additional_inputs=None):
        """``while_loop``: values that gradients reach in a later iteration require grad from the first."""
        if not all(self.builtins.builtin_callable(f).value for f in (cond_fn, body_fn)):
            return self.calls.inline(self.calls.as_function(self.values.from_python(while_loop)),
                                     [cond_fn, body_fn, carried_inputs], {})
        more = self.containers.expanded(additional_inputs) if additional_inputs is not None else []
        numbers = {k: self.classes.class_of(v)
                   for k, v in enumerate(map(self.values.force, self.containers.expanded(carried_inputs)))
                   if self.classes.class_of(v) in (int, float)}
        if numbers:
            given = [cond_fn, body_fn, carried_inputs, Sequence(tuple, more), self.values.from_python(numbers)]
            return self.machine.now(self.values.from_python(polyfills.loop_with_numbers),
                            [self.values.from_python(while_loop), self.values.from_python(tensor), *given])
        spec, carried = self.carried(Sequence(tuple, self.containers.expanded(carried_inputs)))
        flags = [v.fake._rush_needs_grad for v in carried]
        while True:
            slots = [self.slot(v.fake._rush_meta, wanted, v.fake.inputs) for v, wanted in zip(carried, flags)]
            given = [*self.tree_of(spec, iter(slots)).items, *more]
            test, body = self.followed(cond_fn, given), self.followed(body_fn, given)
            self.agree(spec, body.spec, body, slots)
            found = [bool(r.fake._rush_needs_grad or wanted) for r, wanted in zip(body.results, flags)]
            if found == list(map(bool, flags)):
                break
            flags = found
        if len(test.results) != 1 or test.results[0].fake.numel() != 1:
            raise Break("RB007", "a condition of a loop that is not one element")
        programs, arguments, before = self.programs([test, body], [slots], [carried])
        return self.resulting(Repeated("while_loop", programs, before, len(carried)), arguments, [body], body.metas,
                              any(flags), spec)

    @CALLED.by(associative_scan)
    def associative_scan(self, combine_fn, xs, dim, reverse=None, combine_mode=None):
        """A scan of an associative function: one node in exported programs, unrolled elsewhere."""
        given = [v for v in (combine_fn, xs, dim, reverse, combine_mode) if v is not None]
        place = self.values.force(dim)
        plain = reverse is None or self.values.known(reverse) is False
        if not self.machine.entry.owner.exporting or not isinstance(place, Constant) or place.value != 0 or not plain:
            return self.calls.inline(self.calls.as_function(self.values.from_python(associative_scan)), given, {})
        rows: list = []
        spec = self.flattened(xs, rows)
        rows = [self.straight(row) for row in rows]

        def places():
            return [self.slot(v.fake._rush_meta.like(tuple(v.fake._rush_meta.shape[1:])), v.fake._rush_needs_grad,
                              v.fake.inputs)
                    for v in rows]

        first, second = places(), places()
        body = self.followed(combine_fn, [self.tree_of(spec, iter(first)), self.tree_of(spec, iter(second))])
        self.agree(spec, body.spec, body, first)
        programs, arguments, before = self.programs([body], [first, second], [rows, rows])
        operator = Associated("associative_scan", programs, before, len(rows))
        metas = [v.fake._rush_meta.like(tuple(v.fake._rush_meta.shape)) for v in rows]
        grad = any(v.fake._rush_needs_grad for v in rows)
        return self.resulting(operator, arguments, [body], metas, grad, spec)

    @CALLED.by(loop)
    def loop(self, combine_fn, init, xs):
        """A scan requested by a program: never unrolled if it is exported."""
        return self.steps(combine_fn, init, xs, self.machine.entry.owner.exporting)

    @CALLED.by(steps)
    def steps(self, combine_fn, init, xs, kept=False):
        """A scan: unrolled, unless it has many steps or a dynamic number of them, or is ``kept``."""
        rows: list = []
        row_spec = self.flattened(xs, rows)
        length = rows[0].fake._rush_meta.shape[0]
        if type(length) is int and length <= WRITTEN_OUT and not kept:
            return self.calls.inline(self.calls.as_function(self.values.from_python(steps)), [combine_fn, init, xs], {})
        spec, carried = self.carried(init)
        rows = [self.straight(row) for row in rows]
        flags = [v.fake._rush_needs_grad for v in carried]
        while True:
            slots = [self.slot(v.fake._rush_meta, wanted, v.fake.inputs) for v, wanted in zip(carried, flags)]
            places = [self.slot(v.fake._rush_meta.like(tuple(v.fake._rush_meta.shape[1:])), v.fake._rush_needs_grad,
                                v.fake.inputs)
                      for v in rows]
            body = self.followed(combine_fn, [self.tree_of(spec, iter(slots)), self.tree_of(row_spec, iter(places))])
            if body.spec[0] is not tuple or len(body.spec[1]) != 2:
                raise Break("RB007", "a function of a scan that does not return (carry, y)")
            self.agree(spec, body.spec[1][0], body, slots)
            found = [bool(r.fake._rush_needs_grad or wanted) for r, wanted in zip(body.results, flags)]
            if found == list(map(bool, flags)):
                break
            flags = found
        programs, arguments, before = self.programs([body], [slots, places], [carried, rows])
        metas = [*body.metas[:len(slots)], *(m.like((length, *m.shape)) for m in body.metas[len(slots):])]
        grad = any(flags) or any(r.fake._rush_needs_grad for r in body.results)
        return self.resulting(Scanned("scan", programs, before, len(carried), len(rows)), arguments, [body], metas,
                              grad, body.spec)

    # --- trees of tensors ---------------------------------------------------------------------------------------------
    def flattened(self, value, leaves):
        """Return the structure of a tree; its tensors are appended to ``leaves``."""
        value = self.values.force(value)
        if isinstance(value, WrapperValue):
            raise Break("RB014", f"{type(value.fake).__name__}, in control flow")
        if isinstance(value, TensorValue):
            leaves.append(value)
            return ()
        if isinstance(value, Sequence) and (value.kind in (list, tuple) or hasattr(value.kind, "_fields")):
            return value.kind, [self.flattened(v, leaves) for v in self.containers.items_of(value)]
        if isinstance(value, Mapping) and value.kind is dict:
            return dict, {k: self.flattened(self.mappings.lookup(value, k), leaves) for k in value.items}
        if isinstance(value, Constant):
            return None, type(value.value), value.value
        raise Break("RB001", f"control flow over a {self.values.describe(value)}: only trees of tensors are supported")

    def tree_of(self, spec, leaves):
        """Return the tree of a spec with these tensors."""
        if spec == ():
            return next(leaves)
        if spec[0] is None:
            return Constant(spec[2])
        if spec[0] is dict:
            return Mapping({k: self.tree_of(inner, leaves) for k, inner in spec[1].items()})
        return Sequence(spec[0], [self.tree_of(inner, leaves) for inner in spec[1]])

    def straight(self, value):
        """Return a tensor as programs expect it that assume nothing of its strides."""
        return self.framework.run_framework(Tensor.contiguous,
                                            [self.values.from_python(self.machine.recorder.entered(value.fake))], {})

    def carried(self, tree) -> tuple:
        """Return (the structure of the values that a loop carries, these values)."""
        leaves: list = []
        spec = self.flattened(tree, leaves)
        return spec, [self.straight(v) for v in leaves]

    def slot(self, meta, needs_grad, inputs):
        """Return an argument for a captured function, in place of the values that it will get."""
        meta = meta.like(tuple(meta.shape))
        return self.values.from_python(self.machine.recorder.fake(Node(self.machine.recorder.name("c"), None,
                                                                       meta=meta), meta, needs_grad,
                                                   inputs))

    # --- capturing functions ------------------------------------------------------------------------------------------
    def followed(self, function, arguments, keywords=None) -> Body:
        """Return a captured function as a Body; a Break if it has side effects."""
        recorder, modes = self.machine.recorder, self.transforms.modes_set()
        effects, start = Effects(self.machine), len(recorder.nodes)
        kept, checked = dict(recorder.read_before), len(self.machine.shape_env.checked)
        try:
            result, leaves = self.machine.now(function, list(arguments), keywords), []
        except Raised as error:
            raise Break("RB007", "a function of control flow that raises, if it is called") from error
        spec = self.flattened(result, leaves)
        leaves = self.apart(leaves, set(recorder.nodes[start:]))
        nodes = recorder.nodes[start:]
        del recorder.nodes[start:]
        recorder.read_before = kept
        self.transforms.restore_modes(modes)
        inside = set(nodes)
        writes = any(recorder.root(t) not in inside for n in nodes for t in recorder.targets.get(n, ()))
        if writes or effects.changed(self.machine) or len(self.machine.shape_env.checked) != checked or any(
                isinstance(n.op, Effect)
                for n in nodes):
            raise Break("RB001", PURE)
        return Body(recorder.in_turn(nodes) if in_stages(nodes) else nodes, leaves, spec)

    def apart(self, leaves, inside) -> list:
        """Return results with their own memory, in order: whichever program makes them, later code sees no
        difference."""
        recorder, seen, found = self.machine.recorder, set(), []
        for leaf in leaves:
            root = recorder.root(leaf.fake.node)
            if root not in inside or root in seen:
                leaf = self.framework.run_framework(OPS["clone"], [leaf], {})
            seen.add(root)
            found.append(self.framework.run_framework(Tensor.contiguous, [leaf], {}))
        return found

    def agree(self, spec, other, body, values):
        """Raise Break unless results have the structure, shapes and dtypes of another body's, or of the values they
        come from."""
        metas = values.metas if isinstance(values, Body) else [v.fake._rush_meta for v in values]
        same = all(tuple(a.shape) == tuple(b.shape) and a.dtype is b.dtype for a, b in zip(body.metas, metas))
        if spec != other or not same:
            raise Break("RB001", "control flow whose functions give tensors that are nested, shaped or typed "
                                 "differently")

    def programs(self, bodies, slots, values=()) -> tuple:
        """Return (a program for each body, the arguments of all, how many of these precede ``values``, which replace
        the ``slots``)."""
        recorder = self.machine.recorder
        within = [v.fake.node for row in slots for v in row]
        read = [body.reads(recorder, within) for body in bodies]
        outside = list(dict.fromkeys(n for nodes, _ in read for n in nodes))
        symbols = list(dict.fromkeys(s for _, found in read for s in found))
        numbers, tensors = [n for n in outside if n.weak], [n for n in outside if not n.weak]
        sizes = [Node(s.arg[0], None, meta=NUMBER_METAS[int]) for s in symbols]
        inputs = [*numbers, *within, *tensors, *sizes]
        owner = self.machine.entry.owner
        graphs = [Graph(inputs, body.nodes, [r.fake.node for r in body.results]) for body in bodies]
        for graph in graphs:
            graph.views = dict(recorder.bases)
        programs = list(map(owner.program, graphs))
        return programs, (*numbers, *(v.fake.node for row in values for v in row), *tensors, *symbols), len(numbers)

    def resulting(self, operator, arguments, bodies, metas, grad, spec):
        """Record a node of control flow and return its results as the program gets them."""
        recorder = self.machine.recorder
        inputs = frozenset().union(*(r.fake.inputs for body in bodies for r in body.results))
        node = recorder.node(operator, tuple(arguments), tuple(metas))
        made = [self.values.from_python(recorder.result(node, k, meta, None, (), bool(grad and mine.grad), inputs,
                                                        True))
                for k, meta in enumerate(metas)]
        return self.tree_of(spec, iter(made))


class Effects:
    """The contents of a program's objects, to detect whether a function mutated any."""

    def __init__(self, machine):
        self.found: dict = {}  # id -> (a Value, its content)
        self.before = self.counts(machine)
        self.attributes = dict(machine.writes.set_attributes)
        roots = [v for frame in machine.frames for v in (*frame.locals.values(), *frame.cells.values(), *frame.stack)]
        pending = [*roots, *machine.outside.wrapped.values()]
        while pending:
            value = pending.pop()
            if id(value) not in self.found:
                self.found[id(value)] = value, held(value)
                pending += parts(value)
                pending += [v for (owner, _), v in machine.writes.set_attributes.items() if isinstance(value, Instance)
                            and owner == id(value)]

    def counts(self, machine):
        return len(machine.writes.changed), dict(machine.writes.set_globals), len(machine.output.notes), len(
            machine.training.computed), machine.random.drawn, len(
            machine.recorder.leaves), len(machine.recorder.hooked)

    def changed(self, machine) -> bool:
        """True if anything that existed before has changed."""
        if self.counts(machine) != self.before:
            return True
        for value, before in self.found.values():
            now = held(value)
            if len(before) != len(now) or any(a is not b and a != b and type(a) is not Lazy
                                              for a, b in zip(before, now)):
                return True
        return any(self.attributes.get(key) is not value and self.is_outer(machine.writes.owners[key][0])
                   for key, value in machine.writes.set_attributes.items())

    def is_outer(self, owner) -> bool:
        return owner.value is not mine if isinstance(owner, Object) else id(owner) in self.found


def held(value) -> list:
    """Return the mutable content of a Value."""
    if isinstance(value, (Mapping, SetValue)):
        return [*value.items, *value.items.values()]
    if isinstance(value, Sequence):
        return list(value.items)
    if isinstance(value, Cell):
        return [value.content]
    return [value.position] if isinstance(value, IteratorValue) else []


def parts(value) -> list:
    """Return the Values within a Value."""
    if isinstance(value, (Mapping, SetValue)):
        return list(value.items.values())
    if isinstance(value, (Sequence, Cell)):
        return held(value)
    if isinstance(value, Function):
        return [*value.closure, *(value.defaults or ()), *value.attributes.values()]
    if isinstance(value, Method):
        return [value.function, value.owner]
    if isinstance(value, Partial):
        return [value.function, *value.arguments, *value.keywords.values()]
    if isinstance(value, IteratorValue):
        return value.parts if isinstance(value, Rows) else [value.sequence]
    return [value.payload] if isinstance(value, Instance) and value.payload is not None else []
