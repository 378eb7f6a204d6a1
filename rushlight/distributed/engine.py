"""The interface of a communication engine: collectives over dense memory of one group, each done when it returns."""
from __future__ import annotations

import contextlib
import ctypes
import time

from .chains import Chain


class Region:
    """Dense memory: its address, size in bytes, and element type."""

    __slots__ = ("address", "nbytes", "name", "itemsize")

    def __init__(self, address: int, nbytes: int, name: str = "uint8", itemsize: int = 1):
        self.address, self.nbytes, self.name, self.itemsize = address, nbytes, name, itemsize

    def part(self, begin: int, nbytes: int) -> Region:
        return Region(self.address + begin, nbytes, self.name, self.itemsize)

    def parts(self, count: int) -> list:
        """Equal parts."""
        each = self.nbytes // count
        return [self.part(k * each, each) for k in range(count)]


class Engine:
    """Moves data of one group.  ``rank`` and ``size``: of this process in the group; ``ranks``: its ranks in the world;
    ``timeout``: the limit of a wait in seconds.

    Regions of all ranks have equal sizes unless a method says otherwise; a mismatch raises RuntimeError in every rank.
    ``kind`` of a reduction is one of ``kernels.combine``, with the factor ``scale``.
    """

    rank, size, timeout, ranks = 0, 1, 1800.0, ()
    queued = False  # True if calls are queued on a device stream and the host continues (``nccl/engine.py``)

    def called(self, ranks) -> str:
        """Describe ranks of the group, with their ranks in the world if these differ."""
        ranks = list(ranks)
        text = f"rank{'s' if len(ranks) != 1 else ''} {', '.join(map(str, ranks))} of the group"
        world = [self.ranks[rank] for rank in ranks] if self.ranks else ranks
        return text if world == ranks else f"{text} ({', '.join(map(str, world))} of the world)"

    def grouped(self):
        """A block whose collectives may run concurrently."""
        return contextlib.nullcontext()

    def all_reduce(self, memory: Region, kind: str, scale: float):
        """Reduces the regions of all ranks in place."""
        raise NotImplementedError

    def reduce_chain(self, chain: Chain, kind: str, scale: float):
        """``all_reduce`` of all regions of a chain as one; chains of other ranks may be cut differently."""
        room = ctypes.create_string_buffer(max(chain.nbytes, 1))
        memory = Region(ctypes.addressof(room), chain.nbytes, chain.name, chain.itemsize)
        pieces = chain.pieces(0, chain.nbytes)
        for piece in pieces:
            ctypes.memmove(memory.address + piece.offset, piece.source, piece.nbytes)
        self.all_reduce(memory, kind, scale)
        for piece in pieces:
            ctypes.memmove(piece.target, memory.address + piece.offset, piece.nbytes)

    def reduce(self, memory: Region, kind: str, scale: float, root: int):
        """``all_reduce`` whose result only ``root`` is sure to have."""
        self.all_reduce(memory, kind, scale)

    def broadcast(self, memory: Region, root: int):
        raise NotImplementedError

    def all_gather(self, targets: list, memory: Region):
        """Copies the region of rank k to ``targets[k]``, in every rank."""
        raise NotImplementedError

    def gather_whole(self, target: Region, memory: Region):
        """``all_gather`` into one region, one part after the other."""
        self.all_gather(target.parts(self.size), memory)

    def gather(self, targets: list | None, memory: Region, root: int):
        """``all_gather`` in the rank ``root`` alone."""
        raise NotImplementedError

    def scatter(self, target: Region, sources: list | None, root: int):
        """Copies ``sources[k]`` of ``root`` to the target of rank k."""
        raise NotImplementedError

    def reduce_scatter(self, target: Region, sources: list, kind: str, scale: float):
        """The reduction of all ranks' ``sources[k]``, in the target of rank k."""
        raise NotImplementedError

    def reduce_scatter_whole(self, target: Region, source: Region, kind: str, scale: float):
        """``reduce_scatter`` of one region that holds the concatenated parts."""
        self.reduce_scatter(target, source.parts(self.size), kind, scale)

    def all_to_all(self, targets: list, sources: list):
        """Copies ``sources[k]`` of each rank r to ``targets[r]`` of rank k; sizes may differ from pair to pair."""
        raise NotImplementedError

    def barrier(self):
        raise NotImplementedError

    def send(self, memory: Region, peer: int, tag: int):
        raise NotImplementedError

    def receive(self, memory: Region, peer: int | None, tag: int) -> int:
        """Fill the region with the next message of ``peer`` (None: of any rank) that has the tag; return its
        sender."""
        raise NotImplementedError

    def stop_receiving(self):
        """Interrupt a ``receive`` that waits."""

    def close(self):
        """Leave the group: ranks that wait for this one are notified."""

    abort = close


class Deadline:
    """A time limit of a wait."""

    def __init__(self, seconds: float):
        self.seconds, self.end = seconds, time.monotonic() + seconds

    def passed(self) -> bool:
        return time.monotonic() >= self.end
