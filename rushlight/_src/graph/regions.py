"""Programs with a repeated subgraph, as a short program with few repetitions and the data to extend it.

before: ``x = layer(x, w0); x = layer(x, w1); ... x = layer(x, w23)``, each layer spelled out;
after: the same with only the first and last few layers; ``eager/regions.py`` extends its plan to the full length.
"""
from __future__ import annotations


from ..core.cached import cached_property
from ..core.kinds import P
from .graph import PLAIN, Graph, Node, map_nodes, nodes_in
from .repetition import COPIED, Irregular, Longer, Repetition, find

# repetitions in the short program: the copied one has an equal one before and after it, and the first and the last may
# differ
KEPT = 5
WORTHWHILE = 2  # repetitions that must be saved in planning


class Region:
    """A program and a short form of it. ``longer``: how to extend the short one, on its nodes; ``inputs`` and
    ``outputs`` are those of the full program as values of ``longer``: (node of the short program, number of its copy).
    ``behind``: the number of repetitions by which the first one is further on in the RNG stream; nonzero for backward
    programs, which begin with the last repetition."""

    behind = 0

    def __init__(self, short: Graph, longer: Longer, inputs, outputs):
        self.short, self.longer = short, longer
        self.thing_of_input, self.thing_of_output = list(inputs), list(outputs)
        self.number = {thing: k for k, thing in enumerate(self.thing_of_input)}

    def __str__(self):
        run = self.longer.short
        first, last = (run.entries[k][1][0].name for k in (run.start + COPIED * run.length, run.seam - 1))
        return (f"{run.count + self.longer.more} equal stretches of {run.length} nodes; the second of them ({first} "
                f"to {last}) stands for {self.longer.more} more")


class Lengthened(Region):
    """A program given by its short form and expanded when it is first run. ``leaves``: {value of ``longer``: Node} for
    its inputs and other values that no repetition computes."""

    def __init__(self, short: Graph, longer: Longer, inputs, outputs, leaves: dict):
        super().__init__(short, longer, inputs, outputs)
        self.leaves, self.inputs = leaves, [leaves[thing] for thing in inputs]

    @cached_property
    def graph(self) -> Graph:
        made, steps = dict(self.leaves), steps_of(self.longer.short)
        for entry, shift in self.longer.entries():
            (node, copy), *used = self.longer.things(entry, shift)
            name = f"{node.name}_{copy}" if copy else node.name
            made[node, copy] = rebuilt(node, iter([made[thing] for thing in used]), name,
                                       further_on(node, steps, shift - self.behind))
        return Graph(self.inputs, [n for n in made.values() if n.op is not None],
                     [made[thing] for thing in self.thing_of_output])

    def run(self, values):
        return self.graph.run(values)


def rebuilt(node: Node, used, name: str, count=0) -> Node:
    """Return a copy of the node that uses the nodes of ``used`` in order, with ``count`` added to its increment."""
    args = map_nodes(node.args, lambda n: next(used))
    if count:
        args = args[0], args[1] + count
    params = {k: map_nodes(v, lambda n: next(used)) for k, v in node.params.items()}
    return Node(name, node.op, args, params, node.meta, node.inside, node.where, node.weak, node.constant)


def entries_of(nodes) -> list:
    """Nodes as entries: each defines itself and uses others. Raises TypeError for arguments that cannot be compared."""
    return [((n.op, skeleton(n.args if counted(n) is None else n.args[:1]),
              tuple((k, skeleton(v)) for k, v in n.params.items()), n.meta, n.weak, n.constant),
             (n, *nodes_in((n.args, tuple(n.params.values()))))) for n in nodes]


def counted(node: Node):
    """The increment of a node that advances a run-time scalar, such as an RNG offset; None for all other nodes."""
    counts = (node.op is P.add
              or node.op.traits.get("counts")) and len(node.args) == 2 and type(node.args[1]) is int and isinstance(
                  node.args[0], Node)
    return node.args[1] if counts and number_in(node.args[0]) is not None else None


