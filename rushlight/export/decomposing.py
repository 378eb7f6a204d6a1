"""``run_decompositions``: run an exported program on fake tensors and trace it again: calls in a table by its
functions, mutations functionalized, everything else unchanged."""
from __future__ import annotations

import operator

from .._ops import OpOverload, aten_call, operator_named, ops
from .._src.aot.alias import Recording
from .._src.capture.fake import Fake
from .._src.capture.record import Recorder
from .._src.capture.unbacked import ITEM, PICK, Effect, measured
from .._src.core.dtypes import bool_
from .._src.core.expr import Expr, terms
from .._src.core.interpret import precision
from .._src.core.meta import Meta, Size
from .._src.core.native import Op, Tensor
from .._src.core.op import OPS, bind, body_of
from .._src.core.tensor import blank
from .._src.graph import graph as house
from ..fx import GraphModule
from ..fx.node import Node as UserNode, map_arg
from ..library import functional, primitives
from ..library.decompositions import Body, opened_form
from ..library.tags import key, words
from .comparisons import CONDITIONS
from .spelling import AtenView, give_alone


class Held(Fake):
    """A tensor of the program: its current value, after all writes to it or to its base.

    ``base``: the tensor that it is a view of, by the calls in ``steps``; ``version``: how often it was written to,
    ``seen``: what its base's version was when its value was made.
    """

    base = None
    steps: tuple = ()
    version = seen = 0

    @property
    def node(self):
        if self.base is not None and self.seen != self.base.version:
            self.seen = self.base.version
            self.value = self.recorder.replayed(self).value
        return self.value

    @node.setter
    def node(self, value):
        self.value = value


class Call:
    """Target of a control-flow node."""

    traits, kind, rules = {}, None, {}

    def __init__(self, target):
        self.target, self.name = target, getattr(target, "__name__", str(target))


