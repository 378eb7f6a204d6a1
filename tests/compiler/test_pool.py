"""The thread pool: coverage of extents, nesting, several callers, changing sizes, fork."""

import os
import threading
import time

import numpy as np
import pytest

from rushlight._src.devices.cpu.llvm import jit, pool
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import i32, i64, ptr
from rushlight._src.devices.cpu.llvm.values import constant

ABI = [("args", ptr), ("begin", i64), ("end", i64), ("worker", i64)]


def kernels():
    """`count`: adds one to counts[i] and notes the worker; `nested`: runs `count` over row i through the pool."""
    module = Module()
    f = module.function("count", ABI)
    args, begin, end, worker = f.parameters
    counts, workers = f.load(ptr, args), f.load(ptr, f.offset(args, 8))

    def bump(i, _):
        place = f.offset(counts, i, i64)
        f.store(f.add(f.load(i64, place), 1), place)
        f.store(worker, f.offset(workers, i, i64))

    f.loop(begin, end, 1, [], bump)
    f.ret()

    f = module.function("nested", ABI)
    args, begin, end, worker = f.parameters
    slots = f.alloca(i64, 2)

    def row(i, _):
        for k in range(2):
            base = f.load(ptr, f.offset(args, 8 * k))
            f.store(f.offset(base, f.mul(i, 8 * 64)), f.offset(slots, 8 * k))
        f.call("pool_run", [f.load(ptr, f.offset(args, 16)), slots, f.add(f.mul(i, 0), 64), f.add(f.mul(i, 0), 5)])

    f.loop(begin, end, 1, [], row)
    f.ret()
    text = module.text()
    return jit.build(text, lambda: text, ["count", "nested"], {"pool_run": pool.addresses()["pool_run"]})


held: list = []  # kernels of the programs, whose words do not hold them


def program(kernel, extent, grain, slots):
    held.append(kernel)
    return np.array([1, kernel, extent, grain, len(slots), *sum(slots, ())], np.int64)


def run(code, *values):
    slots = np.array([value.ctypes.data for value in values], np.int64)
    pool.caller("program_run")(code.ctypes.data, slots.ctypes.data)


@pytest.fixture(autouse=True)
def restored():
    before = pool.get_num_threads()
    yield
    pool.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("extent,grain", [(0, 1), (1, 1), (7, 1), (1000, 3), (1000, 1000), (2_000_000, 1)])
def test_every_unit_runs_once(threads, extent, grain):
    pool.set_num_threads(threads)
    counts, workers = np.zeros(extent + 1, np.int64), np.full(extent + 1, -1)
    code = program(kernels()["count"], extent, grain, [(0, 0), (1, 0)])
    for _ in range(3):
        run(code, counts, workers)
    assert (counts[:extent] == 3).all() and counts[extent] == 0
    assert ((workers[:extent] >= 0) & (workers[:extent] < threads)).all()


def test_program_slots():
    # two steps: an offset base pointer, and a constant address
    counts, workers = np.zeros(10, np.int64), np.zeros(10, np.int64)
    kernel = kernels()["count"]
    code = np.array([2, kernel, 4, 1, 2, 0, 8, 1, 0,
                     kernel, 3, 8, 2, -1, counts.ctypes.data + 56, 1, 0], np.int64)
    run(code, counts, workers)
    assert counts.tolist() == [0, 1, 1, 1, 1, 0, 0, 1, 1, 1]


def test_nested_regions():
    pool.set_num_threads(3)
    counts, workers = np.zeros((50, 64), np.int64), np.zeros((50, 64), np.int64)
    found = kernels()
    run(program(found["nested"], 50, 1, [(0, 0), (1, 0), (-1, found["count"])]), counts, workers)
    assert (counts == 1).all()


