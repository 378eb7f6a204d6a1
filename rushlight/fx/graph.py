"""Graph: a user's program as a list of nodes that can be looked at and changed."""
from __future__ import annotations

from . import code
from .code import PythonCode, Writer
from .node import Argument, OPCODES, Node, map_arg  # noqa: F401 - also found here

magic_methods, inplace_methods, reflectable_magic_methods = code.MAGIC, code.INPLACE, code.REFLECTABLE
_snake_case = code.snake_case


class NodeList:
    """The nodes of a graph in order; the current node may be removed during iteration."""

    def __init__(self, graph, direction="_next"):
        self.graph, self.direction = graph, direction

    def __len__(self):
        return self.graph._len

    def __iter__(self):
        root, direction = self.graph._root, self.direction
        node = getattr(root, direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, direction)

    def __reversed__(self):
        return NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")

    def __repr__(self):
        return repr(list(self))


class Graph:
    """A program as a list of Nodes, printed as a listing (``print(graph)``) or as Python (``graph.python_code``).

    >>> import rushlight as torch
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(torch.relu, (x,)))
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    """

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self.owning_module, self._tracer_cls, self._tracer_extras = owning_module, tracer_cls, tracer_extras
        self._root = Node(self, "", "root", "")
        self._insert = self._root.prepend
        self._len = 0
        self._graph_namespace = code.Namespace()
        self._codegen = CodeGen()
        self._hook = None

    nodes = property(lambda self: NodeList(self), doc="The nodes in order.")

    # --- making nodes -------------------------------------------------------------------------------------------------
    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None) -> Node:
        """A new node at the place where nodes are inserted (the end, unless ``inserting_before`` or ``inserting_after``
        says otherwise).

        ``name`` is a wish.  AssertionError for an unknown ``op``, or arguments that belong to another graph.
        """
        if op not in OPCODES[:-1]:
            raise AssertionError(f"there is no opcode {op!r}: choose one of {', '.join(OPCODES[:-1])}")
        if not isinstance(args, (tuple, list, type(None))):
            raise AssertionError("args must be a tuple")
        candidate = name if name is not None else code.snake_case(code.base_name(target))
        node = Node(self, self._graph_namespace.create(candidate), op, target, tuple(args or ()), kwargs or {},
                    type_expr)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name: str, type_expr=None, default_value=None, *, has_default=False) -> Node:
        """An input of the program; ``default_value`` makes it optional."""
        default = (default_value,) if has_default or default_value is not None else ()
        return self.create_node("placeholder", name, default, name=name.lstrip("*"), type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr=None) -> Node:
        """A parameter, buffer or other attribute of the module that the graph belongs to."""
        return self.create_node("get_attr", qualified_name, name=qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args=None, kwargs=None, type_expr=None, name=None) -> Node:
        """A call of a submodule, by its path.  RuntimeError if the graph's module has no such submodule."""
        if self.owning_module is not None:
            try:
                self.owning_module.get_submodule(module_name)
            except AttributeError:
                import warnings
                warnings.warn(
                    "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule: "
                    f"{module_name!r}. "
                    "Call GraphModule.add_submodule to add it.", stacklevel=2)
        return self.create_node("call_module", module_name, args, kwargs, name=name, type_expr=type_expr)

    def call_method(self, method_name: str, args=None, kwargs=None, type_expr=None, name=None) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, name=name, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None) -> Node:
        """A call of a function or operator."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result, type_expr=None) -> Node:
        """The result of the program: a node, or nodes in containers."""
        return self.create_node("output", "output", (result,), name="output", type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform=lambda n: n) -> Node:
        """A copy of a node of any graph; ``arg_transform`` maps the nodes that it reads to those of this graph."""
        made = self.create_node(node.op, node.target, map_arg(node.args, arg_transform),
                                map_arg(node.kwargs, arg_transform), node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: "Graph", val_map: dict, return_output_node=False):
        """Copies the nodes of ``g`` here; ``val_map`` (old node: new node) is filled in.  What ``g`` returns, in terms
        of the new nodes."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    # --- changing -----------------------------------------------------------------------------------------------------
    def erase_node(self, to_erase: Node):
        """Removes a node.  RuntimeError while other nodes read it."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{dict(to_erase.users)}! "
                "Let them read another node first: node.replace_all_uses_with(other).")
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            import warnings
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        to_erase._unlink()  # its own links stay for an iteration that is at it
        to_erase._erased = True
        self._len -= 1
        args, kwargs = (map_arg(part, lambda node: None) for part in (to_erase.args, dict(to_erase.kwargs)))
        to_erase._update(args, kwargs)  # what is no node stays known

    def inserting_before(self, n: Node | None = None):
        """New nodes go before ``n`` (the first node, if None): for a ``with`` block, or until the next call."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return Inserting(self, n.prepend)

    def inserting_after(self, n: Node | None = None):
        """New nodes go right after ``n`` (the last node, if None)."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return Inserting(self, n.append)

    def eliminate_dead_code(self, is_impure_node=None) -> bool:
        """Removes nodes whose values nothing reads and that do nothing else; whether any was."""
        self.lint()
        impure = is_impure_node or Node.is_impure
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
        return self._len < before

    # --- looking ------------------------------------------------------------------------------------------------------
    def find_nodes(self, *, op: str, target=None, sort: bool = True) -> list:
        """The nodes with this ``op``, and this ``target`` if it is given, in order."""
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self) -> Node:
        """The node that says what is returned."""
        return next(iter(self.find_nodes(op="output")))

    def lint(self):
        """RuntimeError if the graph is not well formed: names not unique, values read before they are made, targets
        that do not exist."""
        names, seen = set(), set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an "
                        "argument! "
                        "If you are copying nodes from another graph, make sure to use ``arg_transform`` on "
                        "node_copy() to remap values.")
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that "
                        "Nodes in the graph are topologically ordered.")
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                self._lint_target(node)

    def _lint_target(self, node):
        from ..nn import Module
        found, path = self.owning_module, node.target.split(".")
        for k, part in enumerate(path):
            if not hasattr(found, part):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of {'.'.join(path[:k])}")
            found = getattr(found, part)
        if node.op == "call_module" and not isinstance(found, Module):
            raise RuntimeError(f"Node {node} target {node.target} does not reference an nn.Module")

    def print_tabular(self):
        """Prints the nodes as a table."""
        rows = [["opcode", "name", "target", "args", "kwargs"]] + [[n.op, n.name, n.target_text(), str(n.args),
                                                                    str(dict(n.kwargs))] for n in self.nodes]
        widths = [max(map(len, column)) for column in zip(*rows)]
        rows.insert(1, ["-" * w for w in widths])
        print("\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows))

    def python_code(self, root_module: str = "self", *, verbose=False, include_stride=False, include_device=False,
                    colored=False, expanded_def=False) -> PythonCode:
        """The program as a Python function named ``forward``, and the globals it needs.

        ``verbose`` annotates names with the dtype and sizes of tensors, and with their strides and device if
        ``include_stride`` and ``include_device`` say so; ``colored``: with codes for terminals; ``expanded_def``: one
        parameter a line.
        """
        return self._codegen._gen_python_code(
            self, root_module, verbose, include_stride=include_stride, include_device=include_device, colored=colored,
            expanded_def=expanded_def)

    def set_codegen(self, codegen):
        """Replaces how this graph is written as Python."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer):
        """Sets ``make_transformer(previous) -> (lines -> lines)``, which changes the text before it is compiled."""
        before, self._hook = self._hook, make_transformer(self._hook)
        graph = self

        class Restore:
            def __enter__(self):
                return None

            def __exit__(self, *exception):
                graph._hook = before

        return Restore()

    def process_inputs(self, *args):
        """Arguments as placeholders take them."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        return self._codegen.process_outputs(out)

    def __str__(self):
        placeholders: list = []
        lines = [line for node in self.nodes if (line := node.format_node()) is not None]
        return "\n    ".join([f"graph({', '.join(placeholders)}):", *lines])

    # --- copies -------------------------------------------------------------------------------------------------------
    def __deepcopy__(self, memo=None) -> "Graph":
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = made
        made._codegen = self._codegen
        mapped: dict = {}
        for node in self.nodes:
            mapped[node] = made.node_copy(node, mapped.__getitem__)
            memo[id(node)] = mapped[node]
        return made

    def __reduce__(self):
        """Nodes as rows that name each other by position: a linked list would be pickled recursively."""
        numbers = {node: k for k, node in enumerate(self.nodes)}
        rows = [(n.name, n.op, n.target, map_arg(n.args, lambda m: At(numbers[m])),
                 map_arg(n.kwargs, lambda m: At(numbers[m])), n.type, picklable(n.meta)) for n in self.nodes]
        return rebuilt, (rows, self._tracer_cls, self._codegen)


class Inserting:
    """The place of new nodes, set at once; leaving a ``with`` block puts the former one back."""

    def __init__(self, graph, insert):
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.graph._insert = self.before


class At:
    """A node of a pickled graph, by its position."""

    def __init__(self, position):
        self.position = position


KEPT_META = ("stack_trace", "nn_module_stack", "seq_nr", "tensor_meta")


def picklable(meta: dict) -> dict:
    """The notes that are plain data: values in ``meta`` are what the tracer saw, not part of the program."""
    return {k: meta[k] for k in KEPT_META if k in meta}


def rebuilt(rows, tracer_cls, codegen) -> Graph:
    """A pickled graph."""
    from .node import map_aggregate
    graph, nodes = Graph(tracer_cls=tracer_cls), []

    def find(value):
        return nodes[value.position] if isinstance(value, At) else value

    for name, op, target, args, kwargs, kind, meta in rows:
        node = graph.create_node(op, target, map_aggregate(args, find), map_aggregate(kwargs, find), name, kind)
        node.meta = dict(meta)
        nodes.append(node)
    graph._codegen = codegen
    return graph


class CodeGen:
    """Code generation of a graph as Python, with the structure of arguments and results."""

    def _gen_python_code(self, graph, root_module, verbose=False, **shown) -> PythonCode:
        made = Writer(graph, root_module, verbose, **shown).write()
        if graph._hook is not None:
            made.src = "".join(graph._hook(made.src.splitlines(keepends=True)))
        return made

    def process_inputs(self, *args):
        return args

    def process_outputs(self, outputs):
        return outputs
