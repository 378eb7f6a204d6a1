"""Transfer of tensors and storages to other processes."""
from __future__ import annotations

import weakref

from .._src.core.sharing import hand_over as init_reductions  # noqa: F401
from .._src.core.sharing import handed as reduce_tensor  # noqa: F401


class StorageWeakRef:
    """A weak reference to the memory of a storage: equal to others to the same memory, ``expired()`` once it is gone.

    >>> import rushlight as torch
    >>> x = torch.ones(2)
    >>> seen = StorageWeakRef(x.untyped_storage())
    >>> seen == StorageWeakRef(x[1:].untyped_storage()), seen.expired()
    (True, False)
    >>> del x
    >>> seen.expired()
    True
    """

    __slots__ = ("cdata", "known")

    def __init__(self, storage):
        self.cdata, self.known = storage._cdata, weakref.ref(storage.tensor()._rush_storage)

    def expired(self) -> bool:
        """Whether the memory is gone."""
        return self.known() is None

    def __hash__(self):
        return self.cdata

    def __eq__(self, other):
        if self is other:
            return True
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata and self.known() is other.known()
