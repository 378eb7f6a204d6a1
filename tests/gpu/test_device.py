"""Tensors on "cuda" over a driver that tests stand in for: memory, order, streams, errors and lifetimes."""
import gc
import subprocess
import sys

import numpy as np
import pytest

import rushlight as rl

from .stub import BLOCKS, EVENTS, LIMIT, RESERVED


def test_copies_and_kernels(gpu):
    for dtype in (rl.float32, rl.float16, rl.bfloat16, rl.int64, rl.uint8, rl.bool):
        x = rl.arange(7).to(dtype)
        y = x.to("cuda")
        assert y.device == rl.device("cuda:0") and y.is_cuda and y.cpu().tolist() == x.tolist() == y.tolist()
        assert y[2:5].clone().tolist() == x[2:5].tolist() and y[3].item() == x[3].item()
    x = rl.arange(12.0, device="cuda").reshape(3, 4)
    x[1] = 5
    x.t()[0].mul_(2)
    x[x > 8] = -1
    assert x.tolist() == [[0, 1, 2, 3], [-1, 5, 5, 5], [-1, -1, -1, -1]]


def test_a_step_of_training(gpu):
    """A small network, eagerly: results and gradients are the processor's."""
    import rushlight.nn.functional as F

    def step(where):
        rl.manual_seed(0)
        w, b = (rl.randn(*shape).to(where).requires_grad_() for shape in ((6, 4), (6,)))
        x, y = rl.randn(5, 4).to(where), rl.tensor([0, 1, 2, 3, 4]).to(where)
        loss = F.cross_entropy(F.gelu((x.unsqueeze(1) * w).sum(-1) + b), y)
        loss.backward()
        return [loss.item(), w.grad.cpu().numpy(), b.grad.cpu().numpy()]

    for found, wanted in zip(step("cuda"), step("cpu")):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_errors_of_kernels(gpu):
    x = rl.arange(3.0, device="cuda")
    wrong = x[rl.tensor([5], device="cuda")]  # the device reports it, which is seen when somebody waits
    with pytest.raises(IndexError):
        wrong.cpu()
    wrong.cpu()
    rl.ones(3, dtype=rl.int32, device="cuda") // rl.zeros(3, dtype=rl.int32, device="cuda")
    with pytest.raises((RuntimeError, ZeroDivisionError)):
        rl.cuda.synchronize()
    assert (x + 1).tolist() == [1, 2, 3]


