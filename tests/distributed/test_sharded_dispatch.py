"""Calls of operators on DTensors: what runs is decided once for each description of a call."""
from __future__ import annotations

import datetime
import itertools
import pickle

import pytest

import rushlight as rl
from rushlight._src.core.settings import settings
from rushlight.distributed import threads
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, _dispatch, distribute_tensor
from rushlight.distributed.tensor import init_device_mesh

PATIENCE = datetime.timedelta(minutes=10)


@pytest.fixture(autouse=True, scope="module")
def by_reference():
    with settings.set(kernels=False, store=False):
        yield


def run(count, function, *args):
    return threads.run(count, function, *args, timeout=PATIENCE)


CALLS = {
    "scalar": lambda x: x * 2,
    "several tensors": lambda x: rl.addcmul(x, x, x, value=0.5),
    "list": lambda x: rl.cat([x, x], 0),
    "written": lambda x: x.add_(1),
    "views": lambda x: x.t().unsqueeze(0),
    "several results": lambda x: x.max(0).values,
    "slices": lambda x: x[1:3, ::2],
    "composite": lambda x: rl.nn.functional.layer_norm(x, (4,)),
    "dict of keywords": lambda x: rl.sum(x, dim=0, keepdim=True),
    "redistributed": lambda x: x @ x.t(),
}


@pytest.mark.parametrize("name", CALLS)
def test_equal_calls_are_decided_once(name, monkeypatch):
    found, original = [], _dispatch.find_program
    monkeypatch.setattr(_dispatch, "find_program", lambda key, op, *rest: found.append(op.name) or original(
        key, op, *rest))

    def member(rank):
        mesh, counts = init_device_mesh("cpu", (2,)), []
        for step in range(3):
            x = distribute_tensor(rl.arange(16.0).reshape(4, 4) + step, mesh, [Shard(0)])
            result = CALLS[name](x).full_tensor()
            assert rl.allclose(result, CALLS[name](rl.arange(16.0).reshape(4, 4) + step), atol=1e-5)
            rl.distributed.barrier()
            counts.append(len(found))
            rl.distributed.barrier()
        return counts
    for counts in run(2, member):
        assert counts[0] and counts == counts[:1] * 3


def test_other_calls_are_decided_apart():
    """Calls that differ in one thing, in turns, each give what they give alone."""
    values = rl.arange(1.0, 17.0).reshape(4, 4)
    placements = [Shard(0), Shard(1), Replicate()]
    functions = [lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x.sum(0, keepdim=True), lambda x: x.norm(1.0),
                 lambda x: x.norm(3.0), lambda x: x * 2, lambda x: x * 2.5, lambda x: x * True,
                 lambda x: x.to(rl.float64), lambda x: x.reshape(2, 8), lambda x: x.reshape(8, 2)]

    def member(rank):
        meshes = init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (2,), mesh_dim_names=("x",))
        for _ in range(2):
            for k, mesh, place, dtype in itertools.product(range(len(functions)), meshes, placements,
                                                           (rl.float32, rl.int64)):
                if dtype is rl.int64 and k in (3, 4):
                    continue
                result = functions[k](distribute_tensor(values.to(dtype), mesh, [place]))
                wanted = functions[k](values.to(dtype))
                assert result.device_mesh is mesh and result.dtype is wanted.dtype, (k, place)
                assert rl.allclose(result.full_tensor(), wanted), (k, place)
    run(2, member)


def test_arguments_are_told_apart():
    differing = [0.0, -0.0, 0, False, None, "", float("nan"), (0.0,), (-0.0,), [0.0], (0,), slice(0, 1), slice(0, 2),
                 {"a": 1}, {"a": 2}, rl.float32, rl.int64]
    keys = []
    for value in differing:
        keys.append([])
        _dispatch.describe((value,), 0, [], keys[-1])
        hash(tuple(keys[-1]))
    for a, b in itertools.combinations(keys, 2):
        assert tuple(a) != tuple(b)


def test_equal_specs_of_a_mesh_are_one_object():
    def member(rank):
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(rl.ones(4, 2), mesh, [Shard(0)])
        for other in (x * 2, x.detach(), x.clone(), x.redistribute(placements=[Shard(0)]),
                      DTensor.from_local(rl.ones(2, 2), mesh, [Shard(0)])):
            assert other._spec is x._spec and hash(other._spec) == hash(pickle.loads(pickle.dumps(x))._spec)
        assert (x.to(rl.float64))._spec != x._spec != DTensor.from_local(rl.ones(4, 2), mesh, [Partial()])._spec
        assert pickle.loads(pickle.dumps(x._spec.placements)) == x._spec.placements
        return x._spec.mesh is mesh
    assert run(2, member) == [True, True]  # threads that stand for processes share no mesh


@pytest.mark.parametrize("ranks, shape", [(1, (3, 2)), (2, (4, 2)), (2, (3, 2)), (2, (1, 2)), (3, (2, 3))])
@pytest.mark.parametrize("dim", [0, 1])
def test_whole_parameters_have_memory_of_their_own(ranks, shape, dim):
    """Whole parameters share no memory, and what stands for them between uses is one tensor without such memory."""
    class Layer(rl.nn.Module):
        def __init__(self):
            super().__init__()
            count = rl.Size(shape).numel()
            self.a, self.b = (rl.nn.Parameter(rl.arange(float(count)).reshape(shape) * k) for k in (1, 2))

        def forward(self, x):
            return (self.a * x + self.b * x * x).sum()

    def member(rank):
        layer = fully_shard(Layer(), shard_placement_fn=lambda parameter: Shard(dim))
        members = layer._fsdp.group.members
        standing = [m.full.untyped_storage() for m in members]
        assert all(m.full.isnan().all() for m in members)
        for step in range(2):
            layer(2.0).backward()
            assert [g.grad.full_tensor().tolist() for g in layer.parameters()] == [
                rl.full(shape, value * (step + 1)).tolist() for value in (2.0, 4.0)]
            layer.unshard()
            a, b = (p.detach() for p in layer.parameters())
            assert rl.equal(a * 2, b) and a.is_contiguous() and a.shape == shape
            assert a.untyped_storage().nbytes() == a.nbytes and a.data_ptr() != b.data_ptr()
            layer.reshard()
            assert [m.full.untyped_storage().data_ptr() for m in members] == [s.data_ptr() for s in standing]
            assert all(m.full.untyped_storage().nbytes() == 4 for m in members)
    run(ranks, member)
