"""Checks that guards ask for: the items of containers, and whether the state of modules is as it was."""
from __future__ import annotations

from .language import cast, i64, native
from .memory import load_i64, store_i64
from .objects import Tensor


@native
def has_items(found: tuple, known: tuple, is_same: object) -> bool:
    """True if a tuple has these items: the same objects, or objects that ``is_same(item, known item)`` accepts."""
    count = len(known)
    if len(found) != count:
        return False
    for k in range(count):
        if found[k] is not known[k]:
            if not is_same(found[k], known[k]):
                return False
    return True


@native
class Snapshot:
    """64-bit values in memory and tensors' metadata, as they were when ``take`` was called last.

    The values are compared in order up to the first that differs, so that one may be at an address that is valid only
    while those before it are unchanged.
    """

    block: object  # owns the memory at ``words``
    # address of pairs (the address of a 64-bit value, its previous value), then of each tensor's requires_grad flag
    words: i64
    count: i64  # of pairs
    tensors: tuple
    metas: list  # of the tensors, as they were

    def take(self) -> None:
        """Record the current values and tensors."""
        words = self.words
        count = self.count
        for k in range(count):
            store_i64(words, 2 * k + 1, load_i64(load_i64(words, 2 * k), 0))
        tensors = self.tensors
        for k in range(len(tensors)):
            tensor = cast(Tensor, tensors[k])
            self.metas[k] = tensor._rush_meta
            store_i64(words, 2 * count + k, tensor._rush_needs_grad)

    def holds(self) -> bool:
        """True if nothing differs."""
        words = self.words
        count = self.count
        for k in range(count):
            if load_i64(load_i64(words, 2 * k), 0) != load_i64(words, 2 * k + 1):
                return False
        tensors = self.tensors
        metas = self.metas
        for k in range(len(tensors)):
            tensor = cast(Tensor, tensors[k])
            if tensor._rush_meta is not metas[k] or tensor._rush_needs_grad != load_i64(words, 2 * count + k):
                return False
        return True
