"""Covariance, histograms, calculus, combinations and smaller operators against torch."""
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from .judge import arrays, same  # noqa: E402


def test_covariance():
    x, w = arrays((3, 6), (6,))
    same(lambda lib, x: [lib.cov(x), lib.corrcoef(x), lib.cov(x[0], correction=0)], x)
    same(lambda lib, x, f, a: lib.cov(x, fweights=f, aweights=a.detach()), x, np.array([1, 2, 3, 1, 1, 2]), np.abs(w))
    same(lambda lib, x: lib.cov(x), arrays((3, 6), dtype=np.complex128)[0])


def test_histograms():
    x, w = arrays((20, 2), (20,))
    for density in (False, True):
        same(lambda lib, x, w: list(lib.histogram(x.reshape(-1)[:20], 5, weight=w, density=density)), x, w,
             gradients=False)
        same(lambda lib, x, w: list(lib.histogramdd(x, [3, 4], weight=w, density=density)), x, w, gradients=False)
    same(lambda lib, x, e: list(lib.histogram(x, e)), x, np.array([-1.0, 0.0, 0.25, 2.0]), gradients=False)
    same(lambda lib, x: list(lib.histogram(x, 4, range=(-0.5, 0.5))), x, gradients=False)


def test_slopes_and_areas():
    x, = arrays((5, 6))
    points = np.cumsum(np.abs(arrays((6,))[0]) + 0.1)
    for order in (1, 2):
        same(lambda lib, x: lib.gradient(x, edge_order=order), x)
        same(lambda lib, x, p: lib.gradient(x, spacing=(p.detach(),), dim=1, edge_order=order), x, points)
    same(lambda lib, x, p: [lib.trapezoid(x, p), lib.cumulative_trapezoid(x, p), lib.trapz(x, dx=0.5, dim=0)], x,
         points)


def test_combinations_of_tensors():
    a, b, c = arrays((3,), (2,), (2, 3))
    same(lambda lib, a, b, c: [lib.block_diag(a, b, c), lib.cartesian_prod(a, b), lib.combinations(a, 2),
                               lib.combinations(a, 2, True)], a, b, c)
    same(lambda lib, c: lib._chunk_cat([c, c], 1, 2), c, gradients=False)


def test_running_logarithms_and_parts_of_numbers():
    x, = arrays((4, 5))
    same(lambda lib, x: lib.logcumsumexp(3 * x, 1), x, rtol=1e-6)
    same(lambda lib, x: list(lib.frexp(x)), x)
    same(lambda lib, x, y: [lib.gcd(x, y), lib.lcm(x, y)], np.array([12, 8, 0]), np.array([18, 12, 5]))


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("own", [True, False])
def test_slices_reduced_into_places(reduce, own):
    x, s = arrays((4, 3), (5, 3))
    same(lambda lib, x, s, i: x.index_reduce(0, i, s, reduce, include_self=own), x, s, np.array([0, 2, 2, 3, 0]))


def test_products_scattered_onto_zeros():
    x, s = np.array([0.0, 2.0, 3.0]), np.array([0.0, 4.0, 0.0, 0.0])
    same(lambda lib, x, s, i: x.scatter_reduce(0, i, s, "prod"), x, s, np.array([1, 0, 2, 2]))


def test_filled_indices_count_once():
    x, v = arrays((3, 3), ())
    same(lambda lib, x, v, i: x.index_fill(1, i, v), x, v, np.array([0, 0, 2]))


def test_fractional_windows():
    x, u = arrays((1, 2, 9, 9), (1, 2, 2))
    u = np.abs(u) % 1
    same(lambda lib, x, u: lib.nn.functional.fractional_max_pool2d(x, 3, output_size=4, _random_samples=u.detach(),
                                                                   return_indices=True), x, u)


def test_the_first_nonzero():
    same(lambda lib, x: [lib.nonzero_static(x, size=2), lib.nonzero_static(x, size=5, fill_value=7)],
         np.array([[0, 1], [2, 3]]))


def test_views_in_place():
    same(lambda lib, x: (x * 2).t_().unsqueeze_(0).transpose_(0, 1).squeeze_().swapaxes_(0, 1), arrays((2, 3))[0])
    x = rushlight.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x.t_()


def test_grids_of_coordinates():
    x, y = arrays((3,), ())
    same(lambda lib, x, y: [lib.meshgrid(x, y, indexing="xy"), lib.meshgrid(x, y, indexing="ij")], x, y)


