"""A graph as a picture, in the language of Graphviz (``dot -Tsvg file.dot``)."""
from __future__ import annotations


COLOURS = {"placeholder": "AliceBlue", "get_attr": "LightGrey", "call_function": "Honeydew",
           "call_method": "LightYellow", "call_module": "LemonChiffon", "output": "PowderBlue"}


class Dot:
    """A picture as text."""

    def __init__(self, text: str):
        self.text = text

    def to_string(self) -> str:
        return self.text

    __str__ = to_string

    def write(self, path):
        """Writes the text to a file."""
        with open(path, "w") as file:
            file.write(self.text)

    write_raw = write_dot = write


class FxGraphDrawer:
    """Draws the graph of a GraphModule: a box for each node with its op, target and what is known of its value, arrows
    to what reads it.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.graph_drawer import FxGraphDrawer
    >>> print(FxGraphDrawer(torch.fx.symbolic_trace(torch.nn.ReLU()), "relu").get_dot_graph())  # doctest: +ELLIPSIS
    digraph "relu" {...
    """

    def __init__(self, graph_module, name: str, ignore_getattr=False):
        self.module, self.name, self.ignored = graph_module, name, {"get_attr"} if ignore_getattr else set()

    def get_dot_graph(self) -> Dot:
        """The picture."""
        shown = [n for n in self.module.graph.nodes if n.op not in self.ignored]
        lines = [f"    {quoted(n.name)} [shape=box style=filled fillcolor={COLOURS[n.op]} "
                 f"label={quoted(self.label(n))}];" for n in shown]
        lines += [f"    {quoted(used.name)} -> {quoted(n.name)};" for n in shown for used in n.all_input_nodes
                  if used.op not in self.ignored]
        return Dot("\n".join([f"digraph {quoted(self.name)} {{", "    rankdir=TB;", *lines, "}"]))

    get_main_dot_graph = get_dot_graph

    def label(self, node) -> str:
        """Return the text of a node's box."""
        target = getattr(node.target, "__name__", str(node.target))
        value = node.meta.get("val", node.meta.get("tensor_meta"))
        shape = getattr(value, "shape", None)
        return "\n".join([node.name, f"{node.op}: {target}",
                          *([] if shape is None else [f"{value.dtype} {list(shape)}"])])


def quoted(text: str) -> str:
    """A text as Graphviz reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
