"""Kernels of linear algebra beside NumPy in double precision: every size of block, batches, flags, and matrices without
an answer."""
import itertools
import math

import numpy as np
import pytest

import rushlight
from rushlight import linalg

pytestmark = pytest.mark.sampled  # all cases with `-m long`

SHAPES = [(1, 1), (2, 3, 3), (7, 8, 8), (0, 4, 4), (17, 17), (2, 1, 33, 33), (65, 65), (2, 130, 130), (200, 200)]
OBLONG = [(5, 3), (3, 5), (2, 40, 4), (2, 4, 40), (33, 70), (100, 70), (70, 130), (2, 0, 3), (150, 17)]
DTYPES = [np.float32, np.float64]
MOST = 4  # times the rounding error and the size of the matrix


def drawn(*shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(found, wanted, size, scale=1.0):
    """Whether two arrays are as close as a backward stable algorithm makes them."""
    assert found.shape == wanted.shape
    if found.size:
        scale = max(scale, np.abs(wanted).max())
        assert np.abs(found.astype(np.float64) - wanted).max() <= MOST * size * np.finfo(found.dtype).eps * scale


def wide(x):
    return x.numpy().astype(np.float64)


def turned(x):
    return np.swapaxes(x, -1, -2)


def by_kernels(caplog, call):
    """The result of a call, of which no part was computed by NumPy."""
    with caplog.at_level("DEBUG", "rushlight.kernels"):
        result = call()
    assert "by NumPy" not in caplog.text
    return result


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES + OBLONG)
def test_lu(shape, dtype):
    a = drawn(*shape, dtype=dtype)
    order, low, up = linalg.lu(rushlight.tensor(a))
    least = min(shape[-2:])
    close((order @ low @ up).numpy(), a, shape[-1])
    assert (np.abs(low.numpy()) <= 1).all() and not np.triu(low.numpy(), 1).any() and not np.tril(up.numpy(), -1).any()
    assert low.shape[-1] == up.shape[-2] == least


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_cholesky(shape, dtype):
    x, size = drawn(*shape, dtype=dtype), shape[-1]
    a = x @ turned(x) + size * np.eye(size, dtype=dtype)
    garbage = np.where(np.triu(np.ones(a.shape), 1) > 0, np.nan, a).astype(dtype)  # which is not read
    low = linalg.cholesky(rushlight.tensor(garbage))
    close((low.double() @ low.double().mT).numpy().astype(dtype), a, size)
    assert not np.triu(low.numpy(), 1).any()
    upper = linalg.cholesky(rushlight.tensor(turned(garbage).copy()), upper=True)
    assert np.array_equal(upper.numpy(), turned(low.numpy()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_systems_and_inverses(shape, dtype):
    size = shape[-1]
    a = drawn(*shape, dtype=dtype) + size**0.5 * np.eye(size, dtype=dtype)
    for columns in (1, 5, 70):
        b = drawn(*shape[:-1], columns, dtype=dtype, seed=1)
        x = wide(linalg.solve(rushlight.tensor(a), rushlight.tensor(b)))
        close((a @ x).astype(dtype), b, size, np.abs(x).max(initial=0) * np.abs(a).max(initial=0))
        left = wide(linalg.solve(rushlight.tensor(a), rushlight.tensor(turned(b).copy()), left=False))
        close((left @ a).astype(dtype), turned(b), size, np.abs(left).max(initial=0) * np.abs(a).max(initial=0))
    inverse = wide(linalg.inv(rushlight.tensor(a)))
    close((a @ inverse).astype(dtype), np.broadcast_to(np.eye(size), a.shape), size,
          np.abs(inverse).max(initial=0) * np.abs(a).max(initial=0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 4, 9, 130])
@pytest.mark.parametrize("flags", range(16))
def test_triangular_systems(size, dtype, flags):
    upper, unit, transposed, left = (bool(flags >> k & 1) for k in range(4))
    a = drawn(2, size, size, dtype=dtype) / size + 2 * np.eye(size, dtype=dtype)
    given = turned(a) if transposed else a
    used = np.triu(given) if upper else np.tril(given)
    used = np.where(np.eye(size, dtype=bool), 1, used) if unit else used
    tensor = rushlight.tensor(a).mT if transposed else rushlight.tensor(a)
    for columns in (1, 3, 40):
        b = drawn(2, size, columns, dtype=dtype, seed=1)
        b = b if left else turned(b).copy()
        x = linalg.solve_triangular(tensor, rushlight.tensor(b), upper=upper, left=left, unitriangular=unit).numpy()
        close((used @ x if left else x @ used).astype(dtype), b, size, 4 * np.abs(x).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES + OBLONG)
def test_qr(shape, dtype):
    a, (m, n) = drawn(*shape, dtype=dtype), shape[-2:]
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(rushlight.tensor(a), mode)
        columns = m if mode == "complete" else min(m, n)
        assert q.shape == (*shape[:-1], columns) and r.shape == (*shape[:-2], columns, n)
        close((wide(q) @ wide(r)).astype(dtype), a, m)
        close((turned(wide(q)) @ wide(q)).astype(dtype),
              np.broadcast_to(np.eye(columns), (*shape[:-2], columns, columns)), m)
        assert not np.tril(r.numpy(), -1).any()
    assert np.array_equal(linalg.qr(rushlight.tensor(a), "r").R.numpy(), linalg.qr(rushlight.tensor(a)).R.numpy())
    if a.size:
        packed, scales = np.linalg.qr(a, "raw")
        found, tau = rushlight.geqrf(rushlight.tensor(a))
        close(found.numpy(), turned(packed), 4 * m)
        close(tau.numpy(), scales, 4 * m)


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 0.0, 1e200])
def test_reflections_of_very_small_and_large_numbers(scale):
    a = drawn(6, 4, dtype=np.float64) * scale
    q, r = (x.numpy() for x in linalg.qr(rushlight.tensor(a)))
    np.testing.assert_allclose(q @ r, a, rtol=0, atol=(1e-12 * scale) or 1e-320)
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_determinants(shape, dtype):
    a = drawn(*shape, dtype=dtype) / shape[-1]**0.5
    sign, log = np.linalg.slogdet(a.astype(np.float64))
    found = linalg.slogdet(rushlight.tensor(a))
    assert np.array_equal(found.sign.numpy(), sign)
    np.testing.assert_allclose(found.logabsdet.numpy(), log, rtol=1e-3 if dtype is np.float32 else 1e-11)
    np.testing.assert_allclose(linalg.det(rushlight.tensor(a)).numpy(), np.linalg.det(a.astype(np.float64)),
                               rtol=2e-3 if dtype is np.float32 else 1e-11)


