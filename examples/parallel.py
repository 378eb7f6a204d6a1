"""Trains the GPT of gpt.py over a grid of processes: batches and parameters are split over its rows, layers over its
columns.

    python -m rushlight -m rushlight.distributed.run --standalone --nproc-per-node 4 examples/parallel.py --mesh 2x2
    torchrun --standalone --nproc-per-node 4 examples/parallel.py --mesh 2x2      # with PyTorch

``--mesh 4x1`` splits batches and parameters alone, ``--mesh 1x4`` layers alone.
"""
import argparse
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from gpt import GPT, batch, read_text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mesh", default="2x2", help="rows x columns of the grid, as many as processes")
    parser.add_argument("--text", help="a text file (default: the source of Python's standard library)")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8, help="examples of all rows together")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.mesh = tuple(map(int, options.mesh.split("x")))
    if len(options.mesh) != 2 or options.batch % options.mesh[0]:
        parser.error("--mesh is rows x columns, and --batch a multiple of rows")
    return options


def split(model, mesh):
    """The feed-forward networks by columns and rows, then every layer's parameters over the rows of the grid."""
    if mesh["model"].size() > 1:
        for block in model.blocks:
            parallelize_module(block.mlp, mesh["model"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        parallelize_module(model.head, mesh["model"], ColwiseParallel(output_layouts=Replicate()))
    for block in model.blocks:
        fully_shard(block, mesh=mesh["data"])
    return fully_shard(model, mesh=mesh["data"])


def main():
    options = arguments()
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", options.mesh, mesh_dim_names=("data", "model"))
    row, rows = mesh["data"].get_local_rank(), options.mesh[0]
    text = read_text(options.text, limit=500_000)
    letters = sorted(set(text))
    number = {c: k for k, c in enumerate(letters)}
    data = torch.tensor([number[c] for c in text])
    torch.manual_seed(options.seed)
    model = split(GPT(len(letters), options.context, options.layers, options.heads, options.width, 0.0), mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    began = time.perf_counter()
    for step in range(1, options.steps + 1):
        ids, targets = (t.chunk(rows)[row] for t in batch(data, options.batch, options.context))
        loss = model(ids, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if dist.get_rank() == 0 and (step % max(1, options.steps // 10) == 0 or step == 1):
            speed = step * options.batch * options.context / (time.perf_counter() - began)
            print(f"step {step}  loss {mean.item() / dist.get_world_size():.4f}  {speed:,.0f} tokens/s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
