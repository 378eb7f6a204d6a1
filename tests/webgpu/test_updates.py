"""Scatter updates at data-dependent places, by atomic words."""
import pytest

import rushlight as rl
from rushlight._src.devices.shared.host import HostStep


@pytest.fixture
def by_shaders():
    """The test makes no use of the host."""
    before = HostStep.runs.copy()
    yield
    assert HostStep.runs == before


def updated(device, dtype, reduce):
    rl.manual_seed(0)
    low = 0 if dtype == "uint8" else -3
    x, source = rl.randint(low, 4, (20, 6)), rl.randint(1, 3, (50, 6))
    places = rl.randint(0, 20, (50, 6))
    kind = getattr(rl, dtype)
    return x.to(kind).to(device).scatter_reduce(0, places.to(device), source.to(kind).to(device), reduce).cpu().tolist()


@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8", "int64"])
def test_reductions(by_shaders, dtype, reduce):
    """Integers, so that the order of sums does not show."""
    assert updated("webgpu", dtype, reduce) == updated("cpu", dtype, reduce)


def test_many_updates_of_one_place(by_shaders):
    places = rl.zeros(100_000, dtype=rl.int64, device="webgpu")
    found = rl.zeros(3, device="webgpu").index_add(0, places, rl.ones(100_000, device="webgpu"))
    assert found.tolist() == [100_000, 0, 0]


def test_numbers_that_are_none(by_shaders):
    x = rl.zeros(2, device="webgpu").scatter_reduce(0, rl.tensor([0, 0, 1], device="webgpu"), rl.tensor(
        [1.0, float("nan"), float("inf")], device="webgpu"), "amax")
    assert str(x.tolist()) == "[nan, inf]"


def test_gradients_of_embeddings(by_shaders):
    def gradient(device):
        weight = rl.arange(12.0).reshape(4, 3).to(device).requires_grad_()
        rl.nn.functional.embedding(rl.tensor([[0, 3, 3], [3, 1, 0]]).to(device), weight).pow(2).sum().backward()
        return weight.grad.cpu().tolist()

    assert gradient("webgpu") == gradient("cpu")


def test_an_index_out_of_range_is_an_error():
    with pytest.raises(IndexError):
        rl.zeros(3, device="webgpu").index_add(0, rl.tensor([5], device="webgpu"), rl.ones(1, device="webgpu")).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int16", "int8", "bool", "int64"])
def test_what_is_overwritten(by_shaders, dtype):
    """Each place once: of numbers that are parts of words their neighbours stay."""
    def written(device):
        x = rl.arange(30).reshape(10, 3).to(getattr(rl, dtype)).to(device)
        rows, at = rl.tensor([7, 0, 3, 9], device=device), rl.tensor([[1, 0, 5], [0, 9, 1]], device=device)
        made = x[:4] + 1 if dtype != "bool" else ~x[:4]
        kept = x.clone()
        kept[rows, 1:] = made[:, :2]
        return [one.cpu().tolist() for one in (x.scatter(0, at, made[:2]), x.index_copy(0, rows, made), kept)]

    assert written("webgpu") == written("cpu")


def test_what_is_overwritten_often_has_one_of_all(by_shaders):
    places = rl.zeros(100_000, dtype=rl.int64, device="webgpu")
    found = rl.zeros(3, device="webgpu").index_copy(0, places, rl.arange(1.0, 100_001.0, device="webgpu")).tolist()
    assert found[0] in range(1, 100_001) and found[1:] == [0, 0]