def number_in(node: Node):
    """The run-time scalar that a node is; None for all values in memory."""
    if node.op is P.convert and node.dtype is node.args[0].dtype:
        node = node.args[0]
    return node if node.is_scalar else None


def steps_of(run: Repetition) -> dict:
    """{run-time scalar: its increment from one repetition to the next}. Raises Irregular if the increment varies."""
    found: dict = {}
    for k in range(run.start, run.end - run.length):
        before, after = (run.entries[j][1][0] for j in (k, k + run.length))
        if counted(before) is not None:
            step = counted(after) - counted(before)
            if found.setdefault(number_in(before.args[0]), step) != step:
                raise Irregular("the RNG offset does not advance equally in every repetition")
    return found


def further_on(node: Node, steps: dict, stretches: int) -> int:
    """The change of a node's increment when it moves back by ``stretches`` repetitions."""
    return 0 if counted(node) is None else stretches * steps.get(number_in(node.args[0]), 0)


def skeleton(value):
    """An argument without the nodes in it; 1, 1.0 and True differ."""
    if isinstance(value, Node):
        return Node, value.meta
    if isinstance(value, (tuple, list)):
        return type(value), tuple(map(skeleton, value))
    if type(value) in PLAIN:
        return type(value), repr(value)
    hash(value)
    return value


def shortened(graph: Graph) -> Region | None:
    """Return a program reduced to KEPT of its repetitions; None if there are too few."""
    try:
        whole = find(entries_of(graph.nodes))
        if whole is None or whole.count < KEPT + WORTHWHILE:
            return None
        return without(graph, whole, whole.count - KEPT)
    except (Irregular, TypeError):
        return None


def without(graph: Graph, whole: Repetition, more: int) -> Region:
    """Return the program without the ``more`` repetitions after the copied one."""
    def kept(node: Node):
        """The counterpart of a node in the short program: (node, number of the copy)."""
        stretch = whole.stretch_of(node)
        if stretch is None or stretch <= COPIED or stretch > COPIED + more:
            return node, 0
        return whole.counterpart(node, COPIED), stretch - COPIED

    steps, things = steps_of(whole), {n: kept(n) for n in (*graph.inputs, *graph.nodes)}
    made = {n: n for n, (_, copy) in things.items() if n.op is None and not copy}
    first_kept = whole.seam + more * whole.length
    for k, node in enumerate(graph.nodes):
        if things[node][1]:
            continue
        used = whole.entries[k][1][1:]
        copies = {things[n][1] for n in used}
        if copies - {0, more} or more in copies and not first_kept <= k < first_kept + whole.length:
            raise Irregular("an entry after the repetitions refers to one other than the last")
        made[node] = rebuilt(node, iter([made[things[n][0]] for n in used]), node.name,
                             further_on(node, steps, -more if k >= first_kept else 0))
    outputs = [(made[node], copy) for node, copy in map(things.__getitem__, graph.outputs)]
    shown = set(map(things.__getitem__, graph.outputs))
    if any((n, c) not in shown for n, _ in shown if whole.stretch_of(n) == COPIED for c in range(more + 1)):
        raise Irregular("some repetitions have results that others do not have")
    short = Graph([n for n in graph.inputs if not things[n][1]], [made[n] for n in graph.nodes if not things[n][1]],
                  [n for n, copy in outputs if not copy])
    again = Repetition(entries_of(short.nodes), whole.start, whole.length, KEPT)
    return Region(short, Longer(again, more), [(made[n], c) for n, c in map(things.__getitem__, graph.inputs)], outputs)


def in_demand(nodes, fixed: set) -> list:
    """Nodes in an order in which those that are not ``fixed`` come right before their first user."""
    needed: dict = {}  # node: the index of its first user
    for number, node in reversed(list(enumerate(nodes))):
        place = number if node in fixed else needed.setdefault(node, number)
        for used in node.used:
            needed[used] = min(needed.get(used, place), place)
    places = {node: (number if node in fixed else needed[node], number) for number, node in enumerate(nodes)}
    return sorted(nodes, key=places.__getitem__)
