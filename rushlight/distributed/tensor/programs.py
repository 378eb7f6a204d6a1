"""An operator on sharded tensors: its body's primitives, each with its cheapest placements, and the redistributions
between them.

The primitives between two redistributions become one local operator, which is planned and fused like any other.
"""
from __future__ import annotations

import math

from ..._src.graph.graph import Graph, map_nodes, splice
from ..._src.graph.views import view_of_input
from ..._src.aot.alias import Recording
from ..._src.compiler.simplify import simplify
from ..._src.core.interpret import recording, top
from ..._src.core.errors import StorageBoundsError
from ..._src.core.kinds import P
from ..._src.core.meta import Meta
from ..._src.core.overriding import DisableTorchFunction
from ..._src.core.tensor import alias
from ..._src.eager.arguments import Arguments
from ..._src.eager.backward import backward_operator
from ..._src.transforms.trace import Trace, ValueNeeded
from . import rules
from .layout import box, coordinates
from .placement_types import Partial, Replicate, Shard, _StridedShard
from .transfer import COUNTS, log, redistributed, step_cost

R = Replicate()


class Untraceable(Exception):
    """An operator that reads elements, or has results of data-dependent sizes: it runs on full tensors."""


class Value:
    """One value with given placements.  ``level``: the number of redistributions before it; ``index``: its index while
    a program runs."""

    def __init__(self, meta, placements, level, index):
        self.meta, self.placements, self.level, self.index = meta, placements, level, index


def written_down(op, given, names, masks):
    """Trace a call; return (program of primitives, with the call's tensors and scalars as inputs; the structure of its
    results; conditions on scalars; the inputs it mutates, whose values follow the results; the number of blocks of
    random numbers it draws; the number of the input that the only result is, and of that which it shows, by the strides
    of full tensors).  Untraceable if there is none."""
    trace = Recording(writes="into" not in op.traits)
    if "unmeasured" in op.rules:
        raise Untraceable(op.name)
    try:
        arguments = Arguments(op, given, names, trace, masks)
        with trace, recording(0), DisableTorchFunction():
            results = trace.call(op, arguments.args, arguments.kwargs)
            several = isinstance(results, (tuple, list))
            outputs = [r.node for r in (results if several else [results])]
            stores = trace.written()
    except (ValueNeeded, NotImplementedError, AttributeError,
            StorageBoundsError) as error:  # the last: of operators that read memory
        raise Untraceable(op.name) from error
    except TypeError as error:
        if "capture tensors" in str(error):
            raise Untraceable(op.name) from error
        raise
    kind = (type(results), len(outputs)) if several else None
    same = shows = None
    if not several and not stores:
        same = trace.inputs.index(outputs[0]) if outputs[0] in trace.inputs else None
        found = op.traits.get("view") and view_of_input(outputs[0])
        shows = trace.inputs.index(found[0]) if found else None
    outputs += [value for _, value in stores]
    graph = simplify(splice(Graph(trace.inputs, trace.nodes, outputs)), len(outputs)).prune()
    writes = [trace.inputs.index(node) for node, _ in stores]
    return graph, kind, arguments.conditions, writes, trace.drawn, (same, shows)


