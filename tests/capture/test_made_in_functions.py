"""What ``forward`` and ``backward`` of an autograd.Function make, in compiled functions."""
import pytest

import rushlight as torch


class Made(torch.autograd.Function):
    """Results and gradients that are made anew, in the layout of the input."""

    @staticmethod
    def forward(ctx, x, how):
        ctx.save_for_backward(x)
        made = how(x)
        made.mul_(2)
        return made

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.full_like(x, 2.0) * g, None


def ones(x):
    return torch.ones_like(x)


def full(x):
    return torch.full_like(x, 3)


def empty_like(x):
    return torch.empty_like(x).fill_(2)


def empty(x):
    return torch.empty(x.shape).zero_()


def strided(x):
    return torch.empty_strided((3, 3), (1, 3)).copy_(x)


def zeros(x):
    return x.new_zeros(3, 3)


def noise(x):
    return torch.rand_like(x)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("how", [ones, full, empty_like, empty, strided, zeros], ids=lambda f: f.__name__)
def test_what_a_function_makes(how, turned):
    x = torch.randn(3, 3)
    x = (x.t() if turned else x).requires_grad_()
    wanted = Made.apply(x, how)
    found = torch.compile(lambda x: Made.apply(x, how), fullgraph=True)(x)
    torch.testing.assert_close(found, wanted, check_stride=True)
    found.sum().backward()
    assert (x.grad == 2).all()


def test_a_function_that_draws_random_numbers_breaks_the_graph():
    compiled = torch.compile(lambda x: Made.apply(x, noise) + 1)
    x = torch.zeros(4, requires_grad=True)
    torch.manual_seed(0)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(0)
    assert torch.equal(first, Made.apply(x, noise) + 1) and not torch.equal(first, second)


class Written(torch.autograd.Function):
    """In-place changes of what forward and backward made themselves, some of it saved."""

    @staticmethod
    def forward(ctx, x):
        y, z = x * 1, torch.zeros_like(x)
        y.mul_(3)
        z[1:] = x[1:]
        ctx.save_for_backward(y, z)
        return y * z

    @staticmethod
    def backward(ctx, g):
        y, z = ctx.saved_tensors
        made = torch.empty_like(g)
        made[:] = y
        made.add_(z)
        return made * g


class Argument(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g


@pytest.mark.parametrize("backend", ["rushlight", "eager", "aot_eager"])
def test_writes_in_functions(backend):
    def derived(call):
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = call(x)
        y.sum().backward()
        return y.tolist(), x.grad.tolist()

    f = lambda x: Written.apply(x) * 2 + Made.apply(x, full)  # noqa: E731
    assert derived(torch.compile(f, fullgraph=True, backend=backend)) == derived(f)
    if backend == "rushlight":
        x = torch.tensor([1.0, 2.0])
        assert torch.func.grad(torch.compile(lambda x: (x * 1).mul_(x).sum()))(x).tolist() == [2, 4]


def test_a_write_into_an_argument_reaches_it():
    f = lambda x: (Argument.apply(x) * 2, x)  # noqa: E731
    assert [t.tolist() for t in torch.compile(f)(torch.ones(2))] == [[6, 6], [3, 3]]
