"""Attention and convolutions by cuDNN on one device: plans of execution, made once for a problem, and their calls."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from ....compiler.launch import CONSTANT
from ....core.log import logger
from ....core.native.memory import load_i64
from . import attention, convolution, packs
from .calls import record
from .graphs import ALIGNED, Descriptor, DnnError, Handle, P, WHOLE, configurations, plan_of

log = logger("kernels")
FILES = "libcudnn.so.9", "cudnn64_9.dll"
NEEDS = "libnvrtc.so.*", "libcublasLt.so.*"  # what it opens by name
KINDS = {"attention": attention, "convolution": convolution}


class Asked(NamedTuple):
    """A problem for the library.

    ``kind``: of KINDS, whose ``problem_of`` reads ``fields``; ``direction``: "forward" or a gradient; ``rank``: which
    of the engines that the library proposes; ``room``: bytes of workspace; ``version``: of the library.  ``others``:
    (fields of a Module, units, slots) of launches that compute the same for addresses that are less aligned; their
    slots follow those of the call."""

    kind: str
    fields: tuple
    direction: str
    rank: int = 0
    room: int = 0
    version: int = 0
    others: tuple = ()
    name, flag = "call of a library", False  # as a Module has; it reports no errors of its own

    @property
    def problem(self):
        return KINDS[self.kind].problem_of(self.fields)

    def names(self) -> tuple:
        """Return the names of a run's operands, in the order of a launch's slots."""
        return KINDS[self.kind].names(self.problem, self.direction)


class Built(NamedTuple):
    """A plan of execution: the numbers of tensors by name, the words for machine code, and bytes of workspace."""

    plan: Descriptor
    numbers: dict
    pack: packs.Pack
    workspace: int


class Dnn:
    """The library on one device.  What it makes lives as long as the process."""

    def __init__(self, library, board):
        self.library, self.board, self.found, self.made = library, board, {}, {}
        library.cudnnGetVersion.restype = ctypes.c_size_t
        self.version = library.cudnnGetVersion()
        self.current = ctypes.c_int64(-1)  # the handle's stream
        handle = P()
        board.driver.use(board.index)
        with board.driver.relaxed():
            status = library.cudnnCreate(ctypes.byref(handle))
        self.handle = Handle(library, handle.value)
        if status:
            raise DnnError(f"cudnnCreate: {self.handle.words(status)}")

    def proposed(self, one: Asked) -> list:
        """The configurations that the library's heuristics propose, the likely fastest first; [] where there are
        none."""
        key = one.kind, one.fields, one.direction
        if key not in self.found:
            kind, problem = KINDS[one.kind], one.problem
            with self.board.lock, self.board.driver.relaxed():
                self.board.driver.use(self.board.index)
                try:
                    graph = kind.graph(self.handle, problem, one.direction)
                    listed = configurations(graph.done())
                    self.found[key] = graph, [found for found in listed if kind.suits(problem, found)]
                except DnnError as reason:
                    log.debug("cuDNN does not do %s %s: %s", one.kind, one.fields, reason)
                    self.found[key] = None, []
        return self.found[key][1]

    def built(self, one: Asked) -> Built:
        """Return the execution plan of a problem for the engine of its rank.  DnnError if that engine fails."""
        proposed, key = self.proposed(one), (one.kind, one.fields, one.direction, one.rank)
        if key not in self.made:
            if one.rank >= len(proposed):
                raise DnnError(f"cuDNN proposes {len(proposed)} engines")
            with self.board.lock, self.board.driver.relaxed():
                self.board.driver.use(self.board.index)
                plan, graph = plan_of(proposed[one.rank]), self.found[key[:-1]][0]
            numbers = [graph.numbers[name] for name in one.names() if name != "workspace"]
            pack = packs.Pack(self.library, self.handle.handle, self.current, plan.place,
                              [*numbers, *graph.constants], graph.constants)
            self.made[key] = Built(plan, graph.numbers, pack, plan.get(402, WHOLE))
        return self.made[key]

    def fastest(self, one: Asked, most: int, all_of_them: bool) -> list:
        """Return ``one`` with the ranks and workspace sizes of the working engines among the first ``most``; only the
        first of them unless ``all_of_them``: some take seconds to build."""
        found = []
        for rank in range(min(most, len(self.proposed(one)))):
            ranked = one._replace(rank=rank)
            try:
                found.append(ranked._replace(room=max(256, self.built(ranked).workspace)))
            except DnnError as reason:
                log.debug("cuDNN %d: %s", rank, reason)
                continue
            if not all_of_them:
                break
        return found


class DnnCall:
    """A plan of the library as a launch of a program.  ``otherwise(module, launch)`` decodes a launch of those that do
    the same for addresses that the library does not take."""

    def __init__(self, dnn: Dnn, launch, one: Asked, otherwise):
        self.dnn, self.one, self.names, self.otherwise = dnn, one, one.names(), otherwise
        self.launch, self.slots, self.replaced = launch, launch.slots[:len(self.names)], None

    def records(self, board, given: int, wide: bool) -> list:
        """The record of the call, or those of the launches that do the same."""
        tensors = [slot for name, slot in zip(self.names, self.slots) if name != "workspace"]
        found = [number if value == CONSTANT else load_i64(given, value) + number for value, number in tensors]
        if any(address % ALIGNED for address in found):
            return [part for one in self.replacement() for part in one.records(board, given, wide)]
        pack = self.dnn.built(self.one).pack
        places = [*((*slot, ALIGNED - 1) for slot in tensors), *((CONSTANT, at, 0) for at in pack.places()),
                  (*self.slots[self.names.index("workspace")], 0)]
        return [record(packs.address(), [(CONSTANT, pack.address, 0), (CONSTANT, 0, 0), *places], pointed=True,
                       stream=packs.STREAM)]

    def replacement(self) -> list:
        """Launches that do the same; what was written with them suits all addresses from then on."""
        if self.replaced is None:
            log.debug("cuDNN takes addresses that are multiples of %d: using Rushlight's kernels", ALIGNED)
            self.replaced, at = [], len(self.names)
            for module, units, count in self.one.others:
                slots = self.launch.slots[at:at + count]
                self.replaced.append(self.otherwise(self.launch._replace(extent=units, slots=slots), module))
                at += count
        return self.replaced

    def refusal(self) -> str:
        """Why it cannot run; empty: it can."""
        try:
            self.dnn.built(self.one)
        except DnnError as reason:
            return str(reason)
        return ""
