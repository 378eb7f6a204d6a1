"""grad, vjp, jvp, Jacobians and Hessians: values, nesting, recording modes, errors."""
import numpy as np
import pytest

import rushlight
from .judge import compare, same_error, torch

X = np.linspace(-1, 1.3, 6, dtype=np.float64).reshape(2, 3)


def wavy(t):
    return lambda a: (t.softmax(a, -1) * a.sin()).pow(2).sum()


def many(t):
    return lambda a: (a.sin() * a.sum(), {"p": a.prod()})


def programs():
    def x(t):
        return t.from_numpy(X.copy())

    def f(t):
        return t.func

    return {
        "grad": lambda t: f(t).grad(wavy(t))(x(t)),
        "argnums": lambda t: f(t).grad(lambda a, b: (a * b.exp()).sum(), argnums=1)(x(t), x(t)),
        "argnums tuple": lambda t: f(t).grad(lambda a, b: (a * b.exp()).sum(), argnums=(0, -1))(x(t), x(t)),
        "nested argument": lambda t: f(t).grad(lambda d: (d["w"] * d["b"][0]).sum())({"w": x(t), "b": [x(t)[0]]}),
        "aux": lambda t: f(t).grad(lambda a: ((a * a).sum(), (a + 1, {"k": a})), has_aux=True)(x(t)),
        "value": lambda t: f(t).grad_and_value(wavy(t))(x(t)),
        "value and aux": lambda t: f(t).grad_and_value(lambda a: (a.sum(), {"k": a}), has_aux=True)(x(t)),
        "unused": lambda t: f(t).grad(lambda a, b: a.sum(), argnums=(0, 1))(x(t), x(t)),
        "independent": lambda t: f(t).grad(lambda a: t.ones(()))(x(t)),
        "second": lambda t: f(t).grad(f(t).grad(lambda a: a.sin() * a))(x(t)[0, 0]),
        "third": lambda t: f(t).grad(f(t).grad(f(t).grad(lambda a: a.sin() * a)))(x(t)[0, 0]),
        "perturbations stay apart": lambda t: f(t)
        .grad(lambda a: a * f(t).grad(lambda b: a + b)(t.ones((), dtype=t.float64)))(x(t)[0, 0]),
        "vjp": lambda t: [v := f(t).vjp(many(t), x(t)), v[0], v[1]((x(t), {"p": t.tensor(2.0, dtype=t.float64)}))][1:],
        "vjp of several": lambda t: f(t).vjp(lambda a, b: a * b, x(t), x(t))[1](x(t)),
        "vjp twice": lambda t: [v := f(t).vjp(t.sin, x(t))[1], v(x(t)), v(x(t) * 2)][1:],
        "vjp aux": lambda t: f(t).vjp(lambda a: (a * 2, a + 1), x(t), has_aux=True)[2],
        "jvp": lambda t: f(t).jvp(many(t), (x(t),), (x(t) * 2,)),
        "jvp aux": lambda t: f(t).jvp(lambda a: (a.sin(), a + 1), (x(t),), (x(t),), has_aux=True),
        "jvp of jvp": lambda t: f(t).jvp(lambda a: f(t).jvp(wavy(t), (a,), (a * 2,))[1], (x(t),), (x(t) + 1,)),
        "jvp of grad": lambda t: f(t).jvp(f(t).grad(wavy(t)), (x(t),), (x(t) + 1,)),
        "grad of jvp": lambda t: f(t).grad(lambda a: f(t).jvp(wavy(t), (a,),
                                                              (t.ones(2, 3, dtype=t.float64),))[1])(x(t)),
        "jvp of an independent function": lambda t: f(t).jvp(lambda a: t.ones(2), (x(t),), (x(t),)),
        "jacrev": lambda t: f(t).jacrev(many(t))(x(t)),
        "jacfwd": lambda t: f(t).jacfwd(many(t))(x(t)),
        "jacrev argnums": lambda t: f(t).jacrev(lambda a, b: a * b.sum(), argnums=(0, 1))(x(t), x(t)[0]),
        "jacfwd argnums": lambda t: f(t).jacfwd(lambda a, b: a * b.sum(), argnums=(0, 1))(x(t), x(t)[0]),
        "jacrev of a dict": lambda t: f(t).jacrev(lambda d: {"y": d["a"] * d["b"]})({"a": x(t), "b": x(t)[0]}),
        "jacrev aux": lambda t: f(t).jacrev(lambda a: (a.sin(), a * 2), has_aux=True)(x(t)),
        "jacfwd aux": lambda t: f(t).jacfwd(lambda a: (a.sin(), a * 2), has_aux=True)(x(t)),
        "jacrev chunks": lambda t: f(t).jacrev(t.sin, chunk_size=4)(x(t)),
        "hessian": lambda t: f(t).hessian(wavy(t))(x(t)),
        "reverse over reverse": lambda t: f(t).jacrev(f(t).jacrev(wavy(t)))(x(t)),
        "forward over forward": lambda t: f(t).jacfwd(f(t).jacfwd(wavy(t)))(x(t)),
        "reverse over forward": lambda t: f(t).jacrev(f(t).jacfwd(wavy(t)))(x(t)),
        "vmap of grad": lambda t: t.vmap(f(t).grad(wavy(t)))(x(t)),
        "vmap of grad, shared": lambda t: t.vmap(f(t).grad(lambda w, a: (w @ a).sin().sum()),
                                                 in_dims=(None, 0))(x(t), x(t).repeat(4, 1)),
        "vmap of jvp": lambda t: t.vmap(lambda a: f(t).jvp(wavy(t), (a,), (a,)))(x(t)),
        "vmap of hessian": lambda t: t.vmap(f(t).hessian(wavy(t)))(x(t)),
        "vmap of jacfwd": lambda t: t.vmap(f(t).jacfwd(t.sin))(x(t)),
        "grad of vmap": lambda t: f(t).grad(lambda a: t.vmap(wavy(t))(a).sum())(x(t)),
        "jvp of vmap": lambda t: f(t).jvp(t.vmap(wavy(t)), (x(t),), (x(t),)),
        "jacrev of vmap of grad": lambda t: f(t).jacrev(t.vmap(f(t).grad(wavy(t))))(x(t)),
        "linearize": lambda t: [v := f(t).linearize(many(t), x(t)), v[0], v[1](x(t) + 1)][1:],
        "outer no_grad": lambda t: no_grad_outside(t, x(t)),
        "inner no_grad": lambda t: f(t).grad(lambda a: (without_grad(t, a) * a).sum())(x(t)),
        "detached": lambda t: f(t).grad(lambda a: (a.detach() * a).sum())(x(t)),
        "detached in jvp": lambda t: f(t).jvp(lambda a: a.detach() * a, (x(t),), (x(t),)),
        "closure wants gradients": lambda t: [w := x(t).requires_grad_(),
                                              g := f(t).grad(lambda a: (a * a * w).sum())(x(t)), g, g.sum().backward(),
                                              w.grad][2::2],
        "argument wants gradients": lambda t: [w := x(t).requires_grad_(),
                                               g := f(t).grad_and_value(lambda a: (a ** 3).sum())(w), g,
                                               g[0].sum().backward(), w.grad][2::2],
        "flags seen": lambda t: flags(t, x(t)),
        "written copy": lambda t: f(t).grad(lambda a: a.clone().mul_(a).sin_().sum())(x(t)),
        "written view": lambda t: f(t).grad(lambda a: [b := a * 1, b[0].mul_(a[1]), b[:, 1].fill_(2.0),
                                                       (b * b).sum()][3])(x(t)),
        "filled buffer": lambda t: f(t).grad(lambda a: [b := t.zeros(3, dtype=t.float64),
                                                        b.__setitem__(0, a[0, 1] ** 2), b.__setitem__(1, a[1, 1]),
                                                        (b * b).sum()][3])(x(t)),
        "filled buffer in jvp": lambda t: f(t).jvp(lambda a: [b := t.zeros(3, dtype=t.float64),
                                                              b.__setitem__(0, a[0, 1] ** 2), b][2], (x(t),), (x(t),)),
        "written in jvp": lambda t: f(t).jvp(lambda a: a.clone().mul_(3).add_(a), (x(t),), (x(t),)),
        "view written in jvp": lambda t: f(t).jvp(lambda a: [b := a * 1, b.t()[1].mul_(2), b][2], (x(t),), (x(t),)),
        "branch on values": lambda t: f(t).grad(lambda a: (a * 2 if a.sum() > 0 else a * 3).sum())(x(t)),
        "complex": lambda t: f(t).grad(lambda a: (t.complex(a, a * 2).exp().abs()).sum())(x(t)),
        "functionalize": lambda t: [y := x(t), f(t).functionalize(lambda a: [b := a.view(-1), b[1:3].mul_(5), a.add_(1),
                                                                             b.sum()][3])(y), y],
    }


