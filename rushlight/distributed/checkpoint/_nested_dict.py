"""Nested states as flat ones."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rushlight as torch

FLATTEN_MAPPING = dict[str, tuple]


def opened(value) -> bool:
    """True if a value is flattened: a mapping, or a list that contains a tensor or another flattened value."""
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and any(isinstance(v, torch.Tensor) or opened(v) for v in value)


def flatten_state_dict(state_dict) -> tuple[dict[str, Any], FLATTEN_MAPPING]:
    """Return (flat name -> value, flat name -> path).  Keys of mappings are strings in paths, indices of lists are
    integers.  ValueError for two values of one flat name.

    >>> flatten_state_dict({"a": {"b": 1}, "c": [2]})
    ({'a.b': 1, 'c': [2]}, {'a.b': ('a', 'b'), 'c': ('c',)})
    """
    flat, paths = {}, {}

    def visit(path, value):
        if opened(value):
            for key, inner in ((str(k), v)
                               for k, v in value.items()) if isinstance(value, Mapping) else enumerate(value):
                visit((*path, key), inner)
            return
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path

    for key, value in state_dict.items():
        visit((str(key),), value)
    return flat, paths


def set_element(root, path, value):
    """Store a value at a path of a nested state; missing containers on the way are made.

    >>> state = {}
    >>> set_element(state, ("a", 1, "b"), 5), state
    (None, {'a': [None, {'b': 5}]})
    """
    at = root
    for k, key in enumerate(path):
        key = own_key(at, key)
        if isinstance(at, list):
            at.extend([None] * (key + 1 - len(at)))
        if k == len(path) - 1:
            at[key] = value
            return
        if at[key] is None if isinstance(at, list) else key not in at:
            at[key] = [] if isinstance(path[k + 1], int) else {}
        at = at[key]


def own_key(mapping, key):
    """Return the key of a mapping that a path names, which has it as a string."""
    if isinstance(mapping, Mapping) and key not in mapping:
        return next((k for k in mapping if str(k) == key), key)
    return key


def unflatten_state_dict(state_dict, mapping: FLATTEN_MAPPING) -> dict:
    """A nested state of a flat one."""
    nested: dict = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
