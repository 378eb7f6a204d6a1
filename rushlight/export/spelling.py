"""Tracing for export: each call as PyTorch's ``aten`` operator."""
from __future__ import annotations

import linecache
import operator

from .._src.capture.backends import Users
from .._src.capture.control import Flow, Wrapped
from .._src.capture.unbacked import HOLD, ITEM, NUMBER, PICK, REQUIRE, SIZE, Reading
from .._src.capture.unknown import UNTOLD
from .._src.checks import NOT_TRUE
from .._src.core.expr import Expr, terms
from .._src.core.interpret import active
from .._src.core.devices import meta as meta_device
from .._src.core.dtypes import int64
from .._src.core.meta import Meta
from .._src.core.native import Tensor
from .._src.core.op import OPS, body_of
from .._src.core.tensor import empty_of
from .._src.graph import graph as house
from .._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from .._ops import LIBRARIES, aten_call, ops
from ..fx import GraphModule
from ..fx.convert import View, users_target
from ..library import compositions
from ..library.conventions import meaning
from ..library.implicit import COMPOSITE, is_preservable
from . import function_calls
from .function_calls import CALLS, WHOLE

CLAMPS = {"maximum": "clamp_min", "minimum": "clamp_max"}
# of a comparison of sizes and of its opposite: (symbol of both, symbol of both in the other order)
RELATIONS = {"<": ("<", ">"), "==": ("==", "==")}
OPPOSITES = {"<": (">=", "<="), "==": ("!=", "!=")}
JOINTS = {"logical_and": "&", "logical_or": "|"}
COMPUTED = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "==": operator.eq,
            "!=": operator.ne, "&": operator.and_, "|": operator.or_}
FAR = 2 ** 63 - 1  # where a slice without an end ends


def condition_of(e):
    """Return a condition on integers as (symbol, a, b): a comparison with the number last and ``x + 1 > n`` as
    ``x >= n``, the opposite of a comparison, or two conditions joined; None for other expressions."""
    if e.op in JOINTS:
        return JOINTS[e.op], *e.args
    inner, table = (e.args[0], OPPOSITES) if e.op == "logical_not" else (e, RELATIONS)
    if not isinstance(inner, Expr) or inner.op not in table:
        return None
    (a, b), (symbol, mirrored) = inner.args, table[inner.op]
    if a.op != "const":
        return symbol, a, b
    if mirrored == ">" and terms(b)[1] == 1:
        return ">=", b - 1, a
    return mirrored, b, a


def text_of(e) -> str:
    """Return a condition as its nodes spell it."""
    found = condition_of(e)
    if found is None:
        return str(e)
    symbol, a, b = found
    return " ".join((f"({text_of(a)})" if e.op in JOINTS else str(a), symbol,
                     f"({text_of(b)})" if e.op in JOINTS else str(b)))


def indexed(input, index):
    """Integers, slices and new dimensions, one after another."""
    return compositions.indexed(input, index, recorded_slice)


def recorded_slice(input, index):
    recorder = active()[-1]
    return recorder.record(OPS["index_basic"], (recorder.entered(input), index), {})


def bags(weight, input, offsets, scale, mode, padding_idx, include_last_offset):
    """Bags of an embedding table, whose indices are concatenated in one row."""
    if offsets is None:
        rows, size = input.shape
        offsets = OPS["arange"](0, rows * size, size, dtype=input.dtype, device=input.device)
        input, scale = input.reshape(-1), None if scale is None else scale.reshape(-1)
    recorder = active()[-1]
    given = tuple(map(recorder.entered, (weight, input, offsets, scale)))
    return recorder.record(OPS["_bags_of_table"], (*given, mode, padding_idx, include_last_offset), {})


SPELLED = {"index_basic": indexed, "_bags_of_table": bags}


def spelled(recorder, op, args, kwargs):
    """A call under export: an operator that PyTorch has is recorded as it is, what it has not as simpler ones.
    NotImplemented where nothing is said."""
    if op.name in SPELLED:
        return SPELLED[op.name](*args, **kwargs)
    if op.name in WHOLE and CALLS[op.name](*args, **kwargs) is not None:
        return whole(recorder, op, args, kwargs)
    where, _, last = op.name.rpartition(".")
    if last.endswith("_") and op.name[:-1] in OPS and OPS[op.name[:-1]].traits.get("inplace_view"):
        return body_of(op, args)(*args, **kwargs)  # the view is traced, and replaces the tensor
    if is_kept_composite(op):
        return whole(recorder, op, args, kwargs)
    public = OPS.get(op.name) is op and not last.startswith("_") and where not in ("prims", *LIBRARIES)
    if meaning(op, args, kwargs) is not None:
        return whole(recorder, op, args, kwargs) if op.traits.get("composite") else NotImplemented
    if public and op.kind is None and op.traits.get("into") is None and "library" not in op.traits:
        return body_of(op, args)(*args, **kwargs)
    return NotImplemented


