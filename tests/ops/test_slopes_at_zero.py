"""Derivatives at exactly 0, where formulas without overflow switch sides, beside PyTorch's."""
import pytest
import torch

import rushlight

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
        found.append((y.tolist(), framework.autograd.grad(y.sum(), x)[0].tolist()))
    assert found[0][0] == pytest.approx(found[1][0]) and found[0][1] == pytest.approx(found[1][1])


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
