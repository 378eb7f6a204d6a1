"""Exported programs as modules of modules again: ``unflatten(program)``."""
from __future__ import annotations

import enum
import operator
import sys
import types

from .._src.core.pytree import tree_flatten, tree_unflatten
from ..fx import Graph, GraphModule
from ..fx.node import map_arg
from ..fx.graph_module import assign
from ..nn import Module
from .calling import Guards, Nested
from .exported_program import ExportedProgram
from .graph_signature import InputKind

__all__ = ["unflatten", "UnflattenedModule", "InterpreterModule", "FlatArgsAdapter"]


class FlatArgsAdapter:
    """How arguments of another structure become those that a program was exported for: a class of one's own defines
    ``adapt``."""

    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        raise NotImplementedError(
            "FlatArgsAdapter: define adapt(target_spec, input_spec, input_args), which returns the flat arguments")


class InterpreterModule(GraphModule):
    """One call of a submodule: its part of the program, which takes what it reads of the rest and gives what the rest
    reads of it."""


class UnflattenedModule(GraphModule):
    """A program whose parts lie in submodules, named as they were; putting another module in the place of one changes
    the program."""

    flat_args_adapter = None

    def __call__(self, *args, **kwargs):
        adapter = self.flat_args_adapter
        leaves, spec = tree_flatten((args, kwargs))
        if adapter is not None and spec != self._in_spec:
            leaves = adapter.adapt(target_spec=self._in_spec, input_spec=spec, input_args=leaves)
            args, kwargs = tree_unflatten(list(leaves), self._in_spec)
        if adapter is not None or spec == self._in_spec:
            self.guards[0](*leaves)
        return super().__call__(*args, **kwargs)


def unflatten(module: ExportedProgram, flat_args_adapter=None) -> UnflattenedModule:
    """A module with the submodules of the one that was exported: each call of one is a part of the program.

    A module that is called again and computes something else then is a second submodule, ``name@1``.

    >>> import rushlight as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    >>> made = torch.export.unflatten(torch.export.export(net, (torch.ones(2, 3),)))
    >>> made(torch.ones(2, 3)).shape, sorted(made.state_dict())
    (torch.Size([2, 3]), ['0.bias', '0.weight'])
    """
    if not isinstance(module, ExportedProgram):
        raise TypeError(f"unflatten() takes an ExportedProgram, not {type(module).__name__}")
    made = Parts(module).whole()
    object.__setattr__(made, "flat_args_adapter", flat_args_adapter)
    return made


def labels(node) -> tuple:
    """The calls of modules that a node lies in, by path, outermost first."""
    return tuple(path for path, _ in node.meta.get("nn_module_stack", {}).values() if path)


