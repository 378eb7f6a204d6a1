"""Cumulative sums and products as kernels, against NumPy."""
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


@pytest.mark.parametrize("size,zeros", [(2, (0,)), (5, ()), (5, (1,)), (5, (0, 3)), (300, ()), (300, (7, 200))])
def test_gradients_of_running_products(size, zeros):
    """Zeros are numbers like others, in second derivatives too, and a long row is no longer program."""
    torch = pytest.importorskip("torch")
    values, found = np.random.default_rng(size).random((2, size)) * 0.4 + 0.8, []
    values[0, list(zeros)] = 0
    for m in (rl, torch):
        x = m.tensor(values, requires_grad=True)
        g, = m.autograd.grad((m.cumprod(x, 1) * m.arange(1, size + 1)).sum(), x, create_graph=size < 10)
        found.append([one.detach().numpy() for one in (g, *(m.autograd.grad((g * g).sum(), x) if size < 10 else ()))])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 16, 40), (3, 1, 9, 17)])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "logcumsumexp"])
def test_scans_of_one_element_through_transposed_memory(shape, name):
    """Loops of one element go, and what is left lies along another axis than it is read along: it was cut into tiles,
    which have no running results."""
    x, dim = rl.rand(*shape).transpose(-1, -2), shape.index(1)

    def scanned(x):
        found = getattr(x.flip(dim), name)(dim)
        found = found[0] if isinstance(found, tuple) else found
        return found, found.flip(dim)

    for found in rl.compile(scanned)(x):
        np.testing.assert_array_equal(found.numpy(), x.numpy())
    y = rl.ones(*shape).requires_grad_()
    y.cumsum(dim).backward(rl.rand(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2))
    assert y.grad.shape == shape
