"""Choices of templates that are measured on the device, under ``max_autotune``, and remembered on disk.

Choices come in the order of the model of cost.  Those whose machine code a GPU cannot hold, or that keeps values in
memory for want of registers, are left out before anything runs.
"""

from __future__ import annotations

import ctypes
import json
import struct
from typing import Callable, NamedTuple

from ...compiler.launch import encode
from ...core import cache
from ...core.devices import device
from ...core.errors import AcceleratorError, OutOfMemoryError
from ...core.log import logger
from ...core.settings import settings
from .binaries import Unfit
from .programs import decoded
from .rates import shared_of
from .vendor.dnn import DnnCall

log = logger("autotune")
MOST = 8  # choices that are measured
WORST = 4.0  # times the best estimate beyond which nothing is measured
REPEATS = 3  # measurements; the least counts
SECONDS = 0.02  # that a measurement takes, about
TOO_LARGE = 701  # the driver's status for a launch that needs more than a multiprocessor has
MOST_SPILLED = 64  # registers of a thread that may be kept in memory
REGISTERS_OF_CUBIN = b"\x04\x2f\x08\x00"  # before the number of a function, and its registers
FRAME_OF_CUBIN = b"\x04\x11\x08\x00"  # before the number of a function, and the bytes that it keeps in memory
REGISTERS_OF_HSACO = b"\xab.vgpr_count"
SPILLED_OF_HSACO = b"\xb1.vgpr_spill_count"


class Choice(NamedTuple):
    """A candidate: its name, the seconds that the cost model estimates, and a function that makes the plan;
    ``library``: whether it calls a vendor's library."""

    name: str
    estimate: float
    plan: Callable
    library: bool = False


def registers(code: bytes) -> tuple:
    """(registers of a thread, those kept in memory) of machine code; 0 where it does not say."""
    places = [code.find(one) for one in (REGISTERS_OF_CUBIN, FRAME_OF_CUBIN)]
    if code[:4] == b"\x7fELF" and places[0] >= 0:
        used, frame = (struct.unpack_from("<I", code, at + 8)[0] if at >= 0 else 0 for at in places)
        return used, frame // 4
    return packed_after(code, REGISTERS_OF_HSACO), packed_after(code, SPILLED_OF_HSACO)


def packed_after(code: bytes, name: bytes) -> int:
    """Return the integer that follows a name in MessagePack data."""
    at = code.find(name) + len(name)
    if at < len(name):
        return 0
    first = code[at]
    return first if first < 128 else int.from_bytes(code[at + 1:at + 1 + {0xcc: 1, 0xcd: 2, 0xce: 4}[first]], "big")


def unfit(made, architecture: str) -> str:
    """Return why machine code is not measured; empty if it is."""
    if made.shared > shared_of(architecture):
        return f"{made.shared} bytes of shared memory"
    spilled = registers(made.code)[1]
    return f"{spilled} registers are kept in memory" if spilled > MOST_SPILLED else ""