class Decomposer(Recorder):
    """Writes calls as overloads of ``aten``; ``table``: overload -> function that is run in its stead."""

    def __init__(self, table):
        super().__init__(self.lifted, self.drawn, lambda: None)
        self.table, self.source, self.sources, self.constants = table, None, {}, {}
        self.opening: list = []  # overloads whose functions run now

    # --- values -------------------------------------------------------------------------------------------------------
    def fake(self, node, meta, needs_grad, inputs, like=Tensor):
        made = blank(Held)
        made._rush_meta, made.itemsize, made._rush_needs_grad = meta, meta.itemsize, 0
        made.recorder, made.inputs, made.like, made.value = self, inputs, like, node
        return made

    def lifted(self, tensor):
        """A tensor that a function of the table brings along."""
        found = next((f for f, known in self.constants.items() if known is tensor), None)
        if found is None:
            node = house.Node(f"_tensor_constant{len(self.constants)}", None, meta=tensor._rush_meta)
            found = self.fake(node, tensor._rush_meta, False, frozenset())
            self.constants[found] = tensor
        return found

    def drawn(self, *_):
        raise NotImplementedError(
            "a function of the decomposition table draws random numbers, other than by an operator that the table "
            "keeps: let it call torch.ops.aten.rand")

    def call_node(self, what, args, meta, kwargs=None) -> house.Node:
        made = house.Node(self.name("t"), what, self.lowered(args), meta=meta)
        made.params = {k: self.lowered(v) for k, v in (kwargs or {}).items()}
        self.nodes.append(made)
        self.sources[made] = self.source
        return made

    def node(self, op, args, meta):
        return self.call_node(op, args, meta)

    def results(self, node, meta):
        """Return the results of a node, as tensors."""
        if not isinstance(meta, (tuple, list)):
            return self.fake(node, meta, False, frozenset())
        made = []
        for k, one in enumerate(meta):
            made.append(None if one is None else self.fake(self.call_node(PICK, (node, k), one), one, False,
                                                           frozenset()))
        return tuple(made)

    def number_in(self, tensor):
        """The number in a tensor of one element."""
        if tensor.dtype is bool_:
            return self.reading(ITEM, (tensor.node,), bool)
        return self.item(tensor)

    # --- calls --------------------------------------------------------------------------------------------------------
    def call(self, op, args, kwargs):
        if measured(op):
            return self.measure(op, tuple(map(self.entered, args)), {k: self.entered(v) for k, v in kwargs.items()})
        where, _, last = op.name.rpartition(".")
        if where == "prims":
            return self.primitive(op, last, args, kwargs)
        found = aten_call(op, args, kwargs)
        if found is not None:
            return self.overload(*found)
        if op.kind is None:
            return body_of(op, args)(*args, **kwargs)
        return self.record(op, args, kwargs)

    def primitive(self, op, last, args, kwargs):
        bound = bind(op, args, kwargs)
        values = list(bound.values())
        spelled = getattr(primitives, primitives.NAMES.get(last, last), None)
        if op.kind.name == "elementwise" and not any(isinstance(v, Tensor) for v in values[:op.traits["arity"]]):
            return super().call(op, args, kwargs)
        if spelled is not None and (found := spelled(**bound)) is not NotImplemented:
            return found
        known = operator_named(last)
        if op.kind.name == "elementwise" and known is not None:
            operands = values[:op.traits["arity"]]
            like = next(v for v in operands if isinstance(v, Tensor))
            for given in (operands, [v if isinstance(v, Tensor) else primitives.number(v, like.dtype, like.device)
                                     for v in operands]):
                found = aten_call(known, tuple(given), {})
                if found is not None:
                    return self.keep(*found)
        called = ops.prims.packet(last, op).overload("default")
        made = self.keep(called, tuple(values), {})
        if shares_memory(op, bound) and made.base is None:
            self.relate(made, values[0], (called, tuple(values[1:]), {}, None))
        return made

    def overload(self, called, args, kwargs):
        """A call of an overload, by the table where it says how."""
        schema = called.schema
        if schema is not None and schema.is_mutable:
            return self.write(called, args, kwargs)
        if called in functional.HIDDEN and (found := functional.HIDDEN[called](self, *args, **kwargs)) is not None:
            return found
        function = self.table.get(called)
        if function is None and is_opened(called):
            function = opened_form(called)
        if function is None or called in self.opening:
            return self.keep(called, args, kwargs)
        self.opening.append(called)
        try:
            result = function(*args, **kwargs)
            if result is NotImplemented and not isinstance(function, Body):
                result = Body(called)(*args, **kwargs)
        finally:
            self.opening.pop()
        return self.keep(called, args, kwargs) if result is NotImplemented else result

    def keep(self, called, args, kwargs):
        """A call as a node."""
        args, kwargs = called.spelled(args, kwargs)
        args, kwargs = tuple(map(self.entered, args)), {k: self.entered(v) for k, v in kwargs.items()}
        metas, same = self.described(called, args, kwargs)
        if same is not None:
            return same
        result = self.results(self.call_node(called, args, metas, kwargs), metas)
        schema = called.schema
        views = schema is not None and schema.returns and schema.returns[0].alias_info
        if views and args and isinstance(args[0], Held):
            parts = result if isinstance(result, tuple) else (result,)
            for k, part in enumerate(parts):
                self.relate(part, args[0], (called, args[1:], kwargs, k if isinstance(result, tuple) else None))
        several = isinstance(result, tuple) and schema is not None and len(schema.returns) == 1
        return list(result) if several else result

    def described(self, called, args, kwargs):
        """The Metas that a call gives."""
        trace = Recording(writes=False)

        def enter(value):
            if isinstance(value, Tensor):
                return trace.input(value._rush_meta, weak=getattr(value, "weak", False))
            return type(value)(map(enter, value)) if type(value) in (list, tuple) else value

        given, named = tuple(map(enter, args)), {k: enter(v) for k, v in kwargs.items()}
        before, self.shape_env.estimating = self.shape_env.estimating, True
        try:
            with trace, precision(0):
                results = called(*given, **named)
        finally:
            self.shape_env.estimating = before
        if not isinstance(results, (tuple, list, Tensor)):
            return None, results  # a number, which is known
        if isinstance(results, Tensor):
            return results._rush_meta, None
        return tuple(None if r is None else r._rush_meta for r in results), None

    # --- views and writes ---------------------------------------------------------------------------------------------
    def relate(self, view, source, step):
        if view is source or view is None:
            return
        view.base = source if source.base is None else source.base
        view.steps, view.seen = (*source.steps, step), view.base.version

    def replayed(self, view):
        """Recompute a view of the current value of its base."""
        value = self.worth(view.base)
        for step in view.steps:
            value = self.repeated(step, value)
        return value

    def worth(self, held):
        """Return the value of a tensor, as one that is never mutated."""
        return self.fake(held.node, held._rush_meta, False, frozenset())

    def repeated(self, step, value):
        called, args, kwargs, part = step
        found = self.keep(called, (value, *args), kwargs)
        found = found if part is None else found[part]
        return self.worth(found)

    def write(self, called, args, kwargs):
        """A call that writes into arguments: the call that gives their new values."""
        bound = called.schema.bind(args, kwargs)
        written = [bound[a.name] for a in called.schema.arguments if a.is_write and bound.get(a.name) is not None]
        results = functional.computed(self, called, bound)
        for target, value in zip(written, results):
            self.assign(target, value)
        return functional.returned(called, written, results)

    def assign(self, target, value):
        """Gives a tensor, and what it is a view of, a new value."""
        if value.dtype is not target.dtype:
            value = self.overload(ops.aten._to_copy.default, (value,), {"dtype": target.dtype})
        if tuple(value._rush_meta.shape) != tuple(target._rush_meta.shape):
            value = self.overload(ops.aten.expand.default, (value, list(target._rush_meta.shape)), {})
        base = target if target.base is None else target.base
        befores = [self.worth(base)]
        for step in target.steps[:-1]:
            befores.append(self.repeated(step, befores[-1]))
        for step, before in zip(reversed(target.steps), reversed(befores)):
            value = functional.put_back(self, step, before, value)
        value = functional.laid_as(self, base, value)
        base.value, base.version = value.node, base.version + 1
        if target is not base:
            target.value = target.node


