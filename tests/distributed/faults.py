"""Worlds of processes in which one rank goes wrong: what the flight recorders and their analyser say, and what is left.

``python -m tests.distributed.faults SEED KIND SCOPE:SIZE...`` runs a world for each, at the same time, and prints one
line of JSON for each; the seed chooses the rank and the step.  Processes are forked from one that has the package, so a
world starts in milliseconds.
"""
import datetime
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback

import rushlight as torch
from rushlight import distributed as dist
from rushlight._src.core.settings import settings
from rushlight.tools import blame, flight

KINDS = ("skip", "skip across", "size", "dtype", "order", "order across", "hang", "exit", "exception", "slow")
# each group has its collectives in order, and no ranks wait for each other
HARMLESS = {"order across": ("tensor:4", "tensor:8")}
PLACES = ("world:4", "tensor:4", "data:4", "world:8", "tensor:8", "data:8")
LIMIT, START = datetime.timedelta(seconds=8), datetime.timedelta(minutes=10)  # of a collective, and of the start
UNHURRIED = 3  # limit of a collective, as a multiple of the time of a whole world without a fault
AT_ONCE = ("size", "dtype", "exit", "exception")  # the others need no limit to find out
TOGETHER = 3  # worlds at a time: a host with few CPUs is soon too slow for the limit
PREFIX = "rushlight_trace_rank_"
STEPS = 4  # of training
MARK = "#" + " here: "  # comments that name the lines of the program


class Fault:
    """The fault of rank ``rank`` at the step ``moment``, in the collectives of ``scope``."""

    def __init__(self, kind, scope, rank, moment):
        self.kind, self.scope, self.rank, self.moment = kind, scope, rank, moment

    def at(self, step, scope, kind=None) -> bool:
        return (dist.get_rank() == self.rank and step == self.moment and self.scope == scope
                and (kind is None or self.kind == kind))


def before(fault, step, scope):
    """Fail instead of joining a collective."""
    if not fault.at(step, scope):
        return
    if fault.kind == "hang":
        while True:
            time.sleep(0.01)  # here: hang
    if fault.kind == "slow":
        time.sleep(1.6 * LIMIT.total_seconds())  # here: slow
    if fault.kind == "exit":
        os._exit(3)
    if fault.kind == "exception":
        raise ValueError("a loss of nan")  # here: exception


def given(fault, step, scope, size):
    x = torch.ones(size + fault.at(step, scope, "size"))
    return x.to(torch.float64) if fault.at(step, scope, "dtype") else x


def train(fault, groups):
    """Run steps with collectives in the world and in groups for tensor and data parallel layers."""
    for step in range(STEPS):
        for scope in ("tensor", "data", "world"):
            group = groups[scope]
            before(fault, step, scope)
            if fault.at(step, scope, "order"):
                dist.barrier(group=group)  # here: order
            if fault.at(step, scope, "order across"):
                dist.all_reduce(torch.ones(6), group=groups["data"])  # here: order across
            x = given(fault, step, scope, 6)
            if not fault.at(step, scope, "skip"):
                dist.all_reduce(x, group=group)  # here: first
            if not fault.at(step, scope, "order"):
                dist.barrier(group=group)  # here: second
            if not fault.at(step, scope, "skip across") and not fault.at(step, scope, "order across"):
                dist.all_reduce(torch.ones(6), group=groups["data"])  # here: third


def member(fault, rank, size, folder):
    settings.flight_buffer, settings.flight_file = 100, f"{folder}/{PREFIX}"
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size, timeout=START)
    pairs = [[k, k + 1] for k in range(0, size, 2)]
    tensor, _ = dist.new_subgroups_by_enumeration(pairs, group_desc="tensor")
    data, _ = dist.new_subgroups_by_enumeration([list(range(k, size, 2)) for k in range(2)], group_desc="data")
    dist.barrier()
    for group in (dist.group.WORLD, tensor, data):
        dist.distributed_c10d._set_pg_timeout(START if fault.kind in AT_ONCE else LIMIT, group)
    train(fault, {"world": dist.group.WORLD, "tensor": tensor, "data": data})
    dist.destroy_process_group()


