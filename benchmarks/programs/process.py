"""The process of one program: seeds, then the program as ``__main__``, then a record of what it trained.

    python process.py RECORD [--draw ROOT] [--devices N] [script.py | -m module | -c code] [arguments]

The record (JSON) has the value of every tensor that ``backward`` began at and, of each optimizer's parameters when the
program ends, how many there are, their sum and their norm.  ``--draw``: PyTorch's random operators take their numbers
from the Rushlight at ROOT (``streams.py``).  ``--devices``: the program runs in several processes, each of which leaves
a record of its own (RECORD.0, RECORD.1, ...); N GPUs are pretended (``devices.py``) where N is not 0.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import runpy
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = 1


class Record:
    """What a program's training computes, by hooks that both frameworks have."""

    def __init__(self, torch):
        from torch.optim import optimizer

        self.losses, self.optimizers, self.busy = [], [], False
        self.wrap(torch.Tensor, "backward", lambda tensor, *rest, **named: [tensor])
        self.wrap(
            torch.autograd,
            "backward",
            lambda tensors, *rest, **named: [tensors] if isinstance(tensors, torch.Tensor) else list(tensors),
        )
        if torch.distributed.is_available() and "torch.distributed.autograd" in sys.modules:
            self.wrap(torch.distributed.autograd, "backward", lambda context, tensors, *rest, **named: list(tensors))
        optimizer.register_optimizer_step_post_hook(self.stepped)

    def wrap(self, owner, name, tensors):
        plain = getattr(owner, name)

        def noted(*arguments, **named):
            if self.busy:
                return plain(*arguments, **named)
            self.losses.extend(float(whole(t).detach().double().sum()) for t in tensors(*arguments, **named))
            self.busy = True
            try:
                return plain(*arguments, **named)
            finally:
                self.busy = False

        noted.__name__ = name
        setattr(owner, name, noted)

    def stepped(self, optimizer, *_):
        if all(optimizer is not known for known in self.optimizers):
            self.optimizers.append(optimizer)

    def write(self, path):
        parameters = []
        for optimizer in self.optimizers:
            values = [part(p.detach()).double() for group in optimizer.param_groups for p in group["params"]]
            parameters.append(
                {
                    "count": sum(v.numel() for v in values),
                    "sum": math.fsum(float(v.sum()) for v in values),
                    "norm": math.sqrt(math.fsum(float(v.abs().pow(2).sum()) for v in values)),
                }
            )
        with open(path, "w") as file:
            json.dump({"losses": self.losses, "parameters": parameters}, file)


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def part(tensor):
    """What this process has of a tensor: groups are gone when a program ends."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def prepared(record, root, devices):
    """Imports the framework; a ``Record`` of what this process trains from now on."""
    import torch

    if root is not None:
        sys.path.insert(0, HERE)
        import streams

        streams.share(root)
        sys.path.remove(HERE)
    if devices is not None:
        sys.path.insert(0, HERE)
        import torch.distributed.autograd  # noqa: F401 - what is noted of it
        import torch.multiprocessing
        import devices as pretended

        torch.multiprocessing.spawn = spawning(torch.multiprocessing.spawn, (record, root, devices))
        if devices:
            pretended.pretend(torch, devices)
        sys.path.remove(HERE)
    kept = Record(torch)
    random.seed(SEED)
    torch.manual_seed(SEED)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(SEED)
    return kept


def spawning(plain, given):
    def spawn(fn, *arguments, **named):
        if given[2]:
            os.environ["PRETENDED_DEVICES"] = str(given[2])
            os.environ["PYTHONPATH"] = os.pathsep.join([f"{HERE}/start", os.environ.get("PYTHONPATH", "")])
        if HERE not in sys.path:
            sys.path.append(HERE)
        return plain(Spawned(fn, given), *arguments, **named)

    return spawn


class Spawned:
    """A function of a process that ``torch.multiprocessing.spawn`` starts: prepared as the first one."""

    def __init__(self, function, given):
        self.function, self.given = function, given

    def __call__(self, rank, *arguments):
        kept = prepared(*self.given)
        try:
            return self.function(rank, *arguments)
        finally:
            kept.write(f"{self.given[0]}.{rank}")


def main():
    record, arguments = sys.argv[1], sys.argv[2:]
    root = devices = None
    if arguments[0] == "--draw":
        root, arguments = arguments[1], arguments[2:]
    if arguments[0] == "--devices":
        devices, arguments = int(arguments[1]), arguments[2:]
    sys.path.append(HERE)
    import process  # what it leaves to other processes is of this name: the program becomes __main__

    sys.path.pop()
    kept = process.prepared(record, root, devices)
    try:
        if arguments[0] == "-c":
            sys.argv = ["-c", *arguments[2:]]
            sys.path[0] = os.getcwd()
            exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
        elif arguments[0] == "-m":
            sys.argv = arguments[1:]
            sys.path[0] = os.getcwd()
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
            runpy.run_path(arguments[0], run_name="__main__")
    finally:
        kept.write(f"{record}.{os.environ['RANK']}" if "RANK" in os.environ and devices is not None else record)


if __name__ == "__main__":
    main()
