"""Exported programs as modules of modules again: ``unflatten(program)``."""
from __future__ import annotations

import enum
import operator
import sys
import types

from .._ops import ops
from .._src.core.expr import Expr
from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten, tree_unflatten
from ..fx import Graph, GraphModule, Node
from ..fx.node import map_arg
from ..fx.graph_module import assign
from ..nn import Module, Parameter
from .calling import Guards, Nested
from .exported_program import ExportedProgram, leave_out_of_state_dict
from .graph_signature import ConstantArgument, InputKind


class FlatArgsAdapter:
    """Converts arguments of another structure to those that a program was exported for: a user-defined class
    overrides ``adapt``."""

    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        raise NotImplementedError(
            "FlatArgsAdapter: define adapt(target_spec, input_spec, input_args), which returns the flat arguments")


class InterpreterModule(GraphModule):
    """One call of a submodule: its part of the program, which takes what it reads of the rest and gives what the rest
    reads of it."""


class UnflattenedModule(GraphModule):
    """A program with its original submodules; replacing a submodule changes the program."""

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

    A module whose signature the export kept is called like the original, so that another module can replace it;
    others take the values that they read.  A module that is called again and computes something else then is a second
    submodule, ``name@1``.  Parameters, buffers and constants are copies of the program's.

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


def like(made: Node, node: Node) -> Node:
    """Copy the fake value of a node to the one that replaces it."""
    if node.meta.get("val") is not None:
        made.meta["val"] = node.meta["val"]
    return made


def labels(node) -> tuple:
    """Return the module calls that contain a node, by path, outermost first."""
    return tuple(path for path, _ in node.meta.get("nn_module_stack", {}).values() if path)


def sizes_first(nodes) -> list:
    """Sizes of inputs, and what is computed of them, before all else: they belong to no module's call."""
    sizes = {}
    for node in nodes:
        if isinstance(node.meta.get("val"), Expr) and not labels(node) and all(
                n.op == "placeholder" or n in sizes for n in node.all_input_nodes):
            sizes[node] = None
    return [*sizes, *(node for node in nodes if node not in sizes)]


def copy_tensors(state: dict) -> dict:
    """Return the state with a copy of each tensor, shared by its paths: training the module, or writes to its
    buffers, must not change the original program."""
    copies: dict = {}
    for value in state.values():
        if isinstance(value, Tensor) and id(value) not in copies:
            copy = value.detach().clone()
            copies[id(value)] = Parameter(copy, value.requires_grad) if isinstance(value, Parameter) else copy
    return {path: copies.get(id(value), value) for path, value in state.items()}


