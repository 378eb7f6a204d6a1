"""Targets replaced, and the bytes that nodes take."""
from __future__ import annotations

from typing import NamedTuple

from .shape_prop import ShapeProp, TensorMetadata

__all__ = ["replace_target_nodes_with", "size_bytes", "get_size_of_all_nodes", "get_tensor_meta", "get_size_of_node"]


class size_bytes(NamedTuple):
    """Bytes of a node's result, and with the parameters of its module."""

    output_size: int
    total_size: int


def replace_target_nodes_with(fx_module, old_op: str, old_target, new_op: str, new_target) -> None:
    """Each node of one kind and target becomes one of another, with the same arguments."""
    graph = fx_module.graph
    for node in list(graph.nodes):
        if (node.op, node.target) == (old_op, old_target):
            with graph.inserting_before(node):
                made = graph.create_node(new_op, new_target, node.args, node.kwargs, node.name)
            node.replace_all_uses_with(made)
            graph.erase_node(node)
    fx_module.recompile()


def get_tensor_meta(node) -> TensorMetadata:
    """Return the metadata that ShapeProp stored in a node.  RuntimeError if it has not run."""
    if (found := node.meta.get("tensor_meta")) is None:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run.")
    return found


def get_size_of_node(fx_module, node) -> size_bytes:
    """The bytes of a node."""
    found = get_tensor_meta(node)
    own = found.shape.numel() * found.dtype.itemsize
    held = 0
    if node.op == "call_module":
        module = fx_module.get_submodule(node.target)
        held = sum(t.numel() * t.element_size() for t in (*module.parameters(), *module.buffers()))
    return size_bytes(own, own + held)


def get_size_of_all_nodes(fx_module, args=None) -> None:
    """Notes ``size_bytes`` of each node, after shapes where ``args`` are given."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)
