"""score_mod and mask_mod: a user's functions of one score, traced once, for use in kernels, formulas and NumPy."""
from __future__ import annotations

import copy
import operator
import weakref
from itertools import chain

from ...autograd import enable_grad
from ..._src.aot.joint import differentiate
from ..._src.compiler.lower import BufferView, NotLowerable, Reader
from ..._src.compiler.kernel import Buffer
from ..._src.devices.shared.attention import GRADIENT, SCORE, Modification, spot
from ..._src.core import expr
from ..._src.core.dtypes import bool_, float32, int64
from ..._src.core.expr import Expr
from ..._src.core.meta import Meta, row_major
from ..._src.core.op import OPS
from ..._src.core.tensor import Tensor
from ..._src.graph.graph import Graph, splice
from ..._src.graph.settling import settled_graph
from ..._src.transforms.trace import Trace, Traced

WHERE = ("b", "h", "q_idx", "kv_idx")


class Lifting(Trace):
    """A Trace that takes tensors from outside as inputs; ``outside`` lists them."""

    def __init__(self, outside: list):
        super().__init__()
        self.outside, self.lifted = outside, {}

    def call(self, op, args, kwargs):
        return super().call(op, tuple(map(self.lift, args)), {k: self.lift(v) for k, v in kwargs.items()})

    def lift(self, value):
        """Tensors, within lists and tuples, as inputs of this program."""
        if isinstance(value, Tensor) and not isinstance(value, Traced):
            number = next((k for k, known in enumerate(self.outside) if known is value), None)
            if number is None:
                number = len(self.outside)
                self.outside.append(value)
            if number not in self.lifted:
                self.lifted[number] = self.input(value._rush_meta, "outside")
            return self.lifted[number]
        return type(value)(map(self.lift, value)) if type(value) in (list, tuple) else value


class ScalarGraph:
    """One of the user's functions as a Graph of 0-dim tensors: its own inputs, then tensors from outside (numbers
    ``outside``)."""

    def __init__(self, function, names, outside, want):
        trace = Lifting(outside)
        with enable_grad(), trace:
            values = [trace.input(Meta.of((), want if name == "score" else int64), name) for name in names]
            result = trace.lift(function(*values))
            result = result if isinstance(result, Traced) else OPS["full"]((), result)
            if tuple(result.shape):
                raise RuntimeError(
                    f"{getattr(function, '__name__', 'the function')} must return one value for one score, a tensor "
                    "without "
                    f"dimensions; it returned {list(result.shape)}")
            result = OPS["ne"](result, 0) if want is bool_ and result.dtype is not bool_ else result.to(want)
            self.own, own_nodes = len(values), len(trace.nodes)
            slope = None
            if want is not bool_:
                gradient = trace.input(Meta.of((), want), "gradient")
                slope, = differentiate(trace.nodes, [result.node], [gradient], [values[0].node])
                slope = OPS["full"]((), 0.0) if slope is None else slope
        self.outside = list(trace.lifted)
        inputs = [v.node for v in values] + [v.node for v in trace.lifted.values()]
        self.graph = splice(Graph(inputs, trace.nodes[:own_nodes], [result.node]).prune())
        self.slope = None if slope is None else splice(Graph([gradient.node, *inputs], trace.nodes,
                                                             [slope.node]).prune())

    def settled(self, sizes: dict) -> "ScalarGraph":
        """The same for these sizes."""
        made = copy.copy(self)
        made.graph, made.slope = settled_graph(self.graph, sizes), self.slope and settled_graph(self.slope, sizes)
        return made

    def expr(self, graph, leaves, buffers):
        """The Expr of a graph of this function."""
        reader = Reader(graph)
        for node, leaf in zip(graph.inputs, leaves):
            reader.places[node] = leaf
        for node, number in zip(graph.inputs[len(leaves):], self.outside):
            reader.places[node] = BufferView(buffers[number], row_major(node.shape))
        return reader.read(graph.outputs[0], ())

    def everywhere(self, graph, own, at, captured):
        """The graph for all scores [b, h, q, k] together: ``own`` has those dimensions, ``at`` are four vectors of
        positions."""
        from ...func import vmap

        captured = [captured[k] for k in self.outside]
        run = lambda *values: graph.run(values)[0]
        for level in (3, 2, 1, 0):
            dims = (0,) * len(own) + tuple(0 if k == level else None for k in range(4)) + (None,) * len(captured)
            run = vmap(run, in_dims=dims)
        return run(*own, *at, *captured)


