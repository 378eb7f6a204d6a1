"""Which gradients have a history of their own, and what it gives: None, zeros or an error, as in PyTorch."""
import contextlib
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


def layer(name, *rest, **more):
    return lambda t, x: getattr(t.nn.functional, name)(x, *rest, **more)


WHOLE = {"relu": layer("relu"), "relu_": lambda t, x: x.clone().relu_(), "leaky_relu": layer("leaky_relu"),
         "prelu": lambda t, x: t.nn.functional.prelu(x, t.tensor([0.2])), "threshold": layer("threshold", 0.1, 0.0),
         "softshrink": layer("softshrink"), "hardshrink": layer("hardshrink"), "hardtanh": layer("hardtanh"),
         "relu6": layer("relu6"), "avg_pool2d": layer("avg_pool2d", 2), "max_pool2d": layer("max_pool2d", 2),
         "max_pool1d": lambda t, x: t.nn.functional.max_pool1d(x[0], 2),
         "adaptive_avg_pool2d": layer("adaptive_avg_pool2d", 2), "adaptive_max_pool2d": layer("adaptive_max_pool2d", 2),
         "adaptive_avg_pool2d, uneven": layer("adaptive_avg_pool2d", 3), "unfold": layer("unfold", 2),
         "pad": layer("pad", (1, 1)), "layer_norm": layer("layer_norm", (4,)), "l1_loss": lambda t, x:
             t.nn.functional.l1_loss(x, t.zeros_like(x)), "hardswish": layer("hardswish"), "glu": layer("glu")}
PARTS = {"mul": lambda t, x, y: x * y, "div": lambda t, x, y: x / y, "matmul": lambda t, x, y: x @ y,
         "linear": lambda t, x, y: t.nn.functional.linear(x, y[0, 0], y[0, 0, 0]),
         "maximum": lambda t, x, y: t.maximum(x, y),
         "addcmul": lambda t, x, y: t.addcmul(x, y, x[0]), "dot": lambda t, x, y: t.dot(x[0, 0, 0], y[0, 0, 0]),
         "conv2d": lambda t, x, y: t.nn.functional.conv2d(x, y[:, :, :2, :2], y[0, :, 0, 0].sum().reshape(1)),
         "layer_norm": lambda t, x, y: t.nn.functional.layer_norm(x, (4,), y[0, 0, 0], y[0, 0, 1]),
         "solve": lambda t, x, y: t.linalg.solve(x + 3 * t.eye(4), y), "where": lambda t, x, y: t.where(x > y, x, y)}


def kind_of(t, gradient, source):
    """Of a gradient: whether its own by an input is refused, None, zeros, or more."""
    if gradient is None or not gradient.requires_grad:
        return "no history"
    again, = t.autograd.grad(gradient.sum(), source, allow_unused=True, retain_graph=True)
    return "unused" if again is None else "zeros" if again.abs().max() < 1e-6 else "values"


def pictures(t, count):
    values = [math.sin(7.1 * k) for k in range(16 * count)]
    return [t.tensor(values[16 * k:16 * k + 16]).reshape(1, 1, 4, 4).requires_grad_() for k in range(count)]


@pytest.mark.parametrize("wanted", (False, True))
@pytest.mark.parametrize("name", WHOLE)
def test_functions_for_gradients_are_differentiated_as_wholes(name, wanted):
    def kinds(t):
        x, = pictures(t, 1)
        y = WHOLE[name](t, x)
        weight = t.full(tuple(y.shape), 0.5, requires_grad=wanted)
        first, = t.autograd.grad(y, x, weight, create_graph=True)
        return [kind_of(t, first, source) for source in ((x, weight) if wanted else (x,))]
    assert kinds(rushlight) == kinds(judge)


@pytest.mark.parametrize("name", PARTS)
def test_each_gradient_depends_on_what_it_is_computed_from(name):
    def kinds(t):
        sources = pictures(t, 2)
        gradients = t.autograd.grad(PARTS[name](t, *sources).sum(), sources, create_graph=True)
        return [kind_of(t, g, source) for g in gradients for source in sources]
    assert kinds(rushlight) == kinds(judge)


