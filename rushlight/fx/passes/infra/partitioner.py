"""Nodes that a backend takes, in groups as large as can be."""
from __future__ import annotations

from ..tools_common import get_node_target
from ..utils.fuser_utils import fuse_by_partitions, validate_partition


class Partition:
    """A group of nodes."""

    def __init__(self, id=None, nodes=None, node_orders=None):
        self.id = id
        self.nodes = dict(zip(nodes, node_orders)) if nodes is not None and node_orders is not None else dict.fromkeys(
            nodes or ())

    def __repr__(self):
        return str(self.nodes)

    def add_node(self, node, node_order=None):
        self.nodes[node] = node_order

    def remove_node(self, node):
        del self.nodes[node]

    def size(self) -> int:
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Cuts a graph by what ``operator_support`` takes.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    >>> from rushlight.fx.passes.operator_support import create_op_support
    >>> module = torch.fx.symbolic_trace(lambda x: (x.sin() + 1).relu().cos())
    >>> adds = create_op_support(lambda modules, node: node.name in ("sin", "add"))
    >>> fused = CapabilityBasedPartitioner(module, adds).partition_and_fuse()
    >>> [node.name for node in fused.graph.nodes]
    ['x', 'fused_0', 'relu', 'cos', 'output']
    """

    def __init__(self, graph_module, operator_support, allows_single_node_partition=False, non_compute_ops=None,
                 allowed_single_node_partition_ops=None, skip_horizontal_fusion=False):
        self.graph_module, self.operator_support, self.allows_single_node_partition = (graph_module, operator_support,
                                                                                       allows_single_node_partition)
        self.non_compute_ops, self.allowed_single_node_partition_ops = tuple(non_compute_ops
                                                                             or ()), tuple(
                                                                                 allowed_single_node_partition_ops
                                                                                 or ())
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node) -> bool:
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self) -> list[Partition]:
        """The groups: each node joins those of its neighbours while no path leads out of a group and back."""
        nodes = [n for n in self.graph_module.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
        group_of, groups = {}, {}
        place = {node: k for k, node in enumerate(nodes)}
        for node in reversed(nodes):
            if not self._is_node_supported(node):
                continue
            groups[place[node]], group_of[node] = {node: place[node]}, place[node]
            near = [group_of[user] for user in node.users if user in group_of]
            candidates = near if self.skip_horizontal_fusion else [*near, *(k for k in groups if k != place[node])]
            for k in dict.fromkeys(candidates):
                mine = group_of[node]
                if k in groups and k != mine and validate_partition([*groups[k], *groups[mine]]):
                    first, second = sorted((k, mine))
                    groups[first].update(groups.pop(second))
                    group_of.update(dict.fromkeys(groups[first], first))
        found = [Partition(n, nodes, map(place.get, nodes))
                 for n, nodes in enumerate(sorted(group, key=place.get) for _, group in sorted(groups.items()))]
        return [partition for partition in found if self.allows_single_node_partition or self.computes(partition)]

    def computes(self, partition) -> bool:
        """True if a group merits a submodule: two nodes that compute, or one that may be alone."""
        modules = dict(self.graph_module.named_modules())
        targets = [get_node_target(modules, node) for node in partition.nodes]
        return len([t for t in targets
                    if t not in self.non_compute_ops]) > 1 or any(t in self.allowed_single_node_partition_ops
                                                                  for t in targets)

    def remove_bookend_non_compute_ops(self, partitions):
        """Takes nodes that compute nothing from the beginnings and ends of groups."""
        modules = dict(self.graph_module.named_modules())
        for partition in partitions:
            while loose := [node for node in partition.nodes if get_node_target(modules, node) in self.non_compute_ops
                            and (not any(used in partition.nodes for used in node.all_input_nodes)
                                 or not any(user in partition.nodes for user in node.users))]:
                for node in loose:
                    partition.remove_node(node)

    def fuse_partitions(self, partitions, prefix="fused_"):
        """The module with each group as a submodule."""
        return fuse_by_partitions(self.graph_module, [list(partition.nodes) for partition in partitions], prefix)

    def partition_and_fuse(self, prefix="fused_"):
        return self.fuse_partitions(self.propose_partitions(), prefix)
