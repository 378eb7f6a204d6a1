"""Data pipes are divided among the ranks of a world, then among the workers of each, and shuffled alike."""
import json

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import multiprocessing
from rushlight.distributed import threads
from rushlight.utils.data import DataLoader
from rushlight.utils.data.datapipes.iter import IterableWrapper
from rushlight.utils.data.datapipes.map import SequenceWrapper

ITEMS = 24


def pipe():
    return IterableWrapper(range(ITEMS)).shuffle().sharding_filter()


def passes(loader, count=2):
    return [[item for batch in loader for item in batch.tolist()] for _ in range(count)]


def test_ranks_share_items():
    def member(rank):
        plain = DataLoader(IterableWrapper(range(ITEMS)).sharding_filter(), batch_size=2)
        generator = torch.Generator().manual_seed(rank)
        return passes(plain), passes(DataLoader(pipe(), batch_size=2, shuffle=True, generator=generator))
    found = threads.run(2, member)
    for rank, (plain, mixed) in enumerate(found):
        assert plain == [list(range(rank, ITEMS, 2))] * 2
        assert mixed[0] != mixed[1]
    for first, second in zip(found[0][1], found[1][1]):
        assert sorted(first + second) == list(range(ITEMS)) and first + second != list(range(ITEMS))


def test_one_process_takes_all():
    assert passes(DataLoader(IterableWrapper(range(5)).sharding_filter(), batch_size=2), 1) == [list(range(5))]
    assert passes(DataLoader(SequenceWrapper(range(5)), batch_size=2), 1) == [list(range(5))]


def ranked(rank, folder, workers):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    loader = DataLoader(IterableWrapper(range(ITEMS)).sharding_filter(), batch_size=2, num_workers=workers)
    mixed = DataLoader(pipe(), batch_size=2, num_workers=workers, shuffle=True)
    found = passes(loader, 1)[0], passes(mixed)
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


@pytest.mark.parametrize("workers", [2])
def test_workers_share_what_their_rank_takes(workers, tmp_path):
    multiprocessing.spawn(ranked, (tmp_path, workers), nprocs=2)
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for rank in range(2):  # of four parts, one of each worker in turns
        parts = [list(range(2 * worker + rank, ITEMS, 4)) for worker in range(2)]
        assert found[rank][0] == [x for k in range(0, len(parts[0]), 2) for part in parts for x in part[k:k + 2]]
    for first, second in zip(found[0][1], found[1][1]):
        assert sorted(first + second) == list(range(ITEMS))
