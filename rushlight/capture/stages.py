"""A captured graph of several native programs, and what Python computes between them: numbers that only data tell."""
from __future__ import annotations

from ..autograd.program import gradients
from ..graph.graph import Graph, nodes_in
from .readings import between
from .record import expressions_in


class Stages:
    """Runs programs and readings in turn. ``compile(graph)`` makes a function of each program."""

    def __init__(self, graph: Graph, compile):
        self.inputs, self.outputs = graph.inputs, graph.outputs
        self.steps = list(steps(graph))
        self.programs = {part: compile(part) for part in self.steps if isinstance(part, Graph)}

    def __call__(self, *inputs):
        from .backends import called
        env = dict(zip(self.inputs, inputs))
        sizes = {node.name: value for node, value in env.items() if type(value) is int}
        for step in self.steps:
            if isinstance(step, Graph):
                env.update(zip(step.outputs, self.programs[step](*(env[n] for n in step.inputs))))
                continue
            value = env[step] = called(step, env, sizes)
            if type(value) is int:
                sizes[step.name] = value
        return tuple(env[n] for n in self.outputs)


def steps(graph: Graph):
    """What runs after what: nodes that Python computes, and programs of all others."""
    named = {node.name: node for node in (*graph.inputs, *graph.nodes)}
    last, at = last_use(graph, named), 0
    while at < len(graph.nodes):
        end = at + 1
        if between(graph.nodes[at]):
            yield graph.nodes[at]
        else:
            while end < len(graph.nodes) and not between(graph.nodes[end]):
                end += 1
            yield program(graph.nodes[at:end], named, last, end)
        at = end


def read_by(node, named) -> list:
    """The nodes that a node reads, symbols in its arguments included."""
    given = node.args, tuple(node.params.values())
    return [*nodes_in(given), *(named[s.arg[0]] for e in expressions_in(given) for s in e.free)]


def last_use(graph: Graph, named) -> dict:
    """Node -> the position of its last reader; the end for outputs."""
    found = {n: k for k, node in enumerate(graph.nodes) for n in read_by(node, named)}
    found.update((n, len(graph.nodes)) for n in graph.outputs)
    return found


def program(nodes, named, last, end) -> Graph:
    """Some nodes in a row as a program of its own."""
    within = set(nodes)
    given = dict.fromkeys(n for node in nodes for n in read_by(node, named) if n not in within)
    return Graph(sorted(given, key=lambda n: not n.weak), nodes, [n for n in nodes if last.get(n, -1) >= end])


def divided(graph: Graph) -> bool:
    """Whether a backward pass reaches from one program into an earlier one."""
    place, count, at = {}, 0, {}
    for node in graph.nodes:
        count += between(node)
        place[node] = count
    for node in graph.nodes:
        at[node] = min([place[node], *(at[n] for n in nodes_in((node.args, tuple(node.params.values()))) if n in at)])
    return any(node.op is gradients and at[node] < place[node] for node in graph.nodes)
