"""autograd.Function, function transforms and the like inside compiled functions."""
import enum

import pytest

import rushlight as torch

GAIN = 2.0


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, power=3):
        ctx.save_for_backward(x)
        ctx.power = power
        return x ** power

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.power * x ** (ctx.power - 1) * GAIN, None


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        count = (x > 0).to(torch.int64)
        ctx.mark_non_differentiable(count)
        ctx.save_for_backward(x, y)
        return x * y, x + y, count

    @staticmethod
    def backward(ctx, g, h, _):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h


def gradients(function, *inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    out = function(*inputs)
    out.sum().backward()
    return [out.detach(), *(x.grad for x in inputs)]


def same_gradients(function, *inputs):
    compiled = torch.compile(function, fullgraph=True)
    for _ in range(2):
        for got, wanted in zip(gradients(compiled, *inputs), gradients(function, *inputs)):
            assert torch.allclose(got, wanted, atol=1e-5)
    return compiled.owner.stats


def test_functions_with_gradients_of_their_own():
    x, y = torch.arange(4.0) + 0.5, torch.ones(4) * 2
    assert same_gradients(lambda x: Cube.apply(x.sin()) * 2, x).segments == 1
    assert same_gradients(lambda x: Cube.apply(x, 2) + 1, x).segments == 1
    assert same_gradients(lambda x: Exp.apply(x * 2), x).segments == 1

    def two(x, y):
        a, b, n = Two.apply(x * 2, y)
        assert not n.requires_grad
        return a + b * n

    assert same_gradients(two, x, y).segments == 1


def test_what_backward_reads_is_guarded():
    global GAIN
    compiled = torch.compile(lambda x: Cube.apply(x))
    x = torch.ones(2)
    assert torch.equal(gradients(compiled, x)[1], torch.full((2,), 6.0))
    GAIN = 5.0
    try:
        assert torch.equal(gradients(compiled, x)[1], torch.full((2,), 15.0))
    finally:
        GAIN = 2.0


def test_backward_inside_is_a_break():
    def f(x):
        y = (x * 2).sum()
        y.backward()
        return x.grad + 1

    results = []
    for run in (f, torch.compile(f)):
        x = torch.ones(3, requires_grad=True)
        results.append(run(x))
    assert torch.equal(*results)


def test_optimizer_step_in_a_compiled_function():
    def step(model, optimizer, x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    finals = []
    for run in (step, torch.compile(step)):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            loss = run(model, optimizer, torch.ones(4, 3))
        finals.append((loss.detach(), model.weight.detach()))
    assert all(torch.allclose(a, b) for a, b in zip(*finals))


@pytest.mark.parametrize("transform", ["vmap"])
def test_function_transforms_inside(transform):
    def f(x):
        if transform == "vmap":
            return torch.vmap(lambda v: v * v.sum())(x) + 1
        return torch.func.grad(lambda v: (v ** 2).sum())(x) + 1

    x = torch.arange(6.0).view(2, 3)
    compiled = torch.compile(f)
    for _ in range(2):
        assert torch.allclose(compiled(x), f(x))


class WithConstants(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        low = torch.tensor(torch.finfo(x.dtype).min)
        ctx.save_for_backward(mask)
        return x.masked_fill(mask, low).clamp(min=-9) * torch.tensor([1.0, 2.0, 3.0])

    @staticmethod
    def backward(ctx, g):
        mask, = ctx.saved_tensors
        return g.masked_fill(mask, torch.tensor(7.0)), None


@pytest.mark.parametrize("backend", ["eager", "rushlight"])
def test_functions_that_make_tensors_of_numbers(backend):
    mask = torch.tensor([True, False, True])
    found = []
    for function in (WithConstants.apply, torch.compile(lambda x, m: WithConstants.apply(x, m), fullgraph=True,
                                                        backend=backend)):
        x = torch.ones(3, requires_grad=True)
        y = function(x, mask)
        y.sum().backward()
        found.append((y.tolist(), x.grad.tolist()))
    assert found[0] == found[1] == ([-9.0, 2.0, -27.0], [7.0, 1.0, 7.0])


class Apart(torch.autograd.Function):
    """A second result without gradient, of which ``backward`` would make one."""

    @staticmethod
    def forward(ctx, x):
        first, second = x * 2, x * 3
        ctx.mark_non_differentiable(second)
        return first, second

    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h


class Alone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = x * 2
        ctx.mark_non_differentiable(result)
        return result

    @staticmethod
    def backward(ctx, g):
        return g


class OfList(torch.autograd.Function):
    """Tensors within a list: values, without gradients."""

    @staticmethod
    def forward(ctx, x, others):
        ctx.save_for_backward(*others)
        return x * (others[0] + others[1])

    @staticmethod
    def backward(ctx, g):
        first, second = ctx.saved_tensors
        return g * (first + second), None


@pytest.mark.parametrize("backend", ["eager", "rushlight"])
def test_what_is_marked_without_gradient_has_none(backend):
    def program(x):
        first, second = Apart.apply(x)
        return first + second * 5, second

    for run in (program, torch.compile(program, backend=backend, fullgraph=True)):
        x = torch.ones(2, requires_grad=True)
        total, second = run(x)
        assert total.requires_grad and not second.requires_grad
        total.sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
    compiled = torch.compile(lambda x: Alone.apply(x), backend=backend, fullgraph=True)
    assert not compiled(torch.ones(2, requires_grad=True)).requires_grad


def test_tensors_in_lists_of_arguments():
    for run in (OfList.apply, torch.compile(lambda x, others: OfList.apply(x, others), fullgraph=True)):
        x, others = torch.ones(2, requires_grad=True), [torch.full((2,), 3.0, requires_grad=True), torch.ones(2)]
        result = run(x, others)
        result.sum().backward()
        assert result.tolist() == [4.0, 4.0] and x.grad.tolist() == [4.0, 4.0] and others[0].grad is None


@pytest.mark.parametrize("make", [lambda x: torch.tensor([x.long()], dtype=torch.int64),
                                  lambda x: torch.tensor([[x, 2.5], [x * 3, 1]], dtype=torch.float64),
                                  lambda x: torch.tensor([x.sum(), 1.0], dtype=torch.float32)])
def test_tensors_are_made_of_tensors_of_one_element(make):
    compiled = torch.compile(make, fullgraph=True)
    for start in (2.0, 3.0):
        x = torch.tensor(start, requires_grad=True)
        wanted, found = make(x), compiled(x)
        assert found.dtype is wanted.dtype and found.tolist() == wanted.tolist() and not found.requires_grad


class Kind(enum.Enum):
    SINE, COSINE = 0, 1


class Chosen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kind):
        return x.sin() if kind is Kind.SINE else x.cos()

    @staticmethod
    def backward(ctx, g):
        return g * 3


def test_arguments_that_are_no_tensors_and_come_last_need_no_gradient():
    x = torch.ones(3, requires_grad=True)
    y = torch.compile(Chosen.apply, fullgraph=True)(x, Kind.COSINE)
    assert torch.equal(y, x.cos())
    y.sum().backward()
    assert x.grad.tolist() == [3.0] * 3


class Given(torch.autograd.Function):
    """x * w, with what ``change`` makes of the gradient of w."""

    @staticmethod
    def forward(ctx, x, w, change):
        ctx.save_for_backward(x, w)
        ctx.change = change
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, ctx.change(g * x), None


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("change", [lambda g: g, lambda g: g.sum(0), lambda g: g.double(), lambda g: g.sum(),
                                    lambda g: g[:, :2], lambda g: 1.5],
                         ids=["wider", "exact", "float64", "scalar", "narrow", "number"])
def test_gradients_fit_as_in_eager_calls(change, dynamic):
    def outcome(function):
        x, w = torch.arange(6.0).reshape(2, 3).requires_grad_(), torch.ones(3, requires_grad=True)
        try:
            function(x, w).sum().backward()
        except RuntimeError as error:
            return str(error)
        return x.grad.tolist(), w.grad.tolist(), w.grad.dtype

    def call(x, w):
        return Given.apply(x, w, change)
    assert outcome(torch.compile(call, fullgraph=True, dynamic=dynamic)) == outcome(call)
