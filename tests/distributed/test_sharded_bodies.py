"""Operators whose bodies write into views, make tensors of their own or read elements: on parts, forward and backward,
as on one process."""
from __future__ import annotations

import datetime

import pytest

import rushlight as rl
from rushlight._src.core.settings import settings
from rushlight.distributed import threads
from rushlight.distributed.tensor import Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from rushlight.distributed.tensor.experimental import implicit_replication

F = rl.nn.functional
BODIES = {
    "writes into a view": lambda x: rl.select_scatter(x, x[:, 0] * 2, 1, 2),
    "writes into steps": lambda x: rl.slice_scatter(x, x[:, :3].sin(), 1, 0, 6, 2),
    "writes into a diagonal": lambda x: rl.diagonal_scatter(x, x[0, :4].cos()),
    "makes an index": lambda x: rl.combinations(x[0], 2),
    "makes places to read at": lambda x: F.interpolate(x[None], scale_factor=1.5, mode="linear"),
    "nearest places": lambda x: F.interpolate(x[None], size=4),
    "cells that are unlike": lambda x: F.adaptive_max_pool1d(x, 4),
    "reads a mask": lambda x: x.masked_scatter(x > 0, x.exp()),
    "reads lengths": lambda x: rl.segment_reduce(x.reshape(-1), "sum", lengths=rl.tensor([4, 20])),
    "sizes from data": lambda x: rl.nonzero_static(x.detach() > 0, size=5) * x.sum(),
    "parts that are picked": lambda x: x[rl.tensor([2, 0, 2]), 1:],
}


@pytest.mark.parametrize("name", BODIES)
def test_values_and_gradients(name):
    body = BODIES[name]
    values = rl.randn(4, 6, generator=rl.Generator().manual_seed(1), dtype=rl.float64)
    whole = values.clone().requires_grad_()
    expected = body(whole)
    expected.square().sum().backward()

    def member(rank):
        mesh = init_device_mesh("cpu", (2,))
        for placement in (Shard(0), Shard(1), Replicate(), Partial()):
            x = distribute_tensor(values, mesh, [placement]).requires_grad_()
            with implicit_replication():
                found = body(x)
            found.square().sum().backward()
            rl.testing.assert_close(found.full_tensor(), expected.detach())
            rl.testing.assert_close(x.grad.full_tensor(), whole.grad)
    with settings.set(kernels=False, store=False):
        threads.run(2, member, timeout=datetime.timedelta(minutes=10))
