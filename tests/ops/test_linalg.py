"""Linear algebra against torch: values, gradients, names of results, errors."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from .judge import arrays, same  # noqa: E402

KINDS = [np.float64, np.complex128]


def positive(x):
    """A Hermitian positive-definite tensor made of x."""
    return x @ x.mH + 3 * x.new_ones(x.shape[-1]).diag()


@pytest.mark.parametrize("dtype", KINDS)
def test_systems(dtype):
    a, b = arrays((2, 4, 4), (2, 4, 3), dtype=dtype)
    same(lambda lib, a, b: lib.linalg.solve(a, b), a, b)
    same(lambda lib, a, b: lib.linalg.solve(a, b.mT, left=False), a, b)
    same(lambda lib, a, b: lib.linalg.solve_triangular(a, b, upper=True), a, b)
    same(lambda lib, a, b: lib.linalg.solve_triangular(a, b, upper=False, unitriangular=True), a, b)
    same(lambda lib, a: lib.linalg.inv(a), a)
    same(lambda lib, a: lib.linalg.pinv(a), arrays((5, 3), dtype=dtype)[0])
    same(lambda lib, a, b: lib.linalg.lu_solve(*lib.linalg.lu_factor(a), b), a, b)
    same(lambda lib, a, b: lib.cholesky_solve(b, lib.linalg.cholesky(positive(a))), a, b)


@pytest.mark.parametrize("dtype", KINDS)
def test_factors(dtype):
    a, = arrays((2, 4, 4), dtype=dtype)
    same(lambda lib, a: lib.linalg.cholesky(positive(a)), a)
    for shape in ((4, 4), (5, 3), (3, 5)):
        x, = arrays(shape, dtype=dtype)
        same(lambda lib, x: lib.linalg.lu(x), x)
        same(lambda lib, x: abs_all(lib.linalg.qr(x)), x)
        same(lambda lib, x: lib.linalg.svdvals(x), x)


def abs_all(factors):
    """Factors without their free signs (and phases)."""
    return [x.abs() for x in factors]


@pytest.mark.parametrize("dtype", KINDS)
def test_values_and_vectors(dtype):
    a, = arrays((2, 4, 4), dtype=dtype)
    same(lambda lib, a: lib.linalg.eigvalsh(a + a.mH), a)
    same(lambda lib, a: abs_all(lib.linalg.eigh(a + a.mH)), a)
    same(lambda lib, a: abs_all(lib.linalg.svd(a)), a)
    same(lambda lib, a: abs_all(lib.linalg.svd(a, full_matrices=False)), arrays((5, 3), dtype=dtype)[0])


@pytest.mark.parametrize("dtype", KINDS)
def test_determinants_and_powers(dtype):
    a, = arrays((2, 3, 3), dtype=dtype)
    same(lambda lib, a: lib.linalg.det(a), a)
    same(lambda lib, a: lib.linalg.slogdet(a), a)
    same(lambda lib, a: lib.linalg.matrix_exp(a), a)
    same(lambda lib, a: lib.linalg.matrix_power(a, -3), a)
    singular = np.diag([1.0, 0.0, 2.0]).astype(dtype)
    same(lambda lib, a: lib.linalg.det(a), singular)


def test_reflectors():
    a, tau, x = arrays((5, 3), (3,), (5, 2))
    same(lambda lib, a, t: lib.linalg.householder_product(a, t), a, tau)
    for left in (True, False):
        for transpose in (True, False):
            same(lambda lib, a, t, x: lib.ormqr(a, t, x if left else x.mT, left, transpose), a, tau, x)


def test_reflectors_of_complex_numbers_and_with_scales_of_zero():
    a, tau, x = arrays((2, 5, 3), (2, 3), (2, 5, 4), dtype=np.complex128)
    tau[:, 1] = 0
    for transpose in (True, False):
        same(lambda lib, a, t, x: lib.ormqr(a, t, x, True, transpose), a, tau, x)


def test_second_derivatives_of_reflectors():
    inputs = [rushlight.tensor(x, requires_grad=True) for x in arrays((4, 3), (3,))]
    assert rushlight.autograd.gradgradcheck(rushlight.linalg.householder_product, inputs)


def test_names_of_results():
    x = rushlight.randn(3, 3)
    assert rushlight.linalg.svd(x)._fields == ("U", "S", "Vh")
    assert rushlight.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert rushlight.linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert rushlight.svd(x)._fields == ("U", "S", "V")


def test_exponential_of_one_matrix_in_many_sizes():
    for scale in (1e-3, 1.0, 30.0):
        x, = arrays((4, 4))
        same(lambda lib, x: lib.linalg.matrix_exp(x), scale * x, gradients=scale < 10, rtol=1e-6)


@pytest.mark.parametrize("call", [
    lambda lib: lib.linalg.inv(lib.zeros(2, 2)), lambda lib: lib.linalg.solve(lib.zeros(3, 2, 2), lib.ones(3, 2)),
    lambda lib: lib.linalg.cholesky(-lib.eye(3))])
def test_matrices_without_an_answer(call):
    with pytest.raises(torch.linalg.LinAlgError):
        call(torch)
    with pytest.raises(rushlight.linalg.LinAlgError, match="singular|positive-definite"):
        call(rushlight)


@pytest.mark.parametrize("call", [
    lambda lib: lib.linalg.inv(lib.ones(2, 3)), lambda lib: lib.linalg.inv(lib.ones(3)),
    lambda lib: lib.linalg.eigh(lib.ones(2, 2, dtype=lib.int64)),
    lambda lib: lib.linalg.solve(lib.eye(3), lib.ones(2)), lambda lib: lib.linalg.qr(lib.eye(3), mode="full"),
    lambda lib: lib.linalg.matrix_norm(lib.eye(3), ord=3), lambda lib: lib.linalg.multi_dot([lib.ones(2, 2)])])
def test_arguments_refused(call):
    with pytest.raises(RuntimeError):
        call(torch)
    with pytest.raises(RuntimeError):
        call(rushlight)


def test_extras_tell_where_it_failed():
    a = np.stack([np.eye(3), np.zeros((3, 3)), np.diag([1.0, 1.0, -1.0])])
    same(lambda lib, a: lib.linalg.inv_ex(a).info, a, gradients=False)
    same(lambda lib, a: lib.linalg.cholesky_ex(a).info, a, gradients=False)
    same(lambda lib, a: lib.linalg.lu_factor_ex(a), a, gradients=False)


@pytest.mark.parametrize("name", ["lu_factor_ex", "ldl_factor_ex", "inv_ex", "cholesky_ex"])
def test_checked_factorisations_refuse_singular_matrices(name):
    for lib in (torch, rushlight):
        with pytest.raises(RuntimeError if lib is torch else lib.linalg.LinAlgError):
            getattr(lib.linalg, name)(lib.zeros(2, 2), check_errors=True)
        assert int(getattr(lib.linalg, name)(lib.zeros(2, 2)).info) > 0


@pytest.mark.parametrize("upper", [False, True])
def test_gradients_of_complex_cholesky_factors_are_those_of_hermitian_matrices(upper):
    """Whichever triangle is read, and whatever flows back into its diagonal."""
    made = torch.randn(2, 3, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    given, weights = (made @ made.mH + 3 * torch.eye(3)).numpy(), made.mT.contiguous().numpy()
    found = []
    for lib in (torch, rushlight):
        x = lib.from_numpy(given.copy()).requires_grad_(True)
        lib.linalg.cholesky(x, upper=upper).backward(lib.from_numpy(weights))
        found.append(x.grad.resolve_conj().numpy())
    np.testing.assert_allclose(found[1], found[0], atol=1e-12)


def test_least_squares_by_drivers_with_a_cutoff():
    """``gels`` takes the rank to be full; ``gelss`` leaves nothing where no singular value is above the cutoff."""
    import torch
    import rushlight
    torch.manual_seed(0)
    for shape in ((4, 2), (3, 3), (2, 4)):
        a, b = torch.randn(*shape, dtype=torch.float64), torch.randn(shape[0], 2, dtype=torch.float64)
        for driver in ("gels", "gelsd", "gelss"):
            for cutoff in (None, -1, 0.4, 1.0):
                wanted = torch.linalg.lstsq(a, b, rcond=cutoff, driver=driver)
                found = rushlight.linalg.lstsq(*(rushlight.tensor(t.numpy()) for t in (a, b)), rcond=cutoff,
                                               driver=driver)
                for one, other in zip(found, wanted):
                    assert one.shape == tuple(other.shape)
                    assert torch.allclose(torch.tensor(one.tolist(), dtype=other.dtype).reshape(other.shape), other)


def test_triangular_solve_transposes_without_conjugates():
    import rushlight
    a = rushlight.randn(3, 3, dtype=rushlight.complex128).triu() + 3 * rushlight.eye(3)
    b = rushlight.randn(3, 2, dtype=rushlight.complex128)
    x = rushlight.triangular_solve(b, a, transpose=True).solution
    assert rushlight.allclose(a.mT @ x, b)