class Program:
    """The graph of an exported program, rewritten by a table."""

    def __init__(self, module, table, inputs, shape_env):
        self.module, self.recorder, self.inputs = module, Decomposer(table), inputs
        self.recorder.shape_env, self.recorder.symbolic = shape_env, True
        self.recorder.within_try = lambda: False
        self.parts: dict = {}  # name of a submodule -> it
        self.env, self.given = {}, []
        for node, value in zip(module.graph.find_nodes(op="placeholder"), inputs):
            if isinstance(value, Meta):
                held = house.Node(node.name, None, meta=value)
                self.given.append((node, held))
                value = self.recorder.fake(held, value, False, frozenset())
            else:
                self.given.append((node, value))
            self.env[node] = value

    def run(self):
        """(the results, {placeholder: its last value} of those that were written to)"""
        recorder = self.recorder
        shape_env = recorder.shape_env
        shape_env.number = lambda symbol, a, b: recorder.compute(symbol, a, b, float)
        with shape_env, recorder:
            for node in self.module.graph.nodes:
                if node.op in ("placeholder", "output"):
                    continue
                recorder.source = node
                self.env[node] = self.one(node)
            recorder.source = None
            told = self.module.graph.output_node().args[0]  # a condition gives its one result by itself
            results = [self.env[r] if isinstance(r, UserNode) else r
                       for r in ([told] if isinstance(told, UserNode) else told)]
            results = [recorder.worth(r) if isinstance(r, Held) else r for r in results]
        written = {node: self.env[node] for node, _ in self.given
                   if isinstance(self.env[node], Held) and self.env[node].version}
        return results, written

    def one(self, node):
        """The value of one node."""
        args, kwargs = (map_arg(a, self.env.__getitem__) for a in (node.args, dict(node.kwargs)))
        args = tuple(plain_lists(a) for a in args)
        kwargs = {k: plain_lists(v) for k, v in kwargs.items()}
        if node.op == "get_attr":
            found = operator.attrgetter(node.target)(self.module)
            return self.recorder.lifted(found) if isinstance(found, Tensor) else Part(node.target, found)
        if node.op == "call_method":
            return getattr(args[0], node.target)(*args[1:], **kwargs)
        if any(isinstance(a, Part) for a in args):
            return self.flow(node.target, args)
        if node.target in (ops.aten.item.default, ops.aten._local_scalar_dense.default):
            return self.recorder.number_in(args[0])
        if node.target in SETTLED:
            return None
        if node.target in CONDITIONS and any(isinstance(arg, Expr) for arg in args):
            return CONDITIONS[node.target](*args)  # the program computes it
        if getattr(node.target, "effect", False):
            if args and isinstance(args[0], Expr):
                self.recorder.shape_env.assume(args[0])
            made = self.recorder.call_node(Effect(node.target.__name__, node.target), args, None)
            self.recorder.writers.add(made)
            return None
        if isinstance(node.target, OpOverload) and node.target.namespace == "aten" and not measured(node.target.op):
            return self.recorder.overload(node.target, args, kwargs)
        if isinstance(node.target, OpOverload) and node.target.op.name.startswith("prims."):
            return self.recorder.call(node.target.op, args, kwargs)  # of a traced derivative
        if isinstance(node.target, OpOverload) and node.target.namespace != "aten":
            return functional.foreign(self.recorder, node.target, args, kwargs)
        return node.target(*args, **kwargs)

    def flow(self, target, args):
        """Rewrite the programs of control flow, too."""
        parts = [a for a in args if isinstance(a, Part)]
        rest = [a for a in args if not isinstance(a, Part)]
        operands = target.operands(*rest)
        metas = None
        made = []
        for part, given in zip(parts, target.given(len(parts), operands)):
            inner = Program(part.module, self.recorder.table,
                            [v._rush_meta if isinstance(v, Tensor) else v for v in given],
                            self.recorder.shape_env)
            module, found = inner.written()
            made.append(Part(part.name, module))
            self.parts[part.name] = module
            before, metas = metas, [f._rush_meta for f in found]
            if target._name == "cond" and before is not None:
                check_alike(before, metas)
        metas = tuple(target.metas(metas, operands))
        several = iter(made)
        args = tuple(next(several) if isinstance(a, Part) else a for a in args)
        return self.recorder.results(self.recorder.call_node(Call(target), args, metas), metas)

    def written(self):
        """(the program as a module, its results)"""
        results, written = self.run()
        if written:
            raise NotImplementedError(
                f"a branch or a loop of a program writes into what it is given ({', '.join(n.name for n in written)}): "
                "it cannot be written without writes. Let it give the new value as a result")
        made = GraphModule(self.parts, DecomposedView(self, results).graph)
        if isinstance(self.module.graph.output_node().args[0], UserNode):
            give_alone(made)
        return made, results


