"""Tensors that become views of themselves in place (squeeze_, transpose_ ...) where programs are transformed, with
views from before and after, and writes through all of them: as PyTorch."""
import pytest

from .judge import compare, rushlight


def squeezed(t, x):
    y = x * 2
    early = y[0]
    y.squeeze_(0)
    late = y[1:]
    y.cos_()
    late.mul_(3)
    return early * 2 + y + late.sum()


def turned(t, x):
    y = t.outer(x[0], x[0] + 1)
    first, whole = y[0], y.view(-1)
    y.transpose_(0, 1)
    y[0] = y[0] * 2
    first.cos_()
    y.t_().unsqueeze_(1)
    y[2].sin_()
    return whole * y.sum(), first


def written_then_turned(t, x):
    y = t.outer(x[0], x[0] + 1)
    y[0].sin_()
    y.t_()
    y[2].mul_(x[0])
    y.t_()
    return y.tanh(), x


def constant_written_by_its_detached(t, x):
    y = t.zeros(3)
    z = y.detach()
    z += x[0]
    return y * x.sum(), z


def written_by_its_detached(t, x):
    y = x * 2
    z = y[:, 1:].detach()
    z *= x[:, 1:]
    z[:, 0].sin_()
    return y * x, z


def detached_and_written(t, x):
    y = x * 2
    z = y.detach()[:, :2]
    y.mul_(x)
    z.add_(x[:, 1:])
    y.add_(1)
    return y, z


DETACHED = {"constant": constant_written_by_its_detached, "written": written_by_its_detached,
            "both written": detached_and_written}
CASES = {"squeezed": squeezed, "turned": turned, "written, then turned": written_then_turned}


def gradient(t, f, x):
    x = x.clone().requires_grad_()
    sum((part * t.arange(part.numel()).reshape(part.shape)).sum() for part in f(t, x)).backward()
    return x.grad


FORMS = {
    "backward": gradient,
    "value": lambda t, f, x: f(t, x),
    "grad": lambda t, f, x: t.func.grad(lambda a: sum(part.sum() for part in f(t, a)))(x),
    "jvp": lambda t, f, x: t.func.jvp(lambda a: f(t, a), (x,), (x + 1,)),
    "vmap": lambda t, f, x: t.vmap(lambda a: f(t, a))(t.stack([x, x + 1])),
    "vmap of grad": lambda t, f, x: t.vmap(t.func.grad(lambda a: sum(part.sum() for part in f(t, a))))(
        t.stack([x, x + 1])),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", FORMS)
def test_as_torch(case, form):
    compare(lambda t: FORMS[form](t, CASES[case], t.arange(3.0).reshape(1, 3) / 3))


def dual(t, f, x):
    level = t.autograd.forward_ad
    with level.dual_level():
        return [part for result in f(t, level.make_dual(x, x + 1)) for part in level.unpack_dual(result)]


DERIVED = {**{form: FORMS[form] for form in ("value", "grad", "jvp", "vmap of grad")}, "dual": dual,
           "jvp of vmap": lambda t, f, x: t.func.jvp(t.vmap(lambda a: f(t, a * 1)), (t.stack([x, x + 1]),),
                                                     (t.stack([x, x]),)),
           "jvp of grad": lambda t, f, x: t.func.jvp(
               t.func.grad(lambda a: sum((part ** 2).sum() for part in f(t, a))), (x,), (x + 1,))}


# one tensor for all examples takes no values that differ
@pytest.mark.parametrize("form, case", [(form, case) for form in DERIVED for case in DETACHED
                                        if case != "constant" or "vmap" not in form])
def test_writes_to_detached_views_leave_derivatives_alone(form, case):
    compare(lambda t: DERIVED[form](t, DETACHED[case], t.arange(3.0).reshape(1, 3) / 3))


@pytest.mark.parametrize("case", CASES)
def test_written_down(case):
    make_fx, x = rushlight.fx.experimental.proxy_tensor.make_fx, rushlight.arange(3.0).reshape(1, 3) / 3

    def f(x):
        return CASES[case](rushlight, x)

    def gradient(x):
        return rushlight.autograd.grad(sum(part.sum() for part in f(x)), x)[0]

    module = make_fx(f)(x + 1)
    values = [leaf.requires_grad_() for leaf in (x.clone(), x.clone())]
    for function, value in zip((f, rushlight.compile(module)), values):
        sum(part.sum() for part in function(value)).backward()
    assert rushlight.allclose(values[0].grad, values[1].grad)
    assert rushlight.allclose(make_fx(gradient)((x + 1).requires_grad_())(x), values[0].grad)
