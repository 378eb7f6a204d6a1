"""Tensors made in inference mode, beside torch's: what they are, and what they refuse."""
import pytest

import rushlight as rl
from rushlight._src.core.errors import InferenceTensorError

torch = pytest.importorskip("torch")


def inferred(t, *shape):
    with t.inference_mode():
        return t.ones(*shape or (3, 4))


KINDS = {
    "created": lambda t: inferred(t),
    "computed": lambda t: t.inference_mode()(lambda x: x * 2)(t.ones(3)),
    "several": lambda t: t.inference_mode()(lambda x: x.max(0))(t.ones(3, 2)).indices,
    "composite": lambda t: t.inference_mode()(lambda x: t.nn.functional.cross_entropy(x, t.tensor([0, 1])))(
        t.ones(2, 3)),
    "from_numpy": lambda t: t.inference_mode()(lambda: t.from_numpy(__import__("numpy").ones(3)))(),
    "data of numbers": lambda t: t.inference_mode()(lambda: t.tensor([1.0, 2.0]))(),
    "view made inside of a normal tensor": lambda t: t.inference_mode()(lambda x: x[0])(t.ones(3, 4)),
    "view made inside of an inference tensor": lambda t: t.inference_mode()(lambda x: x[0][1:])(inferred(t)),
    "view made outside": lambda t: inferred(t).transpose(0, 1)[1:],
    "detached": lambda t: inferred(t).detach(),
    "data": lambda t: inferred(t).data,
    "data of a normal tensor": lambda t: t.inference_mode()(lambda x: x.data)(t.ones(3)),
    "clone": lambda t: inferred(t).clone(),
    "computed outside": lambda t: inferred(t) + 1,
    "itself": lambda t: inferred(t).contiguous(),
    "changed inside": lambda t: t.inference_mode()(lambda x: x.add_(1))(t.ones(3)),
    "mode off within": lambda t: t.inference_mode()(t.inference_mode(False)(lambda: t.ones(3)))(),
    "under no_grad": lambda t: t.no_grad()(lambda: t.ones(3))(),
    "parameter": lambda t: t.inference_mode()(lambda: t.nn.Linear(2, 2).weight)(),
    "random": lambda t: t.inference_mode()(lambda: t.randn(3))(),
    "large": lambda t: t.inference_mode()(lambda x: x @ x)(t.ones(300, 300)),
    "sorted": lambda t: t.inference_mode()(lambda x: x.sort().values)(t.ones(5)),
    "indices": lambda t: t.inference_mode()(lambda x: x.nonzero())(t.ones(5)),
    "complex": lambda t: t.inference_mode()(lambda x: t.fft.fft(x))(t.ones(5)),
}


@pytest.mark.parametrize("name", KINDS)
def test_which_are_inference_tensors(name):
    theirs, own = KINDS[name](torch), KINDS[name](rl)
    assert own.is_inference() == theirs.is_inference()
    assert own.requires_grad == theirs.requires_grad and own.is_leaf == theirs.is_leaf


def function(t):
    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x * y

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0], None

    return Square


