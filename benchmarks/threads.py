"""What a model's steps take on 2 to 64 threads, as a simulation of the pool's schedule predicts it from the times of
its kernels measured on one thread.

    python -m benchmarks.threads nanogpt vit                 # a table; --check runs on two threads, too
    python -m benchmarks.threads nanogpt --longest 10        # the steps that lose most on 64 threads

For each number of threads the model is planned as for that many, and each step of its programs measured alone, chunk by
chunk.  The simulation then claims chunks from one ticket as the pool does (``_src/devices/cpu/llvm/pool.py``): a
region is told of, workers see that one after another, claims come one after another, and the caller waits for the last
chunk.  A region's overhead on two threads is measured; that of more follows from ``LINE`` and ``READ``, which are
assumptions about processors, as is ``STREAMS``, how many threads' worth of memory traffic a socket carries.
"""
from __future__ import annotations

import argparse
import ctypes
import heapq
import os
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass

from rushlight._src.compiler.launch import HEAD, decode

LINE = 80e-9   # seconds in which a cache line that another core wrote comes, claims of a ticket one after another
READ = 10e-9   # more for each further core that reads a line at the same time
STREAMS = 12   # threads that memory serves at full speed: kernels that are no template's gain no more from others
COUNTS = 1, 2, 4, 8, 16, 32, 64


@dataclass
class Step:
    """Units of a region, how many of them a chunk has, seconds of all of it on one thread; whether memory bounds it."""

    label: str
    extent: int
    grain: int
    seconds: float
    streams: bool = False


@dataclass
class Costs:
    """Seconds: of telling and joining beside what lines take (measured); of a line; of another reader."""

    region: float = 0.4e-6
    line: float = LINE
    read: float = READ


