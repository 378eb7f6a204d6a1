"""Gradients beside infinities and ties, and of singular matrices, beside PyTorch's; factors of infinities."""
import math

import pytest
import torch

import rushlight
from tests.func.judge import compare

INF = math.inf


def gradients(t, function, *values):
    """The gradients of the sum of a function's result by tensors of these values."""
    inputs = [t.tensor(v, requires_grad=True) for v in values]
    return t.autograd.grad(function(t, *inputs).sum(), inputs)


LERP = {"infinite weights": ([INF, 0.5, 1.0, 2.0], [1.0, 2.0, 3.0, 1.0], [0.25, -INF, INF, 0.75]),
        "infinite differences": ([INF, 1.0, -INF, 2.0], [1.0, INF, 1.0, 3.0], [0.25, 0.25, 0.75, 0.5])}


@pytest.mark.parametrize("name", LERP)
def test_the_formula_of_lerp_that_is_not_chosen_has_no_gradient(name):
    compare(lambda t: gradients(t, lambda t, *given: t.lerp(*given), *LERP[name]))


@pytest.mark.parametrize("target", [0.0, 0.25, 1.0])
def test_infinite_logits_have_slopes_beside_a_weight_of_positives(target):
    def slopes(t):
        weight = t.tensor([0.5, 0.5, 3.0, 3.0, 2.0])
        loss = lambda t, x, y: t.nn.functional.binary_cross_entropy_with_logits(  # noqa: E731
            x, y, pos_weight=weight, reduction="none")
        return gradients(t, loss, [INF, -INF, INF, -INF, 0.0], [target] * 5)

    compare(slopes)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("rows", [[[0.5, 0.5], [2.0, 2.0], [0.5, 0.5]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]],
                         ids=["rank 1", "rank 2"])
def test_least_squares_of_a_lower_rank_have_a_slope(driver, rows):
    def slopes(t):
        return gradients(t, lambda t, a, b: t.linalg.lstsq(a, b, driver=driver).solution, rows, [[1.0], [2.0], [4.0]])

    if driver != "gels" or rows[0][0] != rows[0][1]:  # which assumes full rank
        compare(slopes, rtol=1e-3, atol=1e-4)


def test_a_determinant_with_an_infinity_has_a_slope():
    """NaN, which steps of training skip, for the matrix with an infinity, and no error."""
    one, other = gradients(rushlight, lambda t, a: t.linalg.det(a), [[[INF, 1.0], [2.0, 3.0]],
                                                                     [[1.0, 1.0], [2.0, 3.0]]])[0].tolist()
    assert all(math.isnan(v) for row in one for v in row)
    assert other == [pytest.approx([3.0, -2.0]), pytest.approx([-1.0, 1.0])]
    compare(lambda t: gradients(t, lambda t, a: t.linalg.det(a), [[INF]]))


BAGS = {"rows": ([[0, 1, 2], [3, 3, 1], [2, 1, 0]], None, None), "padded rows": ([[0, 1, 2], [3, 3, 1]], None, 3),
        "runs": ([0, 1, 2, 3, 3, 1, 2, 1, 0], [0, 3, 3, 6], None), "padded runs": ([0, 1, 2, 3, 1], [0, 3], 3)}


@pytest.mark.parametrize("name", BAGS)
def test_the_first_of_equal_elements_of_a_bag_has_the_slope(name):
    positions, offsets, padding = BAGS[name]

    def slopes(t):
        bags = lambda t, table: t.nn.functional.embedding_bag(  # noqa: E731
            t.tensor(positions), table, offsets and t.tensor(offsets), mode="max", padding_idx=padding)
        return gradients(t, bags, [[1.0, 2.0, INF], [1.0, 3.0, INF], [1.0, 3.0, -INF], [0.0, -1.0, 0.0]])

    compare(slopes)


def test_padding_beside_infinite_weights_of_samples_has_no_slope():
    def slopes(t):
        bags = lambda t, table, scale: t.nn.functional.embedding_bag(  # noqa: E731
            t.tensor([0, 3, 1, 3]), table, t.tensor([0, 2]), mode="sum", padding_idx=3, per_sample_weights=scale)
        return gradients(t, bags, [[1.0], [2.0], [3.0], [INF]], [2.0, INF, 3.0, math.nan])

    compare(slopes)


@pytest.mark.parametrize("reduce, value", [("amax", -INF), ("amin", INF)])
@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_excluded_elements_take_no_part_in_ties(name, reduce, value):
    """Also where all sources are what an excluded element is replaced by."""
    def slopes(t):
        into = lambda t, x, s: getattr(x, name)(0, t.tensor([0, 1, 0, 1, 0]), s, reduce,  # noqa: E731
                                                include_self=False)
        return gradients(t, into, [7.0, 8.0, 3.0], [1.0, value, 1.0, value, 2.0])

    compare(slopes)


@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_places_without_sources_have_tangents(name):
    x, s = rushlight.zeros(3), rushlight.tensor([1.0, 4.0, 2.0])
    into = lambda x, s: getattr(x, name)(0, rushlight.tensor([0, 1, 0]), s, "amax", include_self=False)  # noqa: E731
    assert rushlight.func.jvp(into, (x, s), (rushlight.ones(3), s))[1].tolist() == [2.0, 4.0, 1.0]


def test_least_squares_of_infinities_end():
    """Where LAPACK's iteration does not, for this matrix: NaN; other matrices of a batch keep their solutions."""
    infinite = [[0.5, 2.0, 2.0], [0.5, 2.0, 2.0], [INF, INF, 0.5], [0.5, 0.5, 0.5]]
    finite = [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 4.0], [0.0, 0.0, 0.0]]
    found = rushlight.linalg.lstsq(rushlight.tensor([infinite, finite]), rushlight.ones(2, 4, 1), driver="gelsd")
    assert found.solution[0].isnan().all() and found.rank.tolist() == [0, 3]
    assert found.solution[1, :, 0].tolist() == pytest.approx([1.0, 0.5, 0.25])
    right = rushlight.tensor([[1.0, 1.0], [1.0, INF], [1.0, 0.0], [1.0, 0.0]])
    found = rushlight.linalg.lstsq(rushlight.tensor(finite), right, driver="gelsd").solution
    assert found.isnan().all(0).tolist() == [False, True]


def test_singular_vectors_of_infinities_end():
    """NaN for the matrix with infinities, for which LAPACK's iteration does not end; NaN among elements is refused."""
    infinite = [[-1e30, 0.0, -INF, -INF, -INF], [0.0, -INF, 2.0, -INF, -INF], [2.0, 0.0, 2.0, 0.0, 2.0]]
    finite = [[0.0, 3.0, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]]
    for factor in rushlight.linalg.svd(rushlight.tensor([infinite, finite])):
        assert factor[0].isnan().all() and factor[1].isfinite().all()
    for t in (rushlight, torch):
        with pytest.raises(t.linalg.LinAlgError):
            t.linalg.svd(t.tensor([[1.0, math.nan], [2.0, 3.0]]))


def test_an_infinite_variance_has_an_infinite_loss_and_finite_slopes():
    def slopes(t):
        loss = lambda t, x, v: t.nn.functional.gaussian_nll_loss(x, t.zeros(4), v, reduction="none")  # noqa: E731
        x, v = [1.0, 2.0, 3.0, 4.0], [INF, 0.0, 2.0, 1e-9]
        return loss(t, t.tensor(x), t.tensor(v)), gradients(t, loss, x, v)

    compare(slopes)
