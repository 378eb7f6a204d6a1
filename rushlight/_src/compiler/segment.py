"""Compile the nodes between template calls, a Graph of primitives, to a Program of kernels.

1. ``graph.splice`` expands operators until only primitives are left.
2. ``lower.Reader`` returns the element of any node as an Expr.
3. ``fuse.Fuser`` groups reductions, scatters and outputs into clusters, each one Kernel.
4. The target transforms each kernel: it merges axes, picks those of vectors or threads, splits large sums;
   ``kernel.parametrise`` turns numbers into slots.
5. The target emits and compiles code, unless a kernel with the same source has been compiled before.
"""
from __future__ import annotations

import logging

from ..core.shape_env import ShapeEnv
from ..core.undefined import Level
from ..core.meta import Meta, product
from ..core.progress import progress
from ..graph.graph import Graph, Node, Store, splice
from .fuse import Fuser
from .kernel import Buffer, walk
from .lower import BufferView, Reader, scalar_input
from .program import Bound, Program, Temporary
from .target import Target, processor

fusion_log = logging.getLogger("rushlight.fusion")


def compile_graph(graph: Graph, name: str, outputs: list[Meta] | None = None, inputs: list[Meta] | None = None,
                  target: Target | None = None) -> Program:
    """Compile a program of primitives.

    ``outputs`` are the Metas of the memory of its fresh outputs (those that are not Stores; default: their own),
    ``inputs`` those of its inputs' memory if it differs from the nodes'. ``target``: default the CPU. Raises
    NotLowerable for a program with a node that kernels cannot compute.
    """
    return Segment(splice(graph).prune(), outputs, inputs, target or processor()).run(name)


made: dict = {}  # fingerprint: (Program, its words); layers of a model repeat
MOST_MADE = 512  # each keeps its kernels in memory


def compile_once(target: Target, graph: Graph, name: str, outputs: list[Meta],
                 inputs: list[Meta]) -> tuple[Program, Bound | None]:
    """As ``compile_graph``, with the result of ``bind`` (None for symbolic sizes); equal programs are compiled once."""
    key, known = (target, Level.now > 0, *fingerprint(graph, outputs, inputs)), ShapeEnv.known_programs(made)
    found = known.get(key)
    if found is None:
        program = compile_graph(graph, name, outputs, inputs, target)
        progress.step()
        while len(known) >= MOST_MADE:
            del known[next(iter(known))]
        found = known[key] = program, None if program.symbolic else program.bind()
    return found


def fingerprint(graph: Graph, outputs, inputs) -> tuple:
    """Equal for graphs that differ in names only."""
    numbers = {node: k for k, node in enumerate([*graph.inputs, *graph.nodes])}

    def form(value):
        if isinstance(value, Node):
            return numbers[value]
        if isinstance(value, tuple):
            return tuple(map(form, value))
        return type(value), repr(value) if type(value) is float else value

    nodes = tuple((n.op, tuple(map(form, n.args)), tuple((k, form(v)) for k, v in n.params.items()), n.meta)
                  for n in graph.nodes)
    given = tuple((n.meta, n.weak) for n in graph.inputs)
    results = tuple((numbers[o.node], numbers[o.into]) if isinstance(o, Store) else numbers[o] for o in graph.outputs)
    return nodes, given, results, tuple(outputs), tuple(inputs)


