"""Processes that run one function: their errors reach the one that joins them."""
import os
import pickle
import signal
import sys
import time

import pytest

import rushlight as torch
from rushlight import multiprocessing


def write(index, x):
    x[index] = index + 1


def fails(index):
    if index == 1:
        raise KeyError("the second")
    time.sleep(60)


def leaves(index, how):
    if how == "exit":
        sys.exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_fresh_process_writes_into_shared_memory():
    x = torch.zeros(2).share_memory_()
    multiprocessing.spawn(write, (x,), nprocs=2)
    assert x.tolist() == [1, 2]


def test_an_error_has_its_traceback_and_ends_the_others():
    context = multiprocessing.start_processes(fails, nprocs=2, join=False, start_method="fork")
    assert len(set(context.pids())) == 2
    with pytest.raises(multiprocessing.ProcessRaisedException, match="KeyError: 'the second'") as caught:
        while not context.join(timeout=20):
            pass
    assert caught.value.error_index == 1 and "in fails" in str(caught.value) and not any(p.is_alive()
                                                                                         for p in context.processes)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("how,code,name", [("exit", 3, None), ("kill", -9, "SIGKILL")])
def test_other_ends(how, code, name):
    with pytest.raises(multiprocessing.ProcessExitedException) as caught:
        multiprocessing.start_processes(leaves, (how,), start_method="fork")
    assert (caught.value.exit_code, caught.value.signal_name) == (code, name)


def test_joining_gives_up_in_time(tmp_path):
    context = multiprocessing.start_processes(rests, (tmp_path / "enough",), join=False, start_method="fork")
    assert not context.join(timeout=0.05)
    (tmp_path / "enough").touch()
    assert context.join()


def rests(index, until):
    while not until.exists():
        time.sleep(0.01)


def test_ways_to_share_have_pytorchs_names():
    import rushlight as torch
    with pytest.warns(UserWarning, match="descriptors"):
        torch.multiprocessing.set_sharing_strategy("file_system")
    torch.multiprocessing.set_sharing_strategy(torch.multiprocessing.get_sharing_strategy())
    assert torch.multiprocessing.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    with pytest.raises(AssertionError, match="strategies"):
        torch.multiprocessing.set_sharing_strategy("pigeon")
