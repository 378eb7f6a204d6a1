"""Passes over a DataLoader: objects that go on after errors, end their workers, and draw once; what arguments exclude;
several samples at once."""
import multiprocessing

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Faulty(rl.utils.data.Dataset):
    """Samples of which each third is not there."""

    def __len__(self):
        return 9

    def __getitem__(self, index):
        if index % 3 == 0:
            raise KeyError(index)
        return index


class Few(rl.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index


class Late(Few):
    """Samples of which the first is made only once another one has been received."""

    def __init__(self):
        self.received = multiprocessing.Event()

    def __getitem__(self, index):
        if index == 0:
            self.received.wait(60)
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_goes_on_after_an_error(workers):
    batches, seen = iter(rl.utils.data.DataLoader(Faulty(), num_workers=workers)), []
    for _ in range(9):
        try:
            seen.append(next(batches).item())
        except KeyError:
            seen.append(None)
    assert seen == [None if k % 3 == 0 else k for k in range(9)]
    with pytest.raises(StopIteration):
        next(batches)


def test_passes_are_objects():
    from rushlight.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

    loader = rl.utils.data.DataLoader(Few(), batch_size=2)
    batches = iter(loader)
    assert type(batches) is _SingleProcessDataLoaderIter and len(batches) == 2 and loader._auto_collation and next(
        batches).tolist() == [0, 1] and batches._num_yielded == 1
    loader = rl.utils.data.DataLoader(Few(), num_workers=1, persistent_workers=True)
    batches = iter(loader)
    assert type(batches) is _MultiProcessingDataLoaderIter and [b.item() for b in batches] == [0, 1, 2, 3]
    assert iter(loader) is batches and batches._workers[0].is_alive() and [b.item() for b in batches] == [0, 1, 2, 3]
    batches._shutdown_workers()
    assert not batches._workers[0].is_alive()


def test_workers_end_with_the_pass_they_are_of():
    batches = iter(rl.utils.data.DataLoader(Few(), num_workers=2))
    workers = batches._workers
    next(batches)
    del batches
    assert not any(worker.is_alive() for worker in workers)


def test_batches_come_in_order_or_as_they_are_made():
    data, found = Late(), []
    for batch in rl.utils.data.DataLoader(data, num_workers=2, in_order=False):
        found.append(batch.item())
        data.received.set()
    assert sorted(found) == [0, 1, 2, 3] and found[0] != 0


def test_a_pass_draws_once_from_the_common_stream():
    seen = []
    for _ in range(2):
        rl.manual_seed(0)
        batches, between = iter(rl.utils.data.DataLoader(range(8), shuffle=True)), []
        for batch in batches:
            between.append(batch.item())
            rl.rand(len(seen) + 1)  # what the program draws meanwhile changes nothing
        seen.append(between)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("t", [rl, torch], ids=["rushlight", "torch"])
def test_arguments_that_exclude_each_other(t):
    DataLoader, data = t.utils.data.DataLoader, range(3)
    stream = type("Stream", (t.utils.data.IterableDataset,), {"__iter__": lambda self: iter(range(3))})()
    for error, text, given in [(ValueError, r"multi-process loading \(num_workers > 0\), but got",
                                {"multiprocessing_context": "spawn"}),
                               (ValueError, "should specify a valid start method in",
                                {"num_workers": 1, "multiprocessing_context": "bad"}),
                               (TypeError, "multiprocessing_context option should be a valid context",
                                {"num_workers": 1, "multiprocessing_context": object()})]:
        with pytest.raises(error, match=text):
            DataLoader(data, **given)
    for name, value in (("shuffle", True), ("sampler", [0]), ("batch_sampler", [[0]])):
        with pytest.raises(ValueError, match=f"IterableDataset: expected unspecified {name}"):
            DataLoader(stream, **{name: value})
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
        list(stream + data)


@pytest.mark.parametrize("t", [rl, torch], ids=["rushlight", "torch"])
def test_several_samples_at_once(t):
    class Rows(t.utils.data.Dataset):
        def __init__(self, less=0):
            self.less = less

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return index

        def __getitems__(self, indices):
            return [10 * k for k in indices][self.less:]

    data = t.utils.data
    assert data.StackDataset(Rows(), range(4)).__getitems__([1, 3]) == [(10, 1), (30, 3)] and data.StackDataset(
        a=range(4)).__getitems__([2]) == [{"a": 2}]
    assert data.Subset(Rows(), [2, 3]).__getitems__([1]) == [30]
    with pytest.raises(ValueError, match="Nested dataset's output size mismatch. Expected 2, got 1"):
        data.StackDataset(Rows(1)).__getitems__([0, 1])


def test_seeds_of_streams_in_workers():
    from rushlight.utils.data._utils.worker import _generate_state as ours
    from torch.utils.data._utils.worker import _generate_state as theirs

    for base, worker in ((13434589827475259383, 4), (5, 0), (1 << 62, 15)):
        assert ours(base, worker) == tuple(theirs(base, worker))


def test_workers_that_persist_end_with_their_loader():
    batches = iter(rl.utils.data.DataLoader(Few(), num_workers=1, persistent_workers=True))
    worker, = batches._workers
    next(batches)
    del batches
    assert not worker.is_alive()


def test_workers_that_persist_shuffle_alike_in_every_pass():
    pipe = rl.utils.data.datapipes.iter.IterableWrapper(range(40)).shuffle().sharding_filter()
    loader = rl.utils.data.DataLoader(pipe, num_workers=2, persistent_workers=True, batch_size=None)
    passes = [list(loader) for _ in range(3)]
    assert all(sorted(found) == list(range(40)) for found in passes)
    assert passes[0] != passes[1] != passes[2]


class Pinnable:
    def pin_memory(self):
        raise AssertionError("there is nothing to pin memory for")


@pytest.mark.skipif(rl.accelerator.is_available(), reason="memory is pinned for accelerators")
def test_memory_is_pinned_for_accelerators_alone():
    loader = rl.utils.data.DataLoader([Pinnable()], batch_size=None, pin_memory=True)
    assert len(list(loader)) == 1