class Parts:
    """Parts of one program: nodes by the module calls that contain them."""

    def __init__(self, program):
        self.program = program
        self.state = copy_tensors({**program.constants, **program.state_dict})
        pairs = list(zip(program.graph_signature.input_specs, program.graph.find_nodes(op="placeholder")))
        self.held = {node: spec.target for spec, node in pairs if spec.kind is not InputKind.USER_INPUT}
        self.inputs = [node for spec, node in pairs if spec.kind is InputKind.USER_INPUT]
        self.kept = KeptCalls(self)

    def whole(self) -> UnflattenedModule:
        nodes = sizes_first([n for n in self.program.graph.nodes if n.op not in ("placeholder", "output")])
        results = self.program.graph.output_node().args[0]
        graph, values, parts = Graph(), {}, dict(self.state)
        for node in self.inputs:
            values[node] = like(graph.placeholder(node.target), node)
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
        leave_out_of_state_dict(made, program.constants)
        self.order(made)
        return made

    def order(self, made):
        """Puts submodules in the order in which the exported module had them; further calls come last."""
        places = {entry.fqn: k for k, entry in enumerate(self.program.module_call_graph)}
        for path, module in made.named_modules(remove_duplicate=False):
            known = {name: places.get(f"{path}.{name}" if path else name, len(places)) for name in module._modules}
            module._modules = {name: module._modules[name] for name in sorted(known, key=known.get)}

    def write(self, graph, nodes, here, values, parts, wanted):
        """Copy the nodes of the calls ``here`` into a graph; those of inner calls become calls of submodules, which
        go to ``parts``."""
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
        """Return the call within ``here`` that contains a node, or None."""
        found = labels(node)
        return found[len(here)] if found[:len(here)] == here and len(found) > len(here) else None

    def value(self, graph, node, here, values, parts):
        """A node in terms of a graph's own; state that a module holds is an attribute of it."""
        if node not in values:
            path = self.relative(node, here)
            parts[path] = self.state[self.held[node]]
            values[node] = like(graph.get_attr(path), node)
        return values[node]

    def relative(self, node, here):
        """Return the path of a parameter or buffer relative to the module of this call; None outside it."""
        own = f"{here[-1].partition('@')[0]}." if here else ""
        path = self.held.get(node)
        return path.removeprefix(own) if path is not None and path.startswith(own) else None

    def call(self, graph, nodes, here, name, values, parts, rest):
        """The nodes of one call of a submodule, as that submodule."""
        if here[-1] in self.kept.signatures:
            return self.kept.call(graph, nodes, here, name, values, parts, rest)
        inside, within = Graph(), set(nodes)
        given = list(dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in within
                                   and self.relative(n, here) is None))
        results = [n for n in nodes if n in rest]
        own_values, own_parts = {n: like(inside.placeholder(n.name), n) for n in given}, {}
        self.write(inside, nodes, here, own_values, own_parts, set(results))
        found = [own_values[n] for n in results]
        inside.output(found[0] if len(found) == 1 else tuple(found))
        name = self.placed(InterpreterModule(own_parts, inside, "InterpreterModule"), name, parts)
        outer = here[:-1]
        made = graph.call_module(name, tuple(self.value(graph, n, outer, values, parts) for n in given))
        made.meta["val"] = tuple(node.meta.get("val") for node in results)
        if len(results) == 1:
            values[results[0]] = like(made, results[0])
            return
        for k, node in enumerate(results):
            values[node] = like(graph.call_function(operator.getitem, (made, k)), node)

    @staticmethod
    def placed(module, name, parts) -> str:
        """Return the name of a part: a later call that computes the same gets the first one's."""
        first = parts.get(name.partition("@")[0])
        if "@" in name and isinstance(first, InterpreterModule) and form(first) == form(module):
            return name.partition("@")[0]
        parts.setdefault(name, module)
        return name


