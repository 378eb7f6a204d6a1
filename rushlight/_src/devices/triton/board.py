"""One GPU: its memory, machine code, streams, and programs as sequences of launches."""

from __future__ import annotations

import ctypes
import threading
import weakref

import numpy as np

from ...core import dtypes
from ...core.advice import warn
from ...core.devices import device
from ...core.forking import guarded
from ...core.native import Queue, mine, state
from ...core.native import queues as native
from ...core.platform import here
from ...core.random import stream_of
from ...core.settings import settings
from ..shared.code import taken_apart
from . import runner
from .binaries import Packaged, Variant, binary
from .memory import Memory, classed
from .programs import DecodedProgram
from .step import modules
from .vendor.libraries import Libraries

FLAGS = 1 << 12  # programs that may report errors
RELAXED = 2  # the capture mode that allows the thread to allocate memory


class Board:
    """A device of a Driver.  ``kind``: the type of device that it is known as; ``libraries``: the vendor's."""

    def __init__(self, driver, index: int, kind="cuda", libraries=None):
        self.driver, self.index, self.where = driver, index, device(kind, index)
        self.libraries = libraries or Libraries(driver.vendor.kind)
        self.programs, self.kernels, self.tables, self.queues = {}, {}, {}, {}
        self.raw: dict = {}  # by address: storages that were given out as addresses
        self.own_thread, self.lock = threading.local(), guarded("devices", threading.RLock())
        self.architecture, self.runner = driver.architecture(index), runner.caller()
        self.memory = Memory(self, driver.total(index))
        driver.use(index)
        # kernels write errors to host memory, so that checking them needs no synchronization
        self.flags, self.flagged = driver.made("pin", 8 * FLAGS, 0), []
        ctypes.memset(self.flags, 0, 8 * FLAGS)
        self.blocking = settings.launch_blocking
        # streams that are being recorded; the one that programs are recorded on
        self.recordings, self.recorder = 0, None
        self.reported: list = []  # errors of libraries that work on the device, such as communication
        here.after_fork(forget)

    # --- queues -----------------------------------------------------------------------------------------------
    def queue_of(self, stream: int, pool=None) -> Queue:
        """The queue of a stream; ``pool``: of memory of its own."""
        held = self.queues if pool is None else pool
        with self.lock:
            found = held.get(stream)
            if found is None:
                found = held[stream] = Queue()
                found.place, found.board, found.stream = self.where, self, stream
                found.counts, found.bins, found.noted = self.memory.counts, native.empty_bins(), self.memory.noted
                classed(found)
                found.random = stream_of(self.where).address
                words = (ctypes.c_int64 * 3)(stream, self.driver.address("launch"), self.memory.counts)
                self.tables[stream, id(held)] = words
                found.words, found.runner = ctypes.addressof(words), runner.address()
            return found

    @property
    def queue(self) -> Queue:
        """Return the calling thread's queue, and direct its driver calls to this device."""
        self.driver.use(self.index)
        found = getattr(self.own_thread, "queue", None)
        if found is None:
            found = self.own_thread.queue = self.queue_of(0)
        mine.queue = None if self.recording is not None else found  # launches that are recorded come through Python
        return found

    @property
    def recording(self):
        """Return the capture of the thread's stream; None if it is not captured."""
        return getattr(self.own_thread, "recording", None)

    def pooled(self, pool):
        """Allocate the thread's blocks from the queues of a pool, whatever its stream; None: from its own queues.
        Return the previous pool."""
        before, self.own_thread.pool = getattr(self.own_thread, "pool", None), pool
        self.enter_stream(self.stream)
        return before

    def enter_stream(self, stream: int):
        """The calling thread's work is for this stream."""
        self.enter_queue(self.queue_of(stream, getattr(self.own_thread, "pool", None)))

    @property
    def stream(self) -> int:
        """The calling thread's stream; 0: the first."""
        found = getattr(self.own_thread, "queue", None)
        return 0 if found is None else found.stream

    def enter_queue(self, queue: Queue):
        """The calling thread's work is for this queue."""
        self.own_thread.queue = queue
        if mine.queue is not None and mine.queue.board is self:
            mine.queue = queue

    def all_queues(self) -> list:
        """The queues of all streams, those of pools among them."""
        return [*self.queues.values(), *(queue for pool in self.memory.pools for queue in pool.queues.values())]

    def pool_names(self) -> dict:
        """The names of the pools that queues belong to."""
        return {queue: pool.name for pool in self.memory.pools for queue in pool.queues.values()}

    def generator(self):
        """The random stream that programs of the thread draw from."""
        return stream_of(self.where) if self.recording is None else self.recording.random

    # --- memory -----------------------------------------------------------------------------------------------
    def storage(self, nbytes: int):
        with self.lock:
            return self.memory.storage(self.queue, nbytes)

    def lent(self, nbytes: int, stream=None):
        """A storage of the thread's stream, or of another, that ``raw`` keeps by its address."""
        with self.lock:
            made = self.memory.storage(self.queue if stream is None else self.queue_of(stream), nbytes)
            self.raw[made.address] = made
            return made

    def enter(self, size: int) -> int:
        with self.driver.at(self.index), self.driver.relaxed():
            return self.driver.made("allocate", size)

    def leave(self, address: int):
        with self.driver.at(self.index), self.driver.relaxed():
            self.driver.call("free", address)

    def trim(self):
        self.wait()
        self.memory.trim()

    def statistics(self) -> dict:
        return self.memory.statistics()

    def reset_statistics(self):
        self.memory.reset_statistics()

    # --- order of work ----------------------------------------------------------------------------------------
    def wait(self):
        """Returns when all streams have done what they were given, and raises what went wrong."""
        self.finish()
        self.check()

    def finish(self):
        """Returns when all streams have done what they were given."""
        with self.driver.at(self.index):
            self.driver.call("synchronize")

    def settle(self):
        """Returns when the thread's stream has done what it was given."""
        with self.driver.at(self.index):
            self.driver.call("stream_wait", self.stream)
        self.check()

    def new_flag(self, program) -> int:
        """Return the address of a program's error flag."""
        with self.lock:
            free = next((k for k, held in enumerate(self.flagged) if held() is None), len(self.flagged))
            if free == FLAGS:
                raise RuntimeError(f"more than {FLAGS} programs that may report errors")
            self.flagged[free:free + 1] = [weakref.ref(program)]
            return self.flags + 8 * free

    def check(self):
        """Raise an error that a program, or a library on the device, has reported since the last call."""
        if self.reported:
            raise self.reported.pop(0)
        count = 8 * len(self.flagged)
        if not count or not ctypes.string_at(self.flags, count).strip(b"\0"):
            return
        words = (ctypes.c_int64 * len(self.flagged)).from_address(self.flags)
        found = [(self.flagged[k](), word) for k, word in enumerate(words) if word]
        ctypes.memset(self.flags, 0, count)
        program, word = found[0]
        plan = program.plan() if program is not None and program.plan is not None else None
        if plan is None:
            raise RuntimeError(f"CUDA error: device-side assert triggered (a program reported {word})")
        state.failed(plan, (), word)

    # --- copies -----------------------------------------------------------------------------------------------
    def upload(self, target: int, source: int, nbytes: int, non_blocking=False):
        self.moved("upload", target, source, nbytes, non_blocking)

    def download(self, target: int, source: int, nbytes: int, non_blocking=False):
        self.moved("download", target, source, nbytes, non_blocking)

    def moved(self, entry: str, target: int, source: int, nbytes: int, non_blocking: bool):
        if nbytes:
            if not non_blocking:
                self.about_to_wait()
            self.driver.use(self.index)
            self.driver.call(entry, target, source, nbytes, self.stream)
            if not non_blocking:
                self.settle()

    def about_to_wait(self):
        """Apply ``set_sync_debug_mode`` before the host waits for a copy."""
        if self.driver.waiting == "error":
            raise RuntimeError("called a synchronizing CUDA operation")
        if self.driver.waiting == "warn":
            warn("called a synchronizing CUDA operation")

    def copy(self, target: int, source: int, nbytes: int) -> bool:
        self.moved("copy", target, source, nbytes, True)
        return True

    # --- programs ---------------------------------------------------------------------------------------------
    def kernel(self, number: int, variant: Variant) -> tuple:
        """(the handle of a kernel, its Binary)."""
        found = self.kernels.get((number, variant))
        if found is None:
            module = modules.made[number]
            made = module.binary if isinstance(module, Packaged) else binary(module, variant, self.architecture)
            self.driver.use(self.index)
            with self.driver.relaxed():
                found = self.kernels[number, variant] = self.driver.kernel(made), made
        return found

    def table(self, values: tuple, name: str) -> int:
        """The address of constants."""
        if (values, name) not in self.tables:
            if self.recording is not None:
                raise RuntimeError("a program's constants go to the device when it first runs, which cannot be while a "
                                   "graph is recorded: run it once before")
            held = np.array(values, getattr(dtypes, name).numpy)
            storage = self.storage(held.nbytes)
            self.upload(storage.address, held.ctypes.data, held.nbytes)  # done when it returns: other streams read it
            self.tables[values, name] = storage
        return self.tables[values, name].address

    def failed(self, status: int):
        """Raise the error of a launch from the status of the driver or a library."""
        if status >= runner.LIBRARY:
            raise RuntimeError(self.libraries.failed(self, status - runner.LIBRARY))
        self.driver.failed(self.driver.names["launch"], status)

    def run(self, code: int, values: int):
        """Submit a program to the thread's stream.  Its errors are raised by a later call that waits."""
        self.driver.use(self.index)
        with self.lock:
            program = taken_apart(self.programs, code, lambda words: DecodedProgram(self, words))
        program.run(self, values)
        if self.blocking:
            self.settle()
        return program


def forget():
    """A forked process has no device."""
    mine.queue = None
