"""Nested containers under the name that PyTorch programs import them by."""
from ..core.pytree import (TreeSpec, register_pytree_node, tree_flatten, tree_leaves, tree_map, tree_map_only, tree_structure, tree_unflatten)

__all__ = ["TreeSpec", "register_pytree_node", "tree_flatten", "tree_leaves", "tree_map", "tree_map_only", "tree_structure", "tree_unflatten"]
