"""Checks that guards ask for: the items of containers."""
from __future__ import annotations

from .language import native


@native
def has_items(found: tuple, known: tuple, is_same: object) -> bool:
    """True if a tuple has these items: the very ones, or what ``is_same(item, known item)`` takes for them."""
    count = len(known)
    if len(found) != count:
        return False
    for k in range(count):
        if found[k] is not known[k]:
            if not is_same(found[k], known[k]):
                return False
    return True
