"""Exported programs in primitives: some calls, choices and data-dependent sizes are one node each."""
from __future__ import annotations

from .._ops import ops
from .._src.aot.alias import Recording
from .._src.capture.control import Chosen
from .._src.core.dtypes import int64
from .._src.core.expr import Expr, size
from .._src.core.interpret import Suspended
from .._src.core.kinds import P
from .._src.core.meta import Meta
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .._src.graph.graph import Graph, Node, splice
from .._src.transforms.trace import Several, lower_values, traced
from ..fx import GraphModule, Interpreter
from .comparisons import CONDITIONS
from .decomposing import SETTLED

CHECKS = (*SETTLED, ops.aten._assert_scalar.default)  # of sizes and numbers, which compute nothing
NUMBERS = "Tensor", "Scalar"  # what a schema says of an operand that may be a number
EXAMPLE_COUNT = 5  # value of unbacked sizes when conditions on them are evaluated


class Keeping(Recording):
    """A Recording in which some calls are one node: those for which ``keeps(op, args, kwargs)`` holds.  ``kept``:
    names of their operators; ``hints``: size hints of symbols, extended by those of unbacked sizes."""

    def __init__(self, keeps, hints):
        super().__init__()
        self.keeps, self.hints, self.kept, self.counts = keeps, hints, set(), 0

    def call(self, op, args, kwargs):
        if op is OPS["nonzero"]:
            return self.nonzero(*args, **kwargs)
        if op.kind is None and self.keeps(op, args, kwargs):
            self.kept.add(op.name)
            return self.closed(op, args, kwargs)
        return super().call(op, args, kwargs)

    def nonzero(self, input, *, as_tuple=False):
        """``nonzero`` as one node, whose number of rows is a symbol."""
        count = size(f"u{self.counts}")
        self.hints[count] = EXAMPLE_COUNT + self.counts
        self.counts += 1
        node = Node(self.fresh("t"), OPS["nonzero"], lower_values((input,), self), {},
                    Meta.of((count, input.dim()), int64, input.device))
        self.nodes.append(node)
        found = traced(node)
        return tuple(found[:, k] for k in range(input.dim())) if as_tuple else found


class PrimitiveReader(Interpreter):
    """Runs a graph module under a Keeping: comparisons of sizes are expressions, and each choice is one node."""

    def __init__(self, module, trace):
        super().__init__(module)
        self.trace = trace

    def call_function(self, target, args, kwargs):
        if target in CHECKS:
            return None
        if target in CONDITIONS and any(isinstance(a, Expr) for a in args):
            return CONDITIONS[target](*args)
        if target is ops.higher_order.cond:
            return self.choose(*args, **kwargs)
        if target is ops.aten.full.default and isinstance(args[1], Expr):
            number = P.full(shape=(), value=args[1], dtype=kwargs.get("dtype") or int64)
            return P.expand(number, shape=tuple(args[0]))
        return super().call_function(target, self.operands(target, args), kwargs)

    @staticmethod
    def operands(target, args) -> tuple:
        """The arguments of a call, in which integers of sizes that meet tensors are tensors without dimensions."""
        schema = getattr(target, "schema", None)
        if schema is None or not any(isinstance(a, Tensor) for a in args):
            return args
        return tuple(P.full(shape=(), value=a, dtype=int64) if isinstance(a, Expr) and known.base in NUMBERS else a
                     for a, known in zip(args, schema.arguments))

    def choose(self, pred, true_graph, false_graph, operands=()):
        """A choice between two programs."""
        if isinstance(pred, bool):
            return self.run_part(true_graph if pred else false_graph, operands)
        programs = [self.program(part, operands) for part in (true_graph, false_graph)]
        metas, others = ([o.meta for o in one.outputs] for one in programs)
        if [(m.dtype, len(m.shape)) for m in metas] != [(m.dtype, len(m.shape)) for m in others]:
            raise RuntimeError(f"the branches of a condition give different tensors: {metas} and {others}")
        tensors = tuple(o for o in operands if isinstance(o, Tensor))
        node = Node(self.trace.fresh("t"), Chosen("cond", programs), lower_values((pred, *tensors), self.trace), {},
                    tuple(metas))
        self.trace.nodes.append(node)
        return tuple(self.trace.emit(P.item, (Several(node),), {"index": k}, meta=m) for k, m in enumerate(metas))

    def run_part(self, part, operands):
        return type(self)(part, self.trace).run(*operands) if isinstance(part, GraphModule) else part(*operands)

    def program(self, part, operands) -> Graph:
        """A branch as a graph of primitives, whose inputs are the tensors among the operands."""
        inner = self.trace.inner()
        inputs = [inner.input(o._rush_meta) if isinstance(o, Tensor) else o for o in operands]
        with Suspended(self.trace), inner:
            found = type(self)(part, inner).run(*inputs)
            nodes = [r.node for r in (found if isinstance(found, (tuple, list)) else (found,))]
        return splice(Graph(inner.inputs, inner.nodes, nodes)).prune()
