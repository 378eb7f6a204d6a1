"""CUDA graphs: launches that a driver captures and replays.

While a thread's stream is captured, its tensors use the memory of a separate pool, and each launch goes through Python:
launches that draw random numbers are noted, and get the next offsets in the RNG stream at each replay.
"""

from __future__ import annotations

import ctypes
import itertools
import os
from typing import NamedTuple

from ...core.native import mine
from ...core.random import stream_of
from .segments import Driven, Owned

SEED, PLACE, PLACES = 0x5EED_5EED_0D15_EA5E, 0x3A4D_0000_0000_0000, 1 << 32  # placeholders for RNG seed and offsets
NODE_FIELDS = "function", "grid", "threads", "shared", "arguments"
GLOBAL, THREAD, RELAXED = range(3)
MODES = {"global": GLOBAL, "thread_local": THREAD, "relaxed": RELAXED}


class Pool:
    """Memory that graphs share, or of a MemPool: queues by stream.  It is freed with its last reference.
    ``functions``: the program's own allocator of its segments; ``whole``: each block has a segment of its own;
    ``on_oom``: other queues may use its free blocks when memory is short."""

    numbers = itertools.count(1)

    def __init__(self, board, functions=None, whole=False, on_oom=False):
        self.board, self.queues, self.name, self.process = board, {}, (0, next(self.numbers)), os.getpid()
        self.on_oom, self.source = on_oom, None
        if functions is not None:
            self.source = Owned(board.memory, functions, whole)
        elif whole:
            self.source = Driven(board.memory, True)
        with board.lock:
            board.memory.pools.add(self)

    def __del__(self):
        if self.process == os.getpid():
            self.board.memory.orphaned(set(self.queues.values()))


class Parameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [("function", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("threads", ctypes.c_uint * 3),
                ("shared", ctypes.c_uint), ("arguments", ctypes.c_void_p), ("extra", ctypes.c_void_p),
                ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p)]


class Drawing(NamedTuple):
    """A launch of a graph that draws random numbers: its node, its Parameters, its arguments, and their values at
    capture."""

    node: int
    parameters: Parameters
    arguments: ctypes.Array
    given: tuple
    keep: object


class Stream:
    """The RNG stream during capture: placeholders for the seed and offsets."""

    def __init__(self, where):
        self.device, self.drawn = where, 0

    def reserve(self, blocks: int) -> tuple:
        first, self.drawn = self.drawn, self.drawn + blocks
        return SEED, PLACE + first


class Recording:
    """The capture of a thread's stream, from ``begin`` to ``end``, and the resulting graph."""

    def __init__(self, board, pool: Pool):
        self.board, self.pool, self.random, self.drawings = board, pool, Stream(board.where), []
        self.program, self.process, self.graph = 0, os.getpid(), 0

    # --- recording --------------------------------------------------------------------------------------------
    def begin(self, mode="global"):
        """Begin the capture of the thread's stream, which must not be the default stream."""
        board = self.board
        if mode not in MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {mode}")
        if not board.stream:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok "
                               "to replay them on the default stream.)")
        board.driver.use(board.index)
        board.check()
        self.stream = stream = board.stream
        board.driver.call("capture", stream, MODES[mode])
        board.recordings += 1
        board.own_thread.recording = self
        self.outer = board.pooled(self.pool.queues)
        mine.queue = None  # launches come through Python

    def end(self):
        """End the capture and instantiate the graph.  RuntimeError if an operation could not be captured."""
        board, status = self.board, self.ended()
        if status:
            board.driver.failed(board.driver.names["captured"], status)
        self.program = board.driver.made("instantiate", self.graph, 0)

    def abandon(self):
        """End the capture after another error, without a graph."""
        self.ended()
        self.reset()

    def ended(self) -> int:
        """End the capture of the thread's stream and return the driver's status."""
        board = self.board
        board.own_thread.recording = None
        board.recordings -= 1
        board.pooled(self.outer)
        out = ctypes.c_void_p()
        status = board.driver.entries["captured"](self.stream, ctypes.byref(out))
        self.graph = out.value or 0
        return status

    def launched(self, launch):
        """Note the last captured launch if it draws random numbers."""
        arguments, head = launch.arguments()
        given = tuple(arguments)
        if not any(value == SEED or 0 <= value - PLACE < PLACES for value in given):
            return
        driver = self.board.driver
        if driver.vendor.kind != "cuda":
            raise RuntimeError("a graph with random numbers can be recorded on GPUs of NVIDIA only: run it eagerly")
        status, name, count = ctypes.c_int(), ctypes.c_ulonglong(), ctypes.c_size_t()
        graph, nodes = ctypes.c_void_p(), ctypes.POINTER(ctypes.c_void_p)()
        driver.call("capture_state", self.board.stream, *map(ctypes.byref, (status, name, graph, nodes, count)))
        if count.value != 1:
            raise RuntimeError(f"the driver does not tell which launch it has recorded: {count.value} could be it")
        function, programs, threads, shared = head
        held = (ctypes.c_int64 * len(given))(*given)
        places = (ctypes.c_int64 * len(given))(*(ctypes.addressof(held) + 8 * k for k in range(len(given))))
        parameters = Parameters(function, (programs, 1, 1), (threads, 1, 1), shared, ctypes.addressof(places))
        self.drawings.append(Drawing(nodes[0], parameters, held, given, places))

    # --- what was recorded ------------------------------------------------------------------------------------
    def replay(self) -> tuple:
        """Launch the graph on the thread's stream.  Return (seed, offset) of the RNG stream at its start."""
        board = self.board
        if not self.program:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        seed, first = stream_of(board.where).reserve(self.random.drawn) if self.random.drawn else (0, 0)
        board.driver.use(board.index)
        for one in self.drawings:
            one.arguments[:] = [seed if value == SEED else first + value - PLACE if 0 <= value - PLACE < PLACES
                                else value
                                for value in one.given]
            board.driver.call("node_set", self.program, one.node, ctypes.byref(one.parameters))
        board.driver.call("replay", self.program, board.stream)
        return seed, first

    def reset(self):
        """Release the graph and its memory."""
        if self.process == os.getpid():
            for entry, handle in (("replay_free", self.program), ("graph_free", self.graph)):
                if handle:
                    with self.board.driver.at(self.board.index):
                        self.board.driver.entries[entry](handle)
        self.program = self.graph = 0
        self.drawings, self.pool = [], None

    def __del__(self):
        self.reset()
