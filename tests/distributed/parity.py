"""Trains small models in parallel, for ``test_parity.py``: started by the launcher, one process a rank.

``parity.py STEPS FILE CASE...`` leaves the losses of each case in a file, by the case's name; a case is
``MODEL.WAY.DROP.HOW``: gpt or resnet; ddp, fsdp, tp, 2x2 or pp; drop or none; eager or compiled.  ``alone`` gives the
losses of one process.  ``python -m tests.distributed.parity`` runs every case for 50 steps and prints a table of the
largest differences.
"""
from __future__ import annotations

import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed import pipelining
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import init_device_mesh
from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from rushlight.nn import functional as F
from rushlight.nn.parallel import DistributedDataParallel
from tests.distributed.groups import finished
from tests.startup.machine_code import search_path

ROOT = Path(__file__).parents[2]
STEPS, BATCH, WORDS, LENGTH, WIDTH, DROP = 50, 8, 13, 6, 16, 0.1
RANKS = {"ddp": 2, "fsdp": 2, "tp": 2, "2x2": 4, "pp": 2}
SHARES = {"ddp": 2, "fsdp": 2, "tp": 1, "2x2": 2, "pp": 2}  # into how many parts a batch is split
CASES = [".".join(case) for case in itertools.product(("gpt", "resnet"), RANKS, ("drop", "none"),
                                                      ("eager", "compiled"))]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (layer(y).unflatten(-1, (-1, 8)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Feed(nn.Module):
    def __init__(self, drop):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))


class Words(nn.Module):
    def __init__(self, drop):
        super().__init__()
        self.token, self.place, self.drop = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH), nn.Dropout(drop)

    def forward(self, ids):
        return self.drop(self.token(ids) + self.place.weight)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.norm2(self.second(F.relu(self.norm1(self.first(x))))))


def gpt(drop):
    return [nn.Sequential(Words(drop), Attention(), Feed(drop)),
            nn.Sequential(Attention(), Feed(drop), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS))]


def resnet(drop):
    return [nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), Residual(8)),
            nn.Sequential(Residual(8), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(drop), nn.Linear(32, WORDS))]


def made(name, drop):
    """The halves of a model, the same in all processes."""
    torch.manual_seed(0)
    return {"gpt": gpt, "resnet": resnet}[name](DROP if drop == "drop" else 0.0)


def data(name, step):
    generator = torch.Generator().manual_seed(step % 5)
    if name == "gpt":
        ids = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=generator)
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    return (torch.randn(BATCH, 3, 6, 6, generator=generator), torch.randint(0, WORDS, (BATCH,), generator=generator))


def loss_of(out, target):
    return F.cross_entropy(out.reshape(-1, WORDS), target.reshape(-1))


def seed(step, share, half=0):
    torch.manual_seed(1000 * step + 10 * share + half)


def alone(case, steps=STEPS):
    """The losses of one process, which are the same for all ways that split a batch into as many parts."""
    name, way, drop, _ = case.split(".")
    return train_alone(name, drop, SHARES[way], way == "pp", steps)


@functools.cache
def train_alone(name, drop, shares, is_staged, steps):
    """The losses of one process, which takes the parts of a batch one after another.  Stages of a pipeline draw random
    numbers of their own: the second half of the model begins anew."""
    first, second = made(name, drop)
    optimizer, found = torch.optim.AdamW([*first.parameters(), *second.parameters()], 0.003), []
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for share, (x, y) in enumerate(zip(*(t.chunk(shares) for t in data(name, step)))):
            seed(step, share)
            x = first(x)
            if is_staged:
                seed(step, share, 1)
            loss = loss_of(second(x), y) / shares
            loss.backward()
            total += loss.item()
        optimizer.step()
        found.append(total)
    return found


