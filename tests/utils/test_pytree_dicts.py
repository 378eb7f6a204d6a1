"""Dicts of all kinds stand for each other in the trees that are mapped together."""
from collections import OrderedDict, defaultdict

import pytest

import rushlight.utils._pytree as pytree


@pytest.mark.parametrize("first", [dict, OrderedDict, lambda v: defaultdict(list, v)])
@pytest.mark.parametrize("second", [dict, OrderedDict, lambda v: defaultdict(list, v)])
def test_kinds_of_dicts(first, second):
    found = pytree.tree_map(lambda a, b: a - b, first({"a": 3, "b": [5]}), second({"b": [1], "a": 2}))
    assert found == {"a": 1, "b": [4]} and type(found) is type(first({}))
    with pytest.raises(ValueError, match="keys"):
        pytree.tree_map(lambda a, b: a, first({"a": 3}), second({"b": 1}))
    with pytest.raises(ValueError):
        pytree.tree_map(lambda a, b: a, first({"a": 3}), [1])
