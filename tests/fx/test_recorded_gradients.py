"""Gradients that make_fx traces hold for other inputs than those of the trace: nothing that an operator saved is a
constant of the graph."""
import importlib

import numpy as np
import pytest
import torch as judge

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.autograd import grad
from rushlight.fx.experimental.proxy_tensor import make_fx
from tests.ops.test_samples import SAMPLED
from tests.transforms.test_every_operator import at, caller, nudged, prepared, smooth


def written(x):
    y, z = x * 2, x * 1
    y.cos_().add_(x.exp())
    z.sin_()
    return (y + 1) * z


def written_views(x):
    y = x * 2
    y[0].sin_()
    y[:, 1].mul_(x[:, 2].tanh())
    return y.sigmoid() * x


def seen_through_view(x):
    y = x * 1
    view = y.view(-1)
    y.exp_()
    return view.tanh()


def turned(x):
    y = x.sin()
    y.t_().mul_(x.tanh())
    return y.unsqueeze_(0).sigmoid_()[0] * x


def hooked(x):
    y = x.tanh()
    y.register_hook(lambda g: g * 2)
    return y.exp()


class Exp(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def twice(x):
    first, = grad(x.tanh().exp().sum(), x, create_graph=True)
    return (first * first).sigmoid()


CASES = {
    "written": written, "written_views": written_views, "seen_through_view": seen_through_view, "turned": turned,
    "hooked": hooked, "function": Exp.apply, "twice": twice, "layer_norm": lambda x: F.layer_norm(x.tanh(), (4,)).sin(),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True).pow(3),
    "dropout": lambda x: F.dropout(x.tanh(), 0.5) * x, "max_pool": lambda x: F.max_pool2d(x[None, None], 2).exp(),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None] * 2, x[None].exp()),
}


NOT_WITHOUT_DATA = {"hooked"}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_gradients_hold_for_other_inputs(name, mode):
    def gradient(x):
        return grad(CASES[name](x).sum(), x)[0]

    first = rl.randn(5 if mode == "symbolic" and name != "turned" else 4, 4, requires_grad=True)
    second = rl.randn(6 if mode == "symbolic" and name != "turned" else 4, 4, requires_grad=True)
    if mode != "real" and name in NOT_WITHOUT_DATA:
        with pytest.raises(RuntimeError, match="needs the data"):
            make_fx(gradient, tracing_mode=mode)(first)
        return
    module = make_fx(gradient, tracing_mode=mode)(first)
    results = []
    for function in (module, gradient):
        rl.manual_seed(5)
        results.append(function(second))
    assert rl.allclose(*results, rtol=1e-5, atol=1e-6)
    assert not [node for node in module.graph.find_nodes(op="get_attr")]


@pytest.mark.sampled
@pytest.mark.parametrize("name,index", SAMPLED, ids=[f"{n}-{k}" for n, k in SAMPLED])
def test_gradients_of_every_operator_hold_for_other_inputs(name, index):
    sample, values, paths = prepared(name, index)
    call = caller(name, sample, values, paths)

    def gradients(*xs):
        found = [r for r in smooth(call(*xs)) if r.requires_grad]
        return grad(found, xs, [rl.cos(r.detach()) for r in found], materialize_grads=True) if found else ()

    first = [rl.tensor(at(values, path)).requires_grad_() for path in paths]
    second = [rl.tensor(nudged(at(values, path), k)).requires_grad_() for k, path in enumerate(paths)]
    module = make_fx(gradients)(*first)
    results = []
    for function in (module, gradients):
        rl.manual_seed(0)
        results.append(function(*second))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-8)


def test_saved_values_that_are_written_later_are_refused():
    def stale(x):
        y = x.exp()
        z = y.sin()
        y.mul_(2)
        return grad(z.sum(), x)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        make_fx(stale)(rl.ones(3, requires_grad=True))