def no_grad_outside(t, x):
    with t.no_grad():
        return t.func.grad(wavy(t))(x)


def without_grad(t, a):
    with t.no_grad():
        return a * a


def flags(t, x):
    seen = []

    def call(a):
        seen.extend([a.requires_grad, (a * 2).requires_grad, t.ones(1).requires_grad, a.is_leaf])
        return a.sum()

    t.func.grad(call)(x)
    return seen


@pytest.mark.parametrize("name", programs())
def test_as_torch(name):
    compare(programs()[name], rtol=1e-8, atol=1e-10)


CAPTURED = "captured"
ERRORS = {
    "not a scalar": lambda t: t.func.grad(lambda a: a)(t.ones(3)),
    "not a tensor": lambda t: t.func.grad(lambda a: 3.0)(t.ones(3)),
    "integers": lambda t: t.func.grad(lambda a: a.sum())(t.arange(3)),
    "argnums": lambda t: t.func.grad(lambda a: a.sum(), argnums=2)(t.ones(3)),
    "argnums twice": lambda t: t.func.grad(lambda a, b: a.sum(), argnums=(0, 0))(t.ones(3), t.ones(3)),
    "aux": lambda t: t.func.grad(lambda a: a.sum(), has_aux=True)(t.ones(3)),
    "vjp nesting": lambda t: t.func.vjp(lambda a: a, t.ones(3))[1]((t.ones(3), t.ones(3))),
    "vjp shape": lambda t: t.func.vjp(lambda a: a, t.ones(3))[1](t.ones(4)),
    "vjp output": lambda t: t.func.vjp(lambda a: 3.0, t.ones(3)),
    "vjp primal": lambda t: t.func.vjp(lambda a: a, 3.0),
    "vjp integers": lambda t: t.func.vjp(lambda a: a.long(), t.ones(3))[1](t.ones(3).long()),
    "jvp nesting": lambda t: t.func.jvp(lambda a: a, (t.ones(3),), (t.ones(3), t.ones(3))),
    "jvp shape": lambda t: t.func.jvp(lambda a: a, (t.ones(3),), (t.ones(4),)),
    "jvp strict": lambda t: t.func.jvp(lambda a: t.ones(3), (t.ones(3),), (t.ones(3),), strict=True),
    "jvp tuple": lambda t: t.func.jvp(lambda a: a, t.ones(3), t.ones(3)),
    "jvp output": lambda t: t.func.jvp(lambda a: 3.0, (t.ones(3),), (t.ones(3),)),
    "jacrev output": lambda t: t.func.jacrev(lambda a: 3.0)(t.ones(3)),
    "jacrev chunks": lambda t: t.func.jacrev(t.sin, chunk_size=0),
    **{f"{name} {output!r}": lambda t, name=name, output=output: TRANSFORMS[name](t, lambda a: output)(t.ones(3))
       for name in ("vjp", "jvp", "jacrev", "jacfwd") for output in (None, ())},
    "jvp without tensors": lambda t: t.func.jvp(lambda a: a, ((),), ((),)),
    "jvp of numbers": lambda t: t.func.jvp(lambda a: a, (1.0,), (1.0,)),
    "vjp of two cotangents": lambda t: t.func.vjp(lambda a: (a, a), t.ones(3))[1](t.ones(3), t.ones(3)),
    "data decide a size": lambda t: t.vmap(lambda a: a.nonzero())(t.ones(3, 2)),
    "retain_grad": lambda t: t.func.grad(lambda a: a.sin().retain_grad() or a.sum())(t.ones(3)),
    "retain_grad in jvp": lambda t: t.func.jvp(lambda a: a.sin().retain_grad() or a.sum(), (t.ones(3),), (t.ones(3),)),
    "requires_grad_": lambda t: t.func.grad(lambda a: a.requires_grad_().sum())(t.ones(3)),
    "backward": lambda t: t.func.grad(lambda a: (a * a).sum().backward() or a.sum())(t.ones(3)),
    "leaf written": lambda t: t.func.grad(lambda a: a.sin_().sum())(t.ones(3)),
    "captured written": lambda t: [c := t.zeros(3), t.func.grad(lambda a: c.add_(a).sum())(t.ones(3))],
    "captured written in jvp": lambda t: [c := t.zeros(3),
                                          t.func.jvp(lambda a: c.add_(a).sum(), (t.ones(3),), (t.ones(3),))],
    "out": lambda t: t.func.grad(lambda a: t.sin(a, out=t.empty(3)).sum())(t.ones(3)),
    "argnums of another type": lambda t: t.func.jacrev(lambda a: a, argnums=[0])(t.ones(3)),
    "no argnums": lambda t: t.func.grad(lambda a: a.sum(), argnums=())(t.ones(3)),
    **{f"aux of {name}": lambda t, run=run: run(t.func)(lambda a: (a.sum(), [a, 1.0]))(t.ones(3)) for name, run in {
        "grad": lambda f: lambda g: f.grad(g, has_aux=True), "jacrev": lambda f: lambda g: f.jacrev(g, has_aux=True),
        "jacfwd": lambda f: lambda g: f.jacfwd(g, has_aux=True),
        "vjp": lambda f: lambda g: lambda x: f.vjp(g, x, has_aux=True),
        "jvp": lambda f: lambda g: lambda x: f.jvp(g, (x,), (x,), has_aux=True)}.items()},
    "functionalize": lambda t: t.func.functionalize(lambda a: a, remove="x")(t.ones(3)),
    "linearize shape": lambda t: t.func.linearize(lambda a: a.sin(), t.ones(3))[1](t.ones(4)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_as_torch(name):
    assert len(same_error(ERRORS[name])) > 20


def test_transforms_set_whether_tangents_are_carried():
    """A block that keeps tangents from being carried ends where ``jvp`` begins, and goes on after it."""
    def run(t):
        forward = t.autograd.forward_ad
        with forward._set_fwd_grad_enabled(False):
            pushed = t.func.jvp(t.sin, (t.ones(3),), (t.ones(3),))[1]
            return pushed, forward._is_fwd_grad_enabled(), t.func.jacfwd(t.sin)(t.ones(3))

    compare(run)


def test_chunks_of_one_row_run_without_vmap():
    def run(t):
        class Same(t.autograd.Function):
            @staticmethod
            def forward(x):
                return x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, gradient):
                return gradient * len(gradient.nonzero())

        f = lambda x: (Same.apply(x), Same.apply(x).sum())
        return t.func.jacrev(f, chunk_size=1)(t.from_numpy(X.copy()))

    compare(run)


def test_chunks_of_one_row_without_rows():
    found = rushlight.func.jacrev(lambda x: x[:0] * 2, chunk_size=1)(rushlight.ones(3))
    assert tuple(found.shape) == (0, 3)


def test_pull_takes_whether_the_graph_is_kept():
    compare(lambda t: t.func.vjp(t.sin, t.ones(3))[1](t.ones(3), True, True))


def test_escaped_values_are_what_they_stood_for():
    kept = []
    rushlight.func.grad(lambda a: kept.append(a * 2) or a.sum())(rushlight.ones(3))
    assert (kept[0] + 1).tolist() == [3.0, 3.0, 3.0]


TRANSFORMS = {
    "vmap": lambda t, f: t.vmap(f), "grad": lambda t, f: t.func.grad(f),
    "jvp": lambda t, f: lambda x: t.func.jvp(f, (x,), (x,)), "vjp": lambda t, f: lambda x: t.func.vjp(f, x),
    "jacrev": lambda t, f: t.func.jacrev(f), "jacfwd": lambda t, f: t.func.jacfwd(f),
    "functionalize": lambda t, f: t.func.functionalize(f), "vmap of grad": lambda t, f: t.vmap(t.func.grad(f)),
    "jacrev of jacrev": lambda t, f: t.func.jacrev(t.func.jacrev(f))}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_wrappers_are_described_as_by_torch(name):
    """Their level, their printed form, and what they stand for."""
    described = []
    for t in (rushlight, torch):
        told = []

        def seen(x):
            f = t._C._functorch
            told.append([" ".join(repr(x).replace("\\", "").split()).replace("( ", "(").replace(" )", ")"),
                         f.maybe_get_level(x), f.maybe_get_bdim(x), f.dlevel(x), f.is_batchedtensor(x),
                         f.is_gradtrackingtensor(x), f.is_functionaltensor(x), f.maybe_current_level(),
                         t.func.debug_unwrap(x).tolist()])
            return (x * x).sum()

        TRANSFORMS[name](t, seen)(t.arange(6.0).reshape(2, 3))
        described.append(told)
    assert described[0] == described[1]


def test_ended_levels_are_told():
    kept = []
    rushlight.func.grad(lambda a: kept.append(a * 2) or a.sum())(rushlight.ones(3))
    names = rushlight._C._functorch
    assert "lvl=-2" in repr(kept[0]) and names.maybe_get_level(kept[0]) == -2 and names.dlevel(
        kept[0]) == -1 and names.dlevel(kept[0] + 1) == 0
    assert names.unwrap_if_dead(kept[0]).tolist() == [2.0] * 3 and names.get_unwrapped(kept[0]).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="No wrappers"):
        names.get_unwrapped(rushlight.ones(3))
