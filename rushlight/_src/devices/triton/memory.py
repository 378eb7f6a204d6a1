"""Caching allocator of one GPU: driver segments, the per-queue blocks in them, and counters for both."""

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
from .choices import choices
from .events import Mark
from .segments import Driven, Segment, expandable, listed

ALIGNED = 1 << 21  # bytes of segments are multiples of these
SEGMENTS = (1 << 20, 1 << 22), (1 << 23, 1 << 25)  # (largest block, size of the segments that hold it), in bytes
FAR = 1 << 31  # bytes of a block from which on positions have 64 bits


class Block:
    """The owner of a storage whose block is of no class (``kind`` 0), or is used by other streams than its queue's."""

    __slots__ = ("memory", "queue", "address", "kind", "size", "streams")

    def __init__(self, memory: "Memory", queue: Queue, address: int, kind: int, size: int):
        self.memory, self.queue, self.address, self.kind, self.size, self.streams = (memory, queue, address, kind, size,
                                                                                     set())

    def __del__(self):
        if self.memory.history is not None:
            self.memory.history.note("free_requested", self.address, self.size, self.queue.stream)
        self.memory.fallen.append(Freed(self.queue, self.address, self.kind, self.size, tuple(self.streams), []))
        self.memory.settle()


class Held:
    """Keep the memory of a graph's results alive; ``streams``: where the graph finds which other streams use it."""

    __slots__ = ("storages", "streams", "__weakref__")

    def __init__(self, storages: list, streams: set):
        self.storages, self.streams = storages, streams


class Freed(NamedTuple):
    """A free block: other streams that have used it, and once those are known, events in their work."""

    queue: Queue
    address: int
    kind: int
    size: int
    streams: tuple
    events: list


def classed(queue: Queue):
    """Write the classes of blocks that a queue uses to its bins, according to ``choices``."""
    for index, instead in enumerate(choices.classes()):
        store_i64(queue.bins, index * native.BIN + 4, instead)


