"""autograd.functional and gradcheck, beside torch."""
import numpy as np
import pytest
import torch

import rushlight as rl
from tests.func.judge import compare, same_error


def x(t, *shape):
    return t.from_numpy(np.linspace(0.2, 1.5, int(np.prod(shape))).reshape(shape))


def pair(a, b):
    return a.sin() * b.sum(), b * a.sum()


def cubes(a):
    return (a ** 3).sum() * a.prod()


def recorded(found):
    """Whether a result wants a gradient, and its values."""
    return found.requires_grad, found.detach()


def mixed(a, b):
    return (a ** 3).sum() * b.prod()


PROGRAMS = {
    "jacobian": lambda t, f: f.jacobian(t.exp, x(t, 2, 3)),
    "jacobian of several": lambda t, f: f.jacobian(pair, (x(t, 3), x(t, 2))),
    "jacobian vectorized": lambda t, f: f.jacobian(pair, (x(t, 3), x(t, 2)), vectorize=True),
    "jacobian forward": lambda t, f: f.jacobian(pair, (x(t, 3), x(t, 2)), vectorize=True, strategy="forward-mode"),
    "jacobian of one output": lambda t, f: f.jacobian(lambda a, b: a * b.sum(), (x(t, 3), x(t, 2))),
    "jacobian recorded": lambda t, f: f.jacobian(cubes, x(t, 3).requires_grad_(), create_graph=True),
    "jacobian not recorded": lambda t, f: f.jacobian(cubes, x(t, 3).requires_grad_()),
    "jacobian of independent": lambda t, f: f.jacobian(lambda a: t.ones(2, dtype=t.float64), x(t, 3)),
    "hessian": lambda t, f: f.hessian(cubes, x(t, 3)),
    "hessian of several": lambda t, f: f.hessian(mixed, (x(t, 3), x(t, 2))),
    "hessian vectorized": lambda t, f: f.hessian(mixed, (x(t, 3), x(t, 2)), vectorize=True),
    "hessian forward": lambda t, f: f.hessian(cubes, x(t, 3), vectorize=True,
                                              outer_jacobian_strategy="forward-mode").detach(),
    "vjp": lambda t, f: f.vjp(pair, (x(t, 3), x(t, 2)), (x(t, 3), x(t, 2))),
    "recorded for inputs without gradients": lambda t, f: recorded(f.jacobian(cubes, x(t, 3), create_graph=True)),
    "recorded Hessian": lambda t, f: recorded(f.hessian(cubes, x(t, 3), create_graph=True)),
    "leaves made within": lambda t, f: f.vjp(lambda a: a.detach().requires_grad_().clone().sum() + a.sum(), x(t, 3)),
    "vjp default": lambda t, f: f.vjp(cubes, x(t, 3)),
    "jvp": lambda t, f: f.jvp(pair, (x(t, 3), x(t, 2)), (x(t, 3), x(t, 2))),
    "hvp": lambda t, f: f.hvp(cubes, x(t, 3), x(t, 3) + 1),
    "vhp": lambda t, f: f.vhp(mixed, (x(t, 3), x(t, 2)), (x(t, 3), x(t, 2))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch(name):
    compare(lambda t: PROGRAMS[name](t, t.autograd.functional), rtol=1e-9)


ERRORS = {
    "strict": lambda t, f: f.jacobian(lambda a: t.ones(2), x(t, 3), strict=True),
    "strict input": lambda t, f: f.vjp(lambda a, b: a.sum(), (x(t, 3), x(t, 3)), strict=True),
    "strict and vectorize": lambda t, f: f.jacobian(t.sin, x(t, 3), strict=True, vectorize=True),
    "not a tensor": lambda t, f: f.jacobian(lambda a: 3.0, x(t, 3)),
    "input": lambda t, f: f.jacobian(t.sin, 3.0),
    "hessian of a vector": lambda t, f: f.hessian(t.sin, x(t, 3)),
    "v": lambda t, f: f.vjp(t.sin, x(t, 3)),
    "v shape": lambda t, f: f.vjp(t.sin, x(t, 3), x(t, 2)),
    "v count": lambda t, f: f.jvp(pair, (x(t, 3), x(t, 2)), (x(t, 3),)),
    "v count of one": lambda t, f: f.jvp(t.sin, x(t, 3), (x(t, 3), x(t, 3))),
    "outputs": lambda t, f: f.vhp(lambda a: 3, x(t, 3), x(t, 3)),
    "strict, of leaves": lambda t, f: f.vjp(lambda a: a.detach().requires_grad_().clone().sum(), x(t, 3), strict=True),
    "strategy": lambda t, f: f.jacobian(t.sin, x(t, 3), strategy="x"),
    "forward, not vectorized": lambda t, f: f.jacobian(t.sin, x(t, 3), strategy="forward-mode"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_as_torch(name):
    assert same_error(lambda t: ERRORS[name](t, t.autograd.functional))


class Wrong(rl.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2

    @staticmethod
    def backward(ctx, g):
        return g * 3


def test_gradcheck_finds_a_wrong_gradient():
    a = rl.randn(3, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(lambda v: v * v, a)
    assert not rl.autograd.gradcheck(Wrong.apply, a, raise_exception=False)
    with pytest.raises(rl.autograd.gradcheck.__globals__["GradcheckError"], match="mismatch"):
        rl.autograd.gradcheck(Wrong.apply, a)


def test_gradcheck_of_every_mode():
    a = rl.randn(2, 3, dtype=rl.float64, requires_grad=True)
    f = lambda v: (rl.softmax(v, 1), v.exp().sum())
    assert rl.autograd.gradcheck(f, a, check_forward_ad=True, check_batched_grad=True)
    assert rl.autograd.gradgradcheck(f, a, check_fwd_over_rev=True, check_batched_grad=True)


def test_gradcheck_of_complex_numbers():
    a = rl.randn(3, dtype=rl.complex128, requires_grad=True)
    assert rl.autograd.gradcheck(lambda v: v * v.conj() + v.exp(), a, check_forward_ad=True)
    assert rl.autograd.gradgradcheck(lambda v: v.abs(), a)


def test_gradcheck_wants_gradients():
    with pytest.raises(ValueError, match="require gradient"):
        rl.autograd.gradcheck(rl.sin, rl.ones(2))


STRICT = {"constant": lambda a: a.detach(), "of a leaf": lambda a: a.long().float().requires_grad_().clone(),
          "linear": lambda a: 3 * a, "square": lambda a: a * a}
PRODUCTS = ("jacobian", "vjp", "jvp", "hessian", "vhp", "hvp")


@pytest.mark.parametrize("recorded", [False, True], ids=["", "recorded"])
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("name", STRICT)
def test_strict_mode_refuses_what_does_not_depend(name, product, recorded):
    found = []
    for t in (rl, torch):
        function = STRICT[name] if PRODUCTS.index(product) < 3 else lambda a: STRICT[name](a).sum()
        more = () if product in ("jacobian", "hessian") else (t.ones(4),)
        try:
            getattr(t.autograd.functional, product)(function, t.full((4,), 0.5), *more, strict=True,
                                                    create_graph=recorded)
            found.append(None)
        except RuntimeError as error:
            found.append(str(error))
    assert found[0] == found[1]
