"""Dual tensors, beside torch."""
import pytest

import rushlight
from tests.func.judge import compare, same_error


def modules(t):
    return t.autograd.forward_ad


def tangent(t, f, *xs):
    fw = modules(t)
    with fw.dual_level():
        duals = [fw.make_dual(x, t.ones_like(x) * (k + 1)) for k, x in enumerate(xs)]
        return list(fw.unpack_dual(f(*duals)))


PROGRAMS = {
    "product": lambda t: tangent(t, lambda a, b: (a * b).sum(), t.arange(3.0), t.ones(3)),
    "matrix product": lambda t: tangent(t, lambda a, b: a @ b, t.arange(6.0).reshape(2, 3), t.ones(3, 2)),
    "in place": lambda t: tangent(t, lambda a: (a * 1).mul_(a).add_(2), t.arange(3.0)),
    "view": lambda t: tangent(t, lambda a: a.reshape(3, 1).expand(3, 2).t()[1:], t.arange(3.0)),
    "softmax": lambda t: tangent(t, lambda a: t.log_softmax(a * a, 0), t.arange(3.0)),
    "detached": lambda t: tangent(t, lambda a: a.detach() * a, t.arange(3.0)),
    "module": lambda t: [n := t.nn.Linear(3, 2), n.weight.data.fill_(0.5), n.bias.data.zero_(),
                         tangent(t, n, t.arange(3.0))[1].detach()][3],
    "gradients too": lambda t: [x := t.arange(3.0, requires_grad=True),
                                tangent(t, lambda a: (a ** 3).sum(), x)[1].backward(), x.grad][2],
    "batch norm": lambda t: [m := t.nn.BatchNorm1d(2).requires_grad_(False), m.running_mean,
                             tangent(t, m, t.arange(6.0).reshape(3, 2) ** 2)[0].detach()][1:],
    "written twice": lambda t: tangent(t, lambda a: t.zeros(2).index_put((t.tensor([1, 1]),), a), t.full((2,), 3.0)),
    "no tangent": lambda t: [modules(t).unpack_dual(t.ones(2)).tangent is None],
    "after the level": lambda t: after(t),
}


def after(t):
    fw = modules(t)
    with fw.dual_level():
        y = fw.make_dual(t.ones(2), t.ones(2)) * 3
    return [y + 1, fw.unpack_dual(y)[1] is None]


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch(name):
    compare(PROGRAMS[name])


ERRORS = {
    "no level": lambda t: modules(t).make_dual(t.ones(1), t.ones(1)),
    "integers": lambda t: tangent(t, lambda a: a, t.arange(3)),
    "nested": lambda t: nested(t),
    "shape": lambda t: shape(t),
    "exit": lambda t: modules(t).exit_dual_level(),
}


def nested(t):
    with modules(t).dual_level(), modules(t).dual_level():
        pass


def shape(t):
    with modules(t).dual_level():
        modules(t).make_dual(t.ones(2), t.ones(3))


@pytest.mark.parametrize("name", ERRORS)
def test_errors_as_torch(name):
    assert same_error(ERRORS[name])


def test_level_ends_after_an_error():
    with pytest.raises(ZeroDivisionError):
        with modules(rushlight).dual_level():
            1 / 0
    assert tangent(rushlight, lambda a: a, rushlight.ones(1))[1].tolist() == [1.0]


def test_tangents_that_are_switched_off():
    import rushlight as torch
    from rushlight.autograd import forward_ad as fw
    with fw.dual_level():
        x = fw.make_dual(torch.ones(2), torch.ones(2))
        with fw._set_fwd_grad_enabled(False):
            assert not fw._is_fwd_grad_enabled() and fw.unpack_dual(x * 2).tangent is None
        assert fw._is_fwd_grad_enabled() and fw.unpack_dual(x * 2).tangent.tolist() == [2, 2]
        torch._C._set_fwd_grad_enabled(False)
        assert not torch._C._is_fwd_grad_enabled()
        torch._C._set_fwd_grad_enabled(True)