def chunked(step: Step, threads: int, many: int) -> int:
    """Chunks of a region, as the pool makes them."""
    least = step.extent // max(1, threads * many) + 1 if many else 1
    grain = max(step.grain, least)
    return -(-step.extent // grain)


def simulated(step: Step, threads: int, costs: Costs, many: int, first_alone=True) -> float:
    """Seconds of a region on so many threads.  ``many``: chunks for each thread at most, 0 for any number;
    ``first_alone``: whether only as many workers as there are chunks look at the ticket."""
    if threads == 1 or step.extent <= step.grain:
        return step.seconds
    chunks = chunked(step, threads, many)
    slow = max(1.0, min(threads, chunks) / STREAMS) if step.streams else 1.0
    each = slow * step.seconds / chunks
    looking = min(threads, chunks) if first_alone else threads
    # when each thread is there: the caller at once, workers once they have seen the word, one reader after another
    ready = [0.0] + [costs.region / 2 + costs.line + costs.read * k for k in range(1, looking)]
    heapq.heapify(ready)
    ticket = end = 0.0
    for _ in range(chunks):
        at = heapq.heappop(ready)
        ticket = max(at, ticket) + (costs.line if looking > 1 else 0)  # claims come one after another
        done = ticket + each + costs.line / 2  # and what is done is counted
        end = max(end, done)
        heapq.heappush(ready, done)
    late = (looking - min(looking, chunks)) * costs.line  # those that find nothing keep the ticket's line busy
    return end + costs.region / 2 + costs.line + late


def region_cost() -> float:
    """Seconds that an empty region of two chunks takes more than two calls, on two threads."""
    from rushlight._src.devices.cpu.llvm import jit, pool
    from rushlight._src.devices.cpu.llvm.builder import Module
    from rushlight._src.devices.cpu.llvm.types import i64, ptr
    module = Module()
    f = module.function("nothing", [("args", ptr), ("begin", i64), ("end", i64), ("worker", i64)])
    f.ret()
    text = module.text()
    kernel = jit.build(text, lambda: text, ["nothing"])["nothing"]
    run = pool.caller("pool_run", True)
    found = []
    for _ in range(400):
        began = time.perf_counter()
        run(kernel, 0, 2, 1)
        middle = time.perf_counter()
        run(kernel, 0, 1, 1)
        found.append(2 * middle - began - time.perf_counter())
    return max(statistics.median(found), 1e-7)


class Recorder:
    """Runs programs step by step and keeps the shortest time of each step of each program, in the order of a round."""

    def __init__(self):
        from rushlight._src.compiler.launch import encode
        from rushlight._src.devices.cpu.code import Code
        from rushlight._src.devices.cpu.llvm import pool
        self.encode, self.code, self.run_alone = encode, Code.known, pool.caller("program_run")
        self.rounds: list = []

    def launches(self, address):
        """(what it does, the Launch) of each step of a program; some programs do not say what they do."""
        code = self.code.get(address)
        if code is not None:
            return list(zip(code.labels, code.launches))
        count, at = ctypes.c_int64.from_address(address).value, 1
        for _ in range(count):
            at += HEAD + 2 * ctypes.c_int64.from_address(address + 8 * (at + 3)).value
        return [("unnamed", launch) for launch in decode(list((ctypes.c_int64 * at).from_address(address)))]

    def run(self, address, values):
        for label, launch in self.launches(address):
            words = self.encode([launch])
            step = (ctypes.c_int64 * len(words))(*words)
            began = time.thread_time()  # other programs do not disturb it
            self.run_alone(ctypes.addressof(step), values)
            self.rounds[-1].append(Step(label, launch.extent, launch.grain, time.thread_time() - began,
                                         " -> " in label))

    def steps(self, call: float) -> list:
        """The steps of a round, with the least of their times, less that of an empty call."""
        last = self.rounds[-1]
        alike = [r for r in self.rounds if [s.label for s in r] == [s.label for s in last]]
        for k, step in enumerate(last):
            step.seconds = max(min(r[k].seconds for r in alike) - call, 1e-8)
        return last


def measured(name: str, threads: int, rounds: int, autocast: bool) -> list:
    """The Steps of a model's step, planned for so many threads, each measured on one."""
    from rushlight._src.core.native import memory
    from rushlight._src.devices.cpu.llvm import pool
    from .stepping import Stepper
    stepper = Stepper(name, "rushlight.compile", threads, autocast)
    for _ in range(2):
        stepper.step()
    recorder, before = Recorder(), memory.program_runner()
    runner = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(recorder.run)
    take = ctypes.CFUNCTYPE(ctypes.c_int64)(pool.addresses()["pool_lock"])
    while not take():  # held: regions run in the calling thread, chunk by chunk
        pass
    memory.set_program_runner(ctypes.cast(runner, ctypes.c_void_p).value)
    try:
        for _ in range(rounds):
            recorder.rounds.append([])
            stepper.step()
    finally:
        memory.set_program_runner(before)  # regions stay locked: this process ends soon
    empty = (ctypes.c_int64 * 1)(0)
    began = time.thread_time()
    for _ in range(1000):
        recorder.run_alone(ctypes.addressof(empty), 0)
    return recorder.steps((time.thread_time() - began) / 1000)


def elapsed(name: str, threads: int, rounds: int, autocast: bool) -> float:
    """Seconds of a model's step on so many threads, the least of some."""
    from .stepping import Stepper
    stepper = Stepper(name, "rushlight.compile", threads, autocast)
    found = []
    for k in range(rounds + 2):
        began = time.perf_counter()
        stepper.step()
        if k >= 2:
            found.append(time.perf_counter() - began)
    return min(found)


def in_a_process(function, *arguments):
    """What a function gives in a process of its own: threads are chosen once there, and none are left here."""
    from multiprocessing import get_context
    os.environ["RUSHLIGHT_STORE"] = "0"  # plans from disk do not say what their steps are
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def report(name: str, options):
    from rushlight._src.devices.cpu.llvm.pool import MANY
    costs = Costs(in_a_process(region_cost) if options.region is None else options.region * 1e-6)
    alone = None
    print(f"{name}: a region costs {1e6 * costs.region:.2f} us")
    for threads in options.threads:
        steps = in_a_process(measured, name, threads, options.rounds, options.autocast)
        whole = sum(step.seconds for step in steps)
        alone = alone or whole
        then, before = (sum(simulated(step, threads, costs, *how) for step in steps)
                        for how in ((MANY, True), (0, False)))
        line = (f"  {threads:3d} threads: {1e3 * then:8.2f} ms, {alone / then:5.1f} times as fast, efficiency "
                f"{alone / then / threads:4.0%}; of as many chunks as there are units {alone / before / threads:4.0%}")
        if options.check and threads <= 2:
            line += f"; measured {1e3 * in_a_process(elapsed, name, threads, options.rounds, options.autocast):.2f} ms"
        print(line, flush=True)
        if options.longest and threads == max(options.threads):
            lost = defaultdict(float)
            for step in steps:
                lost[f"{step.extent} by {step.grain}: {step.label}"] += (
                    simulated(step, threads, costs, MANY) - step.seconds / threads)
            for label, seconds in sorted(lost.items(), key=lambda row: -row[1])[:options.longest]:
                print(f"      {1e3 * seconds:8.3f} ms lost by {label[:100]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="+", help="models of benchmarks.models")
    parser.add_argument("--threads", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--check", action="store_true", help="run on one and two threads beside it")
    parser.add_argument("--region", type=float, help="microseconds of an empty region, in place of what is measured")
    parser.add_argument("--longest", type=int, default=0, help="steps that lose most on the most threads")
    options = parser.parse_args()
    for name in options.names:
        report(name, options)


if __name__ == "__main__":
    main()