class Memory:
    """The memory of one device."""

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
        self.retries = self.refused = self.most_segments = 0
        self.fraction = choices.process_fraction
        self.pools = weakref.WeakSet()  # of graphs
        self.orphans: set = set()  # queues of destroyed pools that still hold live tensors
        self.driven, self.ranges, self.foreign = Driven(self), None, None  # sources of segments, or of each block
        self.tried = False  # whether virtual memory of the driver was tried
        self.history, self.observers = None, []

    # --- what is kept of it ---------------------------------------------------------------------------------
    @property
    def noted(self) -> int:
        """True if Python handles every allocation and release (history, or an allocator of the program)."""
        return int(self.history is not None or self.foreign is not None)

    def watch(self, history, clear=False):
        """Record a history, starting with the events of the previous one unless ``clear``; None ends recording."""
        with self.changes():
            if self.history is not None:
                self.history.given(self)
                if history is not None and not clear:
                    history.go_on(self.history)
            self.history = history
            self.asked_anew()

    def come_from(self, functions):
        """Allocate each block by ``functions``, which also free it; None: from segments."""
        with self.changes():
            self.foreign = functions
            self.asked_anew()

    def asked_anew(self):
        """Set in all queues whether Python handles every allocation."""
        for queue in self.board.all_queues():
            queue.noted = self.noted
            while not queue.noted and listed(queue, 0):
                native.unlist_block(queue, 0, listed(queue, 0)[-1])

    def chosen(self, fraction):
        """Other settings hold from here on; ``fraction``: of the memory that the process may have; None: as before."""
        with self.changes():
            self.fraction = self.fraction if fraction is None else fraction
            for queue in self.board.all_queues():
                classed(queue)

    # --- what gives segments ------------------------------------------------------------------------------------
    def source(self, queue: Queue):
        """Return the source of a queue's next segments."""
        own = next((pool.source for pool in self.pools if pool.source is not None and queue in pool.queues.values()),
                   None)
        if own is not None:
            return own
        if choices.expandable_segments and not self.tried:
            self.ranges, self.tried = expandable(self), True
        return self.ranges if choices.expandable_segments and self.ranges is not None else self.driven

    @property
    def limit(self) -> int:
        """The bytes that the process may have."""
        return int(self.fraction * self.total)

    def allowed(self, size: int):
        """Raise OutOfMemoryError if ``size`` more bytes exceed the limit of the process."""
        if size and self.count(native.RESERVED) + size > self.limit:
            raise OutOfMemoryError("the part of memory that the process may have is used up")

    def entered(self, action: str, address: int, size: int, queue: Queue, segment: bool):
        """Counts memory that the driver gave; ``segment``: whether it is one more."""
        for word, by in ((native.RESERVED, size), (native.SEGMENTS, segment), (native.SEGMENTS_MADE, segment),
                         (native.BYTES_RESERVED, size)):
            self.add(word, by)
        self.words[native.MOST_RESERVED] = max(self.count(native.MOST_RESERVED), self.count(native.RESERVED))
        self.most_segments = max(self.most_segments, self.count(native.SEGMENTS))
        self.note(action, address, size, queue)

    def left(self, action: str, address: int, size: int, queue: Queue, segment: bool):
        """Counts memory that went back to the driver."""
        self.add(native.RESERVED, -size)
        self.add(native.SEGMENTS, -segment)
        self.note(action, address, size, queue)

    def note(self, action: str, address: int, size: int, queue: Queue, requested=None):
        if self.history is not None:
            self.history.note(action, address, size, queue.stream, requested)

    def count(self, word: int) -> int:
        return self.words[word]

    def add(self, word: int, by: int):
        self.words[word] += by

    @contextlib.contextmanager
    def changes(self):
        """Context manager in which neither other threads nor concurrent releases change the lists."""
        with self.board.lock:
            self.changing += 1
            try:
                yield
            finally:
                self.changing -= 1
        if self.fallen:
            self.settle()

    def settle(self):
        """Take released blocks back, or leave that to ``changes`` if the lists are being changed."""
        if self.board.lock.acquire(blocking=False):  # the releasing thread may hold any lock
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
        if self.foreign is not None and self.foreign.serves(self.board):
            made.owner = one = self.foreign.block(self, queue, nbytes)
            made.address = one.address
            return made
        queue, kind, address, size = self.block(queue, nbytes)
        made.address = address
        if kind and not queue.noted:
            made.kind, made.owner = kind, queue
        else:
            made.owner = Block(self, queue, address, kind, size)
            self.note("alloc", address, size, queue, nbytes)
        return made

    def block(self, queue: Queue, nbytes: int) -> tuple:
        """(its queue, kind, address, bytes) of a block that is counted as taken.  OutOfMemoryError where there is
        none."""
        found = self.free_block(queue, nbytes)
        try:
            return found or self.fresh_block(queue, nbytes)
        except OutOfMemoryError:
            for pool in self.pools:
                other = pool.queues.get(queue.stream) if pool.on_oom else None
                found = found or (self.free_block(other, nbytes) if other is not None else None)
            return found or self.refuse(queue, nbytes)

    def free_block(self, queue: Queue, nbytes: int):
        """A block that a queue has free; None where there is none."""
        if nbytes <= native.MOST:
            index = native.class_on(queue, nbytes)
            address = native.take_block(queue, index)
            return (queue, native.KIND + index, address, native.size_of(index)) if address else None
        found = self.kept(queue, choices.rounded(nbytes) + ALIGNED - 1 & -ALIGNED)
        if found is None:
            return None
        self.taken(found[1])
        return queue, 0, *found

    def fresh_block(self, queue: Queue, nbytes: int) -> tuple:
        """Return a block of memory that has not been used before."""
        if nbytes <= native.MOST:
            index = native.class_on(queue, nbytes)
            return queue, native.KIND + index, self.cut(queue, index), native.size_of(index)
        size = choices.rounded(nbytes) + ALIGNED - 1 & -ALIGNED
        address = self.segment(queue, size, size)
        self.taken(size)
        return queue, 0, address, size

    def taken(self, size: int):
        """Counts a large block."""
        native.count_in(self.counts, size)
        self.add(native.FAR, size >= FAR)

    def kept(self, queue: Queue, size: int):
        """(address, bytes) of a kept block that is hardly larger; None where there is none."""
        rows = self.large[queue]
        at = bisect.bisect_left(rows, (size, 0))
        if at < len(rows) and rows[at][0] <= choices.largest_for(size):
            found, address = rows.pop(at)
            return address, found
        return None

    def uncounted(self, size: int):
        """Count a large block as freed."""
        native.count_out(self.counts, size)
        self.add(native.FAR, -(size >= FAR))

    def give(self, queue: Queue, address: int, size: int):
        """Takes a large block back."""
        self.uncounted(size)
        bisect.insort(self.large[queue], (size, address))

    def cut(self, queue: Queue, index: int) -> int:
        """The address of a new block of a class."""
        size = native.size_of(index)
        whole = next((whole for most, whole in SEGMENTS if size <= most), None)
        source = self.source(queue)
        if whole is None or not source.divides(whole):
            address = self.segment(queue, size if source is self.ranges else size + ALIGNED - 1 & -ALIGNED, size)
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
        """Return the address of a new segment of ``size`` bytes; ``used`` bytes of it are one block."""
        source = self.source(queue)
        self.collect(size)
        if self.orphans and not self.board.recordings:
            self.orphaned(set())
        for more in (None, self.released, self.emptied):
            # while a stream is recorded nothing may be waited for
            if more is not None and (self.board.recordings or not more(queue, size)):
                continue
            try:
                address = source.enter(queue, size)
                break
            except OutOfMemoryError:  # there may be enough among the blocks that are kept
                continue
        else:
            raise OutOfMemoryError(f"there is no segment of {size} bytes")
        made = self.segments[address] = Segment(address, size, queue, source)
        if used:
            made.used, made.blocks[address] = used, used
        return address

    def emptied(self, queue: Queue, size: int) -> bool:
        """Free all cached segments."""
        self.retries += 1
        self.board.wait()
        self.trim()
        return True

    def released(self, queue: Queue, size: int) -> bool:
        """Free at least ``size`` bytes of cached blocks that are too large to serve smaller requests
        (``max_split_size_mb``); return False if there are not enough."""
        least = max(size, choices.max_split_size)
        rows, wanted, gone = [row for row in self.large[queue] if row[0] >= choices.max_split_size], size, set()
        for nbytes, address in sorted(rows, key=lambda row: (row[0] < least, abs(row[0] - least))):
            if wanted > 0 and address in self.segments:
                gone.add(address)
                wanted -= nbytes
        if wanted > 0 or not gone:
            return False
        self.board.wait()
        self.dropped([self.segments[address] for address in gone])
        self.shrink({queue})
        return True

    def collect(self, size: int):
        """Free the entirely unused segments that have been idle longest if memory in use exceeds the threshold
        (``garbage_collection_threshold``)."""
        most = int(choices.garbage_collection_threshold * self.limit)
        if not most or self.board.recordings or self.count(native.RESERVED) + size <= most:
            return
        free = self.free_segments(self.own_queues())
        known = set(free)
        for one in self.segments.values():
            one.idle = one.idle + 1 if one in known else 0
        wanted, mean = self.count(native.RESERVED) + size - most, sum(one.idle for one in free) / max(len(free), 1)
        gone = []
        for one in sorted(free, key=lambda one: -one.idle):
            if wanted > 0 and one.idle >= mean:
                gone.append(one)
                wanted -= one.size
        if gone:
            self.board.wait()
            self.dropped(gone)
            self.shrink({one.queue for one in gone})

    def refuse(self, queue: Queue, size: int):
        """Raise OutOfMemoryError with a description of the memory's largest users."""
        from .report import holders
        self.refused += 1
        free = self.limit - self.count(native.RESERVED)
        self.note("oom", free, size, queue)
        for observer in self.observers:
            observer(self.board.index, size, self.total, free)
        allocated, reserved = self.count(native.ALLOCATED), self.count(native.RESERVED)
        limit = "" if self.fraction == 1 else f", of which this process may have {self.limit}"
        raise OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size} bytes. The device has {self.total} bytes{limit}; tensors "
            f"hold {allocated}, and {reserved - allocated} are kept for later. {holders(self)}",
            "at most what the device has left", "delete tensors that are no longer needed, or reduce the batch size")

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
        """Take back free blocks that other streams have finished using."""
        if self.history is not None:
            self.history.given(self)
        while self.fallen:
            one = self.fallen.popleft()
            if one.streams:
                self.lent.append(one)
            else:
                self.back(one)
        if self.board.recordings or not self.lent:  # a stream under capture must not be queried
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
        self.note("free_completed", one.address, one.size, one.queue)
        if one.kind:
            native.count_out(self.counts, one.size)
            native.list_block(one.queue, one.kind - native.KIND, one.address)
        else:
            self.give(one.queue, one.address, one.size)

    # --- what is free ----------------------------------------------------------------------------------------
    def free_blocks(self, queue: Queue) -> list:
        """(address, bytes) of the free blocks of a queue."""
        found = [(address, size) for size, address in self.large[queue]]
        for index in range(1, native.CLASSES):
            size = load_i64(queue.bins + index * native.BIN * 8, 3)
            found += [(address, size) for address in listed(queue, index)]
        return found

    def trim(self, pool=None):
        """Gives segments without a block in use back to the driver: those of some queues, or all but those that graphs
        write to."""
        with self.changes():
            self.returned()
            queues = self.own_queues() if pool is None else pool
            self.dropped(self.free_segments(queues))
            self.shrink(queues)

    def orphaned(self, queues: set):
        """Free the unused segments of destroyed pools; segments with live tensors are freed on a later call, once
        these are gone."""
        self.trim(self.orphans | queues)
        self.orphans = (self.orphans | queues) & self.queues()

    def own_queues(self) -> set:
        """The queues that no graph, and no pool, has."""
        return self.queues() - {q for held in self.pools for q in held.queues.values()}

    def free_segments(self, queues: set) -> list:
        """Return the segments of queues that are currently unused."""
        free = collections.Counter()
        addresses = sorted(self.segments)
        for queue in queues:
            for address, size in self.free_blocks(queue):
                free[addresses[bisect.bisect_right(addresses, address) - 1]] += size
        found = [self.segments[address] for address, nbytes in free.items()
                 if nbytes == sum(self.segments[address].blocks.values())]
        return found + [one for one in self.segments.values() if not one.blocks and one.queue in queues]

    def dropped(self, free: list):
        """Return free segments to their sources, except those with a block that another thread has taken meanwhile."""
        for one in free:
            if not self.unlisted(one):
                continue
            del self.segments[one.address]
            self.open = {key: held for key, held in self.open.items() if held is not one}
            one.source.leave(one)

    def unlisted(self, one: Segment) -> bool:
        """Takes the blocks of a segment off the lists of free ones; False, and they stay, where one is in use."""
        rows, done = self.large[one.queue], []
        for address, size in one.blocks.items():
            index = native.class_of(size) if size <= native.MOST else 0
            if index and native.unlist_block(one.queue, index, address):
                done.append((index, address))
            elif not index and (size, address) in rows:
                rows.remove((size, address))
            else:
                for kind, known in done:
                    native.list_block(one.queue, kind, known)
                return False
        return True

    def shrink(self, queues: set):
        """Takes memory from behind addresses of queues that nothing uses; not while a stream is recorded, since all
        work has to be done."""
        if self.ranges is not None and not self.board.recordings:
            self.ranges.shrink(queues)

    def swept(self, queue: Queue, least: int) -> bool:
        """Free the segments of a queue in expandable ranges if they have at least ``least`` bytes together.  Return
        whether they were freed."""
        free = [one for one in self.free_segments({queue}) if one.source is self.ranges]
        if sum(one.size for one in free) < least:
            return False
        self.dropped(free)
        return True

    def size_at(self, address: int) -> int:
        """The bytes of a block."""
        addresses = sorted(self.segments)
        at = bisect.bisect_right(addresses, address) - 1
        return self.segments[addresses[at]].blocks.get(address, 0) if at >= 0 else 0

    def queues(self) -> set:
        return {one.queue for one in self.segments.values()}

    # --- statistics -----------------------------------------------------------------------------------------
    def statistics(self) -> dict:
        """Bytes by name."""
        return {"allocated": self.count(native.ALLOCATED), "most_allocated": self.count(native.MOST_ALLOCATED),
                "reserved": self.count(native.RESERVED), "most_reserved": self.count(native.MOST_RESERVED)}

    def reset_sums(self):
        """Reset the counters of allocations and frees."""
        live, held = self.count(native.TAKEN) - self.count(native.GIVEN), self.count(native.SEGMENTS)
        for word, value in ((native.TAKEN, live), (native.GIVEN, 0), (native.BYTES_TAKEN, self.count(native.ALLOCATED)),
                            (native.BYTES_GIVEN, 0), (native.SEGMENTS_MADE, held),
                            (native.BYTES_RESERVED, self.count(native.RESERVED))):
            self.words[word] = value
        self.retries = self.refused = 0

    def reset_statistics(self):
        self.words[native.MOST_ALLOCATED] = self.count(native.ALLOCATED)
        self.words[native.MOST_RESERVED] = self.count(native.RESERVED)
        self.most_segments = self.count(native.SEGMENTS)
        self.words[native.MOST_BLOCKS] = self.count(native.TAKEN) - self.count(native.GIVEN)
