"""Interpreter: runs a graph node by node; Transformer: makes another graph on the way."""
from __future__ import annotations

from ..nn import Module
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_arg, plain
from ._symbolic_trace import Tracer
from .proxy import Proxy


class Interpreter:
    """Runs the nodes of a GraphModule one by one; override ``run_node`` or a method for one opcode.

    >>> import rushlight as torch
    >>> module = torch.fx.symbolic_trace(lambda x: torch.neg(x) + 1)
    >>> class Positive(torch.fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(torch.abs if target is torch.neg else target, args, kwargs)
    >>> Positive(module).run(torch.full((2,), -3.0))
    tensor([4., 4.])
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None):
        self.module, self.graph = module, graph if graph is not None else module.graph
        self.submodules = dict(module.named_modules())
        self.garbage_collect_values, self.extra_traceback = garbage_collect_values, True
        self.env: dict = {}
        self.name = "Interpreter"
        self.last_uses: dict = {}
        if garbage_collect_values:
            seen = set()
            for node in reversed(self.graph.nodes):
                for used in node.all_input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self.last_uses.setdefault(node, []).append(used)

    def run(self, *args, initial_env=None, enable_io_processing: bool = True):
        """The result for these arguments; ``initial_env`` gives values to nodes that are not run then."""
        self.env = dict(initial_env or {})
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback and not getattr(error, "__notes_of_node__", False):
                    error.add_note(f"While executing {node.format_node()}"
                                   + (f"\nOriginal traceback:\n{node.stack_trace}" if node.stack_trace else ""))
                    error.__notes_of_node__ = True
                raise
            for used in self.last_uses.get(node, ()) if self.garbage_collect_values else ():
                del self.env[used]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list):
        """As ``run``, emptying the list of arguments, so that they can be freed as soon as they are not needed."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node):
        """The value of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: str, args, kwargs):
        """The next argument, or the default; RuntimeError if there is neither."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!") from None

    def get_attr(self, target: str, args, kwargs):
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        return target(*args, **kwargs)

    def call_method(self, target: str, args, kwargs):
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: str, args, kwargs):
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args, kwargs):
        return args[0]

    def fetch_attr(self, target: str):
        """Return the attribute of the module at a dotted path."""
        found = self.module
        for k, part in enumerate(parts := target.split(".")):
            if not hasattr(found, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[:k + 1])}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node):
        """The arguments of a node as values."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n: Node):
        """Arguments with each node replaced by its value."""
        def load(used):
            if used not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose such issues")
            return self.env[used]

        found = map_arg(args, load)
        return plain(found)


class TransformerTracer(Tracer):
    """Writes the graph that a Transformer makes."""

    def __init__(self, graph: Graph, root: Module):
        super().__init__()
        self.graph, self.root = graph, root
        self._constants, self._paths = {}, {}

    def is_leaf_module(self, m, module_qualified_name):
        return True


class Transformer(Interpreter):
    """Runs a graph on proxies: what the overridden methods do becomes the new module,
    ``Transformer(module).transform()``."""

    def __init__(self, module: GraphModule):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = TransformerTracer(self.new_graph, module)

    def placeholder(self, target, args, kwargs):
        return Proxy(self.new_graph.placeholder(target, default_value=args[0] if args else None,
                                                has_default=bool(args)), self.tracer)

    def get_attr(self, target, args, kwargs):
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target, args, kwargs):
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target, args, kwargs):
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            made = self.new_graph.output(self.tracer.create_arg(result))
            old = self.graph.output_node()
            made.type, made.meta = old.type, dict(old.meta)
        return GraphModule(self.module, self.new_graph)

    def run_node(self, n):
        made = super().run_node(n)
        if isinstance(made, Proxy):
            made.node.meta = {**n.meta, **made.node.meta}
        return made