class KeptCalls:
    """Calls of submodules whose signatures the export kept: the submodule takes and gives what the original did."""

    def __init__(self, parts):
        self.parts, self.done = parts, set()
        program = parts.program
        self.signatures = {e.fqn: e.signature for e in program.module_call_graph if e.fqn and e.signature}
        self.nodes = {node.name: node for node in program.graph.nodes} if self.signatures else {}

    def call(self, graph, nodes, here, name, values, parts, rest):
        """The nodes of one call as a submodule.  RuntimeError where it reads or gives what is no argument or result of
        it."""
        label, signature = here[-1], self.signatures[here[-1]]
        if label in self.done:
            raise RuntimeError(f"unflatten() cannot keep the signature of {label!r}: other nodes are between its own")
        self.done.add(label)
        given, results = self.leaves(signature.inputs), self.leaves(signature.outputs)
        inside, own_values, own_parts = Graph(), {}, {}
        for k, leaf in enumerate(given):
            placeholder = inside.placeholder(f"{leaf.name if isinstance(leaf, Node) else 'constant'}_{k}")
            if isinstance(leaf, Node):
                own_values.setdefault(leaf, like(placeholder, leaf))
        for node in dict.fromkeys(n for one in nodes for n in one.all_input_nodes if n not in set(nodes)):
            self.provide(inside, node, here, own_values, own_parts, given)
        self.parts.write(inside, nodes, here, own_values, own_parts, {r for r in results if isinstance(r, Node)})
        inside.output(tuple(self.parts.value(inside, r, here, own_values, own_parts) if isinstance(r, Node) else r
                            for r in results))
        positional, named = signature.in_spec.children_specs
        keys = list(named.context)
        names = [*(f"args_{k}" for k in range(len(positional.children_specs))), *keys]
        inside.set_codegen(Nested(names, len(keys), signature.in_spec, signature.out_spec))
        name = self.parts.placed(InterpreterModule(own_parts, inside, "InterpreterModule"), name, parts)
        outer = [self.parts.value(graph, leaf, here[:-1], values, parts) if isinstance(leaf, Node) else leaf
                 for leaf in given]
        args, kwargs = tree_unflatten(outer, signature.in_spec)
        made, found = graph.call_module(name, args, kwargs), {}
        made.meta["val"] = tuple(getattr(leaf, "meta", {}).get("val") for leaf in results)
        for path, result in zip(paths(signature.out_spec, label), results):
            if isinstance(result, Node) and result in rest and result not in values:
                picked = made
                for key in path:
                    if (picked, key) not in found:
                        found[picked, key] = graph.call_function(operator.getitem, (picked, key))
                    picked = found[picked, key]
                values[result] = like(picked, result)
        lost = [n.name for n in nodes if n in rest and n not in values]
        if lost:
            raise RuntimeError(f"unflatten() cannot keep the signature of {label!r}: {lost[0]} is read outside of it, "
                               "and is none of its results")

    def leaves(self, arguments) -> list:
        """Arguments of a signature as nodes, or constants."""
        return [a.value if isinstance(a, ConstantArgument) else self.nodes[a.name] for a in arguments]

    def provide(self, inside, node, here, own_values, own_parts, given):
        """Makes a value from outside known inside a submodule: its state, or a size of its arguments."""
        if node in own_values or self.parts.relative(node, here) is not None:
            return
        if node in self.parts.held:
            own = f"{here[-1].partition('@')[0]}."
            held = self.parts.state[self.parts.held[node]]
            path = next((p for p, v in self.parts.state.items() if p.startswith(own) and v is held), None)
            if path is not None:
                own_parts[path.removeprefix(own)] = held
                own_values[node] = inside.get_attr(path.removeprefix(own))
                return
        size = node.meta.get("val")
        for leaf in (n for n in given if isinstance(n, Node) and isinstance(size, Expr)):
            shape = leaf.meta["val"]._rush_meta.shape if isinstance(leaf.meta.get("val"), Tensor) else ()
            dim = next((k for k, one in enumerate(shape) if one is size), None)
            if dim is not None:
                own_values[node] = inside.call_function(ops.aten.sym_size.int, (own_values[leaf], dim))
                return
        if isinstance(size, Expr) and node.op == "call_function" and node.target is not ops.aten.sym_size.int:
            for part in node.all_input_nodes:
                self.provide(inside, part, here, own_values, own_parts, given)
            own_values[node] = inside.node_copy(node, own_values.get)
            return
        raise RuntimeError(
            f"unflatten() cannot keep the signature of {here[-1]!r}: it reads {node.name}, which is none "
            "of its arguments")


def paths(spec, label) -> list:
    """The keys and indices that lead to each leaf of a result.  RuntimeError for containers that have none."""
    if spec.is_leaf():
        return [()]
    if spec.type not in (tuple, list, dict):
        raise RuntimeError(f"unflatten() keeps results of tuples, lists and dicts; {label!r} gives "
                           f"{spec.type.__name__}")
    keys = spec.context if spec.type is dict else range(len(spec.children_specs))
    return [(key, *rest) for key, child in zip(keys, spec.children_specs) for rest in paths(child, label)]


def form(module) -> list:
    """Return a key of a part's computation, independent of the names of its values."""
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
    """Kinds of attributes of a module."""

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