class Parts:
    """The parts of one program: nodes by the calls of modules that they lie in."""

    def __init__(self, program):
        self.program = program
        self.state = {**program.constants, **program.state_dict}
        pairs = list(zip(program.graph_signature.input_specs, program.graph.find_nodes(op="placeholder")))
        self.held = {node: spec.target for spec, node in pairs if spec.kind is not InputKind.USER_INPUT}
        self.inputs = [node for spec, node in pairs if spec.kind is InputKind.USER_INPUT]

    def whole(self) -> UnflattenedModule:
        nodes = [n for n in self.program.graph.nodes if n.op not in ("placeholder", "output")]
        results = self.program.graph.output_node().args[0]
        graph, values, parts = Graph(), {}, dict(self.state)
        for node in self.inputs:
            values[node] = graph.placeholder(node.target)
        self.write(graph, nodes, (), values, parts, {r for r in results if hasattr(r, "op")})
        graph.output(tuple(self.value(graph, r, (), values, parts) if hasattr(r, "op") else r for r in results))
        program = self.program
        graph.set_codegen(Nested(program.parameter_names, len(program.example_inputs[1]), program.in_spec,
                                 program.out_spec))
        made = UnflattenedModule(parts, graph, "UnflattenedModule")
        made.guards = (Guards(program.expected, [node.name for node in graph.find_nodes(op="placeholder")],
                              program.conditions),)
        for path, value in self.state.items():
            assign(value, made, path)
        return made

    def write(self, graph, nodes, here, values, parts, wanted):
        """Copies nodes that lie in the calls ``here`` into a graph; those of calls further in become calls of
        submodules, which go to ``parts``."""
        own = here[-1] if here else ""
        at = 0
        while at < len(nodes):
            label = self.further(nodes[at], here)
            end = at + 1
            while label and end < len(nodes) and self.further(nodes[end], here) == label:
                end += 1
            if label:
                rest = {n for later_one in nodes[end:] for n in later_one.all_input_nodes} | wanted
                name = label.removeprefix(f"{own.partition('@')[0]}.") if own else label
                self.call(graph, nodes[at:end], (*here, label), name, values, parts, rest)
            elif nodes[at].op == "call_module" or nodes[at].op == "get_attr":
                target = nodes[at].target
                parts[target] = operator.attrgetter(target)(self.program.graph_module)
                values[nodes[at]] = graph.node_copy(nodes[at], lambda n: self.value(graph, n, here, values, parts))
            else:
                values[nodes[at]] = graph.node_copy(nodes[at], lambda n: self.value(graph, n, here, values, parts))
            at = end

    @staticmethod
    def further(node, here):
        """The call within ``here`` that a node lies in, or None."""
        found = labels(node)
        return found[len(here)] if found[:len(here)] == here and len(found) > len(here) else None

    def value(self, graph, node, here, values, parts):
        """A node in terms of a graph's own; state that a module holds is an attribute of it."""
        if node not in values:
            path = self.relative(node, here)
            parts[path] = self.state[self.held[node]]
            values[node] = graph.get_attr(path)
        return values[node]

    def relative(self, node, here):
        """The path of a parameter or buffer within the module whose call this is; None where it lies elsewhere."""
        own = f"{here[-1].partition('@')[0]}." if here else ""
        path = self.held.get(node)
        return path.removeprefix(own) if path is not None and path.startswith(own) else None

    def call(self, graph, nodes, here, name, values, parts, rest):
        """The nodes of one call of a submodule, as that submodule."""
        inside, within = Graph(), set(nodes)
        given = list(dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in within
                                   and self.relative(n, here) is None))
        results = [n for n in nodes if n in rest]
        own_values, own_parts = {n: inside.placeholder(n.name) for n in given}, {}
        self.write(inside, nodes, here, own_values, own_parts, set(results))
        found = [own_values[n] for n in results]
        inside.output(found[0] if len(found) == 1 else tuple(found))
        module = InterpreterModule(own_parts, inside, "InterpreterModule")
        first = parts.get(name.partition("@")[0])
        if "@" in name and isinstance(first, InterpreterModule) and form(first) == form(module):
            name = name.partition("@")[0]
        parts.setdefault(name, module)
        outer = here[:-1]
        made = graph.call_module(name, tuple(self.value(graph, n, outer, values, parts) for n in given))
        for k, node in enumerate(results):
            values[node] = made if len(results) == 1 else graph.call_function(operator.getitem, (made, k))


def form(module) -> list:
    """What a part computes, whatever its values are called."""
    places = {node: k for k, node in enumerate(module.graph.nodes)}
    inner = [form(part) for node in module.graph.find_nodes(op="call_module")
             if isinstance(part := operator.attrgetter(node.target)(module), InterpreterModule)]
    return [*((n.op, n.target if n.op != "placeholder" else "", map_arg((n.args, n.kwargs), places.get))
              for n in module.graph.nodes), *inner]


class Callable(types.ModuleType):
    """This module, which is called as its function: an import of it puts it where the function was."""

    def __call__(self, *args, **kwargs):
        return unflatten(*args, **kwargs)


sys.modules[__name__].__class__ = Callable


class _AttrKind(enum.Enum):
    """What an attribute of a module is."""

    PARAMETER, BUFFER, CONSTANT, MODULE = "parameter", "buffer", "constant", "module"


def _assign_attr(from_obj, to_module: Module, target: str, attr_kind: _AttrKind, persistent: bool = True):
    """Sets an attribute of a module by its path; modules on the way that are not there are made."""
    *path, name = target.split(".")
    for part in path:
        if getattr(to_module, part, None) is None:
            to_module.add_module(part, Module())
        to_module = getattr(to_module, part)
    if attr_kind is _AttrKind.PARAMETER:
        to_module.register_parameter(name, from_obj)
    elif attr_kind is _AttrKind.BUFFER:
        to_module.register_buffer(name, from_obj, persistent=persistent)
    else:
        setattr(to_module, name, from_obj)
