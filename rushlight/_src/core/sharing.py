"""Memory that several processes share: a mapping of an unnamed file, which a forked child inherits and other processes
receive.

Reads and writes are not ordered between processes: a reader must synchronize with the writer by other means. A process
that sends memory through a queue must live until it has been received.
"""
from __future__ import annotations

import ctypes
import weakref
from multiprocessing import parent_process, reduction

from .advice import warn
from .dtypes import uint8
from .meta import Meta
from .native import Storage, Tensor, state, wrap
from .platform import here
from .tensor import blank, borrowed, show


class Shared:
    """A mapping, and the file behind it (``file``). ``before``: the previous memory of the bytes, which arrays made of
    them may still alias. ``living``: how many there are, each with an open file."""

    living = 0

    def __init__(self, file, before=None):
        self.file, self.before, self.memory, self.address = file, before, file.memory, file.address
        Shared.living += 1
        weakref.finalize(self, closed, file)


def closed(file):
    """Closes the file of a mapping that is gone."""
    file.close()
    Shared.living -= 1


def is_shared(storage: Storage) -> bool:
    """True if a storage's bytes are in memory that processes share."""
    return isinstance(storage.owner, Shared)


def share(storage: Storage) -> None:
    """Moves a storage's bytes into memory that processes share; all tensors over it go along."""
    if is_shared(storage):
        return
    before = Storage()
    before.address, before.nbytes, before.kind, before.owner = (storage.address, storage.nbytes, storage.kind,
                                                                storage.owner)
    file = here.shared(max(storage.nbytes, 1))
    file.unlink()
    shared = Shared(file, before)
    ctypes.memmove(shared.address, storage.address, storage.nbytes)
    storage.kind, storage.owner, storage.address, storage.packs = 0, shared, shared.address, None


def shared_bytes(nbytes: int) -> Tensor:
    """A uint8 vector in new memory that processes share."""
    file = here.shared(max(nbytes, 1))
    file.unlink()
    shared = Shared(file)
    return wrap(borrowed(shared.address, nbytes, shared), 0, Meta((nbytes,), (1,), uint8), 1)


def handed(tensor: Tensor):
    """Reduce a tensor for another process: by the file of its memory, so that both see what either writes. A child's
    memory that is not shared yet is copied, because the child may end before it is received. So are tensors for which
    there are no files left, with a warning."""
    if tensor._rush_grad_node is not None:
        raise RuntimeError(
            "a tensor that has a history and wants a gradient cannot go to another process, where its history is not: "
            "detach() it first")
    movable = tensor._rush_meta.device.provider.on_host and tensor._rush_storage.nbytes
    if parent_process() is None and movable and not tensor.__dict__ and not is_shared(tensor._rush_storage):
        if here.files_left(Shared.living):
            share(tensor._rush_storage)
        else:
            warn("more tensors go to another process than there are files for shared memory (ulimit -n): these are "
                 "copied, and what either process writes the other does not see. Put them into one tensor.")
    if not is_shared(tensor._rush_storage) or tensor.__dict__:
        return tensor.__reduce_ex__(2)
    opened, told = tensor._rush_storage.owner.file.told()
    return received, (type(tensor), opened, told, tensor._rush_storage.nbytes, tensor._rush_offset, tensor._rush_meta,
                      bool(tensor._rush_needs_grad))


def received(kind, opened, told, nbytes, offset, meta, wants_gradient):
    """The tensor that another process handed over."""
    shared = Shared(opened(*told))
    made = wrap(borrowed(shared.address, nbytes, shared), offset, meta, meta.itemsize)
    if kind is not Tensor:
        found, made = made, blank(kind)
        show(made, found)
    made._rush_needs_grad = int(wants_gradient)
    return made


def hand_over():
    """Make ``multiprocessing`` send tensors in shared memory by reference through its queues and pipes."""
    for kind in {state.tensor, state.parameter}:
        reduction.ForkingPickler.register(kind, handed)


hand_over()