REFUSED = {
    "written outside": lambda t: inferred(t).add_(1),
    "written under no_grad": lambda t: t.no_grad()(lambda x: x.mul_(2))(inferred(t)),
    "view written": lambda t: inferred(t)[0].zero_(),
    "item written": lambda t: inferred(t).__setitem__(0, 5.0),
    "filled": lambda t: inferred(t).normal_(),
    "copied into": lambda t: inferred(t).copy_(t.zeros(3, 4)),
    "view in place": lambda t: inferred(t).unsqueeze_(0),
    "out": lambda t: t.add(t.ones(3, 4), 1, out=inferred(t)),
    "written with a gradient": lambda t: inferred(t).add_(t.ones(3, 4, requires_grad=True)),
    "version": lambda t: inferred(t)._version,
    "saved": lambda t: t.ones(3, 4, requires_grad=True) * inferred(t),
    "saved by a product": lambda t: inferred(t) @ t.ones(4, 2, requires_grad=True),
    "saved by a layer": lambda t: t.nn.Linear(4, 2)(inferred(t)),
    "saved by a function": lambda t: function(t).apply(t.ones(3, 4, requires_grad=True), inferred(t)),
    "becomes a leaf": lambda t: inferred(t).requires_grad_(),
    "weight saved": lambda t: t.inference_mode()(lambda: t.nn.Linear(4, 2))()(t.ones(3, 4, requires_grad=True)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    for t in (torch, rl):
        with pytest.raises(RuntimeError):
            REFUSED[name](t)


def test_errors_say_what_to_do():
    with pytest.raises(InferenceTensorError, match=r"cannot be saved for backward.*float32 \[3, 4\](.|\n)*clone\(\)"):
        rl.ones(3, 4, requires_grad=True) * inferred(rl)
    x = inferred(rl)
    with pytest.raises(InferenceTensorError, match="outside InferenceMode"):
        x.add_(1)
    assert x.tolist() == [[1.0] * 4] * 3


ALLOWED = {
    "not needed for the gradient": lambda t: t.ones(3, 4, requires_grad=True) + inferred(t),
    "clone is saved": lambda t: t.ones(3, 4, requires_grad=True) * inferred(t).clone(),
    "written inside": lambda t: t.inference_mode()(lambda x: x.add_(1).mul_(3))(inferred(t)),
    "function inside": lambda t: t.inference_mode()(lambda x: function(t).apply(x, x))(t.ones(3, requires_grad=True)),
    "leaf inside": lambda t: t.inference_mode()(lambda: t.ones(3).requires_grad_())(),
    "recording inside": lambda t: t.inference_mode()(t.enable_grad()(lambda x: x * 2))(t.ones(3, requires_grad=True)),
    "mode off within": lambda t: t.no_grad()(t.inference_mode(False)(lambda x: x * 2))(t.ones(3, requires_grad=True)),
    "recording set inside": lambda t: t.inference_mode()(lambda x: (t.set_grad_enabled(True),
                                                                    x * 2)[1])(t.ones(3, requires_grad=True)),
    "normal tensor written inside, then saved": lambda t: after(t),
}


def after(t):
    x = t.ones(3)
    with t.inference_mode():
        x.add_(1)
    assert x._version == 1
    return x * t.ones(3, requires_grad=True)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_allowed(name):
    theirs, own = ALLOWED[name](torch), ALLOWED[name](rl)
    assert own.tolist() == theirs.tolist()
    assert own.requires_grad == theirs.requires_grad and own.is_inference() == theirs.is_inference()


def test_memory_is_counted_again_when_it_is_used_again():
    for _ in range(3):
        made = inferred(rl, 7)
        del made
        x = rl.ones(7)
        x.add_(1)
        assert not x.is_inference() and x._version == 1


def test_a_model_that_was_evaluated_trains():
    """Nothing that is kept between calls was made in inference mode."""
    results = []
    for evaluate in (False, True):
        rl.manual_seed(0)
        model = rl.nn.Sequential(rl.nn.Conv2d(3, 8, 3), rl.nn.BatchNorm2d(8), rl.nn.GELU(), rl.nn.Flatten(),
                                 rl.nn.LayerNorm(8 * 36), rl.nn.Linear(8 * 36, 5))
        x = rl.linspace(-1, 1, 2 * 3 * 64).reshape(2, 3, 8, 8)
        if evaluate:
            with rl.inference_mode():
                model.eval()(x)
        model.train()(x).square().sum().backward()
        results.append([p.grad for p in model.parameters()])
    for a, b in zip(*results):
        rl.testing.assert_close(a, b)


def test_compiled():
    """A compiled function makes and refuses the same."""
    compiled = rl.compile(lambda x: (x.sin() * 2).cos())
    x = rl.ones(5)
    with rl.inference_mode():
        assert compiled(x).is_inference()
    assert not compiled(x).is_inference()
    weight = rl.ones(5, requires_grad=True)
    product = rl.compile(lambda x, w: x * w)
    with pytest.raises(InferenceTensorError):
        product(inferred(rl, 5), weight)
    write = rl.compile(lambda x: x.add_(1))
    with pytest.raises(InferenceTensorError):
        write(inferred(rl, 5))
    with rl.inference_mode():
        assert write(inferred(rl, 5)).tolist() == [2.0] * 5


def test_views_of_inference_tensors_want_no_gradient():
    import torch as judge

    import rushlight

    def seen(torch):
        with torch.inference_mode():
            x = torch.ones(2, 3, requires_grad=True)
            v = x.view(-1)
        return [(t.requires_grad, t._is_view(), t.is_leaf, t.is_inference()) for t in (x, v)]
    assert seen(rushlight) == seen(judge)
