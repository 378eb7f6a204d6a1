"""nextafter in half precision, beside torch: every pair of a few numbers, and many numbers towards a few."""
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

FEW = [0.0, -0.0, 1.0, -1.0, 3e-8, -3e-8, float("inf"), float("-inf"), float("nan"), 65504.0, -65504.0, 0.1, 2.0, 3e38]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_every_pair(dtype):
    def bits(t, run=lambda f: f):
        v = t.tensor(FEW).to(getattr(t, dtype))
        found = run(t.nextafter)(v[:, None], v[None])
        return t.where(found.isnan(), t.zeros(()).to(found.dtype), found).view(t.int16).tolist()
    assert bits(rushlight) == bits(torch) == bits(rushlight, rushlight.compile)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("towards", [0.0, 100.0, float("-inf")])
def test_many_numbers(dtype, towards):
    def step(t):
        x = t.arange(-32768, 32767, 7, dtype=t.int16).view(getattr(t, dtype))
        return t.nextafter(x, t.tensor(towards)).float().nan_to_num(nan=12345.0).tolist()
    assert step(rushlight) == step(torch)