def test_determinants_of_singular_matrices():
    a = rushlight.tensor(np.stack([np.diag([1.0, 0.0, 2.0]), np.eye(3), -np.eye(3)]))
    assert linalg.det(a).tolist() == [0.0, 1.0, -1.0]
    sign, log = linalg.slogdet(a)
    assert sign.tolist() == [0.0, 1.0, -1.0] and log.tolist() == [-float("inf"), 0.0, 0.0]


def leibniz(a):
    """The determinant as a polynomial of its elements, which has derivatives of every order everywhere."""
    n = a.shape[-1]
    return sum(round(np.linalg.det(np.eye(n)[list(order)])) * math.prod(a[..., i, k] for i, k in enumerate(order))
               for order in itertools.permutations(range(n)))


@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_higher_derivatives_of_determinants(n, dtype, singular):
    unit = 1j if dtype is np.complex128 else 0.0
    given, weights = (drawn(2, n, n, dtype=dtype, seed=k) + unit * drawn(2, n, n, dtype=dtype, seed=k + 9)
                      for k in (1, 2))
    if singular:
        given[..., 0] = given[..., 1]

    def derivatives(function):
        a = rushlight.tensor(given, requires_grad=True)
        value, found = function(a), []
        value = (value.real.square() + value.imag.square() + value.real if a.is_complex() else value).sum()
        for _ in range(2 if singular else 3):  # the third has no limit of its own at singular matrices
            gradient, = rushlight.autograd.grad(value, a, create_graph=True)
            found.append(gradient.detach().numpy())
            value = (gradient * rushlight.tensor(weights)).abs().square().sum()
        return found
    for found, expected in zip(derivatives(linalg.det), derivatives(leibniz), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())


