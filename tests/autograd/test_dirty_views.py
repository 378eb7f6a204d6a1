"""Functions of the user that write into views: their base gets the history, too, as with operators in place."""
import pytest
import torch

import rushlight


def added(lib):
    class Added(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            x.add_(y)
            return x

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3, gradient * 5

    return Added.apply


def second(lib):
    class Second(lib.autograd.Function):
        """Returns another value first: what is written is the second result."""
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            made = y * 2
            x.mul_(2)
            return made, x

        @staticmethod
        def backward(ctx, made, gradient):
            return gradient * 2, made * 2

    return Second.apply


def twice(lib, x, y):
    base = x.clone()
    added(lib)(base.narrow(0, 0, 2), y)
    added(lib)(base[2:4].view(2), y)
    return base


def of_a_constant(lib, x, y):
    base = lib.zeros(5)
    added(lib)(base[1:3], y)
    return base * x


def read_again(lib, x, y):
    base = x.clone()
    view = base[1:3]
    added(lib)(view, y)
    base.mul_(2)
    return base.sum() * view


def two_results(lib, x, y):
    base = x.clone()
    made, written = second(lib)(base[:2], y)
    return base.sum() + (made * written).sum()


@pytest.mark.parametrize("lib", [torch, rushlight])
def test_a_view_beside_another_result_is_refused(lib):
    with pytest.raises(RuntimeError, match="more than one Tensor"):
        two_results(lib, lib.arange(5.0).requires_grad_(), lib.ones(2, requires_grad=True))


@pytest.mark.parametrize("program", [twice, of_a_constant, read_again], ids=lambda program: program.__name__)
def test_gradients(program):
    seen = []
    for lib in (torch, rushlight):
        x, y = lib.arange(5.0).requires_grad_(), lib.tensor([1.0, 2.0], requires_grad=True)
        out = program(lib, x, y)
        out.sum().backward()
        seen.append([out.tolist(), *(None if v.grad is None else v.grad.tolist() for v in (x, y))])
    assert seen[0] == seen[1]