def test_callers_on_several_threads():
    pool.set_num_threads(2)
    code = program(kernels()["count"], 5000, 7, [(0, 0), (1, 0)])
    arrays = [np.zeros((2, 5000), np.int64) for _ in range(4)]

    def many(array):
        for _ in range(200):
            run(code, array[0], array[1])

    threads = [threading.Thread(target=many, args=(array,)) for array in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((array[0] == 200).all() for array in arrays)


def test_changing_the_number_of_threads():
    code = program(kernels()["count"], 100, 1, [(0, 0), (1, 0)])
    array = np.zeros((2, 100), np.int64)
    for threads in [1, 4, 2, 3, 1, 2] * 5:
        pool.set_num_threads(threads)
        assert pool.get_num_threads() == threads
        run(code, array[0], array[1])
    assert (array[0] == 30).all()
    with pytest.raises(ValueError):
        pool.set_num_threads(0)


def test_fork():
    pool.set_num_threads(2)
    code = program(kernels()["count"], 1000, 1, [(0, 0), (1, 0)])
    array = np.zeros((2, 1000), np.int64)
    run(code, array[0], array[1])
    child = os.fork()
    if not child:
        run(code, array[0], array[1])
        os._exit(0 if (array[0] == 2).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def sleeping():
    """A kernel of two units: the worker's sets a flag and sleeps for as many microseconds as it is told, the caller's
    sleeps until it is set."""
    module = Module()
    f = module.function("sleep", ABI)
    args, _, _, worker = f.parameters
    flag, microseconds = f.load(ptr, args), f.load(i64, f.load(ptr, f.offset(args, 8)))
    others, look, nap, out = (f.new_block(name) for name in ("others", "look", "nap", "out"))
    f.branch_if(f.compare("==", worker, 0), look, others)
    f.at(others)
    f.atomic_store(constant(i64, 1), flag)
    f.call("usleep", [f.cast("trunc", microseconds, i32)], i32)
    f.branch(out)
    f.at(look)
    f.branch_if(f.compare("!=", f.atomic_load(i64, flag), 0), out, nap)
    f.at(nap)
    f.call("usleep", [constant(i32, 1000)], i32)
    f.branch(look)
    f.at(out)
    f.ret()
    text = module.text()
    return jit.build(text, lambda: text, ["sleep"])["sleep"]


def test_a_caller_that_waits_leaves_its_processor_to_others():
    pool.set_num_threads(2)
    code = program(sleeping(), 2, 1, [(0, 0), (1, 0)])
    run(code, np.zeros(1, np.int64), np.ones(1, np.int64))  # the worker is there
    started, asleep = time.monotonic(), np.array([500_000], np.int64)
    used = time.thread_time()
    flag = np.zeros(1, np.int64)
    run(code, flag, asleep)
    used, passed = time.thread_time() - used, time.monotonic() - started
    assert flag[0] == 1 and passed >= 0.5 and used < 0.25


def test_sixty_four_threads_on_few_processors():
    """Small regions and large ones in turns, from several callers: no unit is lost, nothing waits for ever."""
    pool.set_num_threads(64)
    shapes = [(2, 1), (5000, 1), (65, 1), (3, 2), (64, 1), (100_000, 7), (1, 1)]
    codes = [program(kernels()["count"], *shape, [(0, 0), (1, 0)]) for shape in shapes]
    arrays = [[np.zeros((2, extent), np.int64) for extent, _ in shapes] for _ in range(3)]

    def many(own):
        for k in range(20):
            for code, array in zip(codes, own):
                run(code, array[0], array[1])
            if k % 7 == 0:
                time.sleep(0.02)  # workers go to sleep meanwhile

    callers = [threading.Thread(target=many, args=(own,)) for own in arrays]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(300)
    assert not any(caller.is_alive() for caller in callers)
    assert all((array[0] == 20).all() and (array[1] < 64).all() for own in arrays for array in own)


def test_products_and_sums_on_sixty_four_threads_are_those_of_one():
    import rushlight as rl
    x = rl.randn(300, 257)
    results = []
    for threads in (1, 64):
        pool.set_num_threads(threads)
        results.append([(x @ x.T).tolist(), x.softmax(1).tolist(), (x > 0).sum(0).tolist()])
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-4, atol=1e-4)
    assert results[0][1:] == results[1][1:]


def test_chunks_are_no_finer_than_threads_need():
    pool.set_num_threads(2)
    extent = 10_000
    counts, workers = np.zeros(extent, np.int64), np.full(extent, -1)
    module = Module()
    f = module.function("begins", ABI)
    args, begin, _, _ = f.parameters
    f.store(constant(i64, 1), f.offset(f.load(ptr, args), begin, i64))
    f.ret()
    text = module.text()
    code = program(jit.build(text, lambda: text, ["begins"])["begins"], extent, 1, [(0, 0), (1, 0)])
    run(code, counts, workers)
    assert 2 <= counts.sum() <= 2 * pool.MANY
