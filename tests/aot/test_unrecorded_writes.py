"""Writes that no gradient knows of: under ``no_grad``, through ``detach()`` or ``data``.  Compiled they mean what they
mean one by one."""
import pytest

import rushlight as rl


def through_detach(x):
    y = x.clone()
    y.detach().mul_(2)
    return y * x


def through_data(x):
    y = x.clone()
    y.data.mul_(2)
    return y * x


def under_no_grad(x):
    y = x.clone()
    with rl.no_grad():
        y.mul_(2)
    return y * 3


def parts_under_no_grad(x):
    y = x.clone()
    with rl.no_grad():
        y[0].add_(5)
        y[:, 1] = 0
        y[y > 1] = 7
    return y * y


def part_through_detach(x):
    y = x.clone()
    y.detach()[1:].zero_()
    return y[:2] * x[:2] + y.view(-1)[:8].view(2, 4)


def whole_replaced(x):
    y = x * 2
    with rl.no_grad():
        y.copy_(rl.ones(4, 4))
        y.fill_(3)
    return y * x


def view_made_before(x):
    y = x * 2
    v = y[0]
    with rl.no_grad():
        v.mul_(2)
    v.mul_(3)
    return y * x


def detached_view_stays_detached(x):
    y = x.exp()
    d = y.detach()
    d.mul_(2)
    return d * x


def detached_view_of_what_is_written(x):
    y = x.clone()
    d = y.detach()
    y.mul_(2)
    return d * x


def view_read_under_no_grad(x):
    y = x.clone()
    v = y[0]
    y.mul_(2)
    with rl.no_grad():
        seen = v.sum()
    return (v * 3 + seen).sum() + (y * x).sum()


def transposed(x):
    y = (x * 2).t()
    y.detach()[0, 1:3].copy_(rl.ones(2))
    return y * x + y.t()


def by_strides(x):
    y = x.clone()
    y.as_strided((2, 2), (8, 2), 1).mul_(x[:2, :2])
    return y * x


@pytest.mark.parametrize("function", [through_detach, through_data, under_no_grad, parts_under_no_grad,
                                      part_through_detach, whole_replaced, view_made_before,
                                      detached_view_stays_detached, detached_view_of_what_is_written,
                                      view_read_under_no_grad, transposed, by_strides],
                         ids=lambda f: f.__name__)
def test_compiled_as_one_by_one(function):
    found = []
    for run in (function, rl.compile(function)):
        x = rl.linspace(-2, 2, 16).reshape(4, 4).requires_grad_()
        y = run(x)
        found.append((y.detach(), *rl.autograd.grad(y.sum(), x)))
    for a, b in zip(*found):
        rl.testing.assert_close(a, b)
