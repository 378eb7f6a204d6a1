"""``torch.utils.weak``: references and dictionaries by identity, which do not keep their keys alive."""
from __future__ import annotations

import weakref
from collections.abc import MutableMapping

from .._src.core.native import Tensor


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to those of the same object, whatever its ``==`` says."""

    __slots__ = ("_id",)

    def __init__(self, key, callback=None):
        self._id = id(key)
        super().__init__(key, callback)

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        return mine is theirs if mine is not None and theirs is not None else self is other




class TensorWeakRef(WeakIdRef):
    """A weak reference to a tensor.  AssertionError for anything else."""

    def __init__(self, tensor):
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected a Tensor, got {type(tensor).__name__}")
        super().__init__(tensor)



class WeakIdKeyDictionary(MutableMapping):
    """Values by the identity of objects; an entry goes with its object.

    >>> import rushlight as torch
    >>> known, x = WeakIdKeyDictionary(), torch.ones(2)
    >>> known[x] = "two"
    >>> known[x], len(known)
    ('two', 1)
    """

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data, self.ref_type = {}, ref_type
        self.update(dict or {})

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        entries = self.data
        entries[self.ref_type(key, lambda gone: entries.pop(gone, None))] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __iter__(self):
        return iter([key for reference in list(self.data) if (key := reference()) is not None])

    def __len__(self):
        return len(self.data)

    def __contains__(self, key):
        return self.ref_type(key) in self.data

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary
