"""Running sums and products as kernels, beside NumPy."""
import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.kinds import P
from rushlight._src.core.meta import Meta
from rushlight._src.compiler.segment import compile_graph
from rushlight._src.graph.graph import Graph
from rushlight._src.transforms.trace import Trace

SHAPES = [((3, 40), 1), ((40, 3), 0), ((5,), 0), ((4, 33, 17), 1), ((2, 100), 1), ((1, 1), 0), ((7, 1), 1),
          ((3, 5, 70), 0), ((130,), 0)]


@pytest.mark.parametrize("shape,dim", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_results_are_numpys(shape, dim, dtype, name):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    wide = np.int64 if dtype in ("int32", "bool") else dtype
    found = getattr(rl.from_numpy(x), name)(dim).numpy()
    assert found.dtype == wide
    np.testing.assert_allclose(found, getattr(np, name)(x.astype(np.float64), dim).astype(wide), rtol=1e-6, atol=1e-6)


def test_long_sums_of_float32_stay_exact():
    x = np.full(1 << 22, 0.1, np.float32)
    found = rl.from_numpy(x).cumsum(0).numpy()
    np.testing.assert_allclose(found[-1], np.float32(0.1) * np.float64(1 << 22), rtol=1e-7)


def test_views_of_scans_and_of_what_they_read():
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    r = rl.from_numpy(x)
    np.testing.assert_array_equal((r.transpose(0, 2) * 2).flip(1).cumsum(1).flip(1).numpy(),
                                  np.flip(np.flip(x.T * 2, 1).cumsum(1), 1))


def test_a_scan_is_a_kernel():
    trace = Trace()
    x = trace.input(Meta.of((6, 20), rl.float32))
    with trace:
        y = P.cumsum(P.mul(x, 2.0), dim=1)
    program = compile_graph(Graph(trace.inputs, trace.nodes, [y.node]), "scan")
    assert len(program.steps) == 1 and "running add" in str(program.steps[0].kernel)


def test_a_scan_of_what_is_looked_up():
    f = rl.compile(lambda x, i: x[i].cumsum(0) * 2, fullgraph=True)
    x, i = np.random.randn(9).astype(np.float32), np.array([3, 0, 8, 8])
    np.testing.assert_allclose(f(rl.from_numpy(x), rl.from_numpy(i)).numpy(), x[i].cumsum(0) * 2, rtol=1e-5)
    with pytest.raises(IndexError):
        f(rl.from_numpy(x), rl.from_numpy(i + 1))
