"""PyTorch's own share of what ``tests.fuzz.sharding`` asks: for how many entries of its database its DTensors run
forward under placements over a mesh of 2.

``python -m tests.fuzz.sharding_judge [--cases N] [--show]`` prints how many run in all cases, how many have no rule for
an operator, and how many fail otherwise.  It is one rank of two, alone (the backend "fake"), so shapes are seen and
elements are not: the share of those that also agree is at most as large.
"""
from __future__ import annotations

import argparse
import collections
import itertools
import random
import warnings

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._pytree import tree_flatten, tree_unflatten

DTYPES = torch.float64, torch.int64, torch.bool, torch.complex128
RULELESS = "sharding strategy", "does not have a", "not registered"


def sample_of(info):
    """The sample whose elements are nearest to 60; None where there is none of up to 400."""
    dtype = next((d for d in DTYPES if d in info.dtypes), None)
    if dtype is None:
        return None
    torch.manual_seed(0)
    found = list(itertools.islice(info.sample_inputs("cpu", dtype), 40))
    sizes = [(sum(t.numel() for t in tree_flatten((s.input, s.args, s.kwargs))[0] if isinstance(t, torch.Tensor)), k)
             for k, s in enumerate(found)]
    fitting = [(abs(n - 60), k) for n, k in sizes if 0 < n <= 400]
    return found[min(fitting)[1]] if fitting else None


def placements_of(places, count: int):
    """(place, placement) of the one tensor that is split; others are whole."""
    every = [(k, Shard(d)) for k, t in places for d in range(t.dim())]
    random.Random(0).shuffle(every)
    return every[:count]


def outcome(info, mesh, count: int) -> str:
    """"runs", "no rule", "fails: ...", "other shapes", "not here: ...", or "nothing to split"."""
    sample = sample_of(info)
    if sample is None:
        return "nothing to split"
    flat, spec = tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [(k, t) for k, t in enumerate(flat) if isinstance(t, torch.Tensor) and t.dim()
              and t.layout is torch.strided]
    chosen = placements_of(places, count)
    if not chosen:
        return "nothing to split"
    args, kwargs = tree_unflatten(flat, spec)
    try:
        expected = [v.shape for v in tree_flatten(info.op(*args, **kwargs))[0] if isinstance(v, torch.Tensor)]
    except Exception as error:  # noqa: BLE001 - such as those that want a GPU
        return f"not here: {type(error).__name__}"
    for at, placement in chosen:
        try:
            given = [distribute_tensor(t, mesh, [placement if k == at else Replicate()], src_data_rank=None)
                     if isinstance(t, torch.Tensor) else t for k, t in enumerate(flat)]
            args, kwargs = tree_unflatten(given, spec)
            found = [v.shape for v in tree_flatten(info.op(*args, **kwargs))[0] if isinstance(v, torch.Tensor)]
        except Exception as error:  # noqa: BLE001 - what it refuses, and how, is what is counted
            return "no rule" if any(text in str(error) for text in RULELESS) else f"fails: {type(error).__name__}"
        if found != expected:
            return "other shapes"
    return "runs"


def main():
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--cases", type=int, default=4)
    reader.add_argument("--show", action="store_true")
    args = reader.parse_args()
    warnings.simplefilter("ignore")
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    found = {f"{info.name}.{info.variant_test_name}".rstrip("."): outcome(info, mesh, args.cases) for info in op_db}
    torch.distributed.destroy_process_group()
    counts = collections.Counter(told.partition(":")[0] for told in found.values())
    print(f"PyTorch {torch.__version__}: {len(found)} entries", dict(counts))
    if args.show:
        for name, told in found.items():
            print(name, told)


if __name__ == "__main__":
    main()