TRANSFORMED = {
    "grad": rl.func.grad(lambda x: (F.gelu(x.sin()) ** 2).sum()),
    "vmap": rl.vmap(lambda row: F.softmax(row, 0) * row.sum()),
    "jacrev": rl.func.jacrev(lambda x: F.softmax(x, -1) * x.sum(0)),
    "jacfwd": rl.func.jacfwd(lambda x: F.softmax(x, -1) * x.sum(0)),
    "hessian": rl.func.hessian(lambda x: F.gelu(x).sum()),
    "grads of rows": rl.vmap(rl.func.grad(lambda row: F.layer_norm(row, (4,)).sin().sum())),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_what_transforms_make_of_operators_is_written_as_operators(name, mode):
    module = make_fx(TRANSFORMED[name], tracing_mode=mode)(rl.randn(3, 4))
    x = rl.randn(5 if mode == "symbolic" else 3, 4)
    assert rl.allclose(module(x), TRANSFORMED[name](x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_gradients_of_parameters_of_tensors_made_there_and_of_none(mode):
    layer = rl.nn.Linear(4, 2)

    def gradients(x, other):
        weight = rl.ones(4, requires_grad=True)
        y = layer(x * weight).sin().sum()
        return grad(y, [*layer.parameters(), weight, x, other], allow_unused=True)

    x, other = rl.randn(3, 4, requires_grad=True), rl.ones(2, requires_grad=True)
    found, wanted = make_fx(gradients, tracing_mode=mode)(x, other)(x, other), gradients(x, other)
    assert found[-1] is wanted[-1] is None
    for one, two in zip(found[:-1], wanted[:-1], strict=True):
        assert rl.allclose(one, two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_gradients_that_there_are_not_are_refused(mode):
    x, other = rl.randn(3, requires_grad=True), rl.ones(2, requires_grad=True)
    for function, told in [
        (lambda x, other: grad(x.sin().sum(), [x, other]), "not have been used"),
        (lambda x, other: grad(x.sin(), x), "only for scalar outputs"),
        (lambda x, other: grad(x.sin(), x, rl.ones(2)), "Mismatch in shape"),
        (lambda x, other: grad(x.detach().sum(), x), "does not require grad"),
    ]:
        with pytest.raises(RuntimeError, match=told):
            make_fx(function, tracing_mode=mode)(x, other)


@pytest.mark.parametrize("lib", [rl, judge], ids=["ours", "judge"])
def test_blocks_without_gradients_are_kept_where_that_is_asked(lib):
    proxy_tensor = importlib.import_module(f"{lib.__name__}.fx.experimental.proxy_tensor")

    def function(x):
        with lib.no_grad():
            y = x.cos()
        return x.sin() * y

    x = lib.ones(3, requires_grad=True)
    module = proxy_tensor.make_fx(function, pre_dispatch=True)(x)
    found, = lib.autograd.grad(module(x).sum(), x)
    wanted, = lib.autograd.grad(function(x).sum(), x)
    assert lib.equal(found, wanted)
    assert "torch._C._set_grad_enabled(False)" in module.code


@pytest.mark.parametrize("lib", [rl, judge], ids=["ours", "judge"])
@pytest.mark.parametrize("mode", ["real", "fake"])
def test_inputs_have_the_names_of_parameters(lib, mode):
    proxy_tensor = importlib.import_module(f"{lib.__name__}.fx.experimental.proxy_tensor")

    def names(function, *args):
        module = proxy_tensor.make_fx(function, tracing_mode=mode)(*args)
        return [node.name for node in module.graph.find_nodes(op="placeholder")]

    x = lib.ones(2)
    assert names(lambda first, second: first + second, x, x) == ["first_1", "second_1"]
    assert names(lambda pair, named: pair[0] + pair[1] * named["a"], [x, x], {"a": x}) == [
        "pair_1", "pair_2", "named_1"]
    assert names(lambda *xs: xs[0] + xs[1], x, x) == ["arg0_1", "arg1_1"]


@pytest.mark.parametrize("lib", [rl, judge], ids=["ours", "judge"])
def test_a_function_of_the_table_may_leave_a_call_as_it_is(lib):
    proxy_tensor = importlib.import_module(f"{lib.__name__}.fx.experimental.proxy_tensor")
    silu = lib.ops.aten.silu.default

    def opened(x):
        return x * x.sigmoid() if x.dim() > 1 else NotImplemented

    def written(x):
        module = proxy_tensor.make_fx(lambda x: lib.nn.functional.silu(x), {silu: opened})(x)
        return silu in [node.target for node in module.graph.nodes]

    assert written(lib.ones(2)) and not written(lib.ones(2, 2))
