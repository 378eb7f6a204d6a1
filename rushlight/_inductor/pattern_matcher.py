"""Patterns of graphs as expressions: ``CallFunction(torch.ops.aten.add.Tensor, Arg(), KeywordArg("b"))``, and passes
that call a function wherever one is found."""
from __future__ import annotations

import collections

from ..fx.node import Node

MULTIPLE = object()  # users of a node, as many as there are


class Match:
    """A match of a pattern: ``pattern``, the outermost one, ``nodes``, in the order of the pattern, and the values of
    its Args and KeywordArgs."""

    def __init__(self, pattern, nodes=(), args=(), kwargs=None):
        self.pattern, self.nodes, self.args, self.kwargs = pattern, list(nodes), list(args), dict(kwargs or {})

    graph = property(lambda self: self.nodes[-1].graph)

    def output_node(self) -> Node:
        return self.nodes[-1]

    def erase_nodes(self):
        """Takes the nodes out of their graph, those that other nodes do not use."""
        for node in reversed(self.nodes):
            if not node.users:
                node.graph.erase_node(node)


class PatternExpr:
    """A pattern.  ``find(node, seen)`` appends what it finds to the Match ``seen``; False where it does not fit."""

    def match(self, node):
        """The Match of a node, or None."""
        seen = Match(self)
        return seen if self.find(node, seen) else None


class Arg(PatternExpr):
    """Any value, which handlers get by position."""

    def find(self, value, seen):
        seen.args.append(value)
        return True


class Ignored(PatternExpr):
    """Any value."""

    def find(self, value, seen):
        return True


class KeywordArg(PatternExpr):
    """Any value, the same at each use of the name, which handlers get by name."""

    def __init__(self, name: str):
        self.name = name

    def find(self, value, seen):
        known = seen.kwargs.setdefault(self.name, value)
        return known is value or not isinstance(value, Node) and known == value


class ListOf(PatternExpr):
    """A list each of whose elements fits a pattern; names give lists of values."""

    def __init__(self, pattern: PatternExpr, partial: bool = False):
        self.pattern, self.partial = pattern, partial

    def find(self, value, seen):
        if not isinstance(value, (list, tuple)) or not value:
            return False
        found = []
        for one in value:  # the pattern of all is the outermost one still
            inner = Match(seen.pattern)
            found.append(inner if self.pattern.find(one, inner) else None)
        if not any(found) or not self.partial and not all(found):
            return False
        for one in filter(None, found):
            seen.nodes += [n for n in one.nodes if n not in seen.nodes]
            seen.args.append(one.args)
        for name in {k for one in found if one for k in one.kwargs}:
            seen.kwargs[name] = [one.kwargs.get(name) for one in found if one]
        return True


class Call(PatternExpr):
    """A node of a kind that calls one of some targets with arguments that fit patterns."""

    op = "call_function"

    def __init__(self, fns, *args, _users=1, **kwargs):
        self.fns = list(fns) if isinstance(fns, (list, tuple)) else [fns]
        self.args, self.kwargs, self.users = args, kwargs, _users

    def calls(self, node) -> bool:
        return isinstance(node, Node) and node.op == self.op and any(
            node.target is f or node.target == f or getattr(node.target, "overloadpacket", None) is f
            for f in self.fns)

    def find(self, node, seen):
        if not self.calls(node) or self is not seen.pattern and self.users is not MULTIPLE and len(
                node.users) != self.users:
            return False
        if node in seen.nodes:
            return True
        if len(node.args) != len(self.args) or set(node.kwargs) != set(self.kwargs):
            return False
        inner = [*zip(self.args, node.args), *((p, node.kwargs[k]) for k, p in self.kwargs.items())]
        if not all(fits(pattern, value, seen) for pattern, value in inner):
            return False
        seen.nodes.append(node)
        return True


class CallFunction(Call):
    """A node that calls one of some functions or overloads; a packet means any of its overloads."""


class CallMethod(Call):
    op = "call_method"


class CallModule(Call):
    op = "call_module"


class CallFunctionVarArgs(CallFunction):
    """A call of one of some functions with any arguments, all of which handlers get."""

    def __init__(self, fns, users=1):
        super().__init__(fns, _users=users)

    def find(self, node, seen):
        if not self.calls(node):
            return False
        seen.nodes.append(node)
        seen.args += node.args
        seen.kwargs.update(node.kwargs)
        return True


def fits(pattern, value, seen) -> bool:
    """True if a value fits a pattern or a list of patterns, or equals the constant of a pattern."""
    if isinstance(pattern, PatternExpr):
        return pattern.find(value, seen)
    if isinstance(pattern, (list, tuple)):
        return isinstance(value, (list, tuple)) and len(value) == len(pattern) and all(
            fits(p, v, seen) for p, v in zip(pattern, value))
    return type(value) is type(pattern) and value == pattern


Entry = collections.namedtuple("Entry", "pattern extra_check handler")


class PatternMatcherPass:
    """Patterns and what is done where one is found: ``apply(graph)`` gives how often one was."""

    def __init__(self, pass_name=None, subsystem=None):
        self.pass_name, self.entries = pass_name, []

    def apply(self, graph) -> int:
        graph, count = getattr(graph, "graph", graph), 0
        for node in reversed(list(graph.nodes)):
            if node not in graph.nodes:
                continue  # a match before this one took it out
            for entry in self.entries:
                found = entry.pattern.match(node)
                if found is not None and entry.extra_check(found):
                    entry.handler(found, *found.args, **found.kwargs)
                    count += 1
                    break
        return count


def always(match) -> bool:
    return True


def register_graph_pattern(pattern, extra_check=always, *, pass_dict: PatternMatcherPass, prepend=False):
    """A decorator: its function is called as ``handler(match, *args, **kwargs)`` wherever a pass finds the pattern.

    >>> import rushlight as torch
    >>> from rushlight._inductor.pattern_matcher import *
    >>> passes, aten = PatternMatcherPass(), torch.ops.aten
    >>> @register_graph_pattern(CallFunction(aten.neg.default, CallFunction(aten.neg.default, Arg())), pass_dict=passes)
    ... def twice(match, x):
    ...     match.output_node().replace_all_uses_with(x)
    ...     match.erase_nodes()
    >>> class Twice(torch.nn.Module):
    ...     def forward(self, x): return x.neg().neg().sin()
    >>> program = torch.export.export(Twice(), (torch.ones(2),))
    >>> passes.apply(program.graph), [n.name for n in program.graph.nodes]
    (1, ['x', 'sin', 'output'])
    """
    def note(handler):
        entry = Entry(pattern, extra_check, handler)
        pass_dict.entries.insert(0, entry) if prepend else pass_dict.entries.append(entry)
        return handler

    return note


def filter_nodes(nodes, fn) -> list:
    """The nodes that call a function, or an overload of a packet."""
    return [n for n in nodes if n.op == "call_function" and (
        n.target is fn or getattr(n.target, "overloadpacket", None) is fn)]