class Planner:
    """Makes a ShardedProgram of a graph for one process: ``inputs`` are the placements of the graph's inputs (None: a
    scalar)."""

    def __init__(self, graph, inputs, sizes, coordinate, name):
        self.graph, self.sizes, self.coordinate, self.name = graph, sizes, coordinate, name
        self.values, self.moves, self.work, self.versions = [], [], [], {}
        for node, placements in zip(graph.inputs, inputs):
            self.known(node, placements or (R,) * len(sizes), 0)

    def known(self, node, placements, level) -> Value:
        made = Value(node.meta, tuple(placements), level, len(self.values))
        self.values.append(made)
        self.versions.setdefault(node, {})[made.placements] = made
        return made

    def own(self, node) -> Value:
        """Return a node's value with its original placements."""
        return next(iter(self.versions[node].values()))

    def plan(self):
        for node in self.graph.nodes:
            if node.op is P.item:
                continue
            self.place(node)
        return self

    # --- which row ----------------------------------------------------------------------------------------------------
    def place(self, node):
        """Choose the placements of a primitive, and add the redistributions that it needs."""
        used = list(node.used)
        found = [self.own(n) for n in used]
        shapes = [tuple(n.meta.shape) for n in used]
        table = rules.rows(node, shapes)
        chosen = [self.cheapest(node, table, found, k) for k in range(len(self.sizes))]
        ins, outs = self.composed(node, chosen, len(used))
        parts = any(p.is_shard() for v in found for p in v.placements)
        while not self.valid(node, shapes, ins, outs):
            k = max(k for k, row in enumerate(chosen) if any(not isinstance(p, Replicate) for p in row[0]))
            chosen[k] = self.whole(node, len(used))
            ins, outs = self.composed(node, chosen, len(used))
        if parts and not any(p.is_shard() for placements in ins for p in placements):
            name = rules.name_of(node.op)
            COUNTS[f"gathered: {name}"] += 1
            log.info("%s: %s takes full tensors, but got sharded ones", self.name, name)
        arguments = [self.version(n, placements) for n, placements in zip(used, ins)]
        level = max((v.level for v in arguments), default=0)
        results = [self.known(target, placements, level) for target, placements in zip(self.targets(node), outs)]
        self.work.append((node, arguments, results, level, ins))

    def targets(self, node):
        """The nodes that name a primitive's results: itself, or one for each of several."""
        if not isinstance(node.meta, tuple):
            return [node]
        items = {n.params["index"]: n for n in self.graph.nodes if n.op is P.item and n.used == (node,)}
        return [items.get(k) or Unnamed(meta) for k, meta in enumerate(node.meta)]

    def whole(self, node, count):
        return (R,) * count, (R,) * (len(node.meta) if isinstance(node.meta, tuple) else 1)

    def cheapest(self, node, table, found, k):
        """Return the row along mesh dimension k that moves the fewest bytes; among equals one with sharded results."""
        best, least = self.whole(node, len(found)), math.inf
        strided = [v.placements[k] for v in found if isinstance(v.placements[k], _StridedShard)]
        for row in [best, *table, *(restrided(row, strided[0]) for row in table if strided and kept(node, row))]:
            split = any(isinstance(v.placements[k], Shard) and v.placements[k] == p for v, p in zip(found, row[0]))
            price = 0.0
            for value, placement in zip(found, row[0]):
                now = value.placements[k]
                price += step_cost(tuple(value.meta.shape), value.placements, k, placement, self.sizes)
                if isinstance(now, Partial) and isinstance(placement, Shard) and not split:
                    price *= 2.01  # this row shards nothing: keep the partial sum
            if price < least:
                best, least = row, price
        return best

    def composed(self, node, chosen, count):
        """Return rows along each mesh dimension as placements of each argument, and of each result."""
        outs = len(node.meta) if isinstance(node.meta, tuple) else 1
        return ([tuple(row[0][a] for row in chosen) for a in range(count)],
                [tuple(row[1][r] for row in chosen) for r in range(outs)])

    def valid(self, node, shapes, ins, outs) -> bool:
        """True if the parts match: grouped dimensions are sharded where their first ones are, and no part is empty that
        must not be."""
        if not any(isinstance(p, Shard) for placements in ins for p in placements):
            return True
        kind, name = node.op.kind.name, rules.name_of(node.op)
        for at in coordinates(self.sizes):
            parts = [box(shape, placements, self.sizes, at) for shape, placements in zip(shapes, ins)]
            if name == "reshape" and not self.matches(node, shapes[0], ins[0], outs[0], at):
                return False
            if any(0 in part[0] and 0 not in shape for part, shape in zip(parts, shapes)):
                if kind in ("foreign", "contract"):
                    return False
                if any(parts[0][0][d] == 0 for d in self.read_along(node)):
                    return False
        return True

    @staticmethod
    def read_along(node) -> tuple:
        """The dimensions of the first argument along which a primitive needs an element."""
        if node.op.kind.name in ("gather", "scatter"):
            return (node.params["dim"],)
        return node.params["dims"] if rules.name_of(node.op) in ("amax", "amin", "argmax", "argmin") else ()

    def matches(self, node, shape, before, after, at) -> bool:
        target = tuple(node.meta.shape)
        (a, start), (b, begin) = box(shape, before, self.sizes, at), box(target, after, self.sizes, at)
        pairs = {(p.dim, q.dim) for p, q in zip(before, after) if isinstance(p, Shard)}
        return all(a[d] * target[e] == b[e] * shape[d] and start[d] * target[e] == begin[e] * shape[d]
                   for d, e in pairs)

    def version(self, node, placements) -> Value:
        """Return a value with these placements, redistributed if it is not there yet."""
        versions = self.versions[node]
        if placements not in versions:
            source = self.own(node)
            made = self.known(node, placements, source.level + 1)
            self.moves.append((source, made))
        return versions[placements]


def kept(node, row) -> bool:
    """True if a row shards dimensions that the operator leaves unchanged."""
    return node.op.kind.name == "elementwise" or node.op.kind.name in ("view", "recast") and row[0] == row[1] and row[
        0][0].is_shard() and (
        node.used[0].meta.shape[row[0][0].dim] == node.meta.shape[row[0][0].dim])


def restrided(row, placement):
    """Return a row with strided shards in place of shards."""
    def of(p):
        return _StridedShard(p.dim, placement.split_factor) if isinstance(p, Shard) else p
    return tuple(map(of, row[0])), tuple(map(of, row[1]))


class Unnamed:
    """One of several results that has no use."""

    def __init__(self, meta):
        self.meta = meta