def test_windows_that_no_element_made_have_no_second_derivative():
    """Of a transposed convolution whose output padding is more than a step."""
    def found(t):
        x, w = (t.arange(float(n)).mul(0.1).sin().reshape(shape).requires_grad_()
                for n, shape in ((32, (2, 4, 4)), (80, (2, 2, 4, 5))))
        y = t.nn.functional.conv_transpose2d(x, w, None, (3, 2), (1, 2), (2, 3), 2, (4, 4))
        by_x, by_w = t.autograd.grad((y * y.detach()).sum(), (x, w), create_graph=True)
        return t.autograd.grad(by_w.square().sum(), x)[0].flatten().tolist()
    assert found(rushlight) == pytest.approx(found(judge), rel=1e-3)


SIZED = {"matmul": lambda t, x, w: x @ w, "linear": lambda t, x, w: t.nn.functional.linear(x, w, w[0]),
         "mul": lambda t, x, w: x * w[0], "div": lambda t, x, w: x / (2 + w[0] * w[0]),
         "layer_norm": lambda t, x, w: t.nn.functional.layer_norm(x, (4,), w[0], w[1]),
         "tanh of matmul": lambda t, x, w: t.tanh(x @ w).exp(), "softmax": lambda t, x, w: (x @ w).softmax(-1) * w[0],
         "conv1d": lambda t, x, w: t.nn.functional.conv1d(x[:, None], w[:2, None, :3])}


@pytest.mark.parametrize("name", SIZED)
def test_gradients_of_gradients_at_sizes_that_vary(name):
    """Programs for all sizes take values of symbols between residuals and cotangents: gradients still go where they
    should."""
    def penalty(t, rows):
        x = (t.arange(4.0 * rows).reshape(rows, 4) * 0.37).sin().requires_grad_()
        w = (t.arange(16.0).reshape(4, 4) * 0.61).cos().requires_grad_()
        slope, = t.autograd.grad(SIZED[name](t, x, w).sum(), x, create_graph=True)
        return t.autograd.grad(slope.square().sum(), (x, w), allow_unused=True)

    for rows in (2, 3, 5, 6, 7, 9):
        for ours, theirs in zip(penalty(rushlight, rows), penalty(judge, rows), strict=True):
            assert (ours is None) == (theirs is None)
            assert ours is None or judge.allclose(judge.tensor(ours.tolist()), theirs, rtol=1e-4, atol=1e-5)


FACTORS = {"mul": lambda t, x, y: x * y, "div": lambda t, x, y: x / y, "matmul": lambda t, x, y: x @ y,
           "mul and add": lambda t, x, y: x * y + y, "where": lambda t, x, y: t.where(x > 0, x * x, y),
           "linear": lambda t, x, y: t.nn.functional.linear(x, y), "addcmul": lambda t, x, y: t.addcmul(x, x, y)}


def seconds(t, function, create, packs):
    """The gradients of each first gradient by both factors, None for those that it does not depend on."""
    hooks = t.autograd.graph.saved_tensors_hooks(lambda v: v, lambda v: v) if packs else contextlib.nullcontext()
    x, y = (t.arange(4.0).reshape(2, 2) + k for k in (1, 2))
    x.requires_grad_(), y.requires_grad_()
    with hooks:
        first = t.autograd.grad(function(t, x, y), (x, y), t.arange(4.0).reshape(2, 2), create_graph=True)
        again = [t.autograd.grad(f.sum(), (x, y), create_graph=create, retain_graph=True, allow_unused=True)
                 for f in first if f.requires_grad]
    return [[None if g is None else [round(v, 4) for v in (g.detach() + 0).flatten().tolist()] for g in pair]
            for pair in again]


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("name", FACTORS)
def test_gradients_of_one_factor_flow_to_what_they_depend_on(name, create, packs):
    assert seconds(rushlight, FACTORS[name], create, packs) == seconds(judge, FACTORS[name], create, packs)


def test_gradients_that_are_zeros_can_be_differentiated():
    def third(t):
        x, a = (t.tensor(v, requires_grad=True) for v in (0.5, 1.0))
        first, = t.autograd.grad(x * a, x, create_graph=True)
        zero, = t.autograd.grad(first, x, create_graph=True, materialize_grads=True)
        return zero.requires_grad, zero.item(), t.autograd.grad(zero, x, materialize_grads=True)[0].item()
    assert third(rushlight) == third(judge)