def test_cropping_before_wrapping():
    same(lambda lib, x: lib.nn.functional.pad(x, (-1, 1, -2, 1), mode="circular"), arrays((1, 3, 4, 4))[0])


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("shape, widths", [((2, 3, 7), (5, 4)), ((2, 3, 4, 5), (2, 3, 1, 2)),
                                           ((1, 3, 4, 3, 5), (1, 0, 2, 1, 0, 3)), ((2, 3, 4, 5), (2, -1, -1, 2))])
def test_borders_and_their_gradients(mode, shape, widths):
    same(lambda lib, x: lib.nn.functional.pad(x, widths, mode=mode), arrays(shape)[0])


def test_a_size_of_one_meets_every_element():
    a, b = arrays((2, 1, 3), (4, 3))
    same(lambda lib, a, b: lib.tensordot(a, b, ([1], [0])), a, b)
    same(lambda lib, a, b: lib.tensordot(a, b, ([1], [0])), a.astype(np.int32), b.astype(np.int32))


def test_coordinates_of_positions():
    for dtype in (np.int64, np.int32, np.uint8):
        same(lambda lib, i: lib.unravel_index(i, (2, 3, 4)), np.array([0, 5, 23], dtype))
    same(lambda lib, v: lib.norm_except_dim(v, 2, 1), arrays((2, 3, 4))[0])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "bool", "float32"])
@pytest.mark.parametrize("value", [0, 1, 200])
def test_where_extremes_of_equal_elements_are(dtype, value):
    x = rushlight.tensor(np.full((4, 5, 3), value).astype(dtype))
    for dim in range(3):
        for call in (lambda: x.min(dim), lambda: x.max(dim)):
            values, indices = call()
            assert not indices.any() and (values == x.select(dim, 0)).all()
    assert rushlight.tensor(np.array([[3, 200, 7], [255, 0, 1]], np.uint8)).argmin(1).tolist() == [0, 1]


def test_a_long_logcumsumexp_keeps_its_digits():
    x = arrays((20000,), dtype=np.float32)[0]
    exact = np.logaddexp.accumulate(x.astype(np.float64))
    np.testing.assert_allclose(rushlight.tensor(x).logcumsumexp(0).numpy(), exact, rtol=2e-7)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("size", [1e-30, 1e-23, 1e-10, 1.0, 1e18, 1e25, 1e37])
@pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
def test_squares_neither_overflow_nor_vanish(name, size, dtype):
    """Spreads of small and large numbers, and their gradients, are PyTorch's, of whole tensors and of rows, eager and
    compiled."""
    rows = np.random.default_rng(int(-np.log10(size)) % 64).uniform(-9, 9, (3, 7)) * size
    for dim, correction in ((None, 1), (1, 0), (0, 1)):
        def spread(lib, x, dim=dim, correction=correction):
            return getattr(lib, name)(x, dim, correction=correction)
        given = torch.tensor(rows).to(getattr(torch, dtype)).requires_grad_()
        wanted = spread(torch, given)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        slope, = torch.autograd.grad(wanted[0].sum(), given)
        for call in (spread, lambda lib, x: rushlight.compile(lambda x: spread(lib, x))(x)):
            x = rushlight.tensor(rows).to(getattr(rushlight, dtype)).requires_grad_()
            found = call(rushlight, x)
            found = found if isinstance(found, tuple) else (found,)
            rtol = 8e-2 if dtype == "bfloat16" else 1e-5  # PyTorch rounds between steps
            for a, b in zip((*found, rushlight.autograd.grad(found[0].sum(), x)[0]), (*wanted, slope)):
                b = b.detach().double().numpy()
                np.testing.assert_allclose(a.detach().double().numpy(), b, rtol=rtol,
                                           atol=rtol * np.abs(b[np.isfinite(b)]).max(initial=0))


def test_the_log_of_a_negative_determinant_has_no_slope():
    for lib in (rushlight, torch):
        x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = lib.logdet(x)
        y.backward()
        assert y.isnan() and not x.grad.any()


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("shape, dim", [((3,), 0), ((2, 1), 1), ((2, 2), None), ((1, 2), 0)])
def test_gradients_of_the_variance_of_too_few_elements(name, shape, dim):
    """With as many elements as the correction, or fewer."""
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape) ** 2
    for correction in (np.prod(shape), np.prod(shape) + 2):
        found = []
        for library in (rushlight, torch):
            given = library.tensor(x, requires_grad=True)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*degrees of freedom")
                result = getattr(given, name)(dim, correction=int(correction))
                gradient, = library.autograd.grad((result * -2.0).sum(), given)
            found.append((result.detach().numpy(), gradient.numpy()))
        for ours, theirs in zip(*found):
            np.testing.assert_array_equal(ours, theirs)