def test_random_numbers_are_those_of_the_processor(gpu):
    rl.manual_seed(3)
    wanted = rl.rand(9)
    found = rl.rand(9, device="cuda", generator=rl.Generator("cuda").manual_seed(3))
    np.testing.assert_allclose(found.cpu().numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_streams_keep_their_order(silent):
    provider, library = silent
    first, second = rl.Stream("cuda"), rl.Stream("cuda")
    library.clear()
    with first:
        x = rl.ones(4, device="cuda") + 1
        event = first.record_event()
    with second:
        second.wait_event(event)
        y = x * 2
    assert y.shape == (4,)
    order = [row[:2] for row in library.notes("cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent")]
    marked = order.index(("cuEventRecord", first.stream_id))
    waited = order.index(("cuStreamWaitEvent", second.stream_id))
    assert ("cuLaunchKernel", first.stream_id) in order[:marked] and marked < waited
    assert ("cuLaunchKernel", second.stream_id) in order[waited:]


def test_blocks_belong_to_streams(silent):
    """What a stream had last is not given to another, whose work need not come after."""
    stream = rl.Stream("cuda")
    x = rl.empty(1 << 16, dtype=rl.uint8, device="cuda")
    address = x.data_ptr()
    del x
    with stream:
        y = rl.empty(1 << 16, dtype=rl.uint8, device="cuda")
        assert y.data_ptr() != address
    assert rl.empty(1 << 16, dtype=rl.uint8, device="cuda").data_ptr() == address


def memory_of_the_host() -> int:
    """Bytes of the process that lie in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) << 12


@pytest.mark.parametrize("steps", [100, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_leak(silent, steps):
    """Many steps of training take the memory of some, on the device and on the host, and free what they took."""
    provider, library = silent
    model = rl.nn.Sequential(rl.nn.Linear(16, 32), rl.nn.GELU(), rl.nn.Dropout(0.1), rl.nn.Linear(32, 4)).to("cuda")
    optimizer = rl.optim.AdamW(model.parameters())
    x, side = rl.ones(8, 16).pin_memory(), rl.cuda.Stream()

    def step():
        with side:
            there = x.to("cuda", non_blocking=True)
        rl.cuda.current_stream().wait_stream(side)
        there.record_stream(rl.cuda.current_stream())
        optimizer.zero_grad()
        model(there).square().mean().backward()
        optimizer.step()

    for _ in range(50):
        step()
    gc.collect()
    host = memory_of_the_host()
    blocks, before = library[BLOCKS], provider.statistics(0)
    for _ in range(steps):
        step()
    gc.collect()
    assert library[BLOCKS] == blocks and provider.statistics(0)["allocated"] == before["allocated"]
    assert provider.statistics(0)["reserved"] == before["reserved"]
    assert memory_of_the_host() - host < (8 << 20)


@pytest.mark.parametrize("act", [
    lambda x: x + 1, lambda x: x[:, 1:].contiguous(), lambda x: x.sum(1), lambda x: x @ x.t(),
    lambda x: rl.nn.functional.softmax(x, 1), lambda x: x.t()[1:], lambda x: x.mul_(2)],
    ids=["add", "clone", "sum", "product", "softmax", "view", "in place"])
def test_sizes_that_keep_changing(silent, planned_anew, act):
    """However many sizes an operator has had, each call launches what the first did, on memory of the device."""
    provider, library = silent
    launches = []
    for n in range(3, 24):
        x = rl.zeros(3, n).to("cuda")
        before = library.asked("cuLaunchKernel")
        y = act(x)
        assert y.device == x.device
        launches.append(library.asked("cuLaunchKernel") - before)
    assert len(set(launches)) == 1


def test_results_of_sizes_that_keep_changing(gpu):
    for n in range(3, 24):
        x = rl.arange(3.0 * n).reshape(3, n)
        assert (x.to("cuda")[:, 1:] * 2).tolist() == (x[:, 1:] * 2).tolist()


def test_memory_is_given_back(silent):
    provider, library = silent
    rl.empty(1, device="cuda")
    library.state[LIMIT] = library[RESERVED] + (64 << 20)
    x = rl.empty(40 << 20, dtype=rl.uint8, device="cuda")
    del x
    y = rl.empty(50 << 20, dtype=rl.uint8, device="cuda")  # fits once the other is given back
    with pytest.raises(rl.OutOfMemoryError, match=r"52428800 bytes of shape \[52428800\] \(torch.uint8\)"):
        rl.empty(50 << 20, dtype=rl.uint8, device="cuda")
    stats = rl.cuda.memory_stats()
    assert stats["num_ooms"] == 1 and stats["num_alloc_retries"] == 2
    del y
    gc.collect()
    provider.trim(0)
    assert library[BLOCKS] == rl.cuda.memory_stats()["segment.all.current"] <= 1


def test_events_are_given_back(silent):
    provider, library = silent
    stream = rl.Stream("cuda")
    before = library[EVENTS]
    for _ in range(10):
        stream.record_event()
    gc.collect()
    assert library[EVENTS] == before


def test_the_module_of_the_device(silent):
    provider, library = silent
    assert rl.cuda.is_available() and rl.cuda.device_count() == 2 and rl.cuda.current_device() == 0
    assert rl.cuda.get_device_name(1) == "a stub" and rl.cuda.get_device_capability() == (9, 0)
    with rl.cuda.device(1):
        x = rl.empty(1 << 21, dtype=rl.uint8, device="cuda")
        assert x.device == rl.device("cuda:1") and rl.cuda.memory_allocated() >= 1 << 21
    assert rl.cuda.current_device() == 0 and rl.cuda.mem_get_info(1)[1] == rl.cuda.get_device_properties(1).total_memory
    before = library.asked("cuCtxSynchronize")
    rl.cuda.synchronize()
    assert library.asked("cuCtxSynchronize") == before + 1
    with rl.cuda.stream(rl.cuda.Stream()) as _:
        assert rl.cuda.current_stream() != rl.cuda.default_stream()


def test_profilers_record_blocks(silent):
    provider, library = silent
    for _ in range(2):
        with pytest.raises(KeyError), rl.cuda.profiler.profile():
            raise KeyError
    assert [library.asked(f"cuProfiler{name}") for name in ("Start", "Stop")] == [2, 2]


def test_without_a_driver():
    code = """import sys, rushlight as rl
assert not any("devices.triton" in name for name in sys.modules)
assert not rl.cuda.is_available() and rl.cuda.device_count() == 0
try:
    rl.ones(1, device="cuda")
except RuntimeError as reason:
    assert "Torch not compiled with CUDA enabled" in str(reason), reason
else:
    raise AssertionError("no error")
assert "triton" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_the_stand_in_is_found_by_no_one_else(silent):
    """What is loaded for one test is not a driver for others."""
    from rushlight._src.devices.triton import driver
    assert driver.opened(driver.NVIDIA) is None or driver.opened(driver.NVIDIA).name(0) != "a stub"
