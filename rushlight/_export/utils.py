"""Helper functions for exported programs that libraries import from ``torch._export.utils``."""
from __future__ import annotations

from ..utils.pytree_dataclasses import register_dataclass_as_pytree_node

__all__ = ["get_buffer", "get_lifted_tensor_constant", "get_param", "is_buffer", "is_lifted_tensor_constant",
           "is_param", "register_dataclass_as_pytree_node"]


def is_param(program, node) -> bool:
    """True if a node of an exported program is the placeholder of a parameter."""
    return node.name in program.graph_signature.inputs_to_parameters


def get_param(program, node):
    """Return the parameter that a placeholder stands for; None for another node."""
    return program.state_dict[program.graph_signature.inputs_to_parameters[node.name]] if is_param(program,
                                                                                                   node) else None


def is_buffer(program, node) -> bool:
    """True if a node of an exported program is the placeholder of a buffer."""
    return node.name in program.graph_signature.inputs_to_buffers


def get_buffer(program, node):
    """Return the buffer that a placeholder stands for, persistent or not; None for another node."""
    if not is_buffer(program, node):
        return None
    name = program.graph_signature.inputs_to_buffers[node.name]
    is_constant = name in program.graph_signature.non_persistent_buffers
    return (program.constants if is_constant else program.state_dict)[name]


def is_lifted_tensor_constant(program, node) -> bool:
    """True if a node of an exported program is the placeholder of a tensor that is no parameter or buffer."""
    return node.name in program.graph_signature.inputs_to_lifted_tensor_constants


def get_lifted_tensor_constant(program, node):
    """Return the constant tensor that a placeholder stands for; None for another node."""
    if not is_lifted_tensor_constant(program, node):
        return None
    return program.constants[program.graph_signature.inputs_to_lifted_tensor_constants[node.name]]