def is_kept_composite(op) -> bool:
    """True for a user-defined composite operator whose calls programs keep."""
    custom = getattr(op.traits.get("library"), "custom", None)
    return custom is not None and op is custom.op and COMPOSITE in custom.rules.kernels and is_preservable(custom)


def whole(recorder, op, args, kwargs):
    """A composite as one node: what its body records is what the node gives, and is recorded no more."""
    args, kwargs = tuple(map(recorder.entered, args)), {k: recorder.entered(v) for k, v in kwargs.items()}
    before, above = len(recorder.nodes), recorder.spelled
    recorder.spelled = None
    try:
        result = body_of(op, args)(*args, **kwargs)
    finally:
        recorder.spelled = above
    parts, several = recorder.nodes[before:], isinstance(result, (tuple, list))
    results = list(result) if several else [result]
    if not all(isinstance(r, Tensor) for r in results):
        return result
    inside, read = set(parts), recorder.shape_env.unbacked
    symbols = {symbol for r in results for e in (*r._rush_meta.shape, *r._rush_meta.strides) if isinstance(e, Expr)
               for symbol in e.free}
    if any(read.get(symbol) in inside for symbol in symbols):
        return result  # sizes are data-dependent: Python reads them between programs
    del recorder.nodes[before:]
    node = recorder.node(op, recorder.lowered(args), tuple(r._rush_meta for r in results) if several
                         else results[0]._rush_meta)
    node.params.update((k, recorder.lowered(v)) for k, v in kwargs.items())
    written = [t for n in parts for t in recorder.targets.get(n, ()) if recorder.root(t) not in inside]
    recorder.writers.difference_update(inside)
    if written:
        recorder.writers.add(node)
        recorder.targets[node] = written
    made = [r if written and r.node not in inside else shown(recorder, node, k if several else None, r, inside)
            for k, r in enumerate(results)]
    return type(result)(made) if several else made[0]


def shown(recorder, node, k, result, inside):
    """The k-th result of a node that stands for what another node gave."""
    base = result.node
    while base in inside and base in recorder.bases:
        base = recorder.bases[base]
    if k is not None:
        node = house.Node(recorder.name("t"), PICK, (node, k), {}, result._rush_meta, where=node.where)
        recorder.nodes.append(node)
    if base not in inside:
        recorder.bases[node] = base
    return recorder.fake(node, result._rush_meta, result._rush_needs_grad, result.inputs)


def loop_groups(op, values):
    """(operator, its groups of arguments, how inputs of a program come in their order) of a loop."""
    def sorted_out(given):
        first, carried = given[:op.before], given[op.before:getattr(op, "middle", op.after)]
        rows, last = given[getattr(op, "middle", op.after):op.after], given[op.after:]
        return list(carried), list(rows), [*first, *last]

    def order(given):
        carried, rows, rest = sorted_out(given)
        return [*carried, *rows, *rest]

    carried, rows, rest = sorted_out(values)
    if op.name == "while_loop":
        return "while_loop", (tuple(carried), tuple(rest)), order
    if not carried:
        return "map_impl", (rows, rest), order
    return "scan", (carried, rows, tuple(rest)), order


def faked(mode, meta):
    """Return values as fake tensors, on the device that they would be on."""
    if isinstance(meta, tuple):
        return tuple(faked(mode, one) for one in meta)
    if not isinstance(meta, Meta):
        return meta
    varies = any(isinstance(s, Expr) for s in (*meta.shape, *meta.strides))
    bare = Meta(tuple(meta.shape), meta.strides, meta.dtype, meta_device)
    shown = Meta.of((0,), meta.dtype, meta_device) if varies else bare
    made = FakeTensor(mode, empty_of(shown), meta.device)
    made._rush_meta, made.itemsize = bare, bare.itemsize
    return made


def library_overload(op):
    """The overload of an operator that a library registered, where it writes into nothing; None for others."""
    space, _, stem = op.name.partition("::")
    packet = op.traits.get("library") or (getattr(ops, space).packets.get(stem) if stem else None)
    custom, found = (None, None) if packet is None else (packet.custom, packet.overload(packet.label))
    return None if found is None or (found._schema if custom is None else custom.schema).is_mutable else found


def give_alone(module):
    """Has a condition's program give its one result by itself."""
    output = module.graph.output_node()
    if isinstance(output.args[0], (tuple, list)):
        output.args = (output.args[0][0],)
        module.recompile()


