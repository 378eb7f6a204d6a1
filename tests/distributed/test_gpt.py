"""The GPT of the examples, trained in parallel: its losses are those of one process."""
import importlib.util
import sys
from pathlib import Path
from unittest import mock

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import threads
from rushlight.nn.parallel import DistributedDataParallel

STEPS = 50


def example():
    names = {"torch": torch, "torch.nn": torch.nn, "torch.nn.functional": torch.nn.functional}
    spec = importlib.util.spec_from_file_location("gpt_example", Path(__file__).parents[2] / "examples" / "gpt.py")
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, names):
        spec.loader.exec_module(module)
    return module


def made():
    torch.manual_seed(0)
    return example().GPT(17, 16, 2, 2, 32, 0.0)


def losses(model, ids, average=lambda loss: loss):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    found = []
    for step in range(STEPS):
        batch = ids[step % 4]
        loss = model(batch[:, :-1].contiguous(), batch[:, 1:].contiguous())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(average(loss.detach()).item())
    return found


def over_all(loss):
    dist.all_reduce(loss, dist.ReduceOp.AVG)
    return loss


@pytest.mark.parametrize("compiled", [False, True])
def test_losses_are_those_of_one_process(compiled):
    ids = torch.randint(0, 17, (4, 8, 17), generator=torch.Generator().manual_seed(1))
    expected, models = losses(made(), ids), [made() for _ in range(2)]

    def member(rank):
        model = DistributedDataParallel(models[rank], bucket_cap_mb=0.05)
        return losses(torch.compile(model) if compiled else model, ids[:, 4 * rank:4 * rank + 4], over_all)
    for found in threads.run(2, member):
        assert max(abs(a - b) for a, b in zip(found, expected)) < 1e-5