def test_views_and_broadcast_batches():
    whole = drawn(3, 10, 12, dtype=np.float64) + 4 * np.eye(10, 12)
    for view in (lambda x: x[:, ::2, ::2][:, :5, :5], lambda x: x[:, :9, :9].mT,
                 lambda x: x[0, :4, :4].expand(3, 4, 4)):
        a = view(rushlight.tensor(whole))
        b = rushlight.tensor(drawn(a.shape[-1], 2, dtype=np.float64))
        np.testing.assert_allclose(linalg.solve(a, b).numpy(), np.linalg.solve(a.numpy(), b.numpy()), atol=1e-12)
        np.testing.assert_allclose(linalg.solve_triangular(a, b, upper=False).numpy(),
                                   np.linalg.solve(np.tril(a.numpy()), b.numpy()), atol=1e-12)
        np.testing.assert_allclose(linalg.inv(a).numpy(), np.linalg.inv(a.numpy()), atol=1e-12)


@pytest.mark.parametrize("call,message", [
    (lambda a: linalg.inv(a), "linalg.inv: {where}The diagonal element 2 is zero"),
    (lambda a: linalg.solve(a, a), "linalg.solve: {where}The solver failed because the input matrix is singular"),
    (lambda a: linalg.cholesky(a),
     r"linalg.cholesky: {where}.*\(the leading minor of order 2 is not positive-definite\)")])
def test_what_failed_is_named(call, message):
    singular = np.diag([1.0, 0.0, 2.0])
    several = rushlight.tensor(np.stack([np.eye(3), singular, np.eye(3), singular]))
    for where, a in (("", rushlight.tensor(singular)), (r"\(Batch element 1\): ", several)):
        for function in (call, rushlight.compile(lambda a: call(a) + 1)):
            with pytest.raises(linalg.LinAlgError, match=message.format(where=where)):
                function(a)
    call(rushlight.eye(3))  # and the next call is fine


def test_infos_of_what_is_not_checked():
    a = rushlight.tensor(np.stack([np.eye(40), np.zeros((40, 40)), np.diag([1.0] * 38 + [-1.0, 0.0])]))
    assert linalg.lu_factor_ex(a).info.tolist() == [0, 1, 40]
    assert linalg.inv_ex(a).info.tolist() == [0, 1, 40]
    assert linalg.cholesky_ex(a).info.tolist() == [0, 1, 39]


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("size", [5, 100])
def test_numbers_that_are_none(size, value):
    a = drawn(size, size, dtype=np.float32)
    a[2, 1] = value
    a = rushlight.tensor(a)
    assert not linalg.lu_factor(a).LU.isfinite().all() and not linalg.qr(a).R.isfinite().all()
    assert value == np.inf or linalg.inv_ex(a).inverse.isnan().any()
    assert linalg.cholesky_ex(a @ a.mT).info > 0


def test_no_part_is_left_to_numpy(caplog):
    a = rushlight.randn(2, 6, 6) + 6 * rushlight.eye(6)
    for call in (linalg.inv, linalg.det, linalg.slogdet, linalg.lu, linalg.qr, linalg.cholesky_ex,
                 lambda a: linalg.solve(a, a), lambda a: linalg.solve_triangular(a, a, upper=True)):
        by_kernels(caplog, lambda: call(a))


