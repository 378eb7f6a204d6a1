"""Equal collectives of compiled programs are sent as one bucket where an option asks for it."""
import pytest

import rushlight as torch
import rushlight.distributed._functional_collectives as functional
from rushlight import distributed as dist
from rushlight.distributed import carrier, threads

OPTIONS = {"bucket_all_reduces_fx": "all", "bucket_all_gathers_fx": "all", "bucket_reduce_scatters_fx": "all"}


def sums(group, *given):
    return [functional.all_reduce(x * 2, "sum", group) + 1 for x in given]


def averages(group, *given):
    return [functional.all_reduce(x, "avg", group) for x in given]


def wholes(group, *given):
    return [functional.all_gather_tensor(x.t() if x.dim() == 2 else x, 0, group) for x in given]


def shares(group, *given):
    return [functional.reduce_scatter_tensor(x + x, "sum", 0, group) for x in given]


def mixed(group, *given):
    """Sums of two dtypes, of which those of one follow each other."""
    return [functional.all_reduce(x.double() if k > 1 else x, "sum", group) for k, x in enumerate(given)]


def waiting(group, *given):
    """The second reads what the first gave, and can be joined with the third."""
    first = functional.all_reduce(given[0], "sum", group)
    return [functional.all_reduce(first * 2, "sum", group), *averages(group), functional.all_reduce(
        given[1], "sum", group), first.exp()]


def broken(group, *given):
    """Another collective stands between."""
    return [functional.all_reduce(given[0], "sum", group), functional.all_gather_tensor(given[1], 0, group),
            functional.all_reduce(given[2], "sum", group)]


COUNTS = {sums: 1, averages: 1, wholes: 1, shares: 1, mixed: 2, waiting: 2, broken: 3}


def given(rank):
    numbers = torch.Generator().manual_seed(rank)
    return [torch.randn(shape, generator=numbers) for shape in ((8, 3), (4,), (16, 5, 2), (4000, 7))]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("program", COUNTS)
def test_results_are_those_of_single_exchanges(program, size, monkeypatch):
    counted, compiled = [], torch.compile(program, fullgraph=True, options=OPTIONS)
    prepared = carrier.prepared
    monkeypatch.setattr(carrier, "prepared", lambda *args: counted.append(args[0]) or prepared(*args))

    def member(rank):
        group, single = dist.group.WORLD.group_name, dist.new_group([rank], use_local_synchronization=True)
        expected = program(group, *given(rank))
        dist.barrier()
        before = len(counted)
        dist.barrier()
        found = [compiled(group, *given(rank)) for _ in range(2)]
        dist.barrier()
        alike = all(torch.equal(a, b) for run in found for a, b in zip(run, expected, strict=True))
        return alike, len(counted) - before
    assert threads.run(size, member) == [(True, 2 * size * COUNTS[program])] * size


def test_nothing_is_joined_unless_asked(monkeypatch):
    counted, compiled = [], torch.compile(sums, fullgraph=True)
    prepared = carrier.prepared
    monkeypatch.setattr(carrier, "prepared", lambda *args: counted.append(args[0]) or prepared(*args))
    threads.run(2, lambda rank: compiled(dist.group.WORLD.group_name, *given(rank)))
    assert len(counted) == 2 * 4


def test_the_room_of_a_bucket():
    from rushlight._src.compiler import buckets
    from rushlight._src.core.dtypes import float32
    from rushlight._src.core.kinds import P
    from rushlight._src.core.meta import Meta
    from rushlight._src.graph.graph import Graph, Node
    meta = Meta.of((1 << 21,), float32)  # 8 MB
    inputs = [Node(f"x{k}", None, meta=meta) for k in range(7)]
    nodes = [Node(f"y{k}", P.all_reduce, (x,), {"reduce": "sum", "group": "0"}, meta) for k, x in enumerate(inputs)]
    found = buckets.found(Graph(inputs, nodes, nodes), {P.all_reduce})
    assert [len(bucket) for bucket in found if bucket] == [3, 3, 1]


def test_gradients_through_buckets():
    compiled = torch.compile(averages, fullgraph=True, options=OPTIONS)

    def member(rank):
        found = []
        for run in (averages, compiled):
            leaves = [x.requires_grad_() for x in given(rank)]
            results = run(dist.group.WORLD.group_name, *leaves)
            found.append(torch.autograd.grad(sum((y * y * (k + 1)).sum() for k, y in enumerate(results)), leaves))
        return all(map(torch.equal, *found))
    assert threads.run(2, member) == [True] * 2


def test_options():
    config = torch._inductor.config
    assert config.bucket_all_reduces_fx == "none"
    with config.patch(bucket_all_reduces_fx="all"):
        assert config.bucket_all_reduces_fx == "all"
    assert config.bucket_all_reduces_fx == "none"
    with pytest.raises(ValueError, match="one of none, all"):
        config.bucket_all_gathers_fx = "some"
    with pytest.raises(RuntimeError, match="must be none or all"):
        torch.compile(sums, options={"bucket_all_reduces_fx": "some"})
