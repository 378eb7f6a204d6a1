"""Reductions in which threads of a subgroup exchange numbers, beside those that meet in workgroup memory."""
import pytest

import rushlight as rl
from rushlight._src.devices.webgpu.provider import provider
from rushlight._src.devices.webgpu.step import ShaderKernel, modules

from .variants import without

SIZES = 1, 129, 1000
WHOLE = {"sum": lambda x: x.sum(1), "amax": lambda x: x.amax(1), "amin": lambda x: x.amin(1),
         "argmax": lambda x: x.argmax(1), "argmin": lambda x: x.argmin(1), "any": lambda x: (x > 6).any(1),
         "all": lambda x: (x > -7).all(1), "count": lambda x: (x != 0).sum(1)}


@pytest.fixture(autouse=True)
def subgroups():
    if "subgroups" not in provider.board(0).features:
        pytest.skip("no subgroups here")


@pytest.mark.parametrize("dtype", [rl.float32, rl.float16, rl.float64, rl.int64, rl.int32, rl.uint8])
def test_results_are_equal(dtype):
    """Integers, whose sums are exact in any order, with many ties."""
    rl.manual_seed(0)
    for size in SIZES:
        x = rl.randint(0 if dtype is rl.uint8 else -7, 8, (3, size)).to(dtype)
        for name, f in WHOLE.items():
            wanted = f(x)
            for where in ("webgpu", without("plain", "f16", "subgroups")):
                assert f(x.to(where)).cpu().equal(wanted), (name, size, where)


def test_numbers_that_are_none():
    x = rl.randn(4, 300)
    x[1, 17] = x[2, 299] = x[2, 5] = float("nan")
    x[3, 40] = float("inf")
    y = x.to("webgpu")
    assert y.argmax(1).tolist() == x.argmax(1).tolist() and y.argmin(1).tolist() == x.argmin(1).tolist()
    for f in (lambda a: a.amax(1), lambda a: a.amin(1), lambda a: a.logsumexp(1)):
        rl.testing.assert_close(f(y).cpu(), f(x), equal_nan=True)


def test_texts_name_subgroups():
    """Kernels exchange numbers where the adapter can, and nowhere else."""
    for where in ("webgpu", without("plain", "f16", "subgroups")):
        rl.randn(3, 77).to(where).sum(1).cpu()
    exchanging = {"subgroups" in features for (_, features, _), number in ShaderKernel.written.items()
                  if "subgroupShuffleXor" in modules.made[number].text}
    assert exchanging == {True}
