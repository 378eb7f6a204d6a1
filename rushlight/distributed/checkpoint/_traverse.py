"""Going through nested states."""
from __future__ import annotations

from collections.abc import Mapping

import rushlight as torch

from ._nested_dict import opened, set_element

__all__ = ["traverse_state_dict", "set_element", "get_element", "print_tensor"]


def _keep_visiting_tensors(value) -> bool:
    return isinstance(value, torch.Tensor)


def traverse_state_dict(state_dict, visitor, keep_traversing=_keep_visiting_tensors) -> None:
    """Call ``visitor(path, value)`` on every value that is not flattened.  Mappings are flattened, and lists that
    contain a flattened value or one for which ``keep_traversing`` is true.  Keys of mappings are strings in paths.

    >>> traverse_state_dict({"a": {1: 2}, "b": [3]}, lambda path, value: print(path, value))
    ('a', '1') 2
    ('b',) [3]
    """
    def inner(value) -> bool:
        return opened(value) or isinstance(value, list) and any(keep_traversing(v) or inner(v) for v in value)

    def visit(path, value):
        if isinstance(value, Mapping):
            for key, one in value.items():
                visit((*path, str(key)), one)
        elif isinstance(value, list) and inner(value):
            for place, one in enumerate(value):
                visit((*path, place), one)
        else:
            visitor(path, value)

    for key, value in state_dict.items():
        visit((str(key),), value)


def get_element(root_dict, path, default_value=None):
    """Return the value at a path of a nested state, with the original keys; ``default_value`` if there is none.

    >>> get_element({"a": [0, {"b": 5}]}, ("a", 1, "b")), get_element({}, ("a",), 3)
    (5, 3)
    """
    at = root_dict
    for key in path:
        if isinstance(key, int):
            if not isinstance(at, list) or len(at) <= key:
                return default_value
        elif not isinstance(at, Mapping) or key not in at:
            return default_value
        at = at[key]
    return at


def print_tensor(path, value, print_fun=print) -> None:
    """Prints a tensor's path and size, for ``traverse_state_dict``."""
    if isinstance(value, torch.Tensor):
        print_fun(f"{'.'.join(map(str, path))}: {tuple(value.size())} {value.dtype}")
