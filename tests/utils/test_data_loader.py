"""Workers of a DataLoader: how they end, what they tell, and what stays from one epoch to the next."""
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from ..waiting import wait_for

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Numbers(Dataset):
    def __init__(self, bad=None, slow=None):
        self.bad, self.slow = bad, slow

    def __len__(self):
        return 8

    def __getitem__(self, k):
        if k == self.bad:
            raise KeyError(f"no {k}")
        if k == self.slow:
            time.sleep(600)
        return torch.tensor([k, os.getpid()])


class Chance(Numbers):
    def __getitem__(self, k):
        import random
        return torch.tensor([random.random(), np.random.rand(), torch.rand(()).item()], dtype=torch.float64)


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, 10, info.num_workers))


def numbers(loader):
    return [row[0] for batch in loader for row in batch.tolist()]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_end_when_the_main_process_is_killed(how, method, tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(f"""
        import multiprocessing, os, time
        import rushlight as torch
        class D(torch.utils.data.Dataset):
            def __len__(self): return 10 ** 9
            def __getitem__(self, k): return torch.ones(3)
        if __name__ == "__main__":
            it = iter(torch.utils.data.DataLoader(D(), num_workers=2, batch_size=2, multiprocessing_context={method!r}))
            next(it)
            print(*[p.pid for p in multiprocessing.active_children()], flush=True)
            time.sleep(600)
    """))
    main = subprocess.Popen([sys.executable, str(tmp_path / "program.py")], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)
    workers = list(map(int, main.stdout.readline().split()))
    assert len(workers) == 2
    main.send_signal(how)
    main.wait()

    def running():
        for pid in workers:
            try:
                state = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z":
                yield pid

    wait_for(lambda: not list(running()), 300)


def test_workers_that_persist_are_the_same_processes():
    stays, goes = (DataLoader(Numbers(), batch_size=2, num_workers=2, persistent_workers=p) for p in (True, False))
    for loader, same in ((stays, True), (goes, False)):
        first, second = ({row[1] for batch in loader for row in batch.tolist()} for _ in range(2))
        assert (first == second) is same and os.getpid() not in first
    assert numbers(stays) == list(range(8))


def test_an_epoch_that_was_given_up_leaves_nothing_behind():
    loader = DataLoader(Numbers(), batch_size=1, num_workers=2, persistent_workers=True, prefetch_factor=3)
    for stop in (1, 3, 8):
        assert [batch[0, 0].item() for _, batch in zip(range(stop), loader)] == list(range(stop))
    assert numbers(loader) == list(range(8))


def test_workers_draw_different_numbers_and_the_same_again():
    def drawn():
        torch.manual_seed(3)
        return torch.cat(list(DataLoader(Chance(), batch_size=1, num_workers=2))).tolist()
    first = drawn()
    assert first == drawn()
    assert all(len({row[k] for row in first}) == 8 for k in range(3))


@pytest.mark.parametrize("persistent", [True, False])
def test_streams_are_shared_by_workers_in_every_epoch(persistent):
    loader = DataLoader(Stream(), batch_size=2, num_workers=2, persistent_workers=persistent)
    for _ in range(2):
        assert sorted(x for batch in loader for x in batch.tolist()) == list(range(10))


def test_errors_of_workers_have_their_class_and_words():
    with pytest.raises(KeyError, match="Caught KeyError in DataLoader worker process"):
        list(DataLoader(Numbers(bad=3), num_workers=2))

    def prepare(number):
        raise ValueError("not today")
    with pytest.raises(ValueError, match="not today"):
        list(DataLoader(Numbers(), num_workers=1, worker_init_fn=prepare))


def test_a_slow_worker_is_given_up_and_ended():
    loader, start = DataLoader(Numbers(slow=0), num_workers=1, timeout=1), time.monotonic()
    with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
        next(iter(loader))
    assert time.monotonic() - start < 300


@pytest.mark.parametrize("name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset",
                                  "persistent_workers"])
def test_what_samplers_were_made_from_is_not_set_again(name):
    loader = DataLoader(Numbers())
    with pytest.raises(ValueError, match=f"{name} attribute should not be set"):
        setattr(loader, name, None)
    loader.own = 1


def test_a_dead_worker_is_told(monkeypatch):
    def leave(number):
        os._exit(3)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(DataLoader(Numbers(), num_workers=1, worker_init_fn=leave))


def test_interrupting_the_group_is_one_traceback(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        import rushlight as torch
        class D(torch.utils.data.Dataset):
            def __len__(self): return 10 ** 9
            def __getitem__(self, k): return torch.ones(3)
        for k, batch in enumerate(torch.utils.data.DataLoader(D(), num_workers=2)):
            if k == 3:
                print("ready", flush=True)
    """))
    main = subprocess.Popen([sys.executable, str(tmp_path / "program.py")], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)
    main.stdout.readline()
    os.killpg(main.pid, signal.SIGINT)
    try:
        _, errors = main.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        os.killpg(main.pid, signal.SIGKILL)
        raise
    assert main.returncode in (1, -signal.SIGINT) and errors.count(
        "KeyboardInterrupt\n") == 1 and "Process Process" not in errors
