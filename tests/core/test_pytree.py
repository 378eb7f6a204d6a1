"""Nested containers."""
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

from rushlight.core import pytree

Point = namedtuple("Point", "x y")
TREES = [1, (1, [2, {"a": 3, "b": (4,)}]), OrderedDict(b=1, a=2), defaultdict(list, {"k": [1, 2]}), deque([1, (2, 3)], maxlen=5), Point(1, [2]), (), {}]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_round_trip(tree):
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree) and spec.num_leaves == len(leaves)
    assert pytree.tree_structure(again) == spec


def test_order_of_leaves():
    assert pytree.tree_leaves({"b": 1, "a": [2, (3,)], "c": Point(4, 5)}) == [1, 2, 3, 4, 5]


def test_map():
    assert pytree.tree_map(lambda a, b: a + b, {"k": [1, 2]}, {"k": [10, 20]}) == {"k": [11, 22]}
    assert pytree.tree_map_only(int, lambda v: -v, (1, "a", [2])) == (-1, "a", [-2])


def test_prefix():
    spec = pytree.tree_structure((1, {"a": 2, "b": [3, 4]}))
    assert pytree.broadcast_prefix(0, spec) == [0, 0, 0, 0]
    assert pytree.broadcast_prefix((None, {"a": 1, "b": 2}), spec) == [None, 1, 2, 2]
    assert pytree.broadcast_prefix((0,), spec) is None
    assert pytree.broadcast_prefix((0, [1, 2]), spec) is None


def test_wrong_trees():
    with pytest.raises(ValueError, match="leaves"):
        pytree.tree_unflatten([1], pytree.tree_structure((1, 2)))
    with pytest.raises(ValueError, match="keys"):
        pytree.tree_map(max, {"a": 1}, {"b": 1})


def test_a_class_of_the_user():
    class Box:
        def __init__(self, inside):
            self.inside = inside

    pytree.register_pytree_node(Box, lambda b: ([b.inside], None), lambda c, _: Box(*c))
    assert pytree.tree_map(lambda v: v + 1, [Box(1)])[0].inside == 2
    with pytest.raises(ValueError, match="already"):
        pytree.register_pytree_node(Box, None, None)
