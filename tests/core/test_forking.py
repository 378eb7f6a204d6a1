"""A fork while other threads plan, compile and compute: the child works."""
import importlib
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import rushlight
from rushlight._src.core import forking
from rushlight._src.core.cached import cached_property
from rushlight._src.core.forking import LOCKS, ORDER

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def ended(pid) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("name", ORDER)
def test_the_child_finds_every_lock_free(name):
    rushlight.compile(lambda x: x + 1)(rushlight.ones(3))  # so that all are there
    importlib.import_module("rushlight.distributed.memory")
    assert LOCKS[name] or name == "devices"  # which have locks once they are made
    locks = list(dict.fromkeys(LOCKS[name]))
    inside = threading.Event()

    def hold():
        for lock in locks:  # in the order in which a fork takes them
            lock.acquire()
        inside.set()
        threading.Event().wait(0.05)
        for lock in locks:
            lock.release()

    def take():
        for lock in locks:
            lock.acquire()
            lock.release()

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(60)
    pid = os.fork()
    if pid == 0:
        signal.alarm(300)  # ends a child that waits
        taker = threading.Thread(target=take)
        taker.start()
        taker.join()
        os._exit(0)
    holder.join()
    assert ended(pid) == 0


OF_GROUPS = {f"distributed/{name}.py" for name in ("tcp_store", "mailbox", "works", "process_group", "recorder",
                                              "rpc/workers", "remote_optimizer", "autograd", "worlds", "nccl/engine",
                                              "checkpoint/saver", "stores", "watchdog", "nccl/watchdog",
                                              "elastic/multiprocessing/api", "elastic/timer/api",
                                              "elastic/rendezvous/dynamic_rendezvous")}
"""Locks of what belongs to a group, which the child of a fork is no member of."""


OF_CALLS = {
    "_src/devices/cpu/llvm/generate.py": "a fork takes the Agreement that waits with it",
    "_src/core/apart.py": "the thread that waits for a completion is not the one that forks",
    "_src/devices/cpu/llvm/compile_queue.py": "used while a plan is made, by a thread that the child does not have"}
"""Locks that a fork does not take, and why the child never waits for them."""
LOCK = re.compile(r"threading\.(R?Lock|Condition|Event|(Bounded)?Semaphore|Barrier)\(|\ballocate_lock\("
                  r"|(?<![\w.])SimpleQueue\(\)|\bqueue\.\w*Queue\("
                  r"|@functools\.cached_property|from functools import.* cached_property")  # has one in Python 3.11


def test_every_lock_of_the_package_is_among_them():
    root = Path(rushlight.__file__).parent
    lines = [(path.relative_to(root), line) for path in root.rglob("*.py")
             for line in path.read_text(encoding="utf-8").splitlines() if LOCK.search(line)]
    known = {*OF_GROUPS, *OF_CALLS}
    assert known <= {path.as_posix() for path, _ in lines}
    lines = [(path, line) for path, line in lines if path.as_posix() not in known]
    assert len(lines) > 4 and all("guarded(" in line for _, line in lines), [line for line in lines
                                                                             if "guarded(" not in line[1]]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_child_reads_a_cached_property_that_another_thread_computes():
    parent, inside, over = os.getpid(), threading.Event(), threading.Event()

    class Holder:
        @cached_property
        def value(self):
            if os.getpid() == parent:
                inside.set()
                over.wait(60)
            return 7

    thread = threading.Thread(target=lambda: Holder().value)
    thread.start()
    assert inside.wait(60)
    pid = os.fork()
    if pid == 0:
        signal.alarm(300)  # ends a child that waits
        os._exit(Holder().value)
    over.set()
    thread.join()
    assert ended(pid) == 7


@pytest.mark.parametrize("name, is_awaited", [("wave", True), ("llvmlite.binding", True), ("numpy.none", True),
                                              ("rushlight.none", True), ("program_of_a_user", False)])
def test_imports_of_other_threads_go_first(name, is_awaited):
    """Of what the child may import, too: nobody would release the lock of the module there."""
    inside, over = threading.Event(), threading.Event()

    def hold():
        with importlib._bootstrap._ModuleLockManager(name):
            inside.set()
            over.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(60)
    found = forking.importing()
    over.set()
    holder.join()
    assert found == is_awaited and not forking.importing()


BUSY = """
import os, random, signal, sys, threading, time
import rushlight as torch

busy = threading.Event()

def plans():
    for k in range(2, 1 << 30):
        busy.wait()
        (torch.ones(k, k % 7 + 1) * 2 + torch.ones(k % 7 + 1)).sum(0).softmax(-1)

def pool():
    a = torch.randn(500, 500)
    while busy.wait():
        (a @ a + a).exp()

def compiles():
    for k in range(1 << 30):
        busy.wait()
        names = {}
        exec(f"def f(x): return (x * {k} + 1).sin().sum()", names)
        torch.compile(names["f"])(torch.ones(5))

a, draw = torch.randn(300, 300), random.Random(0)
a @ a
for work in (plans, pool, compiles):
    threading.Thread(target=work, daemon=True).start()
ends = []
for k in range(int(sys.argv[1])):
    busy.set()
    time.sleep(0.1 * draw.random())  # in the middle of whatever they do
    pid = os.fork()
    if pid == 0:  # which must not ask the event: its lock is no lock of ours
        signal.alarm(240)
        x = torch.ones(k + 3, 11, requires_grad=True)
        ((x + 1) @ torch.ones(11, 300)).exp().sum().backward()
        torch.compile(lambda x: x.cos() + k)(x)
        os._exit(0 if x.grad is not None else 1)
    busy.clear()
    ends.append(os.waitpid(pid, 0)[1])
print(ends)
os._exit(0)
"""


@pytest.mark.parametrize("count", [4, pytest.param(30, marks=pytest.mark.long)])
def test_children_of_a_busy_process_work(tmp_path, count):
    run = subprocess.run([sys.executable, "-c", BUSY, str(count)], capture_output=True, text=True, timeout=1500,
                         env={**os.environ, "RUSHLIGHT_CACHE": str(tmp_path)})
    assert run.stdout.strip() == str([0] * count), run.stderr[-2000:]