def check_alike(metas, others):
    """RuntimeError unless the branches of a condition give tensors of the same dtypes and shapes."""
    for a, b in zip(metas, others, strict=True):
        if a.dtype is not b.dtype or len(a.shape) != len(b.shape) or any(
                type(m) is int and type(n) is int and m != n for m, n in zip(a.shape, b.shape)):
            raise RuntimeError(f"the branches of a condition give other tensors once they are decomposed: {a} and {b}")


def is_opened(called) -> bool:
    """Whether an overload is never kept: those that share memory or write, or not, as it happens."""
    return called.namespace == "aten" and "always" in words().get(key(called._opname, called._overloadname), ())


def shares_memory(op, bound) -> bool:
    """Whether a primitive gives a view of its first argument."""
    x, *_ = bound.values()
    if op.kind.name not in ("view", "recast", "bytes") or not isinstance(x, Held):
        return False
    rest = {name: value for name, value in bound.items() if value is not x}
    return op.kind.strided(op, x._rush_meta, **rest) is not None


# checks of what the program fixes, and of ranges that other nodes check, too
SETTLED = (ops.aten._assert_tensor_metadata.default, ops.aten.sym_constrain_range.default,
           ops.aten.sym_constrain_range_for_size.default)


class Part:
    """A submodule that control flow runs."""

    def __init__(self, name, module):
        self.name, self.module = name, module


