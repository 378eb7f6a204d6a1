"""Which gradients have a history of their own, and what it gives: None, zeros or an error, as in PyTorch."""
import math

import pytest
import torch as judge

import rushlight

FLAT = {"floor": lambda t, x: x.floor(), "ceil": lambda t, x: x.ceil(), "trunc": lambda t, x: x.trunc(),
        "round": lambda t, x: x.round(), "sign": lambda t, x: x.sign(), "sgn": lambda t, x: x.sgn(),
        "frac": lambda t, x: x.frac(), "div": lambda t, x: t.div(x, 2, rounding_mode="floor")}
LINEAR = {"mul": lambda t, x: x * t.arange(4.0), "div": lambda t, x: x / 2, "sub": lambda t, x: 2 - x,
          "sum": lambda t, x: x.sum(0), "cumsum": lambda t, x: x.cumsum(0), "matmul": lambda t, x: x @ t.ones(4, 2),
          "linear": lambda t, x: t.nn.functional.linear(x, t.ones(2, 4)), "cat": lambda t, x: t.cat([x, x]),
          "where": lambda t, x: t.where(t.arange(4) > 1, x, t.zeros(4)), "slice": lambda t, x: x[1:],
          "view": lambda t, x: x.view(2, 2).t(), "flip": lambda t, x: x.flip(0),
          "index": lambda t, x: x[t.tensor([0, 1])]}
BENT = {"abs": lambda t, x: x.abs(), "where": lambda t, x: t.where(x > 0, x, -x), "max": lambda t, x: x.max(),
        "clamp": lambda t, x: x.clamp(0, 1), "sort": lambda t, x: x.sort()[0], "maximum": lambda t, x: t.maximum(x, -x),
        "remainder": lambda t, x: x.remainder(2.0), "square": lambda t, x: x * x, "sin": lambda t, x: x.sin()}
FUNCTIONS = {f"{kind} {name}": f for kind, group in (("flat", FLAT), ("linear", LINEAR), ("bent", BENT))
             for name, f in group.items()}
WEIGHTS = {"ones": lambda x, y: y.sum(), "its own value": lambda x, y: (y * y.detach()).sum(),
           "the input": lambda x, y: y.sum() * x[0]}


def second(t, function, weight):
    """Whether the gradient wants one, and its own gradient with unused inputs allowed and not."""
    x = t.tensor([0.5, -1.25, 2.0, -0.75], requires_grad=True)
    first, = t.autograd.grad(WEIGHTS[weight](x, function(t, x)), x, create_graph=True)
    found = [first.requires_grad]
    for allowed in (True, False):
        try:
            again, = t.autograd.grad(first.sum(), x, allow_unused=allowed, retain_graph=True)
            found.append(None if again is None else [round(v, 4) for v in (again + 0).tolist()])
        except RuntimeError:
            found.append("refused")
    return found


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_exist_where_they_do_in_pytorch(name, weight):
    assert second(rushlight, FUNCTIONS[name], weight) == second(judge, FUNCTIONS[name], weight)


@pytest.mark.parametrize("name", FLAT)
def test_steps_have_no_slope_at_infinity_either(name):
    def gradient(t):
        x = t.tensor([math.inf, -math.inf, math.nan, 1.0], requires_grad=True)
        FLAT[name](t, x).sum().backward()
        return (x.grad + 0).tolist()
    assert gradient(rushlight) == gradient(judge)
