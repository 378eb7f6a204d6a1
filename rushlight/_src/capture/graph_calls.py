"""The call of a segment's graph: its inputs, and which results are views or have a history."""
from __future__ import annotations

import collections

from ..core.expr import Expr
from ..core.meta import Meta
from ..graph.graph import nodes_in
from .endings import recorded
from .errors import Again, Break
from .parts import Part
from .record import expressions_in

ROOT = "<root>"  # the base of a view, in its source


class GraphCalls(Part):
    """Writer of the call of the graph."""

    # --- the call -----------------------------------------------------------------------------------------------------
    def graph_call(self):
        """Return statements that call the graph, the graph (None if nothing is computed), and the sources of module
        state that it takes."""
        machine, sources, tensors, arguments = self.machine, [], [], []
        fetched = sources, tensors
        lines = machine.random.statements()
        lines += [f"numbers{k} = {machine.guarding.constant_name(plan)}({', '.join(texts)})"
                  for k, (plan, texts) in enumerate(machine.training.computed)]
        views = self.views()
        after = self.histories()
        graph = machine.recorder.graph(list(self.outputs), machine.guarding.symbols)
        if not graph.nodes and not self.outputs:
            return lines, None, fetched
        held = []
        for node in graph.inputs:
            text, source = machine.outside.graph_inputs.get(node) or (graph_symbol(machine, node), None)
            if source is not None and source.covered and source.parent is not None:
                text = f"P[{len(sources)}]"
                sources.append(source)
                tensors.append(machine.outside.real[node])
                if node not in machine.outside.opened:
                    held.append(node)
            arguments.append(machine.outside.opened.get(node, "{}").format(text))
        graph.held = frozenset(held)
        results = "".join(f"{name}, " for name in self.outputs.values())
        called = "PLAINLY(graph, " if machine.subclasses.met else "graph("
        statement = f"{results + '= ' if results else ''}{called}{', '.join(arguments)})"
        if (self.recorded or machine.recorder.graded) and not machine.modes["grad"]:
            return [*lines, *recorded([statement]), *after, *recorded(views)], graph, fetched
        return [*lines, statement, *after, *views], graph, fetched

    def views(self) -> list[str]:
        """Return statements that make views of other outputs, which are not outputs themselves: they share memory as in
        the program."""
        recorder, families = self.machine.recorder, collections.defaultdict(list)
        if recorder.leaves or not recorder.bases or self.machine.entry.owner.exporting:
            return []
        for node in self.outputs:
            root = recorder.root(node)
            if root.op is not None and all(type(n.meta) is Meta for n in (node, root)):
                families[root].append(node)
        statements = []
        for root, members in families.items():
            shown = [(node, text) for node in members if node is not root
                     and (text := self.view(node, root)) is not None]
            if len(members) < 2 or not shown:
                continue
            if not self.carrying.isdisjoint(members):
                self.carrying.add(root)
            name = self.outputs.setdefault(root, f"o{len(self.outputs)}")
            statements += [f"{self.outputs.pop(node)} = {text.replace(ROOT, name)}" for node, text in shown]
            self.carrying.difference_update(node for node, _ in shown)
        return statements

    def view(self, node, root):
        """Return an expression that makes a view of ROOT; None if it depends on another tensor."""
        if node is root:
            return ROOT
        base = self.machine.recorder.bases[node]
        others = [*node.args, *node.params.values()]
        if others.count(base) != 1 or any(n is not base
                                          for n in nodes_in(others)) or any(self.machine.shape_env.unknown(e)
                                                                            for e in expressions_in(
                                                                                    others)):
            return None
        inner = self.view(base, root)

        def written(value):
            if type(value) in (tuple, list) and any(expressions_in(value)):
                return f"{type(value).__name__}([{', '.join(map(written, value))}])"
            return inner if value is base else self.early(self.machine.guarding.expression(value)) if type(
                value) is Expr else self.literal(value)

        given = [*map(written, node.args), *(f"{k}={written(v)}" for k, v in node.params.items())]
        return inner and f"{self.constant(node.op)}({', '.join(given)})"

    def histories(self) -> list[str]:
        """Return statements that give outputs their remaining history, after backward passes in the graph."""
        machine = self.machine
        statements = self.leaves()
        if not machine.training.used:
            machine.hooks.unseen(self.carrying)
            return statements
        carrying = [(node, name) for node, name in self.outputs.items() if node in self.carrying]
        spent = machine.training.spent([node for node, _ in carrying])
        machine.hooks.unseen([node for over, (node, _) in zip(spent, carrying) if not over])
        machine.recorder.plain = all(spent)
        machine.recorder.history |= any(spent) and not all(spent)
        return [*statements, *(f"SPENT({name})" for over, (_, name) in zip(spent, carrying) if over)]

    def leaves(self) -> list[str]:
        """Return statements that make leaves of outputs; a Break for one that cannot be computed apart from outside
        values."""
        machine, recorder = self.machine, self.machine.recorder
        made = [f"{self.outputs[node]} = PARAMETER({self.outputs[node]}, {wanted})"
                for node, wanted in self.parameters.items()]
        if not recorder.leaves:
            return made
        alive = [node for node in self.outputs if node in recorder.leaves]
        reached = machine.training.reach(alive)
        entangled = {one for node in self.carrying for one in reached.get(node, ())}
        written = {recorder.root(t) for targets in recorder.targets.values() for t in targets}
        for node, leaf in recorder.leaves.items():
            seen = node in written and (leaf.origin in self.outputs or self.read_after(node, leaf.origin))
            if node in entangled or seen or leaf.shares is not None and (node in alive or leaf.shares in written
                                                                         or node in written):
                raise Again(leaf.place, Break(
                    "RB011", "a tensor that requires grad, made here, lives on with what depends on it or shares its "
                             "memory"))
        made += [f"{self.outputs[node]}.requires_grad_()" for node in alive if node not in self.parameters]
        return made + [f"ENDED({name})" for node, name in self.outputs.items() if node in self.carrying
                       and self.is_closed(node, alive)]

    def is_closed(self, node, alive) -> bool:
        """True if the history of an output goes back only to leaves made here that are gone."""
        machine = self.machine
        starts = [*machine.outside.opened, *(n for n, value in machine.training.inputs().items()
                                             if value.fake._rush_needs_grad)]
        return not machine.training.reach([*starts, *alive]).get(node) and bool(
            machine.training.reach(list(machine.recorder.leaves))
            .get(node))

    def read_after(self, node, other) -> bool:
        """True if a node is read after another."""
        nodes = self.machine.recorder.nodes
        return any(other in nodes_in((n.args, tuple(n.params.values()))) for n in nodes[nodes.index(node) + 1:])


def graph_symbol(machine, node):
    """Return the source of a symbol that is an input of the graph."""
    return next(text for symbol, text in machine.guarding.symbols.items() if symbol.arg[0] == node.name)