def plain_lists(value):
    """Arguments of nodes with lists and tuples of the builtin kinds."""
    if isinstance(value, list):
        return [plain_lists(v) for v in value]
    return tuple(map(plain_lists, value)) if isinstance(value, (tuple, Size)) else value


class DecomposedView(AtenView):
    """The fx graph of a rewritten program: placeholders keep their names, and nodes keep the source of the nodes that
    they replace."""

    def __init__(self, program, results):
        self.program, self.parts = program, {}
        recorder = program.recorder
        unbacked = recorder.shape_env.unbacked
        outputs = [r.node for r in results if isinstance(r, Tensor)]
        outputs += [unbacked[s] for r in results if isinstance(r, Expr) for s in r.free if s in unbacked]
        self.results = results
        made = recorder.graph(outputs)
        made.outputs = results
        made.inputs = [held for _, held in program.given]
        super().__init__(made)
        self.graph.eliminate_dead_code()

    def enter(self, inputs):
        for node, held in self.program.given:
            made = self.graph.create_node("placeholder", node.target, name=node.name)
            made.meta.update(node.meta)
            if isinstance(held, house.Node):
                self.made[held] = made
            elif isinstance(held, Expr):
                self.sizes[held.arg[0] if held.op == "size" else held] = made
                made.meta["val"] = held
        for found, tensor in self.program.recorder.constants.items():
            self.made[found.value] = self.graph.get_attr(found.value.name)
            self.program.parts[found.value.name] = tensor
        for _, held in self.program.given:
            for dim, size in enumerate(held.meta.shape if isinstance(held, house.Node) else ()):
                self.enter_size(held, dim, size)

    def enter_size(self, held, dim, size):
        if not isinstance(size, Expr) or size in self.sizes or getattr(size, "arg", None) and self.sizes.get(
                size.arg[0] if isinstance(size.arg, tuple) else None):
            return
        made = self.graph.call_function(ops.aten.sym_size.int, (self.made[held], dim), name="sym_size_int")
        made.meta["val"] = size
        self.sizes[size.arg[0] if is_symbol(size) else size] = made
        if not is_symbol(size):
            self.enter_symbol(made, size)

    def enter_symbol(self, made, size):
        """Compute the symbol of a size that is a multiple of it plus an int, unless it is known."""
        parts, offset = terms(size)
        (symbol, factor), *others = parts.items()
        if others or symbol.op != "size" or symbol.arg[0] in self.sizes:
            return
        for function, number in ((operator.sub, offset), (operator.floordiv, factor)):
            if number != (function is operator.floordiv):
                value = function(made.meta["val"], number)
                made = self.graph.call_function(function, (made, number))
                made.meta["val"] = value
        self.sizes[symbol.arg[0]] = made

    def finish(self, outputs):
        self.graph.output(tuple(self.value(r.node) if isinstance(r, Tensor) else self.value(r) for r in self.results))

    def node(self, node):
        if isinstance(node.op, (OpOverload, Call)):
            target = node.op if isinstance(node.op, OpOverload) else node.op.target
            made = self.graph.call_function(target, self.value(tuple(node.args)),
                                            {k: self.value(v) for k, v in node.params.items()},
                                            name=getattr(target, "_opname", None) or target.__name__)
            made.meta["val"] = self.fake(node.meta)
            self.made[node] = made
        else:
            super().node(node)
            made = self.made[node]
        source = self.program.recorder.sources.get(node)
        if source is not None:
            made.meta.update({k: v for k, v in source.meta.items() if k not in ("val", "source_fn_stack")})

    def reading(self, node):
        if node.op is ITEM:
            made = self.graph.call_function(ops.aten._local_scalar_dense.default, self.value(node.args),
                                            name="_local_scalar_dense")
            self.sizes[node.name] = made
            return made
        return super().reading(node)

    def value(self, value):
        if isinstance(value, Part):
            return self.graph.get_attr(value.name)
        return super().value(value)


def is_symbol(e) -> bool:
    return isinstance(e, Expr) and len(e.free) == 1 and e in e.free
