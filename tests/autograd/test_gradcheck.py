"""gradcheck finds what is wrong, and nothing else, as PyTorch's does; functions with a context under the forward
mode."""
import sys

import pytest

import rushlight as rl
from rushlight.autograd import forward_ad, gradcheck, gradgradcheck

torch = pytest.importorskip("torch")


def leaf(t, *shape, dtype="float64"):
    t.manual_seed(0)
    return t.rand(*(shape or (3,)), dtype=getattr(t, dtype), requires_grad=True)


def doubling(t, backward=2, tangent=2):
    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            ctx.factor = factor
            return x * x * factor

        @staticmethod
        def backward(ctx, g):
            return backward * ctx.saved_tensors[0] * ctx.factor * g, None

        @staticmethod
        def jvp(ctx, x, factor):
            assert factor is None
            return tangent * ctx.saved_tensors[0] * ctx.factor * x

    return lambda x: Double.apply(x, 3)


def hooked(t, change):
    def function(x):
        y = x.clone()
        y.register_hook(change)
        return y
    return function


def outside(t):
    """A function that reads its leaf elsewhere than in its argument."""
    module = t.nn.Linear(2, 2, dtype=t.float64)
    return lambda weight: module(t.ones(1, 2, dtype=t.float64)), module.weight


def lost(t):
    def refuse(g):
        if g is None:
            raise RuntimeError("no gradient")
    return hooked(t, refuse)


CASES = {
    "right": lambda t: (doubling(t), leaf(t), {}),
    "wrong backward": lambda t: (doubling(t, backward=3), leaf(t), {}),
    "forward": lambda t: (doubling(t), leaf(t), dict(check_forward_ad=True, check_batched_forward_grad=True)),
    "wrong forward": lambda t: (doubling(t, tangent=1), leaf(t), dict(check_forward_ad=True)),
    "batched": lambda t: (lambda x: x.sin(), leaf(t), dict(check_batched_grad=True)),
    "complex": lambda t: (lambda x: (x * x.conj(), x.real), leaf(t, dtype="complex128"), dict(check_forward_ad=True)),
    "complex wrong": lambda t: (hooked(t, lambda g: g * 1j), leaf(t, dtype="complex128"), {}),
    "a hook that adds": lambda t: (hooked(t, lambda g: g + 1e-2), leaf(t), dict(atol=0.1)),
    "a hook that needs a gradient": lambda t: (lost(t), leaf(t), {}),
    "a leaf read elsewhere": lambda t: (*outside(t), {}),
    "no gradient flows": lambda t: (lambda x: x.detach() * 2, leaf(t), {}),
    "the shape depends on the values": lambda t: (lambda x: x[x > 0.9],
                                                  (t.ones(2, dtype=t.float64) * 0.9).requires_grad_(), {}),
    "the result is the argument": lambda t: (lambda x: x, leaf(t), {}),
    "steps between elements": lambda t: (lambda x: x.sin(), leaf(t, 2, 3).t().detach().requires_grad_(), {}),
    "expanded": lambda t: (lambda x: x.sin(), leaf(t, 1).expand(3), {}),
    "sparse": lambda t: (lambda x: x.to_dense().sin(), leaf(t, 2, 2).detach().to_sparse().requires_grad_(),
                         dict(masked=True)),
    "dense and sparse": lambda t: (lambda x, y: x * y.to_dense(),
                                   (leaf(t, 2, 2), leaf(t, 2, 2).detach().to_sparse().requires_grad_()),
                                   dict(masked=True)),
}


def outcome(t, name, fast):
    function, inputs, options = CASES[name](t)
    try:
        return t.autograd.gradcheck(function, inputs, fast_mode=fast, **options)
    except Exception as error:  # compared by its class
        return next(c.__name__ for c in type(error).__mro__
                    if c.__name__ in ("GradcheckError", "AssertionError", "RuntimeError", "ValueError", "TypeError"))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_gradcheck_says_what_pytorch_says(name, fast):
    assert outcome(rl, name, fast) == outcome(torch, name, fast)


def test_a_module_and_a_function():
    __import__("rushlight.autograd.gradcheck")
    assert sys.modules["rushlight.autograd.gradcheck"].GradcheckError
    assert rl.autograd.gradcheck(rl.sin, leaf(rl)) and sys.modules["rushlight.autograd.gradcheck"](rl.sin, leaf(rl))


def test_fewer_runs_in_fast_mode():
    runs = []
    gradcheck(lambda x: (runs.append(1), x.sin())[1], leaf(rl, 30), fast_mode=True)
    assert len(runs) < 10


def test_second_derivatives_with_steps_between_gradients():
    assert gradgradcheck(lambda x: x.sin() * x, leaf(rl), gen_non_contig_grad_outputs=True, fast_mode=True)


def test_a_view_wants_a_view_as_tangent():
    class Same(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def jvp(ctx, t):
            return t * 1

    with forward_ad.dual_level(), pytest.raises(RuntimeError,
                                                match="returning a view .or an input as-is. but the jvp is not"):
        Same.apply(forward_ad.make_dual(rl.ones(2), rl.ones(2)))


def test_an_argument_written_wants_its_tangent_written():
    class Twice(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x, apart):
            ctx.mark_dirty(x)
            ctx.apart = apart
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, t, _):
            return t * 2 if ctx.apart else t.mul_(2)

    with forward_ad.dual_level():
        x = forward_ad.make_dual(rl.ones(2), rl.ones(2)) * 1
        y = Twice.apply(x, False)
        assert y is x and forward_ad.unpack_dual(x).tangent.tolist() == [2, 2] and forward_ad.unpack_dual(
            x).primal.tolist() == [2, 2]
        with pytest.raises(RuntimeError, match="not modifying the forward mode gradients inplace"):
            Twice.apply(x, True)


def test_tangents_and_gradients_of_one_function():
    x = leaf(rl)
    with forward_ad.dual_level():
        y = doubling(rl)(forward_ad.make_dual(x, rl.ones(3, dtype=rl.float64)))
        assert rl.allclose(forward_ad.unpack_dual(y).tangent, 6 * x)
        y.sum().backward()
    assert rl.allclose(x.grad, 6 * x)


def test_hooks_that_need_every_gradient_are_told_of_the_check():
    def need(gradient):
        if gradient is None:
            raise RuntimeError("no gradient")

    def function(x):
        y = x.clone()
        y.register_hook(need)
        return y

    x = rl.ones(1, dtype=rl.float64, requires_grad=True)
    with pytest.warns(UserWarning, match="New undefined gradient support checking feature"):
        with pytest.raises(RuntimeError, match="handle undefined output grads"):
            gradcheck(function, (x,))
    assert gradcheck(function, (x,), check_undefined_grad=False)
