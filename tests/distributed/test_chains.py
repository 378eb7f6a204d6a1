"""Several tensors in one collective give what each gives by itself."""
import random

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import threads
from rushlight.distributed.chains import Chain
from rushlight.distributed.engine import Engine, Region
from rushlight.nn.parallel import DistributedDataParallel


def tensors(rank, sizes):
    torch.manual_seed(rank)
    found = [torch.randn(n) if k % 3 else torch.randint(9, (n,)) for k, n in enumerate(sizes)]
    return [t.reshape(2, -1).t() if k % 2 and t.numel() % 2 == 0 and t.numel() else t for k, t in enumerate(found)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 9])
@pytest.mark.parametrize("sizes", [(3,), (5, 4, 0, 6, 1), (9000, 4, 700, 0, 30000, 70000, 8), (0, 0)])
def test_sums_are_those_of_each_tensor(ranks, sizes):
    every = [tensors(rank, sizes) for rank in range(ranks)]
    expected = [sum(terms) for terms in zip(*([t.clone() for t in each] for each in every))]

    def member(rank):
        dist.group.WORLD.all_reduce(every[rank])
        for found, sum_ in zip(every[rank], expected):
            torch.testing.assert_close(found, sum_)
    threads.run(ranks, member)


def test_results_go_elsewhere():
    def member(rank):
        given, results = tensors(rank, (4, 30000, 6)), tensors(rank, (4, 30000, 6))
        kept = [t.clone() for t in given]
        dist.group.WORLD.all_reduce(results, sources=given)
        for found, source, before in zip(results, given, kept):
            torch.testing.assert_close(source, before)
            dist.all_reduce(before)
            torch.testing.assert_close(found, before)
    threads.run(2, member)


@pytest.mark.parametrize("seed", range(20))
def test_pieces_cover_a_chain(seed):
    draw = random.Random(seed)
    lengths = [draw.choice([0, 4, 8, 400, 4096]) for _ in range(draw.randint(1, 9))]
    at = iter(range(0, 10 ** 9, 10 ** 6))
    sources, targets = ([Region(next(at), n, "float32", 4) for n in lengths] for _ in range(2))
    chain = Chain(sources, targets)
    flat = [(s.address + k, t.address + k) for s, t in zip(sources, targets) for k in range(s.nbytes)]
    begin = draw.randint(0, chain.nbytes)
    nbytes = draw.randint(0, chain.nbytes - begin)
    found = [None] * nbytes
    for piece in chain.pieces(begin, nbytes):
        found[piece.offset:piece.offset + piece.nbytes] = [(piece.source + k, piece.target + k)
                                                           for k in range(piece.nbytes)]
    assert found == flat[begin:begin + nbytes]


class Doubling(Engine):
    """An engine that reduces one region at a time: of two ranks that have the same."""

    def all_reduce(self, memory, kind, scale):
        import ctypes
        held = (ctypes.c_float * (memory.nbytes // 4)).from_address(memory.address)
        held[:] = [2 * x for x in held]


def test_engines_without_an_entry_of_their_own_copy():
    a, b, c, d = torch.ones(3), torch.arange(5.0), torch.zeros(3), torch.zeros(5)
    regions = [Region(t.data_ptr(), t.numel() * 4, "float32", 4) for t in (a, b, c, d)]
    Doubling().reduce_chain(Chain(regions[:2], regions[2:]), "sum", 1.0)
    assert c.tolist() == [2, 2, 2] and d.tolist() == [0, 2, 4, 6, 8] and a.tolist() == [1, 1, 1]


@pytest.mark.parametrize("view", [False, True])
def test_gradients_are_averaged_where_they_lie(view):
    """Without a hook nothing goes through a vector of a bucket but gradients that are views of one."""
    def member(rank):
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Linear(3, 2), gradient_as_bucket_view=view)
        for _ in range(2):
            model(torch.full((1, 3), rank + 1.0)).sum().backward()
            assert model.module.weight.grad.tolist() == [[1.5, 1.5, 1.5]] * 2
            if not view:
                assert all(bucket.buffer is None for bucket in model.reducer.buckets)
            model.zero_grad()
    threads.run(2, member)