def split_layers(model, mesh):
    """A model whose layers are split by columns and by rows."""
    for one in model.modules():
        if isinstance(one, Attention):
            parallelize_module(one, mesh, {"q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel(),
                                           "out": RowwiseParallel()})
        elif isinstance(one, Feed):
            parallelize_module(one, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    last = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
    from rushlight.distributed.tensor import Replicate
    parallelize_module(last, mesh, ColwiseParallel(output_layouts=Replicate()))
    return model


def shard_layers(model, mesh):
    for half in model:
        fully_shard(half, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def parallel(model, way):
    """A model in parallel, and which share of a batch this process has."""
    if way == "ddp":
        return DistributedDataParallel(model, bucket_cap_mb=0.01), dist.get_rank()
    if way == "fsdp":
        return shard_layers(model, init_device_mesh("cpu", (2,))), dist.get_rank()
    if way == "tp":
        return split_layers(model, init_device_mesh("cpu", (2,))), 0
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    return shard_layers(split_layers(model, mesh["model"]), mesh["data"]), mesh["data"].get_local_rank()


def trained(case, steps):
    """The losses of the whole batches."""
    name, way, drop, how = case.split(".")
    model, share = parallel(nn.Sequential(*made(name, drop)), way)
    shares, optimizer, found = SHARES[way], torch.optim.AdamW(model.parameters(), 0.003), []
    model = torch.compile(model) if how == "compiled" else model
    for step in range(steps):
        x, y = (t.chunk(shares)[share] for t in data(name, step))
        seed(step, share)
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        found.append(total.item())
    return found


class Seeded(nn.Module):
    """A stage that begins with random numbers of its own."""

    def __init__(self, module, half):
        super().__init__()
        self.module, self.half, self.calls = module, half, 0

    def forward(self, x):
        seed(self.calls // SHARES["pp"], self.calls % SHARES["pp"], self.half)
        self.calls += 1
        return self.module(x)


def in_stages(case, steps):
    name, _, drop, how = case.split(".")
    rank = dist.get_rank()
    half = made(name, drop)[rank]
    optimizer, found = torch.optim.AdamW(half.parameters(), 0.003), []
    stage = pipelining.PipelineStage(Seeded(torch.compile(half) if how == "compiled" else half, rank), rank, 2,
                                     torch.device("cpu"))
    schedule = pipelining.Schedule1F1B(stage, SHARES["pp"], loss_fn=loss_of)
    for step in range(steps):
        x, y = data(name, step)
        losses = []
        optimizer.zero_grad()
        schedule.step(*([x] if rank == 0 else []), **({"target": y, "losses": losses} if rank else {}))
        optimizer.step()
        total = torch.tensor(sum(l.item() for l in losses) / SHARES["pp"])
        dist.broadcast(total, 1)
        found.append(total.item())
    return found


def launched(cases, steps=STEPS):
    """The losses of cases that take as many processes, by name: one world trains all of them, one after another."""
    count, = {RANKS[case.split(".")[1]] for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "losses.json"
        command = [sys.executable, "-m", "rushlight.distributed.run", "--standalone", "--nproc-per-node", str(count),
                   __file__, str(steps), str(file), *cases]
        done = finished(command, 3000, cwd=ROOT, stderr=subprocess.STDOUT,
                        env={**os.environ, "PYTHONPATH": search_path(ROOT), "OMP_NUM_THREADS": "1"})
        if done.returncode:
            raise RuntimeError(done.stdout[-4000:])
        return json.loads(file.read_text(encoding="utf-8"))


def difference(case, found):
    """The largest difference of losses from those of one process."""
    return max(abs(a - b) for a, b in zip(found, alone(case, len(found)), strict=True))


def table():
    found = {}
    for count in sorted(set(RANKS.values())):
        found |= launched([case for case in CASES if RANKS[case.split(".")[1]] == count])
    for case in CASES:
        print(f"{case:<26} {difference(case, found[case]):.1e}")


def main(steps, file, *cases):
    dist.init_process_group("gloo")
    found = {case: (in_stages if ".pp." in case else trained)(case, int(steps)) for case in cases}
    if dist.get_rank() == 0:
        with open(file, "w", encoding="utf-8") as out:
            json.dump(found, out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[1:] else table()