class ShardedProgram:
    """The steps of a process: for each level the redistributions that lead to it, and one local operator."""

    def __init__(self, planner, kind, writes, drawn, memory):
        self.same, self.shows = memory
        self.kind, self.count, self.name, self.writes, self.drawn = kind, len(
            planner.graph.inputs), planner.name, writes, drawn
        self.values, self.moves = planner.values, planner.moves
        self.outputs = [planner.own(node) for node in planner.graph.result_nodes()]
        self.levels = max((v.level for v in planner.values), default=0) + 1
        self.segments = [self.segment(planner, level) for level in range(self.levels)]
        self.only_views = not self.moves and not writes and all(node.op.kind.shares for node, *_ in planner.work)
        self.planner = planner if self.only_views else None

    def segment(self, planner, level):
        """(operator, indices of its arguments, indices of its results) of the work of one level."""
        work = [w for w in planner.work if w[3] == level]
        if not work:
            return None
        trace, env, inputs = Trace(), {}, []

        def enter(value):
            if value.index not in env:
                node = next((n for n in planner.graph.inputs if planner.own(n) is value), None)
                shape = box(tuple(value.meta.shape), value.placements, planner.sizes, planner.coordinate)[0]
                env[value.index] = trace.input(Meta.of(shape, value.meta.dtype), "s" if node is not None and node.weak
                                               else "x", bool(node is not None and node.weak))
                inputs.append(value.index)
            return env[value.index]

        made = []
        with trace, recording(0), DisableTorchFunction():
            for node, arguments, results, _, ins in work:
                found = local(planner, node, [enter(v) for v in arguments], results, ins)
                for value, result in zip(results, found if isinstance(found, tuple) else (found,)):
                    env[value.index] = result
                    made.append(value)
        wanted = {v.index for v, _ in self.moves} | {v.index for v in self.outputs} | {v.index for w in planner.work
                                                                                       if w[3] > level for v in w[1]}
        outputs = [v.index for v in made if v.index in wanted]
        graph = Graph(trace.inputs, trace.nodes, [env[k].node for k in outputs])
        return backward_operator(f"{self.name}.part", graph), inputs, outputs

    def run(self, arguments, mesh, why):
        """Return the results for the local tensors, and scalars, of a call."""
        env = dict(enumerate(arguments))
        if self.only_views and top() is None:
            self.shown(env)
        else:
            for level in range(self.levels):
                for source, target in self.moves:
                    if target.level == level:
                        env[target.index] = redistributed(env[source.index], tuple(source.meta.shape), mesh,
                                                          source.placements, target.placements, why)
                if self.segments[level] is not None:
                    op, inputs, outputs = self.segments[level]
                    env.update(zip(outputs, op(*(env[k] for k in inputs))))
        return [env[v.index] for v in self.outputs]

    def shown(self, env):
        """Views one by one, so that the results show the memory of the arguments."""
        for node, arguments, results, _, ins in self.planner.work:
            env[results[0].index] = local(self.planner, node, [env[v.index] for v in arguments], results, ins, shown)


def shown(op, x, **params):
    """The view that a primitive makes of a tensor: of the same memory where strides allow."""
    found = op.kind.strided(op, x._rush_meta, **params)
    return op(x, **params) if found is None else alias(x, found[0], x._rush_offset + found[1])


def local(planner, node, given, results, ins, call=None):
    """A primitive on the parts of one process."""
    sizes, at = planner.sizes, planner.coordinate
    values = iter(given)
    args = map_nodes(node.args, lambda _: next(values))
    params = dict(node.params)
    if "shape" in params and len(results) == 1:
        params["shape"] = box(tuple(results[0].meta.shape), results[0].placements, sizes, at)[0]
    if node.op.kind.name in ("gather", "scatter") and any(p.is_shard(params["dim"]) for p in ins[0]):
        return masked(planner, node, args, params, ins)
    return node.op(*args, **params) if call is None else call(node.op, *args, **params)


def masked(planner, node, args, params, ins):
    """Read, or add to, this process's part along the dimension of the index.  The first process's own check reports
    indices out of range."""
    x, index, *source = args
    dim = params["dim"]
    shape = tuple(node.used[0].meta.shape)
    (lengths, offsets), size = box(shape, ins[0], planner.sizes, planner.coordinate), shape[dim]
    start, count = offsets[dim], lengths[dim]
    outside = P.logical_or(P.lt(index, start), P.ge(index, start + count))
    wrong = P.logical_or(P.lt(index, 0), P.ge(index, size))
    at = P.where(wrong, index, P.where(outside, 0, P.sub(index, start)))
    along = outside
    if rules.name_of(node.op) in ("take", "put"):
        along = P.reshape(outside, shape=(*(1,) * dim, *index.shape, *(1,) * (len(shape) - dim - 1)))
    if source:
        return node.op(x, at, P.where(along, 0, source[0]), **params)
    return P.where(along, 0, node.op(x, at, **params))