def test_tangents_that_lie_otherwise_are_copied():
    import rushlight as torch
    from rushlight.autograd import forward_ad as fw
    primal, tangent, plain = torch.ones(5)[:4], torch.ones(4), torch.ones(4)
    with fw.dual_level():
        dual = fw.make_dual(primal, tangent)
        fw.unpack_dual(dual).tangent.mul_(2)
        assert tangent.tolist() == [1] * 4 and dual.as_strided((5,), (1,), 0).shape == (5,)
        assert fw.unpack_dual(fw.make_dual(plain, tangent)).tangent is tangent


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("jvp", ["written", "returned alone", "another"])
def test_functions_in_place_write_their_tangents(recorded, jvp):
    def run(t):
        class Double(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2)

            @staticmethod
            def backward(ctx, gradient):
                return gradient * 2

            @staticmethod
            def jvp(ctx, tangent):
                return {"written": lambda: tangent.mul_(2), "returned alone": lambda: tangent,
                        "another": lambda: tangent * 2}[jvp]()

        fw, x = modules(t), t.ones(2, requires_grad=recorded).clone()
        with fw.dual_level():
            dual = fw.make_dual(x, t.ones(2))
            result = Double.apply(dual)
            return [result is dual, *fw.unpack_dual(result)]

    if jvp == "written":
        compare(run)
    else:
        assert "not modifying the forward mode gradients inplace" in same_error(run)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_arguments_without_a_derivative_are_named(name):
    text = same_error(lambda t: tangent(t, lambda a: getattr(t, name)(a, t.ones(3)), t.arange(3.0) + 1))
    assert f"Trying to use forward AD with {name} that does not support it" in text


GRADIENTS = {  # of what, with respect to what, weighted by what, from a dual x, its primal, its tangent and a weight
    "a plain result": lambda t, d, x, v, w: (w.exp().sum(), w, None),
    "the value": lambda t, d, x, v, w: ((d.sin() * w).sum(), (x, w), None),
    "a dual input": lambda t, d, x, v, w: ((d.sin() * w).prod(), d, None),
    "a dual in between": lambda t, d, x, v, w: [z := d * w, (z.exp().sum(), z, None)][1],
    "weighted": lambda t, d, x, v, w: ((d ** 3, w * d), (x, w), (t.arange(3.0), t.ones(3))),
    "weighted by a dual": lambda t, d, x, v, w: (d ** 3, x, d.detach() * 2),
    "by a dual weight": lambda t, d, x, v, w: (w ** 3, w, d * 2),
    "a parameter's direction": lambda t, d, x, v, w: ((modules(t).make_dual(w, t.ones(3)) ** 3).sum(), w, None),
}


def test_gradients_of_a_tangent_in_its_level():
    def run(t):
        x, v, w = (t.arange(1.0, 4.0).mul_(k).requires_grad_() for k in (0.5, -1, 0.2))
        with modules(t).dual_level():
            tangent = modules(t).unpack_dual(modules(t).make_dual(x, v).exp() * w).tangent
            found = t.autograd.grad(tangent, (x, v, w), t.ones(3))
        return [g.detach() for g in found]

    compare(run)


@pytest.mark.parametrize("create_graph", (False, True))
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_in_a_level_carry_tangents(name, create_graph):
    def run(t):
        x, v, w = (t.arange(1.0, 4.0) * k for k in (0.5, -1, 0.2))
        for leaf in (x, v, w):
            leaf.requires_grad_()
        with modules(t).dual_level():
            d = modules(t).make_dual(x, v)
            of, by, weights = GRADIENTS[name](t, d, x, v, w)
            found = [modules(t).unpack_dual(g) for g in t.autograd.grad(of, by, weights, create_graph=create_graph)]
            found = [(g.primal.detach(), (t.zeros(3) if g.tangent is None else g.tangent).detach()) for g in found]
        return found

    compare(run)