def forked(fault, rank, size, folder):
    """A process of a world; its number."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        log = open(f"{folder}/log {rank}", "w")  # noqa: SIM115 - of this process alone
        os.dup2(log.fileno(), 2)
        member(fault, rank, size, folder)
        code = 0
    except BaseException:  # noqa: BLE001 - as an interpreter ends
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(pids: dict, limit: float) -> dict:
    """{rank: exit code} of processes that have ended by a time."""
    codes = {}
    while len(codes) < len(pids) and time.monotonic() < limit:
        for rank, pid in pids.items():
            if rank not in codes:
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    codes[rank] = os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return codes


def judged(kind, scope, size, culprit, folder, pids):
    """What a world left, once all but a hanging rank have ended."""
    limit = time.monotonic() + START.total_seconds() + 4 * LIMIT.total_seconds()
    waiting = {rank: pid for rank, pid in pids.items() if kind != "hang" or rank != culprit}
    codes = ended(waiting, limit)
    stuck = sorted(set(waiting) - set(codes))
    while not stuck and kind == "hang" and culprit not in flight.loaded(folder, PREFIX) and time.monotonic() < limit:
        time.sleep(0.05)  # the watchdog of the one that hangs
    for rank in set(pids) - set(codes):
        os.kill(pids[rank], signal.SIGKILL)
        os.waitpid(pids[rank], 0)
    traces = flight.loaded(folder, PREFIX)
    found = blame.blame(traces)
    errors = {rank: open(f"{folder}/log {rank}").read().strip().splitlines()[-1:] for rank in pids}
    return {"kind": kind, "scope": scope, "size": size, "culprit": culprit, "ranks": found.ranks if found else [],
            "place": found.place if found else None, "expected": found.expected if found else None, "text": str(found),
            "stuck": stuck, "codes": codes, "errors": errors, "traces": sorted(traces)}


def lines() -> dict:
    """{name: number} of the lines that say where they are."""
    with open(__file__) as file:
        return {text.split(MARK)[1].strip(): k for k, text in enumerate(file, 1) if MARK in text}


def started(kind, scope, size, culprit, moment):
    """(scope, size, culprit, folder, {rank: process}) of a world that has begun."""
    folder = tempfile.TemporaryDirectory()
    fault = Fault(kind, scope, culprit, moment)
    return scope, size, culprit, folder, {rank: forked(fault, rank, size, folder.name) for rank in range(size)}


def limit_here() -> datetime.timedelta:
    """Measure the limit of a collective on this host under its load, by concurrent worlds without a fault."""
    before = time.monotonic()
    for *_, folder, pids in [started("exit", "none", 8, 0, 0) for _ in range(TOGETHER)]:
        assert set(ended(pids, before + START.total_seconds()).values()) == {0}
        folder.cleanup()
    return max(LIMIT, datetime.timedelta(seconds=UNHURRIED * (time.monotonic() - before)))


def main(seed, kind, places):
    global LIMIT
    draw = random.Random(f"{seed} {kind}")
    if kind not in AT_ONCE:
        LIMIT = limit_here()
    for first in range(0, len(places), TOGETHER):
        worlds = []
        for place in places[first:first + TOGETHER]:
            scope, size = place.split(":")
            worlds.append(started(kind, scope, int(size), draw.randrange(int(size)), draw.randrange(1, STEPS - 1)))
        for scope, size, culprit, folder, pids in worlds:
            try:
                print(json.dumps(judged(kind, scope, size, culprit, folder.name, pids)), flush=True)
            except Exception:  # noqa: BLE001 - told to who asked
                print(json.dumps({"kind": kind, "scope": scope, "size": size, "failed": traceback.format_exc()}))
            folder.cleanup()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
