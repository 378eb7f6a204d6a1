"""Steps of a program without a device kernel: the host computes them, between two copies."""

from __future__ import annotations

import collections
import ctypes
import functools
import itertools
import weakref

import numpy as np

from ...compiler.reference import callback
from ...core.kinds import Exchanged
from ...core.log import logger
from ...graph.graph import Graph

log = logger("kernels")


def span(meta) -> tuple:
    """Return (the first byte, the end) of strided memory, relative to its address."""
    if not meta.numel:
        return 0, 0
    steps = [(n - 1) * s for n, s in zip(meta.shape, meta.strides)]
    return (
        sum(s for s in steps if s < 0) * meta.itemsize,
        (sum(s for s in steps if s > 0) + 1) * meta.itemsize,
    )


def in_place(graph: Graph, inputs, outputs):
    """Return the function that runs a step in the device's own memory (``kinds.Exchanged``); None without one."""
    if len(graph.nodes) != 1 or not isinstance(graph.nodes[0].op.kind, Exchanged):
        return None
    node, metas = graph.nodes[0], (*inputs, *outputs)
    plain = len(inputs) == len(outputs) == 1 and node.args[0] is graph.inputs[0]
    if not plain or any(not meta.contiguous or meta.turned for meta in metas):
        return None
    return functools.partial(node.op.kind.there, **node.params)


class HostStep:
    """A part of a program, run by the NumPy reference implementation, or a collective, run by its transport.

    ``inputs`` and ``outputs`` are the Metas of the memory of each.  Its number, which a launch names as its kernel, is
    below 0; those of shaders are above.
    """

    known: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # by number: those that live
    numbers = itertools.count(1)
    runs: collections.Counter = collections.Counter()  # by the name of a primitive: how often the host computed it

    def __init__(self, graph: Graph, inputs, outputs):
        self.number = -next(self.numbers)
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.weak = [node.weak for node in graph.inputs]
        self.reads = any(meta.numel for meta in self.inputs)  # else what it makes is always the same
        self.names = list(dict.fromkeys(node.op.name for node in graph.nodes))
        self.kernel, self.there = callback(graph, self.inputs, self.outputs), in_place(graph, self.inputs, self.outputs)
        self.known[self.number] = self
        log.debug("on the host: %s", ", ".join(self.names))

    def run(self, board, words):
        """Computes on copies; ``words``: the addresses on the device, or numbers, then the host's address of the error
        flag."""
        if self.there is not None and self.there(
                board.where, *zip(words, (*self.inputs, *self.outputs))):
            return
        if self.reads:
            self.runs.update(self.names)
        block, held = (ctypes.c_int64 * len(words))(*words), []
        count = len(self.inputs)
        for k, (meta, weak) in enumerate(zip(self.inputs, self.weak)):
            if not weak:
                block[k] = self.brought(board, words[k], meta, held)
        rooms = self.rooms(board, words[count:])
        for k, meta in enumerate(self.outputs, count):
            begin = words[k] + span(meta)[0]
            first, _, room = next(one for one in reversed(rooms) if one[0] <= begin)
            block[k] = room.ctypes.data + words[k] - first
        self.kernel(ctypes.addressof(block), 0, 1, 0)
        for first, end, room in rooms:
            board.upload(first, room.ctypes.data, end - first)

    def rooms(self, board, addresses) -> list:
        """(the first byte, the end, the host's copy) of the memory that results go into, by address.

        What lies between the elements of a result stays as it is, unless it is another one's: such have one copy.
        """
        found = []
        for first, end in sorted(tuple(address + side for side in span(meta))
                                 for address, meta in zip(addresses, self.outputs)):
            if found and first < found[-1][1]:
                found[-1][1] = max(found[-1][1], end)
            else:
                found.append([first, end])
        rooms = [(first, end, np.empty(max(end - first, 1), np.uint8)) for first, end in found]
        for first, end, room in rooms:
            board.download(room.ctypes.data, first, end - first)
        return rooms

    def brought(self, board, address, meta, held) -> int:
        """The host's address of a copy of what strided memory takes."""
        low, high = span(meta)
        room = np.empty(max(high - low, 1), np.uint8)
        held.append(room)
        board.download(room.ctypes.data, address + low, high - low)
        return room.ctypes.data - low