def test_sizes_that_vary_within_a_compiled_function():
    function = rushlight.compile(lambda a, b: linalg.solve(a + 1, b).sum(-1), dynamic=True)
    for size in (3, 6, 20, 100):
        a, b = drawn(size, size, dtype=np.float64) + 3 * size**0.5 * np.eye(size), drawn(size, 4, dtype=np.float64)
        np.testing.assert_allclose(function(rushlight.tensor(a), rushlight.tensor(b)).numpy(),
                                   np.linalg.solve(a + 1, b).sum(-1), atol=1e-10)


def test_eigenvalues_and_singular_values_alone():
    x = drawn(3, 6, 6, dtype=np.float64)
    np.testing.assert_allclose(linalg.eigvalsh(rushlight.tensor(x)).numpy(), np.linalg.eigvalsh(x), atol=1e-12)
    np.testing.assert_allclose(linalg.eigvalsh(rushlight.tensor(x), UPLO="U").numpy(), np.linalg.eigvalsh(x, "U"),
                               atol=1e-12)
    np.testing.assert_allclose(linalg.svdvals(rushlight.tensor(x[:, :4])).numpy(),
                               np.linalg.svd(x[:, :4], compute_uv=False), atol=1e-12)


def test_factors_are_the_same_on_one_thread_and_on_two():
    a = rushlight.tensor(drawn(3, 150, 150, dtype=np.float32)) + 20 * rushlight.eye(150)
    before, results = rushlight.get_num_threads(), []
    try:
        for threads in (1, 2):
            rushlight.set_num_threads(threads)
            results.append([linalg.lu_factor(a).LU.clone(), *linalg.qr(a), linalg.inv(a)])
    finally:
        rushlight.set_num_threads(before)
    for one, other in zip(*results):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-3, atol=1e-4)


def symmetric(*shape, dtype):
    x = drawn(*shape, dtype=dtype)
    return x + turned(x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 4, 4), (0, 3, 3), (2, 9, 9), (33, 33), (70, 70)])
def test_eigenvalues_and_eigenvectors(shape, dtype):
    a, size = symmetric(*shape, dtype=dtype), shape[-1]
    for uplo, given in (("L", np.tril(a)), ("U", np.triu(a))):
        values, vectors = linalg.eigh(rushlight.tensor(given), uplo)
        close(values.numpy(), np.linalg.eigvalsh(a.astype(np.float64)), size)
        x = wide(vectors)
        close((x * wide(values)[..., None, :] @ turned(x)).astype(dtype), a, size)
        close((turned(x) @ x).astype(dtype), np.broadcast_to(np.eye(size), a.shape), size)
        close(linalg.eigvalsh(rushlight.tensor(given), uplo).numpy(), values.numpy(), size)


@pytest.mark.parametrize("a", [
    np.eye(6), np.ones((6, 6)), np.zeros((3, 3)), np.diag([1.0, 0, 0, 2, 2]),
    np.diag([1e-30, 1.0], 1) + np.diag([1e-30, 1.0], -1), 1e200 * symmetric(5, 5, dtype=np.float64),
    1e-200 * symmetric(5, 5, dtype=np.float64), 1e-310 * symmetric(5, 5, dtype=np.float64)])
def test_eigenvalues_of_matrices_with_difficulties(a):
    values, vectors = (x.numpy() for x in linalg.eigh(rushlight.tensor(a)))
    scale = np.abs(a).max()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(vectors * values @ vectors.T, a, rtol=0, atol=1e-12 * scale + 1e-320)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(a)), atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", ["full", "deficient", "one", "zero"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 4, 4), (0, 3, 3), (2, 9, 9), (33, 33), (2, 7, 3), (2, 3, 20),
                                   (1, 6), (60, 5)])
