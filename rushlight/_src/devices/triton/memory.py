"""Memory of a GPU: segments of the driver, blocks of queues that lie in them, and what is known of both."""

from __future__ import annotations

import bisect
import collections
import contextlib
import ctypes
import weakref
from typing import NamedTuple

from ...core.errors import OutOfMemoryError
from ...core.native import Queue, Storage
from ...core.native import queues as native
from ...core.native.memory import load_i64, store_i64
from .events import Mark

ALIGNED = 1 << 21  # bytes of segments are multiples of these
SEGMENTS = (1 << 20, 1 << 22), (1 << 23, 1 << 25)  # blocks of at most so many bytes lie in segments of so many
FAR = 1 << 31  # bytes of a block from which on positions have 64 bits
NEAR = 8  # a kept block is taken for a smaller one of at least so many ninths of it


class Segment:
    """Memory that the driver gave: its blocks by address, of which none is beyond ``used`` bytes."""

    __slots__ = ("address", "size", "used", "blocks", "queue")

    def __init__(self, address: int, size: int, queue: Queue):
        self.address, self.size, self.used, self.blocks, self.queue = address, size, 0, {}, queue


class Block:
    """The owner of a storage whose block is of no class (``kind`` 0), or is used by other streams than its queue's."""

    __slots__ = ("memory", "queue", "address", "kind", "size", "streams")

    def __init__(self, memory: "Memory", queue: Queue, address: int, kind: int, size: int):
        self.memory, self.queue, self.address, self.kind, self.size, self.streams = (memory, queue, address, kind, size,
                                                                                     set())

    def __del__(self):
        self.memory.fallen.append(Freed(self.queue, self.address, self.kind, self.size, tuple(self.streams), []))
        self.memory.settle()


class Held:
    """Keeps the memory of a recording's results; ``streams``: where the recording reads which others use them."""

    __slots__ = ("storages", "streams", "__weakref__")

    def __init__(self, storages: list, streams: set):
        self.storages, self.streams = storages, streams


class Freed(NamedTuple):
    """A block that nobody has: other streams that have used it, and once they are known, events in their work."""

    queue: Queue
    address: int
    kind: int
    size: int
    streams: tuple
    events: list