class Bench:
    """Runs plans on one GPU, on memory of their own, and measures them by events.

    ``sizes``: the bytes of each operand by name.
    """

    def __init__(self, provider, index: int, sizes: dict):
        self.board, self.streams, self.sizes = provider.board(index), provider.streams(index), sizes
        self.held = {}

    def address(self, name: str, nbytes: int) -> int:
        """Memory of a name, which plans of the same problem share."""
        if name not in self.held:
            self.held[name] = self.board.storage(max(nbytes, 8))
            self.board.driver.call("fill", self.held[name].address, 0, max(nbytes, 8), self.board.stream)
        return self.held[name].address

    def prepared(self, plan) -> tuple:
        """(the launches of a plan, the words that they find values by)."""
        sizes = {**self.sizes, **{f"temporary {name}": n for name, n in plan.temporaries.items()}}
        names: dict = {}

        def place(name, offset):
            full = f"temporary {name}" if name in plan.temporaries else name
            return names.setdefault(full, len(names)), offset

        launches = [step.launch(place) for step in plan.steps]
        places = [self.address(name, sizes.get(name, 8)) for name in names]
        return launches, (ctypes.c_int64 * max(len(places), 1))(*places)

    def wrong(self, plan) -> str:
        """Why a plan is not measured; empty: it is."""
        launches, values = self.prepared(plan)
        for launch in launches:
            try:
                one = decoded(self.board, launch, 0)
                if isinstance(one, DnnCall):
                    reason = one.refusal()
                    if reason:
                        return reason
                    continue
                one.records(self.board, ctypes.addressof(values), False)
            except Unfit as reason:
                return str(reason)
            except AcceleratorError as reason:
                if reason.error_code != TOO_LARGE:  # any other error would occur for every candidate
                    raise
                return str(reason)
            made = next((made for (number, _), (_, made) in self.board.kernels.items() if number == launch.kernel),
                        None)  # none: the call of a library
            reason = unfit(made, self.board.architecture) if made is not None else ""
            if reason:
                return reason
        return ""

    def seconds(self, plan) -> float:
        """Return the time of one run, the least of several."""
        launches, values = self.prepared(plan)
        words = encode(launches)
        code = (ctypes.c_int64 * len(words))(*words)

        def timed(count: int) -> float:
            first = self.streams.mark(self.streams.current())
            for _ in range(count):
                self.board.run(ctypes.addressof(code), ctypes.addressof(values))
            last = self.streams.mark(self.streams.current())
            self.streams.reach(last)
            return self.streams.elapsed(first, last) / 1e3 / count

        timed(1)  # what is done once
        count = max(1, min(100, int(SECONDS / REPEATS / max(timed(1), 1e-6))))
        return min(timed(count) for _ in range(REPEATS))


def tuned(kind: str, name: str, choices: list, sizes: Callable):
    """The plan of the fastest choice.  ``name``: of the class of problems; ``sizes()``: the bytes of each operand.

    Without ``max_autotune`` that is the one that the model of cost says, or what was measured before.
    """
    choices = sorted(choices, key=lambda choice: choice.estimate)
    provider = device(kind).provider if settings.max_autotune else None
    if provider is None or len(choices) == 1 or not provider.count():
        if any(choice.library for choice in choices):
            log.debug("%s: %s, by the model of cost: %s", name, choices[0].name, ", ".join(
                f"{choice.name} {choice.estimate * 1e6:.1f} us" for choice in choices[:MOST]))
        return choices[0].plan()
    index = provider.current()
    board = provider.board(index)
    key = f"{board.architecture} {provider.properties(index).name} {name}"
    stored = cache.get("autotune", key)
    if stored is not None:
        wanted = json.loads(stored)
        found = next((choice for choice in choices if choice.name == wanted), choices[0])
        log.debug("%s: %s, as measured before", name, found.name)
        return found.plan()
    if board.recordings:  # while a graph is recorded nothing may wait
        return choices[0].plan()
    try:
        found, plan = searched(name, choices, Bench(provider, index, sizes()))
    except OutOfMemoryError as reason:  # there is no room to measure in: as the model of cost says, until there is
        log.debug("%s: %s is not measured, but taken: %s", name, choices[0].name, reason)
        return choices[0].plan()
    cache.put("autotune", key, json.dumps(found).encode())
    return plan


def searched(name: str, choices: list, bench: Bench) -> tuple:
    """(the name of the fastest choice, its plan)."""
    best, lines, measured = None, [], 0
    for choice in choices:
        unlikely = measured >= MOST or choice.estimate > WORST * choices[0].estimate and best is not None
        if unlikely and not choice.library:  # a library has few candidates, which its own model ranks high
            lines.append(f"{choice.name}: not measured, {choice.estimate * 1e6:.1f} us are expected")
            continue
        plan = choice.plan()
        reason = bench.wrong(plan)
        if reason:
            lines.append(f"{choice.name}: {reason}")
            continue
        taken, measured = bench.seconds(plan), measured + 1
        lines.append(f"{choice.name}: {taken * 1e6:.1f} us, {choice.estimate * 1e6:.1f} were expected")
        if best is None or taken < best[0]:
            best = taken, choice.name, plan
    if best is None:
        raise RuntimeError(f"{name}: no choice fits the device:\n  " + "\n  ".join(lines))
    log.debug("%s: %s\n  %s", name, best[1], "\n  ".join(lines))
    return best[1:]
