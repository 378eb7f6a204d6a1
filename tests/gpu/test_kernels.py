"""Some programs of the processor's tests, against NumPy, by Triton's interpreter (``test_all_kernels`` has the others).
"""
import numpy as np
import pytest

from rushlight._src.devices.triton.step import modules

from ..compiler.programs import Program
from ..compiler.test_kernels import test_bfloat16, test_bool, test_cross_entropy, test_extremes_carry_nan  # noqa: F401
from ..compiler.test_kernels import compute, floats, softmax

pytestmark = pytest.mark.usefixtures("by_the_interpreter")


def test_softmax():
    x = floats((5, 70))
    p = Program()
    found, = p.run([softmax(p, p.of(x), 1)], [x])
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=4e-6)
    assert len(p.program.steps) == 1


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_reductions(dims):
    x = floats((9, 33))
    for name, numpy in (("sum", np.sum), ("amax", np.max), ("prod", np.prod)):
        found = compute(lambda p, a: getattr(p, name)(a, dims=dims), x)
        np.testing.assert_allclose(found, numpy(x, dims, keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length,form", [(20, "thread"), (300, "scan"), (3000, "scan")])
def test_running_results(length, form):
    """A program has a long row, by blocks; several short rows are a block."""
    x = floats((3, length))
    for name, numpy, given in (("cumsum", np.cumsum, x), ("cumprod", np.cumprod, 1 + x / length),
                               ("cumsum", np.cumsum, (x * 100).astype(np.int64))):
        p = Program()
        found, = p.run([getattr(p, name)(p.of(given), dim=1)], [given])
        np.testing.assert_allclose(found, numpy(given.astype(np.float64), 1), rtol=1e-5, atol=1e-6)
        one, = p.program.bind().launches
        assert modules.made[one.kernel].form == form


def test_running_results_of_what_a_mask_leaves_out():
    """Rows whose length is no multiple of a block, of numbers that are infinite at the end."""
    x = np.full((2, 257), 1e30, np.float32)
    x[:, -1] = np.inf
    found = compute(lambda p, a: p.cumsum(a, dim=1), x)
    assert np.isinf(found[:, -1]).all() and np.isfinite(found[:, :-1]).all()


@pytest.mark.parametrize("name", ["sin", "exp", "log", "tanh", "erf"])
def test_functions(name):
    import math

    x = np.abs(floats((100,))) * 3 + 0.01
    wanted = np.array([getattr(math, name)(v) for v in x.astype(float)])
    found = compute(lambda p, a: getattr(p, name)(a), x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
