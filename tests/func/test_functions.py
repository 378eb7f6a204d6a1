"""autograd.Function within transforms, judged beside torch."""
import pytest

import rushlight
from .judge import compare, same_error


def scaled_sine(t, **members):
    """sin(x) * k with a derivative that is twice too large, so that it shows when it is used."""
    class ScaledSine(t.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, k):
            return t.sin(x) * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, k = inputs
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            ctx.k = k

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * x.cos() * ctx.k * 2, None

        @staticmethod
        def jvp(ctx, tangent, _):
            x, = ctx.saved_tensors
            return tangent * x.cos() * ctx.k * 2

    for name, value in members.items():
        setattr(ScaledSine, name, value)
    return ScaledSine


def own_rule(t):
    made = scaled_sine(t, generate_vmap_rule=False)

    def vmap(info, in_dims, x, k):
        assert info.batch_size == x.shape[in_dims[0]] and info.randomness == "error" and in_dims[1] is None
        return made.apply(x.movedim(in_dims[0], 0), k), 0

    made.vmap = staticmethod(vmap)
    return made


def pair(t):
    class Pair(t.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, w):
            return x @ w, x.argmax()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            x, w = ctx.saved_tensors
            return g * w, g * x

    return Pair


def x(t):
    return t.arange(6, dtype=t.float64).reshape(2, 3) / 6


USES = {
    "grad": lambda t, f: t.func.grad(lambda a: f(a).sum())(x(t)),
    "vmap": lambda t, f: t.vmap(f, in_dims=1)(x(t)),
    "vmap of grad": lambda t, f: t.vmap(t.func.grad(lambda a: f(a).sum()))(x(t)),
    "grad of vmap": lambda t, f: t.func.grad(lambda a: t.vmap(f)(a).sum())(x(t)),
    "vmap of vmap": lambda t, f: t.vmap(t.vmap(f))(x(t)),
    "jvp": lambda t, f: t.func.jvp(f, (x(t),), (x(t),)),
    "jacrev": lambda t, f: t.func.jacrev(f)(x(t)[0]),
    "jacfwd": lambda t, f: t.func.jacfwd(f)(x(t)[0]),
    "hessian": lambda t, f: t.func.hessian(lambda a: f(a).sum())(x(t)[0]),
    "second": lambda t, f: t.func.grad(t.func.grad(f))(x(t)[0, 1]),
}


@pytest.mark.parametrize("make", [scaled_sine, own_rule])
@pytest.mark.parametrize("name", USES)
def test_as_torch(name, make):
    compare(lambda t: USES[name](t, lambda a, k=make(t): k.apply(a, 3.0)))


def test_functionalize():
    import rushlight as t
    f = scaled_sine(t)
    assert (t.func.functionalize(lambda a: f.apply(a.clone().mul_(2), 3.0))(x(t)) == (x(t) * 2).sin() * 3).all()


def test_several_results():
    w = lambda t: t.ones(3, dtype=t.float64)
    compare(lambda t: t.vmap(lambda a, p=pair(t): p.apply(a, w(t)))(x(t)))
    compare(lambda t: t.vmap(t.func.grad(lambda a, b, p=pair(t): p.apply(a, b)[0], argnums=(0, 1)),
                             in_dims=(0, None))(x(t), w(t)))


def test_recorded_outside():
    def program(t):
        w = t.ones(3, dtype=t.float64, requires_grad=True)
        t.vmap(lambda a, p=pair(t): p.apply(a, w)[0])(x(t)).sum().backward()
        return w.grad
    compare(program)


def old_style(t):
    class Old(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Old


def both_rules(t):
    made = scaled_sine(t)
    made.vmap = staticmethod(lambda info, in_dims, a, k: (a, 0))
    return made


def without_jvp(t):
    class Plain(t.autograd.Function):
        @staticmethod
        def forward(a):
            return a * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Plain


ERRORS = {
    "no setup_context": lambda t: t.func.grad(lambda a: old_style(t).apply(a).sum())(x(t)),
    "no vmap": lambda t: t.vmap(lambda a: without_jvp(t).apply(a))(x(t)),
    "two rules": lambda t: t.vmap(lambda a: both_rules(t).apply(a, 2.0))(x(t)),
    "too few gradients": lambda t: t.func.grad(lambda a: [k := scaled_sine(t),
                                                          setattr(k, "backward", staticmethod(lambda ctx, g: g)),
                                                          k.apply(a, 2.0).sum()][2])(x(t)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_as_torch(name):
    assert len(same_error(ERRORS[name])) > 20


def test_no_jvp():
    with pytest.raises(NotImplementedError, match="jvp"):
        import rushlight as t
        t.func.jvp(lambda a: without_jvp(t).apply(a), (x(t),), (x(t),))


OUT = {
    "of a shape": lambda t, x: t.add(x, 1, out=t.empty(3)),
    "empty": lambda t, x: [y := t.empty(0), t.add(x, 1, out=y), y * 2][2],
    "part of it": lambda t, x: [y := t.zeros(2, 3), t.add(x, 1, out=y[1]), y][2],
    "of another dtype": lambda t, x: [y := t.zeros(3, dtype=t.float64), t.add(x, 1, out=y), y + 1][2],
    "several": lambda t, x: [y := (t.empty(()), t.empty(())), t.aminmax(x, out=y), y[1] - y[0]][2],
    "the argument": lambda t, x: t.sin(x, out=x) + 1,
    "through a view": lambda t, x: [y := x[1:], t.neg(y, out=y), x][2],
}


@pytest.mark.parametrize("name", OUT)
def test_functionalized_programs_write_out(name):
    """The result, and the argument afterwards."""
    def run(t):
        x = t.arange(3.0)
        return t.func.functionalize(lambda a: OUT[name](t, a))(x), x

    compare(run)


MEMORY = {
    "set_": lambda t, x: x.clone().set_(t.ones(2)), "resize_": lambda t, x: x.clone().resize_(2),
    "resize_ to more": lambda t, x: x.clone().resize_(20), "storage": lambda t, x: x.untyped_storage(),
    "typed storage": lambda t, x: x.storage(),
}


@pytest.mark.parametrize("transform", ("vmap", "functionalize", "grad", "jvp"))
@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_not_replaced_inside_of_transforms(name, transform):
    call = lambda x: [MEMORY[name](rushlight, x), x.sum()][1]
    run = {name: getattr(rushlight.func, name)(call) for name in ("vmap", "functionalize", "grad")}
    run["jvp"] = lambda x: rushlight.func.jvp(call, (x,), (x,))
    with pytest.raises(NotImplementedError, match="transformed"):
        run[transform](rushlight.ones(3, 3))
