"""Trains a small model whose parameters are split over processes, for ``test_restarts.py``: started by the launcher.

``resumed.py FOLDER STEPS EVERY FAILS HOW`` saves a checkpoint every so many steps, goes on from the last one that is
there, and notes the loss of each step in FOLDER/losses.RANK.  At the step FAILS of the first attempt the last rank
ends, as HOW says: "killed", "raises" or "exits".
"""
from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import rushlight as torch
import rushlight.distributed.checkpoint as dcp
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from rushlight.distributed.elastic.multiprocessing.errors import record
from rushlight.distributed.fsdp import fully_shard


class Training:
    """A model, its optimizer, the number of steps done, and the random stream: what a checkpoint holds."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Dropout(0.2), nn.Linear(7, 3))
        fully_shard(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-2)
        self.done = torch.zeros((), dtype=torch.int64)
        torch.manual_seed(7 + dist.get_rank())

    def state(self) -> dict:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "done": self.done,
                f"random {dist.get_rank()}": torch.get_rng_state()}

    def save(self, path):
        dcp.save(self.state(), checkpoint_id=path)

    def load(self, path):
        state = self.state()
        dcp.load(state, checkpoint_id=path)
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])
        self.done = state["done"]
        torch.set_rng_state(state[f"random {dist.get_rank()}"])

    def step(self) -> float:
        """One step; the mean of all ranks' losses before it."""
        generator = torch.Generator().manual_seed(int(self.done) * dist.get_world_size() + dist.get_rank())
        loss = self.model(torch.randn(4, 5, generator=generator)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.done += 1
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        return mean.item()


def fail(how: str):
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exits":
        os._exit(3)
    raise ValueError("this rank fails")


@record
def main(folder, steps, every, fails, how):
    folder, steps, every, fails = Path(folder), int(steps), int(every), int(fails)
    dist.init_process_group("gloo")
    training, path = Training(), folder / "checkpoint"
    if (path / ".metadata").exists():
        training.load(path)
    attempt, last = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), dist.get_rank() == dist.get_world_size() - 1
    with open(folder / f"losses.{dist.get_rank()}", "a") as file:
        while training.done < steps:
            if training.done == fails and attempt == 0 and last:
                fail(how)
            done = int(training.done)
            print(attempt, done, training.step().hex(), file=file, flush=True)
            if training.done % every == 0:
                training.save(path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