class Mods:
    """The user's functions of scores [batch, heads, queries, keys].

    ``names``: of what they read; ``block``: sizes of the blocks of the mask; ``template``: the form that kernels take,
      or None, for which
    ``refusal`` says why.
    """

    _made: weakref.WeakValueDictionary = weakref.WeakValueDictionary()

    def __init__(self, score, mask, captured, extents, block, dtype):
        self.score, self.mask, self.extents, self.block, self.dtype = score, mask, extents, block, dtype
        self.shapes, self.settled = [tuple(t.shape) for t in captured], {}
        self.names = tuple(f"outside_{k}" for k in range(len(captured)))
        self.causal, self.refusal = False, None
        self.numpy_graphs: dict = {}
        try:
            self.template = self.lower(captured) if dtype is float32 else None
            self.refusal = None if dtype is float32 else f"scores of {dtype}"
        except NotLowerable as reason:
            self.template, self.refusal = None, str(reason)

    @classmethod
    def of(cls, score_mod, mask_mod, extents, block=(128, 128), dtype=float32):
        """The Mods of two functions (None: nothing) of scores of a dtype, and the tensors that they read."""
        captured, block = [], tuple(map(operator.index, block))  # kernels are for blocks of one size
        score = score_mod and ScalarGraph(score_mod, ("score", *WHERE), captured, dtype)
        mask = mask_mod and ScalarGraph(mask_mod, WHERE, captured, bool_)
        key = "\n".join(str(g) for g in (score and score.graph, mask and mask.graph, extents, block, dtype))
        found = cls._made.get(key)
        if found is None:
            found = cls._made[key] = cls(score, mask, captured, extents, block, dtype)
        return found, captured

    def at(self, extents, captured) -> "Mods":
        """Return the same for scores of these extents, which may have been symbols during tracing."""
        if all(a is b or type(a) is type(b) is int and a == b for a, b in zip(extents, self.extents)):
            return self
        extents = tuple(map(operator.index, extents))
        shapes = tuple(tuple(map(operator.index, t.shape)) for t in captured)
        if (extents, shapes) not in self.settled:
            sizes = {symbol: size for symbol, size in zip(chain(self.extents, *self.shapes), chain(extents, *shapes))
                     if isinstance(symbol, Expr)}
            self.settled[extents, shapes] = Mods(self.score and self.score.settled(sizes), self.mask
                                                 and self.mask.settled(sizes), captured, extents, self.block,
                                                 self.dtype)
        return self.settled[extents, shapes]

    def lower(self, captured) -> Modification:
        """The functions as Exprs."""
        buffers = [Buffer(name, tensor.dtype, size=tensor.numel()) for name, tensor in zip(self.names, captured)]
        at = spot(self.extents)
        where = [expr.value(e, int64) for e in at]
        score = slope = mask = None
        if self.score:
            score = self.score.expr(self.score.graph, [SCORE, *where], buffers)
            slope = self.score.expr(self.score.slope, [GRADIENT, SCORE, *where], buffers)
        if self.mask:
            mask = self.mask.expr(self.mask.graph, where, buffers)
            self.causal = mask is expr.apply("ge", where[2], where[3]) or mask is expr.apply("le", where[3], where[2])
        return Modification(score, slope, mask, at, tuple(buffers))

    # --- the same, for whole tensors ----------------------------------------------------------------------------------
    def positions(self, scores):
        """Return the four index vectors of scores, on their device."""
        return [OPS["arange"](n, device=scores.device) for n in self.extents]

    def scores(self, scores, captured):
        """Scores after both functions: -inf where a query may not look."""
        at = self.positions(scores)
        if self.score:
            scores = self.score.everywhere(self.score.graph, [scores], at, captured)
        return OPS["where"](self.mask.everywhere(self.mask.graph, [], at, captured), scores,
                            float("-inf")) if self.mask else scores

    def slopes(self, slopes, scores, captured):
        """Gradients of scores, given those of what the function makes of them."""
        if not self.score:
            return slopes
        return self.score.everywhere(self.score.slope, [slopes, scores], self.positions(scores), captured)

    def scores_numpy(self, scores, captured):
        return self.by_numpy(self.scores, [scores], captured)

    def slopes_numpy(self, slopes, scores, captured):
        return self.by_numpy(self.slopes, [slopes, scores], captured)

    def by_numpy(self, function, scores, captured):
        from ..._src.core.dtypes import FROM_NUMPY
        from ..._src.compiler.reference import evaluate

        arrays = [*scores, *captured]
        key = function.__name__, tuple((a.shape, a.dtype) for a in arrays)
        if key not in self.numpy_graphs:
            trace = Trace()
            with trace:
                values = [trace.input(Meta.of(a.shape, FROM_NUMPY[a.dtype])) for a in arrays]
                result = function(*values[:len(scores)], values[len(scores):])
            self.numpy_graphs[key] = splice(Graph(trace.inputs, trace.nodes, [result.node]).prune())
        return evaluate(self.numpy_graphs[key], arrays)[0]
