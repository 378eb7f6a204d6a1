"""Processes that save checkpoints are killed at random moments: none is lost.

``python -m tests.distributed.kills SEED COUNT`` starts a world COUNT times, of one process or two in turns, which loads
the last checkpoint of one folder and saves the next ones over it until it is killed.  After each, the folder holds the
last checkpoint that was told to be whole, or the one after it; one line of JSON tells what was found.
"""
import json
import os
import random
import signal
import sys
import tempfile
import time

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import checkpoint

SIZE, PARTS = 20000, 8
LONGEST = 0.3  # seconds from the first checkpoint to the end


def state(number, rank):
    """What a rank has in the checkpoint of that number."""
    return {f"{rank} {k}": torch.full((SIZE,), float(number)) for k in range(PARTS)}


def found(folder, ranks) -> list:
    """The numbers that the checkpoint in a folder has."""
    values = {name: value for rank in range(ranks) for name, value in state(0, rank).items()}
    checkpoint.load(values, checkpoint_id=folder, no_dist=True)
    return sorted({int(v) for value in values.values() for v in value.unique().tolist()})


def saving(folder, rank, size, first, told, meeting):
    """Saves checkpoints for ever; what is whole is told, by its number."""
    if size > 1:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    for number in range(first, sys.maxsize):
        values = state(number, rank) if size > 1 else {**state(number, 0), **state(number, 1)}
        checkpoint.save(values, checkpoint_id=folder, no_dist=size == 1)
        if rank == 0:
            os.write(told, f"{number}\n".encode())


def killed(folder, meeting, size, first, wait, draw) -> int:
    """The last checkpoint that a world said to be whole before it was killed, one rank after another."""
    reading, told = os.pipe()
    pids = []
    for rank in range(size):
        pid = os.fork()
        if not pid:
            try:
                os.close(reading)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a rank whose peer is gone says so
                saving(folder, rank, size, first, told, meeting)
            finally:
                os._exit(1)
        pids.append(pid)
    os.close(told)
    try:
        with os.fdopen(reading) as lines:
            last = int(lines.readline())
            time.sleep(wait)
            end(draw.sample(pids, size))
            return [last, *map(int, lines.read().split())][-1]
    finally:
        end(pids)
        for pid in pids:
            os.waitpid(pid, 0)


def end(pids):
    """Kills processes that nobody has waited for yet: their numbers are theirs."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def main(seed, count):
    draw, at = random.Random(int(seed)), 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(int(count)):
            wait, size = draw.uniform(0.0, LONGEST), 1 + number % 2
            told = killed(f"{folder}/saved", f"{folder}/meeting {number}", size, at + 1, wait, draw)
            numbers = found(f"{folder}/saved", 2)
            print(json.dumps({"ranks": size, "wait": wait, "told": told, "found": numbers,
                              "lost": len(numbers) != 1 or numbers[0] not in (told, told + 1)}), flush=True)
            at = max(numbers)


if __name__ == "__main__":
    main(*sys.argv[1:])