class Segment:
    """The compilation of one program: its buffers and clusters."""

    def __init__(self, graph: Graph, outputs, inputs, target: Target):
        self.target, self.graph, self.reader, self.temporaries, self.scalars = target, graph, Reader(graph), [], {}
        self.fuser = Fuser(self.reader, self.new_temporary)
        for k, node in enumerate(graph.inputs):
            self.enter(node, k, node.meta if inputs is None else inputs[k])
        fresh = [o for o in graph.outputs if not isinstance(o, Store)]
        self.metas = [o.meta for o in fresh] if outputs is None else list(outputs)
        self.targets = [(node, BufferView(Buffer(f"out{k}", meta.dtype, "output", k), meta.strides))
                        for k, (node, meta) in enumerate(zip(fresh, self.metas))]
        self.into = [o for o in graph.outputs if isinstance(o, Store)]

    def enter(self, node: Node, number: int, meta: Meta):
        """Enter an input: memory, or a run-time scalar."""
        if node.weak:
            self.reader.places[node] = scalar_input(node)
            self.scalars[node.name] = number
        else:
            buffer = Buffer(node.name, node.dtype, "input", number)
            self.reader.places[node] = BufferView(buffer, meta.strides)

    def new_temporary(self, node: Node) -> Buffer:
        """Memory for a node's value."""
        return self.scratch(node.dtype, product(node.shape))

    def scratch(self, dtype, size) -> Buffer:
        buffer = Buffer(f"tmp{len(self.temporaries)}", dtype, "temporary", len(self.temporaries))
        self.temporaries.append(Temporary(buffer, size))
        return buffer

    def run(self, name: str) -> Program:
        pending = list(self.targets)
        for node in self.graph.nodes:
            kind = node.op.kind.name
            if kind == "reduce":
                self.fuser.reduction(node)
            elif kind == "scatter":
                self.scatter(node)
            elif kind == "scan":
                self.scan(node)
            for target in [t for t in pending if t[0] is node]:
                if self.reader.places.get(node) is not target[1]:
                    self.fuser.output(*target)
                pending.remove(target)
        for target in pending:  # inputs returned as they are
            self.fuser.output(*target)
        self.store_into()
        kernels = [c.kernel() for c in self.fuser.clusters if c.stores or c.closed]
        steps = [self.target.step(part, self.scalars) for kernel in kernels
                 for part in self.target.parts(kernel, self.scratch)]
        fusion_log.debug("%s: %d nodes -> %d kernels", name, len(self.graph.nodes), len(steps))
        return Program(name, steps, len(self.graph.inputs), self.metas, self.temporaries, self.reader.checked)

    def store_into(self):
        """Outputs that go into an input's memory, after everything that still reads it; through temporaries if they
        must be."""
        self.into = [o for o in self.into if self.reader.places.get(o.node) is not self.reader.places[o.into]]
        places = [self.reader.places[o.into] for o in self.into]
        before, placed = [(c, len(c.stores)) for c in self.fuser.clusters], dict(self.reader.places)
        homes = [self.fuser.output(o.node, place) for o, place in zip(self.into, places)]
        if not any(map(self.hazard, homes, places)):
            return
        kept = dict(before)
        self.fuser.clusters = [c for c, _ in before]
        for cluster, count in kept.items():
            del cluster.stores[count:]
        self.reader.places = placed  # results that the first attempt brought to memory are not there any more
        temporaries = [BufferView(self.new_temporary(o.node), Meta.of(o.node.shape, o.node.dtype).strides)
                       for o in self.into]
        for output, temporary in zip(self.into, temporaries):
            self.fuser.output(output.node, temporary)
        for output, temporary, place in zip(self.into, temporaries, places):
            self.reader.places[output.node] = temporary
            self.fuser.output(output.node, place)

    def hazard(self, cluster, place) -> bool:
        """True if anything reads memory that a store has changed: another element, a later stage, or a later kernel.

        Within a stage all values are computed before the first store, so reading the element that is stored is safe.
        """
        at = next(s.at for _, _, s in reversed(cluster.stores) if s.buffer is place.buffer)
        for c in self.fuser.clusters[self.fuser.clusters.index(cluster):]:
            values = [r.value for _, r in c.reductions] + [
                s.value for _, _, s in (*c.stores, *((0, 0, u) for u in c.updates))]
            values += [r.value for r in (c.scan or ())[:1]]
            for value in values:
                for load in walk(value, "load"):
                    if load.arg is place.buffer and not (c is cluster and load.args[0] is at and not c.reductions):
                        return True
        return False

    def memory(self, node: Node) -> BufferView:
        """The memory of an output, or a temporary."""
        place = next((t for n, t in self.targets if n is node), None)
        return place or BufferView(self.new_temporary(node), Meta.of(node.shape, node.dtype).strides)

    def scan(self, node: Node):
        place = self.memory(node)
        self.fuser.scanned(node, place)
        self.reader.places[node] = place
        self.reader.reset()

    def scatter(self, node: Node):
        """A copy of x, then updates in order, parallel over the dimensions that are not indexed."""
        x, positions, source = node.args[:3]
        dim = node.params["dim"]
        place = self.reader.places[x] if any(o.node is node and o.into is x for o in self.into) else self.memory(node)
        if place is not self.reader.places.get(x):
            self.fuser.output(x, place, alone=True)
        if node.op.name.endswith("put"):
            rank = len(positions.shape)
            shape = (*x.shape[:dim], *positions.shape, *x.shape[dim + 1:])
            indexed = range(dim, dim + rank)
        else:
            shape, indexed = tuple(positions.shape), range(dim, dim + 1)
        self.fuser.update(node, place, shape, indexed)
        self.reader.places[node] = place
        self.reader.reset()
