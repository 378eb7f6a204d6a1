"""Copies between devices, what the host may read, streams and events."""
import copy
import io
import subprocess
import sys

import pytest

import rushlight as rl

READS = """
import ctypes, rushlight as rl
from rushlight._src.devices import testing
testing.activate("fake")
x = rl.ones(4, device="fake")
assert x.sum().item() == 4
ctypes.c_float.from_address(x.data_ptr()).value
print("read")
"""


def test_memory_faults_where_the_host_reads_it():
    found = subprocess.run([sys.executable, "-c", READS], capture_output=True, text=True)
    assert found.returncode < 0 and "read" not in found.stdout, found.stderr


@pytest.mark.parametrize("start, end", [("cpu", "fake:0"), ("fake:0", "cpu"), ("fake:0", "fake:1"),
                                        ("fake:1", "fake:1"), ("cpu", "cpu")])
def test_copies(start, end):
    x = rl.arange(24.0).reshape(4, 6).to(start).requires_grad_()
    for view in (lambda t: t, lambda t: t.t(), lambda t: t[::2, 1:], lambda t: t[:0], lambda t: t.expand(2, 4, 6)):
        moved = view(x).to(end)
        assert moved.device == rl.device(end) and moved.tolist() == view(x).tolist()
    x.to(end).pow(2).sum().backward()
    assert x.grad.device == x.device and x.grad.tolist() == (2 * x.detach()).tolist()
    assert rl.zeros(4, 6, device=end).copy_(x.detach()).tolist() == x.tolist()
    assert rl.zeros(2, 4, 6, dtype=rl.int64, device=end).copy_(x.detach())[1].tolist() == x.long().tolist()
    z = rl.view_as_complex(x.detach().reshape(12, 2)).conj()
    assert z.to(end).tolist() == z.tolist()


@pytest.mark.parametrize("start, end", [("fake:0", "fake:1"), ("fake:0", "cpu"), ("cpu", "fake:1"),
                                        ("fake:1", "fake:1")])
@pytest.mark.parametrize("dtype", [rl.float64, rl.bfloat16, rl.int32])
def test_copies_of_another_dtype(start, end, dtype):
    x = rl.arange(5.0, device=start)
    for y in (x.to(end, dtype), x.to(device=end, dtype=dtype, copy=True), x.to(rl.zeros(1, device=end, dtype=dtype))):
        assert y.device == rl.device(end) and y.dtype is dtype and y.tolist() == [0, 1, 2, 3, 4]
    if dtype.is_floating_point:
        layer = rl.nn.Linear(2, 2, device=start).to(device=end, dtype=dtype)
        assert {(p.device, p.dtype) for p in layer.parameters()} == {(y.device, dtype)}
        w = rl.ones(3, device=start, requires_grad=True)
        w.to(end, dtype).sum().backward()
        assert w.grad.device == w.device and w.grad.dtype is w.dtype and w.grad.tolist() == [1, 1, 1]


def test_what_the_host_reads():
    x = rl.tensor([[1.5, 2.0]], device="fake")
    assert x.tolist() == [[1.5, 2.0]] and x[0, 1].item() == 2 and float(x.sum()) == 3.5 and bool((x > 0).all())
    assert repr(x) == "tensor([[1.5000, 2.0000]], device='fake:0')" and x.bfloat16().tolist() == [[1.5, 2.0]]
    for read in (x.numpy, x.__array__, x.__dlpack__):
        with pytest.raises(TypeError, match="can't convert fake:0 device type tensor to numpy. Use Tensor.cpu"):
            read()
    assert x.numpy(force=True).tolist() == [[1.5, 2.0]] and x.__dlpack_device__() == (12, 0)
    assert x.is_cpu is x.is_meta is x.is_cuda is False and x.get_device() == 0 and rl.ones(1).get_device() == -1
    with pytest.raises(RuntimeError, match="Expected one of"):
        rl.ones(1, device="nowhere")
    with pytest.raises(AssertionError, match="there are 2 of type 'fake'"):
        rl.ones(1, device="fake:2")


def test_values_beyond_range_are_seen():
    x = rl.ones(3, device="fake")
    with pytest.raises(IndexError):
        x[rl.tensor([3], device="fake")].tolist()
    with pytest.raises(RuntimeError):
        rl.tensor([1], device="fake") // rl.tensor([0], device="fake")


def test_saved_and_loaded():
    model = rl.nn.Linear(3, 2).to("fake:1")
    for new in (True, False):
        file = io.BytesIO()
        rl.save(model.state_dict(), file, _use_new_zipfile_serialization=new)
        for said, where in ((None, "fake:1"), ("cpu", "cpu"), ("fake:0", "fake:0"), ({"fake:1": "fake:0"}, "fake:0"),
                            (lambda storage, location: storage, "cpu")):
            file.seek(0)
            found = rl.load(file, map_location=said)
            assert {str(t.device)
                    for t in found.values()} == {where} and found["weight"].tolist() == model.weight.tolist()
    twin = copy.deepcopy(model)
    assert twin.weight.device == model.weight.device and twin.weight.tolist() == model.weight.tolist()
    assert twin.weight.data_ptr() != model.weight.data_ptr()


def test_storages():
    x = rl.arange(6, dtype=rl.uint8, device="fake")
    storage = x.untyped_storage()
    assert storage.device == x.device and storage.tolist() == list(range(6)) and storage.cpu().device == rl.device(
        "cpu") and storage[2] == 2
    storage.resize_(64)
    assert storage.nbytes() == 64 and x.tolist() == list(range(6)) and storage.clone().device == x.device
    x.resize_(3, 3)
    assert x[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("given", [dict(scale_factor=1.7), dict(size=(3, 3), mode="bilinear", antialias=True),
                                   dict(size=(3, 5), mode="bicubic"), dict(size=(3, 5), mode="nearest-exact")])
def test_what_an_operator_computes_with_lies_beside_its_operand(given):
    x = rl.randn(1, 2, 4, 4)
    found = rl.nn.functional.interpolate(x.to("fake:1"), **given)
    assert found.device == rl.device("fake:1")
    rl.testing.assert_close(found.cpu(), rl.nn.functional.interpolate(x, **given))