class Memory:
    """The memory of a board."""

    def __init__(self, board, total: int):
        self.board, self.total = board, total
        self.words = (ctypes.c_int64 * native.COUNTERS)()
        self.counts = ctypes.addressof(self.words)
        self.segments: dict = {}  # by address
        self.open: dict = {}  # by (queue, bytes of a segment): the one that new blocks are cut from
        self.large: dict = collections.defaultdict(list)  # by queue: (bytes, address) of kept blocks, sorted
        self.fallen = collections.deque()  # what is Freed, and not in any list yet
        self.changing = 0  # blocks of its lock in which lists change
        self.lent: list = []  # what is Freed, and may be in use by other streams
        self.retries = self.refused = 0
        self.fraction = 1.0
        self.pools = weakref.WeakSet()  # of graphs

    def count(self, word: int) -> int:
        return self.words[word]

    def add(self, word: int, by: int):
        self.words[word] += by

    @contextlib.contextmanager
    def changes(self):
        """A block in which no other thread, and nothing that is let go of meanwhile, changes the lists."""
        with self.board.lock:
            self.changing += 1
            try:
                yield
            finally:
                self.changing -= 1
        if self.fallen:
            self.settle()

    def settle(self):
        """Takes back what was let go of; where lists are being changed, that is done after."""
        if self.board.lock.acquire(blocking=False):  # whoever lets go may hold any lock
            try:
                if not self.changing:
                    self.returned()
            finally:
                self.board.lock.release()

    # --- blocks -----------------------------------------------------------------------------------------------
    def storage(self, queue: Queue, nbytes: int) -> Storage:
        """A storage for which the queue had no free block."""
        with self.changes():
            return self.found(queue, nbytes)

    def found(self, queue: Queue, nbytes: int) -> Storage:
        self.returned()
        made = Storage()
        made.nbytes = nbytes
        if nbytes <= native.MOST:
            index = native.class_of(nbytes)
            made.address = native.take_block(queue, index) or self.cut(queue, index)
            made.kind, made.owner = native.KIND + index, queue
        else:
            size = nbytes + ALIGNED - 1 & -ALIGNED
            address, size = self.kept(queue, size) or (self.segment(queue, size, size), size)
            native.count_in(self.counts, size)
            self.add(native.FAR, size >= FAR)
            made.address, made.owner = address, Block(self, queue, address, 0, size)
        return made

    def kept(self, queue: Queue, size: int):
        """(address, bytes) of a kept block that is hardly larger; None where there is none."""
        rows = self.large[queue]
        at = bisect.bisect_left(rows, (size, 0))
        if at < len(rows) and rows[at][0] * NEAR <= size * (NEAR + 1):
            found, address = rows.pop(at)
            return address, found
        return None

    def give(self, queue: Queue, address: int, size: int):
        """Takes a large block back."""
        native.count_out(self.counts, size)
        self.add(native.FAR, -(size >= FAR))
        bisect.insort(self.large[queue], (size, address))

    def cut(self, queue: Queue, index: int) -> int:
        """The address of a new block of a class."""
        size = native.size_of(index)
        whole = next((whole for most, whole in SEGMENTS if size <= most), None)
        if whole is None:
            address = self.segment(queue, size + ALIGNED - 1 & -ALIGNED, size)
        else:
            found = self.open.get((queue, whole))
            if found is None or found.size - found.used < size:
                found = self.open[queue, whole] = self.segments[self.segment(queue, whole, 0)]
            address = found.address + found.used
            found.used += size
            found.blocks[address] = size
        native.count_in(self.counts, size)
        return address

    def segment(self, queue: Queue, size: int, used: int) -> int:
        """The address of memory that is asked of the driver: ``used`` of its bytes are one block."""
        limit = int(self.fraction * self.total)
        try:
            if self.count(native.RESERVED) + size > limit:
                raise OutOfMemoryError("the part of memory that the process may have is used up")
            address = self.board.enter(size)
        except OutOfMemoryError:  # there may be enough among the blocks that are kept
            if self.board.recordings:  # nothing may be waited for
                self.refuse(size)
            self.retries += 1
            self.board.wait()
            self.trim()
            if self.count(native.RESERVED) + size > limit:
                self.refuse(size)
            try:
                address = self.board.enter(size)
            except OutOfMemoryError:
                self.refuse(size)
        made = self.segments[address] = Segment(address, size, queue)
        if used:
            made.used, made.blocks[address] = used, used
        for word, by in ((native.RESERVED, size), (native.SEGMENTS, 1), (native.SEGMENTS_MADE, 1),
                         (native.BYTES_RESERVED, size)):
            self.add(word, by)
        self.words[native.MOST_RESERVED] = max(self.count(native.MOST_RESERVED), self.count(native.RESERVED))
        return address

    def refuse(self, size: int):
        """Raises what says what holds the memory."""
        from .report import holders
        self.refused += 1
        allocated, reserved = self.count(native.ALLOCATED), self.count(native.RESERVED)
        limit = "" if self.fraction == 1 else f", of which this process may have {int(self.fraction * self.total)}"
        raise OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size} bytes. The device has {self.total} bytes{limit}; tensors "
            f"hold {allocated}, and {reserved - allocated} are kept for later. {holders(self)}",
            "at most what the device has left", "let go of tensors that are no longer needed, or take smaller batches")

    # --- blocks that other queues use ------------------------------------------------------------------------
    def use(self, storage: Storage, stream: int):
        """Notes that a stream uses a storage."""
        owner = storage.owner
        if isinstance(owner, Queue) and storage.kind:
            if owner.stream == stream:
                return
            size = native.size_of(storage.kind - native.KIND)
            storage.owner = owner = Block(self, owner, storage.address, storage.kind, size)
            storage.kind = 0
        if isinstance(owner, Block) and owner.queue.stream != stream:
            owner.streams.add(stream)
        if isinstance(owner, Held):
            owner.streams.add(stream)
            for one in owner.storages:  # should the recording go
                self.use(one, stream)

    def returned(self):
        """Takes back what nobody has and other streams are done with."""
        while self.fallen:
            one = self.fallen.popleft()
            if one.streams:
                self.lent.append(one)
            else:
                self.back(one)
        if self.board.recordings or not self.lent:  # nothing may be asked of a stream that is recorded
            return
        waiting, self.lent = self.lent, []
        for one in waiting:
            if not one.events:
                one.events.extend(Mark(self.board, stream) for stream in one.streams)
            if all(event.passed() for event in one.events):
                self.back(one)
            else:
                self.lent.append(one)

    def back(self, one: Freed):
        """Takes a block back."""
        if one.kind:
            native.give_block(one.queue, one.kind - native.KIND, one.address)
        else:
            self.give(one.queue, one.address, one.size)

    # --- what is free ----------------------------------------------------------------------------------------
    def free_blocks(self, queue: Queue) -> list:
        """(address, bytes) of the free blocks of a queue."""
        found = [(address, size) for size, address in self.large[queue]]
        for index in range(1, native.CLASSES):
            place = queue.bins + index * native.BIN * 8
            listed = load_i64(place, 0)
            found += [(load_i64(listed, k), load_i64(place, 3)) for k in range(load_i64(place, 1))]
        return found

    def trim(self, pool=None):
        """Gives segments without a block in use back to the driver: those of some queues, or all but those that graphs
        write to."""
        with self.changes():
            self.trimmed(pool)

    def trimmed(self, pool):
        self.returned()
        queues = self.queues() - {q for held in self.pools for q in held.queues.values()} if pool is None else pool
        addresses = sorted(self.segments)
        free = collections.Counter()
        for queue in queues:
            for address, size in self.free_blocks(queue):
                free[addresses[bisect.bisect_right(addresses, address) - 1]] += size
        gone = [self.segments[address] for address, nbytes in free.items()
                if nbytes == sum(self.segments[address].blocks.values())]
        gone += [one for one in self.segments.values() if not one.blocks and one.queue in queues]
        for queue in {one.queue for one in gone}:
            self.unlist(queue, {address for one in gone if one.queue is queue for address in one.blocks})
        for one in gone:
            del self.segments[one.address]
            self.open = {key: held for key, held in self.open.items() if held is not one}
            self.board.leave(one.address)
            self.add(native.RESERVED, -one.size)
            self.add(native.SEGMENTS, -1)

    def queues(self) -> set:
        return {one.queue for one in self.segments.values()}

    def unlist(self, queue: Queue, addresses: set):
        """Forgets free blocks."""
        self.large[queue] = [row for row in self.large[queue] if row[1] not in addresses]
        for index in range(1, native.CLASSES):
            place, kept = queue.bins + index * native.BIN * 8, 0
            listed = load_i64(place, 0)
            for k in range(load_i64(place, 1)):
                address = load_i64(listed, k)
                if address not in addresses:
                    store_i64(listed, kept, address)
                    kept += 1
            store_i64(place, 1, kept)

    # --- figures --------------------------------------------------------------------------------------------
    def statistics(self) -> dict:
        """Bytes by name."""
        return {"allocated": self.count(native.ALLOCATED), "most_allocated": self.count(native.MOST_ALLOCATED),
                "reserved": self.count(native.RESERVED), "most_reserved": self.count(native.MOST_RESERVED)}

    def reset_sums(self):
        """What was allocated and freed is counted from here on."""
        live, held = self.count(native.TAKEN) - self.count(native.GIVEN), self.count(native.SEGMENTS)
        for word, value in ((native.TAKEN, live), (native.GIVEN, 0), (native.BYTES_TAKEN, self.count(native.ALLOCATED)),
                            (native.BYTES_GIVEN, 0), (native.SEGMENTS_MADE, held),
                            (native.BYTES_RESERVED, self.count(native.RESERVED))):
            self.words[word] = value
        self.retries = self.refused = 0

    def reset_statistics(self):
        self.words[native.MOST_ALLOCATED] = self.count(native.ALLOCATED)
        self.words[native.MOST_RESERVED] = self.count(native.RESERVED)
        self.words[native.MOST_BLOCKS] = self.count(native.TAKEN) - self.count(native.GIVEN)
