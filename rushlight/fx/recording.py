"""Tracing of functions of tensors on fake tensors."""
from __future__ import annotations

from .._src.capture.record import Recorder
from .._src.core.expr import size
from .._src.core.shape_env import ShapeEnv
from .._src.core.meta import Meta
from .._src.core.native import Tensor, mine
from .._src.core.op import body_of
from .._src.core.pytree import tree_flatten, tree_map
from .._src.graph.graph import Graph, Node
from .._ops import overload_of
from .recorded_gradients import pulled


class Overloads(Recorder):
    """A Recorder that also notes the overload (``torch.ops.aten.add.Tensor``) of each call, the tensor of each node
    (``tensors``) and the nodes that keep no history (``constants``), from which gradients are recorded."""

    def __init__(self, *hooks):
        super().__init__(*hooks)
        self.overloads, self.spelled, self.tensors, self.constants = {}, opened, {}, set()

    def fake(self, node, *args, **kwargs):
        made = self.tensors[node] = super().fake(node, *args, **kwargs)
        return made

    def pull(self, outputs, cotangents, inputs, create_graph):
        """Record the gradients of an ``autograd.grad`` call."""
        outputs, cotangents, inputs = ([t if t is None else self.entered(t) for t in tensors]
                                       for tensors in (outputs, cotangents, inputs))
        return pulled(self, outputs, cotangents, inputs, create_graph)

    def require_grad(self, fake, wanted):
        """Set ``requires_grad``: a tensor made here, without a history, may be differentiated."""
        if not wanted or fake.node.op is None or not fake.dtype.is_inexact:
            return super().require_grad(fake, wanted)
        fake._rush_needs_grad = 1

    def record(self, op, args, kwargs):
        before = len(self.nodes)
        result = super().record(op, args, kwargs)
        if not mine.grad:
            self.constants.update(self.nodes[before:])
        for node in self.nodes[before:]:
            if node.op is op:
                self.overloads[node] = overload_of(op, args, kwargs)
        return result


def opened(recorder, op, args, kwargs):
    """Record an operator that transforms created, which has no overload, as the operators of its body."""
    return body_of(op, args)(*args, **kwargs) if op.traits.get("derived") else NotImplemented


class Recorded:
    """What ``record`` found: ``graph``; ``arguments``, its inputs that stand for the function's tensors, in order;
    ``lifted``, inputs that stand for tensors from outside (node: tensor); ``stream`` and ``drawn``, the inputs that
    place random numbers and how many blocks are drawn; ``sizes``, symbols as (argument's node, dimension);
    ``shape_env``, their values in the recording; ``spec``, how the results are nested; ``overloads`` of the nodes."""

    def __init__(self, graph, arguments, lifted, stream, drawn, sizes, shape_env, spec, overloads):
        self.graph, self.arguments, self.lifted, self.stream, self.drawn = graph, arguments, lifted, stream, drawn
        self.sizes, self.shape_env, self.spec, self.overloads = sizes, shape_env, spec, overloads


def users_place():
    """The innermost file and line outside this package."""
    from traceback import walk_stack
    here = __name__.split(".")[0]
    return next(((f.f_code.co_filename, line) for f, line in walk_stack(None)
                 if f.f_globals.get("__name__", "").split(".")[0] != here), None)


def record(function, args, kwargs=None, symbolic=False) -> Recorded:
    """Run a function on fake tensors like these, and trace it.

    Other arguments keep their values.  ``symbolic``: sizes above 1 are symbols, equal ones the same.  RuntimeError for
    what needs data.
    """
    from .._src.capture.errors import Break
    lifted, known, stream, drawn, sizes, hints = {}, {}, [], [0], {}, {}
    recorder = Overloads(lambda tensor: lift(tensor), lambda *request: draw(*request), users_place)
    recorder.symbolic = symbolic

    def lift(tensor):
        if id(tensor) not in known:
            fake = recorder.input(tensor._rush_meta, tensor._rush_needs_grad, type(tensor))
            known[id(tensor)] = fake
            lifted[fake.node] = tensor
        return known[id(tensor)]

    def draw(blocks, owner=None, agree=None):
        if owner is not None:
            raise NotImplementedError("random numbers of a DTensor within a traced graph: its processes agree on the "
                                      "position in the stream at each call; draw them outside of the graph")
        if not stream:
            stream.extend((recorder.number(), recorder.number()))
        seed, position = stream
        if drawn[0]:
            position = recorder.shifted(position, drawn[0])
        drawn[0] += blocks
        return seed, position

    def symbols(tensor):
        if not symbolic or not tensor._rush_meta.contiguous:
            return tensor._rush_meta
        shape = [n if n < 2 else hints.setdefault(n, size(f"s{len(hints)}", 2)) for n in tensor._rush_meta.shape]
        return Meta.of(shape, tensor.dtype, tensor._rush_meta.device)

    def enter(value):
        if not isinstance(value, Tensor):
            return value
        meta = symbols(value)
        fake = recorder.input(meta, value._rush_needs_grad, type(value))
        for k, n in enumerate(meta.shape):
            if not isinstance(n, int):
                sizes.setdefault(n, (fake.node, k))
        arguments.append(fake.node)
        return fake

    arguments: list = []
    args, kwargs = tree_map(enter, (tuple(args), kwargs or {}))
    shape_env = ShapeEnv({symbol: n for n, symbol in hints.items()})
    with shape_env, recorder:
        try:
            leaves, spec = tree_flatten(function(*args, **kwargs))
        except Break as found:
            raise RuntimeError(
                "the function needs the data of its tensors, which tracing without data does not have (it is "
                f"data-dependent): {found}. Trace it in the mode 'real'.") from None
        results = [recorder.entered(leaf).node if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    graph = recorder.graph([r for r in results if isinstance(r, Node)])
    kept = set(graph.inputs)
    extra = [f.node for f in stream]
    inputs = [*arguments, *(n for n in lifted if n in kept), *extra]
    return Recorded(Graph(inputs, graph.nodes, results), arguments, {n: t for n, t in lifted.items() if n in kept},
                    extra, drawn[0], sizes, shape_env, spec, recorder.overloads)