def test_singular_values_and_vectors(shape, rank, dtype):
    a, least, most = drawn(*shape, dtype=dtype), min(shape[-2:]), max(shape[-2:])
    if rank == "deficient":
        a[..., -1:, :], a[..., -1] = a[..., :1, :], a[..., 0]
    a = {"one": np.ones_like(a), "zero": 0 * a}.get(rank, a)
    u, values, vh = linalg.svd(rushlight.tensor(a), full_matrices=False)
    close(values.numpy(), np.linalg.svd(a.astype(np.float64), compute_uv=False), most)
    close((wide(u) * wide(values)[..., None, :] @ wide(vh)).astype(dtype), a, most)
    for x in (wide(u), turned(wide(vh))):
        close((turned(x) @ x).astype(dtype), np.broadcast_to(np.eye(least), (*shape[:-2], least, least)), most)
    close(linalg.svdvals(rushlight.tensor(a)).numpy(), values.numpy(), most)
    assert not values.numel() or (values[..., :-1] >= values[..., 1:]).all()


def test_singular_values_of_very_small_and_large_numbers():
    for scale in (1e-310, 1e-200, 1e200):
        a = drawn(5, 4, dtype=np.float64) * scale
        np.testing.assert_allclose(linalg.svdvals(rushlight.tensor(a)).numpy(), np.linalg.svd(a, compute_uv=False),
                                   rtol=0, atol=1e-12 * scale * 5)


def test_pseudoinverses_with_thresholds():
    a = drawn(3, 6, 4, dtype=np.float64)
    a[..., 3] = a[..., 0] + 1e-9
    for given in ({}, {"rtol": 1e-6}, {"atol": 1e-5}, {"atol": rushlight.tensor(1e-5, dtype=rushlight.float64),
                                                       "rtol": 0.0},
                  {"rtol": rushlight.full((3,), 1e-6, dtype=rushlight.float64)}):
        plain = {name: float(value.reshape(-1)[0]) if hasattr(value, "shape") else value
                 for name, value in given.items()}
        cut = max(plain.get("atol", 0.0) / np.linalg.svd(a, compute_uv=False).max(), plain.get("rtol", 0.0),
                  0 if plain else 6 * 2.2e-16)
        np.testing.assert_allclose(linalg.pinv(rushlight.tensor(a), **given).numpy(), np.linalg.pinv(a, rcond=cut),
                                   rtol=1e-4, atol=1e-6)
    s = a @ turned(a)
    np.testing.assert_allclose(linalg.pinv(rushlight.tensor(np.tril(s)), rtol=1e-6, hermitian=True).numpy(),
                               np.linalg.pinv(s, rcond=1e-6), rtol=1e-6, atol=1e-6)
    assert linalg.pinv(rushlight.zeros(2, 0, 3)).shape == (2, 3, 0)


@pytest.mark.parametrize("call", [linalg.eigh, linalg.eigvalsh, linalg.svd, linalg.svdvals, linalg.pinv])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_decompositions_of_numbers_that_are_none(call, value):
    a = np.stack([np.eye(4), np.full((4, 4), value)])
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\): The algorithm did not converge"):
        call(rushlight.tensor(a))


PAIRED = [(1, 1), (3, 2, 2), (4, 7, 7), (2, 20, 20), (2, 33, 33), (60, 60), (0, 3, 3)]
COMPLEX = [np.complex64, np.complex128]


def complex_drawn(*shape, dtype, seed=0):
    return (drawn(*shape, dtype=np.float64, seed=seed) + 1j * drawn(*shape, dtype=np.float64,
                                                                    seed=seed + 1)).astype(dtype)


def near(found, wanted, size):
    assert found.shape == wanted.shape
    if found.size:
        assert np.abs(found - wanted).max() <= 10 * size * np.finfo(found.dtype).eps * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("shape", [*PAIRED, (5, 3), (3, 5), (2, 40, 9)])
