"""Derivatives at exactly 0, where formulas without overflow switch sides, beside PyTorch's."""
import math

import pytest
import torch

import rushlight
from tests.func.judge import compare

FUNCTIONS = {
    "bce": lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x, t.tensor([0.9, 0.9, 0.9]),
                                                                         reduction="none"),
    "bce weighted": lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x, t.tensor([0.9, 0.9, 0.9]),
                                                                                  reduction="none",
                                                                                  pos_weight=t.tensor([2.0])),
    "softplus": lambda t, x: t.nn.functional.softplus(x), "logsigmoid": lambda t, x: t.nn.functional.logsigmoid(x),
    "mish": lambda t, x: t.nn.functional.mish(x),
    "logaddexp": lambda t, x: t.logaddexp(x, t.zeros(3)), "logaddexp2": lambda t, x: t.logaddexp2(x, t.zeros(3)),
    "xlogy": lambda t, x: t.xlogy(x, t.tensor([2.0, 0.0, -1.0])),
    "xlog1py": lambda t, x: t.special.xlog1py(x, t.tensor([2.0, 0.0, -1.0])),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_slope_is_right_at_zero(name):
    found = []
    for framework in (rushlight, torch):
        x = framework.zeros(3, requires_grad=True)
        y = FUNCTIONS[name](framework, x)
        slope, = framework.autograd.grad(y.sum(), x, create_graph=True)
        bend, = framework.autograd.grad(slope.sum() + x.sum(), x)  # + x: some slopes do not depend on x
        found.append((y.tolist(), slope.tolist(), bend.tolist()))
    for mine, theirs in zip(*found):
        assert mine == pytest.approx(theirs)


def test_sinc_bends_at_zero():
    """Where PyTorch's second derivative is NaN."""
    x = rushlight.zeros(1, dtype=rushlight.float64, requires_grad=True)
    slope, = rushlight.autograd.grad(rushlight.sinc(x), x, create_graph=True)
    assert slope.item() == 0
    assert rushlight.autograd.grad(slope, x)[0].item() == pytest.approx(-math.pi ** 2 / 3)


CONSTANT = {  # wherever they are smooth: their slope is 0, also where a factor of it is infinite or NaN
    "x ** 0": lambda t, x: x ** 0, "trunc": lambda t, x: t.div(x, t.zeros_like(x), rounding_mode="trunc"),
    "floor": lambda t, x: t.div(x, t.zeros_like(x), rounding_mode="floor"),
    "count": lambda t, x: t.linalg.vector_norm(x, 0),
    "log of std": lambda t, x: t.log(t.std(x[2].expand(3))),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_slopes_of_constants_are_0(name):
    def slope(t):
        x = t.tensor([math.inf, math.nan, 0.0, 2.0], requires_grad=True)
        return t.autograd.grad(CONSTANT[name](t, x).sum(), x, materialize_grads=True)

    compare(slope)


def test_an_infinite_cotangent_of_a_part_leaves_the_other_part():
    def slope(t):
        x = t.tensor([1 + 2j], requires_grad=True)
        parts = [t.view_as_real(t.autograd.grad((part(x) * math.inf).sum(), x)[0])
                 for part in (lambda x: x.real, lambda x: x.imag)]
        return [p.isnan() for p in parts]

    compare(slope)


def test_a_side_that_is_not_chosen_has_no_tangent():
    """Be its tangent infinite or NaN."""
    def tangents(t):
        x = t.tensor([0.0, -1.0, 4.0])
        return t.func.jvp(lambda x: t.where(x > 0, t.sqrt(x), x), (x,), (t.ones(3),))

    compare(tangents)


def test_of_equal_numbers_the_first_has_the_slope():
    for name in ("fmax", "fmin"):
        for framework in (rushlight, torch):
            x, y = (framework.tensor([1.0, float("nan"), 2.0], requires_grad=True) for _ in range(2))
            getattr(framework, name)(x, y).nansum().backward()
            assert x.grad.tolist()[::2] == [1.0, 1.0] and y.grad.tolist()[::2] == [0.0, 0.0], framework


@pytest.mark.parametrize("zeros", [1, 2])
def test_second_slopes_of_products_with_zeros(zeros):
    """The slope of another factor depends on the zero, and of two zeros each on the other."""
    index = [0, 1, 0, 0]
    for reduce in (lambda x, s: x.index_reduce(0, rushlight.tensor(index), s, "prod"),
                   lambda x, s: x.scatter_reduce(0, rushlight.tensor(index), s, "prod")):
        x = rushlight.tensor([1.5, 2.0], dtype=rushlight.float64, requires_grad=True)
        s = rushlight.tensor([3.0, 0.0, 0.0, 0.0 if zeros == 2 else 2.0], dtype=rushlight.float64, requires_grad=True)
        assert rushlight.autograd.gradgradcheck(reduce, (x, s))


@pytest.mark.parametrize("name", ("max", "min"))
@pytest.mark.parametrize("values", ([1.0, float("nan"), 2.0, float("nan")], [1.0, 1.0, 0.0], [float("inf"), 1.0]),
                         ids=str)
def test_equal_extremes_share_the_slope_also_nan(name, values):
    found = []
    for framework in (rushlight, torch):
        x = framework.tensor(values, requires_grad=True)
        y = getattr(x, name)()
        assert y.grad_fn.name() == f"{name.capitalize()}Backward1"
        found.append(framework.autograd.grad(y, x)[0].tolist())
    assert found[0] == found[1]
