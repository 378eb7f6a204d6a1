"""Flight recorder: a ring of the last collectives of this process, for when a run hangs.  It has PyTorch's format
(version 2.10) and is read by ``python -m rushlight.tools.flight``.

It runs if TORCH_FR_BUFFER_SIZE gives a number of entries.  A collective that fails, or exceeds its time limit, writes
the ring to the file that TORCH_FR_DUMP_TEMP_FILE and the rank name, and has all other ranks write their rings
(``watchdog.py``); so does an error that ends the program.  A rank that received this request continues until it fails
or ends itself, and then writes its ring once more: its later operations show what it was about to do.  ``dump()``
returns the ring at any time.
"""
from __future__ import annotations

import os
import pickle
import sys
import tempfile
import threading
import time

from .._src.core.settings import settings
from .worlds import PROCESS, here

NAMES = {"reduce_to": "reduce", "broadcast_from": "broadcast", "gather_to": "all_gather",
         "gather_whole": "_all_gather_base", "scatter_from": "scatter", "reduce_scattered": "reduce_scatter",
         "all_to_all_of": "all_to_all", "all_to_all_rows": "all_to_all", "meet": "barrier", "send_to": "send",
         "receive_from": "recv", "monitored": "monitored_barrier"}
FRAMES = 16
VERSION = "2.10"


class Ring:
    """The last collectives of a process, or of a thread that acts as one."""

    def __init__(self, size: int):
        self.size, self.entries, self.count, self.guard = size, [], 0, threading.Lock()
        self.collectives = 0

    def add(self, **entry) -> dict:
        with self.guard:
            entry["record_id"] = self.count
            self.collectives += not entry["is_p2p"]
            entry["ordinal"] = self.collectives
            if len(self.entries) < self.size:
                self.entries.append(entry)
            else:
                self.entries[self.count % self.size] = entry
            self.count += 1
        return entry


def ring():
    """Return the ring of the calling thread's world; None if nothing is recorded."""
    size = settings.flight_buffer
    if not size:
        return None
    world = here()
    if world.ring is None:
        world.ring = Ring(size)
    return world.ring


def frames(frame) -> list:
    """A frame and those that called it, innermost first."""
    found = []
    while frame is not None and len(found) < FRAMES:
        found.append({"name": frame.f_code.co_name, "filename": frame.f_code.co_filename, "line": frame.f_lineno})
        frame = frame.f_back
    return found


class Entry:
    """One collective in the ring of a world."""

    def __init__(self, world, fields: dict):
        self.world, self.fields = world, fields

    def started(self):
        self.fields["state"], self.fields["time_discovered_started_ns"] = "started", time.time_ns()

    def ended(self):
        done = time.time_ns()
        self.fields.update(state="completed", time_discovered_completed_ns=done,
                           duration_ms=(done - self.fields["time_discovered_started_ns"]) / 1e6, retired=True)

    def failed(self, reason: str):
        report(self.world, reason)


def entered(group, tensors, peer_to_peer: bool, peer: int | None, frame, backend: str) -> Entry | None:
    """Add the operation that a frame calls on a group to the ring; return its entry, or None if nothing is recorded.

    ``tensors``: those that have one shape in all ranks; ``peer``: for messages, the other side's rank in the group.
    """
    kept = ring()
    if kept is None:
        return None
    world, caller = here(), frame.f_code.co_name
    group.operations = getattr(group, "operations", 0) + 1
    sizes, dtypes = [list(t.shape) for t in tensors], [str(t.dtype).removeprefix("torch.") for t in tensors]
    return Entry(world, kept.add(
        pg_id=list(world.names).index(group.group_name) if group.group_name in world.names else 0,
        process_group=(group.group_name, group.group_desc), pg_name=group.group_name,
        collective_seq_id=group.sequence, p2p_seq_id=group.operations - group.sequence if peer_to_peer else 0,
        op_id=group.operations, profiling_name=f"{backend}:{NAMES.get(caller, caller)}",
        time_created_ns=time.time_ns(), input_sizes=sizes, output_sizes=sizes, input_dtypes=dtypes,
        output_dtypes=dtypes, state="scheduled", is_p2p=peer_to_peer, retired=False,
        peer=None if peer is None else group.ranks[peer],
        timeout_ms=int(group.timeout.total_seconds() * 1000), time_discovered_started_ns=None,
        time_discovered_completed_ns=None, frames=frames(frame)))


def watched(group, run, tensors, peer_to_peer: bool, peer: int | None = None):
    """Return ``run`` with an entry of the ring (``entered``); ``run`` itself if nothing is recorded."""
    entry = entered(group, tensors, peer_to_peer, peer, sys._getframe(2), str(group._backend))
    if entry is None:
        return run

    def recorded():
        entry.started()
        try:
            result = run()
        except BaseException as error:
            entry.failed(str(error))
            raise
        entry.ended()
        return result
    return recorded


def content(world, reason: str = "", raised=()) -> dict:
    """Return the record of a world: its last collectives, oldest first, its groups, and its main thread's stack.

    In a rank whose ring was requested, ``asked_ns`` is the time of the request, and ``main_thread`` the stack then.
    """
    kept = world.ring
    entries = []
    if kept is not None:
        with kept.guard:
            entries = sorted((dict(entry) for entry in kept.entries), key=lambda entry: entry["record_id"])
    groups = {group.group_name: {"name": group.group_name, "desc": group.group_desc, "ranks": str(group.ranks)}
              for group in world.groups}
    return {"version": VERSION, "entries": entries, "pg_config": groups, "pg_status": {}, "reason": reason,
            "rank": world.default.rank() if world.default is not None else 0, "raised": list(raised),
            "main_thread": main_thread(world), **(world.asked or {})}


def main_thread(world) -> list:
    """Return the stack of a process's main thread, innermost frame first."""
    return frames(sys._current_frames().get(threading.main_thread().ident) if world is PROCESS else None)


def dump() -> bytes:
    """The ring of this process as a pickle of plain data, as PyTorch's tools read it."""
    return pickle.dumps(content(here()))


def path_of(world) -> str:
    return f"{settings.flight_file}{world.default.rank()}"


def leave(world, reason: str, raised=()):
    """Write the ring to its file, and replace its content."""
    path = path_of(world)
    handle, part = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".trace")
    with os.fdopen(handle, "wb") as file:
        pickle.dump(content(world, reason, raised), file)
    os.replace(part, path)


def write(world, reason: str, raised=()):
    """Write the ring of a rank that has failed or ends, once; an error after another rank's is not a cause."""
    with world.dumping:  # a process ends only when its trace is complete
        if not world.dumped and world.default is not None:
            world.dumped = True
            leave(world, reason, () if world.asked else raised)


def write_asked(world, reason: str):
    """Leaves the ring of a rank because another one has failed."""
    with world.dumping:
        if not world.dumped and world.default is not None:
            world.asked = {"asked_ns": time.time_ns(), "main_thread": main_thread(world)}
            leave(world, reason)


def report(world, reason: str, raised=()):
    """Write the ring to a file, and have the other ranks write their rings."""
    write(world, reason, raised)
    if world.watchdog is not None:
        world.watchdog.tell(reason)


def report_raised(error: BaseException):
    """Call ``report`` for the error that ends the program, with the lines that raised it."""
    trace, places = error.__traceback__, []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.insert(0, {"name": code.co_name, "filename": code.co_filename, "line": trace.tb_lineno})
        trace = trace.tb_next
    report(PROCESS, f"{type(error).__name__}: {error}", places[:FRAMES])
