"""Cuts a joint program into a forward and a backward program, and decides which values are kept between them."""
from __future__ import annotations


from ..core.cached import cached_property
from ..core.shape_env import guess
from ..core.kinds import P
from ..core.meta import product
from ..graph.graph import Graph, Node, map_nodes
from ..graph.views import operands
from .flow import ENDLESS, Network
from .schedule import bytes_of_work

KEPT = ("contract", "foreign", "scatter", "scan")  # never computed again
SEVERAL = 4  # contractions, from which on a program counts as a full model
DEAR = 8     # cost of a byte of memory in these, in bytes moved


class Partition:
    """``forward`` has the extra outputs last; ``backward`` takes the residuals, then the cotangents.

    ``residuals``: the forward nodes that cross, each an input, an output, or one of the ``extras``.
    """

    def __init__(self, whole, backward, residuals, extras):
        self.whole, self.backward, self.residuals, self.extras = whole, backward, residuals, extras

    @cached_property
    def forward(self) -> Graph:
        return self.whole.prune()

    def without(self, node) -> "Partition":
        """The same where an extra value is kept in another way."""
        whole = self.whole
        kept = Graph(whole.inputs, whole.nodes,
                     [n for k, n in enumerate(whole.outputs) if n is not node
                      or k < len(whole.outputs) - len(self.extras)])
        return Partition(kept, self.backward, self.residuals, [n for n in self.extras if n is not node])


def partition(joint: Graph, outputs, cotangents, gradients, stores=(), from_inputs=False, changed=()) -> Partition:
    """Split a program of primitives that computes ``outputs``, ``stores`` and, from ``cotangents``, ``gradients``.

    A value that the backward pass reads is saved, or recomputed from saved values, whichever moves fewer bytes;
    ``from_inputs``: everything is recomputed from the inputs. Inputs and outputs that are ``changed`` (or written by
    ``stores``) cannot be saved as they are: the values needed of them become extra outputs.
    """
    changed = {*changed, *(store.into for store in stores)}
    given = [n for n in joint.inputs if n not in set(cotangents)]
    backward = downstream(joint.nodes, cotangents)
    needed = read_by(joint.nodes, backward, gradients)
    upstream = ancestors(joint.nodes, needed)
    if from_inputs:
        crossing = {n for n in given if n in upstream}
    else:
        free = {*given, *outputs} - changed
        crossing = Costs(joint.nodes, backward, free).cut(upstream, needed)
    order = [n for n in (*joint.inputs, *joint.nodes) if n in crossing]
    visible = {*given, *outputs} - changed
    extras = [n for n in order if n not in visible]
    first = Graph(given, [n for n in joint.nodes if n not in backward], [*outputs, *stores, *extras])
    second = at_once(Graph([*order, *cotangents], [n for n in joint.nodes if n not in crossing], gradients).prune())
    return Partition(first, second, order, extras)


def at_once(graph: Graph) -> Graph:
    """A backward program without ``prims.after``, which only orders nodes: for a backward pass that runs it as a
    whole."""
    if not any(node.op is P.after for node in graph.nodes):
        return graph
    env, nodes = {n: n for n in graph.inputs}, []
    for node in graph.nodes:
        if node.op is P.after:
            env[node] = env[node.args[0]]
        else:
            env[node] = Node(node.name, node.op, map_nodes(node.args, env.__getitem__), node.params, node.meta,
                             node.inside, node.where, node.weak, node.constant)
            nodes.append(env[node])
    return Graph(graph.inputs, nodes, [env[n] for n in graph.outputs]).prune()


def downstream(nodes, sources) -> set:
    """The nodes computed from any of ``sources``, and these."""
    found = set(sources)
    for node in nodes:
        if any(n in found for n in node.used):
            found.add(node)
    return found


def read_by(nodes, backward: set, gradients) -> set:
    """The values independent of cotangents that nodes of the gradients read directly."""
    live, found = set(gradients), {n for n in gradients if n not in backward}
    for node in reversed(nodes):
        if node in live and node in backward:
            live.update(node.used)
            found.update(n for n in node.used if n not in backward)
    return found


def ancestors(nodes, targets) -> set:
    """``targets`` and everything they are computed from."""
    found = set(targets)
    for node in reversed(nodes):
        if node in found:
            found.update(node.used)
    return found


def crossroads(nodes) -> set:
    """Elementwise results that several others read and that read several tensors, or all that is read of a contraction:
    the sums of residual networks, layers with their biases."""
    users: dict = {}
    for node in nodes:
        for used in set(node.used):
            users[used] = users.get(used, 0) + 1

    def reads_much(node: Node) -> bool:
        large = [n for n in node.used if product(n.shape) == product(node.shape)]
        return len(large) > 1 or any(n.op is not None and n.op.kind.name in KEPT and users[n] == 1 for n in large)

    return {n for n in nodes if n.op.kind.name == "elementwise" and users.get(n, 0) > 1 and reads_much(n)}


class Costs:
    """The costs of saving a value for the backward pass and of recomputing it; both in bytes moved.

    A value that is materialized anyway costs memory only, which counts half. A value that the backward's contractions
    read must be written once more if it is recomputed. In full models memory is expensive: residuals take most of it.
    """

    def __init__(self, nodes, backward: set, free: set):
        self.free = free
        forward = [n for n in nodes if n not in backward]
        self.stored = operands(forward) | crossroads(forward)
        self.room = DEAR if sum(n.op.kind.name == "contract" for n in forward) >= SEVERAL else 1
        self.wanted = operands(n for n in nodes if n in backward)
        # computed from run-time scalars alone, such as RNG offsets: never saved as tensors
        self.numbers: set = set()
        for node in forward:
            if node.used and all(n.is_scalar or n in self.numbers
                                 for n in node.used) and not isinstance(node.meta, tuple) and node.shape == ():
                self.numbers.add(node)

    def keep(self, node: Node) -> int:
        size = node.meta.itemsize * guess(product(node.shape)) if not isinstance(node.meta, tuple) else ENDLESS
        if node.op is not None and node.op.kind.name == "create" and not node.used:
            return ENDLESS  # recomputable without inputs; a caller may have mutated a saved one by then
        if node in self.free:
            return 0
        if node in self.numbers:
            return ENDLESS
        if node.op is None or node in self.stored:
            return size * self.room // 2 + 1
        if node.op.kind.name in KEPT:
            return size * self.room + 1  # a value computed along with it could use the memory instead
        return ENDLESS if node.op.kind.shares and node not in self.wanted else size * self.room * 5 // 2 + 1

    def again(self, node: Node) -> int:
        if node.op is None or node.op.kind.name in KEPT:
            return ENDLESS
        if node.op.kind.name == "reduce":
            # read, and what is read is computed
            return 2 * guess(product(node.args[0].shape)) * node.args[0].meta.itemsize
        elements = guess(product(node.shape))
        written = elements * node.meta.itemsize if node in self.wanted else 0
        return int(elements * bytes_of_work(node)) + written

    def cut(self, upstream: set, needed: set) -> set:
        """The values that cross."""
        point = {n: 2 * k + 2 for k, n in enumerate(upstream)}  # a value comes in here, and goes out one point on
        network = Network(2 * len(point) + 2)
        for node, at in point.items():
            network.edge(0, at, min(self.again(node), ENDLESS))
            network.edge(at, at + 1, min(self.keep(node), ENDLESS))
            for used in dict.fromkeys(node.used):
                network.edge(point[used] + 1, at, ENDLESS)
            if node in needed:
                network.edge(at + 1, 1, ENDLESS)
        side = network.sink_side()
        return {n for n, at in point.items() if at + 1 in side and at not in side}
