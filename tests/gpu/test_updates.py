"""Scatter updates at data-dependent places: all at once, by atomic instructions; in order if results must be
reproducible."""
import pytest

import rushlight as rl
from rushlight._src.devices.triton.binaries import binary
from rushlight._src.devices.triton.emit import Emitter
from rushlight._src.devices.triton.step import TritonKernel
from rushlight._src.switches import forget_plans

from .compiled import generated, TARGETS
from .recorded import provided

DTYPES = "float32", "float64", "float16", "bfloat16", "int32", "int64"


def added(device, dtype):
    """Sums with several rows in one place, of integers, in any order."""
    x, rows = rl.arange(12).reshape(3, 4).to(getattr(rl, dtype)), rl.ones(9, 4).to(getattr(rl, dtype))
    places = rl.tensor([0, 2, 2, 0, 2, 2, 2, 0, 2])
    return x.to(device).index_add(0, places.to(device), rows.to(device)).cpu().float()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_sums(gpu, dtype):
    assert added("cuda", dtype).tolist() == added("cpu", dtype).tolist()


def test_gradients_of_embeddings(gpu):
    def gradient(device):
        weight = rl.arange(12.0).reshape(4, 3).to(device).requires_grad_()
        rl.nn.functional.embedding(rl.tensor([[0, 3, 3], [3, 1, 0]]).to(device), weight).pow(2).sum().backward()
        return weight.grad.cpu().tolist()

    assert gradient("cuda") == gradient("cpu")


def test_an_index_out_of_range_is_an_error(gpu):
    rl.zeros(3, device="cuda").index_add(0, rl.tensor([5]).to("cuda"), rl.ones(1, device="cuda"))
    with pytest.raises(IndexError):
        rl.cuda.synchronize()


def written(device, dtype):
    """Scattered writes at data-dependent places, each once."""
    x = rl.arange(24).reshape(6, 4).to(getattr(rl, dtype)).to(device)
    rows, at = rl.tensor([2, 0, 3], device=device), rl.tensor([[1, 0, 5, 2], [0, 3, 1, 4]], device=device)
    made = (x[3:] if x.is_floating_point() else x[:3] | 1 if dtype != "bool" else ~x[:3]).contiguous()
    found = [x.scatter(0, at, made[1:]), x.index_copy(0, rows, made), x.index_put((rows, rows), made[0, :3]),
             x.scatter(1, at[:, :1].clamp(max=3), 7), x.index_fill(1, rows[1:], 3), x.put(rows, made[1, :3])]
    kept = x.clone()
    kept[rows, 1:3] = made[:, :2]
    return [one.cpu().tolist() for one in (*found, kept)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "int8", "bool"])
def test_what_is_overwritten(gpu, dtype):
    assert written("cuda", dtype) == written("cpu", dtype)


def test_what_is_overwritten_twice_has_one_of_both(gpu):
    places, rows = rl.tensor([0, 2, 0, 0]), rl.arange(1.0, 9.0).reshape(4, 2)
    found = rl.zeros(3, 2, device="cuda").index_copy(0, places.cuda(), rows.cuda()).cpu()
    assert found[1].tolist() == [0, 0] and found[2].tolist() == rows[1].tolist()
    assert all(value in rows[[0, 2, 3], k] for k, value in enumerate(found[0]))


@pytest.fixture
def launched(as_before, monkeypatch, tmp_path):
    """The sources of the modules that have variants, in order."""
    provider, library = provided(monkeypatch, tmp_path, computes=False)
    from rushlight._src.devices.triton import board as boards
    seen, made = [], boards.binary
    monkeypatch.setattr(boards, "binary", lambda module, *rest: (seen.append(module.text), made(module, *rest))[1])
    return seen


def test_the_same_every_time_where_that_is_asked_for(launched):
    added("cuda", "float32")
    assert any("atomic_add" in text for text in launched)
    launched.clear()
    rl.use_deterministic_algorithms(True)
    try:
        added("cuda", "float32")
    finally:
        rl.use_deterministic_algorithms(False)
    assert launched and not any("atomic_add" in text for text in launched)


def test_writes_are_spread_unless_they_have_to_be_in_order(launched, monkeypatch):
    forms, made = [], Emitter.text
    monkeypatch.setattr(Emitter, "text", lambda self, name: (forms.append(self.form), made(self, name))[1])
    for asked in (False, True):
        forms.clear(), forget_plans(), TritonKernel.written.clear()
        rl.use_deterministic_algorithms(asked)
        try:
            rl.zeros(3, 5, device="cuda").index_put((rl.tensor([0, 2], device="cuda"),), rl.ones(2, 5, device="cuda"))
            rl.zeros(3, device="cuda").scatter(0, rl.tensor([0, 2], device="cuda"), rl.ones(2, device="cuda"))
        finally:
            rl.use_deterministic_algorithms(False)
        assert ("order" in forms) is asked, forms


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_they_compile(target, by_the_interpreter):
    asked = [(module, variant) for module, variant in generated(("index_add", "scatter_add"), target=target)
             if "atomic" in module.text]
    assert asked
    for module, variant in asked:
        binary(module, variant, target)


def test_numbers_of_sixteen_bits_have_them(launched):
    for dtype in DTYPES:
        launched.clear()
        rl.zeros(4, dtype=getattr(rl, dtype), device="cuda").index_add(
            0, rl.zeros(9, dtype=rl.int64, device="cuda"), rl.ones(9, dtype=getattr(rl, dtype), device="cuda"))
        assert any("atomic_add" in text for text in launched), dtype