class AtenView(View):
    """Writes a captured program with overloads of ``torch.ops.aten``, and values as FakeTensors."""

    def __init__(self, captured):
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.given: dict = {}  # input -> its placeholder
        self.numbers: dict = {}  # node -> the numbers of its results among those of the overload that it became
        self.written: dict = {}  # node -> [(what wrote into it, its value from then on)], first None and what it was
        super().__init__(captured, {})

    def node(self, node):
        op = node.op
        if op is PICK and node.args[0] in self.numbers:
            source, k = node.args
            made = self.made[node] = self.graph.call_function(operator.getitem, (self.made[source],
                                                                                self.numbers[source][k]))
            return self.note(made, node)
        if op is NUMBER:  # operators take the number itself
            self.made[node] = self.value(node.args[0])
            return None
        if isinstance(op, Reading) or op.name in ("prims.item",):
            return super().node(node)
        if op.name == "index_basic":
            made = self.slice(node)
        elif op.name == "_bags_of_table":
            made = self.bags(node)
        elif op.name == "unique":
            made = self.unique(node)
        else:
            target, args, kwargs = self.call(op, node)
            made = self.graph.call_function(target, self.value(tuple(args)),
                                            {k: self.value(v) for k, v in kwargs.items()},
                                            name=getattr(target, "_opname", None))
        self.made[node] = made
        if node not in self.numbers:
            self.note(made, node)
        schema = getattr(made.target, "schema", None)
        at = 0 if schema is not None and schema.is_mutable else op.traits.get("into")
        if at is not None and at < len(node.args) and isinstance(node.args[at], house.Node):
            target = node.args[at]
            self.written.setdefault(target, [(None, self.made[target])]).append((node, made))
            self.made[target] = made  # from here on its value is what was written

    def value_then(self, value, before):
        """Return the node of a value at the time when its program had the nodes ``before``; None for an unread one."""
        if not isinstance(value, house.Node):
            return self.value(value) if isinstance(value, Expr) else value
        written = [made for writer, made in self.written.get(value, ()) if writer is None or writer in before]
        return written[-1] if written else self.made.get(value)

    def call(self, op, node):
        """(target, args, kwargs) of one node."""
        where, _, last = op.name.rpartition(".")
        known = op
        if where == "prims" and op.kind.name == "elementwise":
            known = OPS.get(CLAMPS.get(last, last) if type(node.args[-1]) in (int, float) else last, op)
        written = CALLS[op.name](*node.args, **node.params) if op.name in CALLS else None
        if written is not None:
            return written
        if op.name == "_repeated" and len(node.args[1]) <= 3:
            input, times = node.args
            return getattr(ops.aten, f"upsample_nearest{len(times)}d").vec, [input, None, list(map(float, times))], {}
        found = aten_call(known, tuple(node.args), dict(node.params))
        if found is not None:
            return found
        return library_overload(op) or users_target(op, (*node.args, *node.params.values())), node.args, node.params

    def slice(self, node):
        """The one slice of an index."""
        input, index = node.args
        dim, (_, start, end, step) = next((k, e) for k, e in enumerate(index) if e[1:] != (None, None, None))
        args = [input, dim, 0 if start is None else start, FAR if end is None else end, 1 if step is None else step]
        if args[-1] == 1:
            args.pop()
        return self.graph.call_function(ops.aten.slice.Tensor, self.value(tuple(args)), name="slice")

    def bags(self, node):
        """The first of the results of ``embedding_bag``; the bag of each position, and the sizes of bags."""
        weight, input, offsets, scale, mode, padding, last = node.args
        made = self.graph.call_function(ops.aten.embedding_bag.padding_idx, self.value(
            (weight, input, offsets, False, ("sum", "mean", "max").index(mode), False, scale, last, padding)),
            name="embedding_bag")
        self.note(made, node)
        made.meta["val"] = tuple(map(self.fake, (node.meta, input.meta, offsets.meta, offsets.meta)))
        return self.graph.call_function(operator.getitem, (made, 0))

    def unique(self, node):
        """Distinct elements by the overload that gives positions and counts, too; results that were not asked for are
        empty."""
        target, args, asked = function_calls.unique(*node.args, **node.params)
        made = self.graph.call_function(target, self.value(tuple(args)), name=target._opname.strip("_"))
        self.note(made, node)
        metas = node.meta if isinstance(node.meta, tuple) else (node.meta,)
        given = dict(zip(asked, metas, strict=True))
        empty = Meta.of((0,), int64, metas[0].device)
        made.meta["val"] = tuple(self.fake(given.get(k, empty)) for k in range(3))
        if len(asked) == 1:
            return self.graph.call_function(operator.getitem, (made, 0))
        self.numbers[node] = asked
        return made

    def flow(self, node):
        """Control flow as PyTorch writes it: programs are submodules, what they take is in groups."""
        op, values = node.op, [self.value(v) for v in node.args]
        first = ()
        if op.name == "cond":
            target, groups, order = "cond", [tuple(values[1:])], None
            first = (values[0],)
        elif op.name == "associative_scan":
            target, (rows, rest), order = op.name, op.groups(values), None
            groups = [list(rows), tuple(rest)]
        else:
            target, groups, order = loop_groups(op, values)
        parts = [self.subprogram(f"{name}_0", program, order) for name, program in zip(op.parts, op.programs)]
        if target == "while_loop":
            give_alone(self.modules[parts[0].target])
        made = self.graph.call_function(getattr(ops.higher_order, target), (*first, *parts, *groups), name=target)
        if node.meta is not None:
            made.meta["val"] = self.fake(node.meta)
        return made

    def subprogram(self, name, program, order):
        """A program as a submodule, which takes its inputs in another order."""
        graph = program.graph
        inputs = graph.inputs if order is None else order(list(graph.inputs))
        inner = type(self)(house.Graph(inputs, graph.nodes, graph.outputs))
        stem, count = name.rpartition("_")[0], 0
        while f"{stem}_{count}" in self.modules:
            count += 1
        self.modules[f"{stem}_{count}"] = GraphModule(inner.modules, inner.graph)
        return self.graph.get_attr(f"{stem}_{count}")

    def reading(self, node):
        if isinstance(node.op, Flow) and not isinstance(node.op, Wrapped):
            return self.flow(node)
        if node.op is HOLD:
            tensor, error = node.args
            told = () if str(error) in ("", NOT_TRUE) else (str(error),)
            return self.graph.call_function(ops.aten._assert_async.msg if told else ops.aten._assert_async.default,
                                            (self.value(tensor), *told), name="_assert_async")
        if node.op is REQUIRE:
            condition, error = node.args
            given = self.value(condition)
            message = f"Runtime assertion failed for expression {text_of(condition)} on node '{given}'" if str(
                error) == UNTOLD and isinstance(condition, Expr) else str(error)
            return self.graph.call_function(ops.aten._assert_scalar.default, (given, message),
                                            name="_assert_scalar_default")
        if node.op is ITEM:
            made = self.graph.call_function(ops.aten.item.default, self.value(node.args), name="item")
        elif node.op is SIZE:
            made = self.graph.call_function(ops.aten.sym_size.int, self.value(node.args), name="sym_size_int")
        else:
            return super().reading(node)
        self.sizes[node.name] = made
        symbol = next((s for s in self.expressions if s.arg[0] == node.name), None)
        if symbol is not None:
            made.meta["val"] = symbol
        return made

    def placeholder(self, node):
        super().placeholder(node)
        self.given[node] = self.made[node]
        if self.is_number(node):
            self.made[node].meta["val"] = next((s for s in self.expressions if s.arg[0] == node.name), None)

    def computed(self, e):
        made = self.condition(e) or super().computed(e)
        if hasattr(made, "meta"):
            made.meta["val"] = e
        return made

    def condition(self, e):
        """A node for a condition on integers; None for other expressions."""
        found = condition_of(e)
        return None if found is None else self.graph.call_function(COMPUTED[found[0]], tuple(map(self.size, found[1:])))

    def note(self, made, node):
        super().note(made, node)
        if getattr(node.where, "frames", ()):
            made.meta["stack_trace"] = "".join(
                f'  File "{file}", line {line}, in {name}\n    {linecache.getline(file, line).strip()}\n'
                for file, line, name in node.where.frames)
        if made.meta.pop("example_value", None) is not None:
            made.meta["val"] = self.fake(node.meta)
        made.meta.pop("source_fn_stack", None)
        if node.op is not None and made.op == "call_function" and not isinstance(node.op, Reading):
            made.meta["source_fn_stack"] = [(made.name, node.op)]

    def fake(self, meta):
        return faked(self.mode, meta)


class Exported(Users):
    """The backend of an export: ``keep(module, inputs)`` gets the graph in operators of ``aten``."""

    def __call__(self, module, example_inputs, **options):
        view = AtenView(module.graph)
        made = GraphModule(view.modules, view.graph)
        made.meta["value_then"] = view.value_then
        made.meta["written"] = {node: view.made[own] for own, node in view.given.items() if view.made[own] is not node}
        return self.function(made, example_inputs)
