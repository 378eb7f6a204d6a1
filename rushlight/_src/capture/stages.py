"""A captured graph as several native programs, with data-dependent numbers that Python computes between them."""
from __future__ import annotations

from ..autograd.program import gradients
from ..core.interpret import recording
from ..graph.graph import Graph, nodes_in
from .unbacked import PICK, between
from .record import expressions_in


class Stages:
    """Runner of programs and readings in order. ``compile(graph)`` returns a function for each program."""

    apart = staticmethod(between)  # True for nodes that are not part of a program

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
        """Return the value of a node; views are made at their use, of memory that programs may have written to."""
        if node not in env:
            self.value(self.views[node], env, sizes, called)
            env[node] = called(node, env, sizes)
        return env[node]

    def run(self, step, env, sizes, called):
        """Run one program, or one node that Python computes."""
        if isinstance(step, Graph):
            env.update(zip(step.outputs, self.programs[step](*(env[n] for n in step.inputs))))
            return
        for node in nodes_in((step.args, tuple(step.params.values()))):
            self.value(node, env, sizes, called)
        value = env[step] = called(step, env, sizes)
        if type(value) is int:
            sizes[step.name] = value


class Recorded(Stages):
    """Programs whose backward passes reach from one into another: they run recorded, and the engine runs their derived
    backward programs.

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
    """True if the engine can run every backward pass of a graph between its programs: each only once, and into
    inputs."""
    return all(set(node.args[2]) <= set(graph.inputs) and not node.args[4] for node in graph.nodes
               if node.op is gradients)


def steps(graph: Graph, apart):
    """Yield the steps in order: nodes that Python computes, and programs of all others."""
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
    """Return the nodes that a node reads, symbols in its arguments included."""
    given = node.args, tuple(node.params.values())
    return [*nodes_in(given), *(named[s.arg[0]] for e in expressions_in(given) for s in e.free)]


def last_use(graph: Graph, named) -> dict:
    """Return {node: the position of its last reader, or of that of a view of it; the end for outputs}."""
    found = {n: k for k, node in enumerate(graph.nodes) for n in read_by(node, named)}
    found.update((n, len(graph.nodes)) for n in graph.outputs)
    for node in reversed(graph.nodes):
        if node in graph.views and node in found:
            found.update((n, max(found[node], found[n])) for n in read_by(node, named))
    return found


def program(nodes, named, last, end, views) -> Graph:
    """Return consecutive nodes as a program, with the views that it reads: writes through them reach the memory that
    they alias."""
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
    """Return the number of views between a node and the owner of its memory."""
    return 1 + depth(views[node], views) if node in views else 0


def divided(graph: Graph) -> bool:
    """True if a backward pass reaches from one program into an earlier one."""
    place, count, at = {}, 0, {}
    for node in graph.nodes:
        count += between(node)
        place[node] = count
    for node in graph.nodes:
        at[node] = min([place[node], *(at[n] for n in nodes_in((node.args, tuple(node.params.values()))) if n in at)])
    return any(node.op is gradients and at[node] < place[node] for node in graph.nodes)