def test_complex_factors(shape, dtype, caplog):
    """Pivots are those of LAPACK, which measures numbers by the sum of their parts."""
    torch = pytest.importorskip("torch")
    a = complex_drawn(*shape, dtype=dtype)
    packed, pivots = by_kernels(caplog, lambda: linalg.lu_factor(rushlight.tensor(a))) if a.size and shape[
        -1] <= 32 else linalg.lu_factor(rushlight.tensor(a))
    wanted = torch.linalg.lu_factor(torch.from_numpy(a))
    np.testing.assert_array_equal(pivots.numpy(), wanted.pivots.numpy())
    near(packed.numpy(), wanted.LU.numpy(), 10 * shape[-1])


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("shape", PAIRED)
def test_complex_systems(shape, dtype):
    size = shape[-1]
    a = complex_drawn(*shape, dtype=dtype) + 2 * size * np.eye(size, dtype=dtype)
    b = complex_drawn(*shape[:-1], 3, dtype=dtype, seed=5)
    x, y = rushlight.tensor(a), rushlight.tensor(b)
    near(a @ linalg.solve(x, y).numpy(), b, size)
    near(a @ linalg.inv(x).numpy(), np.broadcast_to(np.eye(size, dtype=dtype), shape), size)
    for upper in (False, True):
        for unit in (False, True):
            given = a / (2 * size)
            kept = ((np.triu if upper else np.tril)(given, (1 if upper else -1) if unit else 0)
                    + (np.eye(size) if unit else 0)).astype(dtype)
            for turn in (False, True):
                t = rushlight.tensor(np.ascontiguousarray(turned(given))).mT if turn else rushlight.tensor(given)
                near(kept @ linalg.solve_triangular(t, y, upper=upper, unitriangular=unit).numpy(), b, size)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 6), (4, 4)])
def test_least_squares_of_full_rank_and_less(shape, dtype):
    torch = pytest.importorskip("torch")
    a, b = (complex_drawn(*s, dtype=np.complex128) for s in (shape, (*shape[:-1], 2)))
    a, b = (x.real.astype(dtype) if dtype is np.float32 else x for x in (a, b))
    for driver in (None, "gels", "gelsy", "gelsd", "gelss"):
        found, wanted = (lib.linalg.lstsq(lib.tensor(a), lib.tensor(b), driver=driver) for lib in (rushlight, torch))
        for x, y in zip(found, wanted):
            assert tuple(x.shape) == tuple(y.shape)
            np.testing.assert_allclose(x.numpy(), y.numpy(), atol=1e-4 if dtype is np.float32 else 1e-10)
    a[..., 0] = a[..., 1]  # a column twice
    less = linalg.lstsq(rushlight.tensor(a), rushlight.tensor(b))
    np.testing.assert_allclose(less.solution.numpy(), np.linalg.pinv(a, rcond=1e-5 if dtype is np.float32 else 1e-12)
                               @ b, atol=1e-3)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_indefinite_factors(dtype, hermitian):
    """Pivots are those of LAPACK, of blocks of one and of two."""
    torch = pytest.importorskip("torch")
    for size in (1, 2, 5, 30):
        a = complex_drawn(2, size, size, dtype=np.complex128, seed=size)
        a = a if dtype is np.complex128 else a.real
        a = a + (np.conj(turned(a)) if hermitian else turned(a))
        a[:, range(size), range(size)] *= 0.01
        found, wanted = (lib.linalg.ldl_factor(lib.tensor(a), hermitian=hermitian) for lib in (rushlight, torch))
        np.testing.assert_array_equal(found.pivots.numpy(), wanted.pivots.numpy())
        b = complex_drawn(2, size, 3, dtype=np.complex128).astype(dtype) if dtype is np.complex128 else drawn(
            2, size, 3, dtype=dtype)
        np.testing.assert_allclose(a @ linalg.ldl_solve(found.LD, found.pivots, rushlight.tensor(b),
                                                        hermitian=hermitian).numpy(), b, atol=1e-9)


def test_eigenvalues_alone_are_those_beside_vectors():
    for dtype in (np.float64, np.complex128):
        a = complex_drawn(3, 6, 6, dtype=np.complex128)
        x = rushlight.tensor(a if dtype is np.complex128 else a.real)
        alone, beside = (np.sort_complex(v.numpy()) for v in (linalg.eigvals(x), linalg.eig(x).eigenvalues))
        np.testing.assert_allclose(alone, beside, atol=1e-12)
        assert linalg.eigvals(rushlight.eye(3)).dtype is rushlight.complex64
