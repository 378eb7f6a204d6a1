"""Distances between rows, and what flows back through them, as PyTorch has them."""

import numpy as np
import pytest
import torch

import rushlight


def run(library, function, *arrays):
    given = [library.from_numpy(a).requires_grad_() for a in arrays]
    out = function(library, *given)
    out.backward(library.from_numpy(np.cos(np.arange(out.numel(), dtype=arrays[0].dtype)).reshape(tuple(out.shape))))
    return [out.detach().numpy(), *(x.grad.numpy() for x in given)]


def both(function, *arrays, tolerance=1e-9):
    for theirs, ours in zip(run(torch, function, *arrays), run(rushlight, function, *arrays)):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def rows(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("n, m", [(3, 4), (30, 27)])
def test_cdist(p, n, m):
    both(lambda t, a, b: t.cdist(a, b, p), rows(n, 5), rows(m, 5))
    both(lambda t, a, b: t.cdist(a, b, p), rows(2, 1, n, 5), rows(3, m, 5))


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist",
                                  "use_mm_for_euclid_dist_if_necessary"])
def test_modes_of_cdist(mode):
    both(lambda t, a, b: t.cdist(a, b, compute_mode=mode), rows(4, 3), rows(40, 3))


def test_rows_at_the_same_place_do_not_move():
    x = np.ones((30, 2))
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        found = run(rushlight, lambda t, a: t.cdist(a, a, compute_mode=mode), x)
        assert not found[0].any() and not found[1].any()


def test_second_derivatives_of_products():
    x, y = (rushlight.from_numpy(rows(*shape)).requires_grad_() for shape in ((4, 3), (5, 3)))
    assert rushlight.autograd.gradcheck(lambda a, b: rushlight.cdist(a, b, compute_mode="use_mm_for_euclid_dist"),
                                        (x, y))
    assert rushlight.autograd.gradgradcheck(lambda a, b: rushlight.cdist(a, b, compute_mode="use_mm_for_euclid_dist"),
                                            (x, y))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_pdist(p):
    both(lambda t, a: t.nn.functional.pdist(a, p), rows(9, 4))


def test_differences_are_not_written_down():
    x = rushlight.ones(3000, 300)
    assert rushlight.cdist(x, x, 1.0).shape == (3000, 3000)


def test_unknown_mode():
    with pytest.raises(ValueError):
        rushlight.cdist(rushlight.ones(2, 2), rushlight.ones(2, 2), compute_mode="fast")


DTYPES = ["float32", "float64", "float16", "int64", "bool", "complex64"]


@pytest.mark.parametrize("first", DTYPES)
def test_cdist_takes_one_floating_dtype(first):
    """Errors are PyTorch's, except that half precision is computed here."""
    for second in DTYPES:
        if first == second and "float" in first:
            continue
        texts = []
        for library in (torch, rushlight):
            x, y = (library.tensor([[1, 2], [3, 4]]).to(getattr(library, dtype)) for dtype in (first, second))
            with pytest.raises(RuntimeError) as caught:
                library.cdist(x, y, 1.0)
            texts.append(str(caught.value))
        assert texts[0] == texts[1] or first == "float16" and "not implemented" in texts[0]
