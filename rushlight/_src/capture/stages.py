"""A captured graph of several native programs, and what Python computes between them: numbers that only data tell."""
from __future__ import annotations

from ..autograd.program import gradients
from ..core.interpret import recording
from ..graph.graph import Graph, nodes_in
from .unbacked import PICK, between
from .record import expressions_in


class Stages:
    """Runs programs and readings in turn. ``compile(graph)`` makes a function of each program."""

    apart = staticmethod(between)  # which nodes are no part of a program

    def __init__(self, graph: Graph, compile):
        self.inputs, self.outputs, self.views = graph.inputs, graph.outputs, graph.views
        self.steps = list(steps(graph, self.apart))
        self.programs = {part: compile(part) for part in self.steps if isinstance(part, Graph)}

    def __call__(self, *inputs):
        from ..graph.running import called
        env = dict(zip(self.inputs, inputs))
        sizes = {node.name: value for node, value in env.items() if type(value) is int}
        for step in self.steps:
            self.run(step, env, sizes, called)
        return tuple(self.value(n, env, sizes, called) for n in self.outputs)

    def value(self, node, env, sizes, called):
        """The value of a node; views are made where they are needed, of memory that programs may have written to."""
        if node not in env:
            self.value(self.views[node], env, sizes, called)
            env[node] = called(node, env, sizes)
        return env[node]

    def run(self, step, env, sizes, called):
        """One program, or one node that Python computes."""
        if isinstance(step, Graph):
            env.update(zip(step.outputs, self.programs[step](*(env[n] for n in step.inputs))))
            return
        for node in nodes_in((step.args, tuple(step.params.values()))):
            self.value(node, env, sizes, called)
        value = env[step] = called(step, env, sizes)
        if type(value) is int:
            sizes[step.name] = value


class Recorded(Stages):
    """Programs whose backward passes reach from one into another: they run recorded, and the engine goes through their
    derived backward programs.

    No result keeps its history."""

    apart = staticmethod(lambda node: between(node) or gradients in (node.op, node.op is PICK and node.args[0].op))

    def __init__(self, graph: Graph, compile):
        super().__init__(graph, compile)
        self.last = max(k for k, step in enumerate(self.steps) if not isinstance(step, Graph) and step.op is gradients)

    def __call__(self, *inputs):
        from ..graph.running import called
        env = dict(zip(self.inputs, inputs))
        sizes = {node.name: value for node, value in env.items() if type(value) is int}
        for k, step in enumerate(self.steps):
            with recording(k <= self.last):
                self.run(step, env, sizes, called)
        given = set(map(id, inputs))
        return tuple(v.detach() if getattr(v, "_rush_needs_grad", 0) and id(v) not in given else v
                     for v in (self.value(n, env, sizes, called) for n in self.outputs))


def engine_takes(graph: Graph) -> bool:
    """Whether the engine can run every backward pass of a graph between its programs: all are once, and into inputs."""
    return all(set(node.args[2]) <= set(graph.inputs) and not node.args[4] for node in graph.nodes
               if node.op is gradients)


def steps(graph: Graph, apart):
    """What runs after what: nodes that Python computes, and programs of all others."""
    named = {node.name: node for node in (*graph.inputs, *graph.nodes)}
    last, at = last_use(graph, named), 0
    while at < len(graph.nodes):
        end = at + 1
        if apart(graph.nodes[at]):
            yield graph.nodes[at]
        else:
            while end < len(graph.nodes) and not apart(graph.nodes[end]):
                end += 1
            yield program(graph.nodes[at:end], named, last, end, graph.views)
        at = end


def read_by(node, named) -> list:
    """The nodes that a node reads, symbols in its arguments included."""
    given = node.args, tuple(node.params.values())
    return [*nodes_in(given), *(named[s.arg[0]] for e in expressions_in(given) for s in e.free)]


def last_use(graph: Graph, named) -> dict:
    """Node -> the position of its last reader, or of that of a view of it; the end for outputs."""
    found = {n: k for k, node in enumerate(graph.nodes) for n in read_by(node, named)}
    found.update((n, len(graph.nodes)) for n in graph.outputs)
    for node in reversed(graph.nodes):
        if node in graph.views and node in found:
            found.update((n, max(found[node], found[n])) for n in read_by(node, named))
    return found


def program(nodes, named, last, end, views) -> Graph:
    """Some nodes in a row as a program of its own, with the views that it reads: what it writes through them reaches
    the memory that they show."""
    within, made = set(nodes), list(nodes)
    pending = list(nodes)
    while pending:
        for n in read_by(pending.pop(), named):
            if n in views and n not in within:
                within.add(n)
                made.insert(0, n)
                pending.append(n)
    made[:len(made) - len(nodes)] = sorted(made[:len(made) - len(nodes)], key=lambda n: depth(n, views))
    given = dict.fromkeys(n for node in made for n in read_by(node, named) if n not in within)
    return Graph(sorted(given, key=lambda n: not n.weak), made,
                 [n for n in nodes if last.get(n, -1) >= end and n not in views])


def depth(node, views) -> int:
    """How many views lead from a node to the memory that it shows."""
    return 1 + depth(views[node], views) if node in views else 0


def divided(graph: Graph) -> bool:
    """Whether a backward pass reaches from one program into an earlier one."""
    place, count, at = {}, 0, {}
    for node in graph.nodes:
        count += between(node)
        place[node] = count
    for node in graph.nodes:
        at[node] = min([place[node], *(at[n] for n in nodes_in((node.args, tuple(node.params.values()))) if n in at)])
    return any(node.op is gradients and at[node] < place[node] for node in graph.nodes)
