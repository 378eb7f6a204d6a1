"""Sort on WebGPU: indices and values of the CPU, by the device alone."""
import pytest

import rushlight as rl
from rushlight._src.devices.shared.host import HostStep

SHAPES = (1,), (3, 7), (70, 13), (2, 1000), (2, 2500), (4, 3, 2)
DTYPES = rl.float32, rl.float16, rl.bfloat16, rl.float64, rl.int64, rl.int32, rl.int8, rl.uint8, rl.bool
FOUND = {"topk": lambda x: x.topk(5).values, "median": lambda x: x.median(-1).values, "unique": lambda x: x.unique(),
         "kthvalue": lambda x: x.kthvalue(3).values, "quantile": lambda x: x.quantile(0.3, -1),
         "least": lambda x: x.topk(4, largest=False).values}


def equal(x, **how):
    wanted, found = rl.sort(x, stable=True, **how), rl.sort(x.to("webgpu"), stable=True, **how)
    assert found.indices.cpu().equal(wanted.indices), (x.shape, x.dtype, how)
    rl.testing.assert_close(found.values.cpu(), wanted.values, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_order(dtype):
    rl.manual_seed(0)
    for shape in SHAPES:
        x = rl.randint(0, 9, shape).to(dtype) if dtype in (rl.uint8, rl.bool) else (rl.randn(*shape) * 3).to(dtype)
        for descending in (False, True):
            equal(x, dim=-1, descending=descending)


def test_special_numbers():
    x = rl.randn(3, 40)
    x[0, 3], x[1, 4], x[2, 5], x[2, 6], x[0, 0], x[0, 1] = float("nan"), -float("nan"), -0.0, 0.0, float("inf"), 1e-45
    for dim in (0, 1):
        for descending in (False, True):
            equal(x, dim=dim, descending=descending)
            equal(x.double(), dim=dim, descending=descending)


def test_what_is_made_of_it():
    before, x = HostStep.runs.copy(), rl.randn(6, 50)
    for f in FOUND.values():
        rl.testing.assert_close(f(x.to("webgpu")).cpu(), f(x))
    assert HostStep.runs == before


def test_gradients():
    x, found = rl.randn(4, 20), []
    for where in ("cpu", "webgpu"):
        y = x.to(where).clone().requires_grad_()
        (y.sort(1).values * rl.arange(20.0, device=where)).sum().backward()
        found.append(y.grad.cpu())
    assert found[0].equal(found[1])
