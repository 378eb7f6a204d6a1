"""The process of one program: seeds, then the program as ``__main__``, then a record of what it trained.

    python process.py RECORD [--draw ROOT] [script.py | -m module | -c code] [arguments]

The record (JSON) has the value of every tensor that ``backward`` began at and, of each optimizer's parameters when the
program ends, how many there are, their sum and their norm.  ``--draw``: PyTorch's random operators take their numbers
from the Rushlight at ROOT (``streams.py``).
"""

from __future__ import annotations

import json
import math
import os
import random
import runpy
import sys

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
        optimizer.register_optimizer_step_post_hook(self.stepped)

    def wrap(self, owner, name, tensors):
        plain = getattr(owner, name)

        def noted(*arguments, **named):
            if self.busy:
                return plain(*arguments, **named)
            self.losses.extend(float(t.detach().double().sum()) for t in tensors(*arguments, **named))
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
            values = [p.detach().double() for group in optimizer.param_groups for p in group["params"]]
            parameters.append(
                {
                    "count": sum(v.numel() for v in values),
                    "sum": math.fsum(float(v.sum()) for v in values),
                    "norm": math.sqrt(math.fsum(float(v.abs().pow(2).sum()) for v in values)),
                }
            )
        with open(path, "w") as file:
            json.dump({"losses": self.losses, "parameters": parameters}, file)


def main():
    record, arguments = sys.argv[1], sys.argv[2:]
    root = None
    if arguments[0] == "--draw":
        root, arguments = arguments[1], arguments[2:]
    here = os.path.dirname(os.path.abspath(__file__))
    import torch

    if root is not None:
        sys.path[0] = here
        import streams

        streams.share(root)
    kept = Record(torch)
    random.seed(SEED)
    torch.manual_seed(SEED)
    try:
        import numpy

        numpy.random.seed(SEED)
    except ImportError:
        pass
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
        kept.write(record)


if __name__ == "__main__":
    main()
