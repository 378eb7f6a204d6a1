"""Functions with gradients written by the user: what is refused, and what is made to fit."""
import pytest

import rushlight as rl
from rushlight.autograd import Function


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g


class Given(Function):
    """Its gradient is what ``gradient`` says."""

    gradient = None

    @staticmethod
    def forward(ctx, x):
        return x.sum()

    @staticmethod
    def backward(ctx, g):
        return Given.gradient


def test_saved_tensors_are_gone_after_a_backward_pass():
    x = rl.ones(3, requires_grad=True)
    y = Square.apply(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 4, 4]
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_what_hooks_packed_is_gone_after_a_backward_pass():
    x = rl.ones(3, requires_grad=True)
    with rl.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_gradient_of_the_wrong_shape():
    Given.gradient = rl.ones(7)
    with pytest.raises(RuntimeError,
                       match=r"GivenBackward returned an invalid gradient at index 0 - got \[7\] but expected shape "
                             r"compatible with \[4\]"):
        Given.apply(rl.ones(4, requires_grad=True)).backward()


def test_gradient_of_the_wrong_type():
    Given.gradient = 3.0
    with pytest.raises(RuntimeError, match="got float"):
        Given.apply(rl.ones(4, requires_grad=True)).backward()


def test_broadcast_gradient_is_summed_and_takes_the_dtype():
    Given.gradient = rl.ones(5, 4, dtype=rl.float64)
    x = rl.ones(4, requires_grad=True)
    Given.apply(x).backward()
    assert x.grad.tolist() == [5, 5, 5, 5] and x.grad.dtype is rl.float32


def test_leaf_marked_dirty_is_refused():
    class Add(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="leaf Variable"):
        Add.apply(rl.ones(2, requires_grad=True))
    assert Add.apply(rl.ones(2, requires_grad=True) * 1).grad_fn is not None


def test_calling_an_object_tells_of_apply():
    with pytest.raises(RuntimeError, match="Square.apply"):
        Square()(rl.ones(2))


@pytest.mark.parametrize("of_leaf", [True, False])
def test_hook_that_changes_the_shape(of_leaf):
    x = rl.ones(2, requires_grad=True)
    y = x if of_leaf else x * 2
    y.register_hook(lambda g: rl.ones(9))
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        (y * 3).sum().backward()


@pytest.mark.parametrize("given", ["leaf", "result", "view"])
def test_results_marked_dirty_and_constant_carry_no_gradient(given):
    def run(t):
        class Constant(t.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                a.add_(1)
                ctx.mark_dirty(a)
                ctx.mark_non_differentiable(a)
                return a, b.clone()

            @staticmethod
            def backward(ctx, of_a, of_b):
                return t.full_like(of_b, 7.0), of_b

        leaf, b = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
        a = {"leaf": lambda: leaf, "result": leaf.clone, "view": lambda: leaf.clone()[:]}[given]()
        first, second = Constant.apply(a, b)
        second.sum().backward()
        return (first is a, first.requires_grad, first.tolist(), a.requires_grad, second.requires_grad, a.tolist(),
                leaf.grad.tolist(), b.grad.tolist())

    assert run(rl) == run(pytest.importorskip("torch"))
