"""Factors and solves by OpenBLAS, and by what stands in for it where NumPy was built with another library."""
import numpy as np
import pytest

from rushlight._src.ops import lapack, openblas


@pytest.fixture(params=["openblas", "numpy"])
def way(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(openblas, "routine", lambda name, kind: None)
    elif openblas.library() is None:
        pytest.skip("NumPy brings another library")


def matrices(*shape, dtype):
    draw = np.random.default_rng(0)
    x = draw.standard_normal(shape)
    return (x + 1j * draw.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 7, 4), (3, 40, 70), (0, 4, 4), (2, 0, 3)])
def test_lu_gives_the_matrix_back(way, dtype, shape):
    a = matrices(*shape, dtype=dtype)
    packed, pivots, info = lapack.lu(a)
    k = min(shape[-2:])
    lower = np.tril(packed[..., :k], -1) + np.eye(shape[-2], k, dtype=dtype)
    order = lapack.permutation(pivots, shape[-2])
    np.testing.assert_allclose(lower @ np.triu(packed[..., :k, :]), np.take_along_axis(a, order[..., None], -2),
                               atol=1e-5 if dtype in ("f4", "c8") else 1e-12)
    assert pivots.dtype == info.dtype == np.int32 and not info.any()


def test_lu_tells_where_a_pivot_is_zero(way):
    a = np.stack([np.diag([1.0, 0.0, 2.0]), np.eye(3)])
    assert lapack.lu(a)[2].tolist() == [2, 0]


@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("size,columns", [(1, 1), (6, 3), (33, 2), (4, 0)])
def test_triangular_solutions(way, dtype, upper, unit, size, columns):
    a, b = matrices(2, size, size, dtype=dtype) / 4 + 2 * np.eye(size, dtype=dtype), matrices(2, size, columns,
                                                                                              dtype=dtype)
    x = lapack.substitute(a, b, upper, unit)
    used = np.triu(a) if upper else np.tril(a)
    if unit:
        used = np.where(np.eye(size, dtype=bool), 1, used)
    np.testing.assert_allclose(used @ x, b, atol=1e-4 if dtype == "f4" else 1e-10)


def test_threads_are_as_before():
    if openblas.library() is None:
        pytest.skip("NumPy brings another library")
    count = openblas.library().scipy_openblas_get_num_threads64_
    before, within = count(), []
    openblas.sparing(lambda x: within.append(count()))(np.zeros((2, 2)))
    assert within == [1] and count() == before
