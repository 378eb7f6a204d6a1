"""Rules for the nodes that a backend supports."""
from __future__ import annotations

from .shape_prop import TensorMetadata
from .tools_common import get_node_target

__all__ = ["OperatorSupportBase", "OperatorSupport", "create_op_support", "chain", "OpSupports", "any_chain"]


class OperatorSupportBase:
    """Override ``is_node_supported(submodules, node)``: whether the node is taken."""

    def is_node_supported(self, submodules, node) -> bool:
        raise NotImplementedError(f"{type(self).__name__} must define is_node_supported(submodules, node)")


class OperatorSupport(OperatorSupportBase):
    """Nodes by what they call: ``{target: None}`` for any arguments,
    ``{target: (dtypes of each argument, {keyword: dtypes})}`` for these dtypes."""

    def __init__(self, support_dict=None):
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules, node) -> bool:
        if node.op not in ("call_module", "call_function", "call_method"):
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        if self._support_dict[target] is None:
            return True
        positions, keywords = self._support_dict[target]
        return all(fits(arg, allowed)
                   for arg, allowed in zip(node.args, positions)) and all(fits(node.kwargs[k], allowed)
                                                                          for k, allowed in keywords.items()
                                                                          if k in node.kwargs)


def fits(arg, allowed) -> bool:
    """Whether the dtype noted of an argument is among those allowed; other arguments have none."""
    found = arg.meta.get("tensor_meta") if hasattr(arg, "meta") else None
    return (found.dtype if isinstance(found, TensorMetadata) else None) in allowed


class Asked(OperatorSupportBase):
    """Nodes by a function."""

    def __init__(self, function):
        self.function = function

    def is_node_supported(self, submodules, node) -> bool:
        return self.function(submodules, node)


def create_op_support(is_node_supported) -> OperatorSupportBase:
    """What ``is_node_supported(submodules, node)`` says."""
    return Asked(is_node_supported)


def chain(*op_support) -> OperatorSupportBase:
    """Nodes that all take."""
    return Asked(lambda submodules, node: all(x.is_node_supported(submodules, node) for x in op_support))


def any_chain(*op_support) -> OperatorSupportBase:
    """Nodes that any takes."""
    return Asked(lambda submodules, node: any(x.is_node_supported(submodules, node) for x in op_support))


class OpSupports:
    """Restrictions to chain."""

    @classmethod
    def decline_if_input_dtype(cls, dtype) -> OperatorSupportBase:
        """Not nodes that read a tensor of this dtype."""
        return Asked(lambda submodules, node: not any(fits(arg, (dtype,)) for arg in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set) -> OperatorSupportBase:
        """Not nodes of these names."""
        return Asked(lambda submodules, node: node.name not in disallow_set)
