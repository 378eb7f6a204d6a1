"""Data-dependent values under capture: how graphs are split into programs, on every backend, and what is guarded or
checked."""
import io
import itertools
import math
import random

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._src.capture.stages import Stages
from rushlight._src.graph.graph import Graph


def kept(x):
    y = (x + 1)[x > 0] * 2
    n = y.shape[0]
    return y.sum() + n, y * n, (x.sum().item() + 1) * 2


@pytest.mark.parametrize("backend", ["rushlight", "eager", "aot_eager", "user"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_backends(backend, dynamic):
    seen = []

    def user(module, inputs):
        seen.append(module.code)
        return module.forward

    compiled = torch.compile(kept, backend=user if backend == "user" else backend, dynamic=dynamic, fullgraph=True)
    for n in (3, 6, 4, 6, 1):
        x = torch.randn(n)
        for a, b in zip(kept(x), compiled(x)):
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))
    assert compiled.owner.stats.segments <= 2 + (dynamic is None)
    assert backend != "user" or ".size(0)" in seen[0] and ".item()" in seen[0]


def stages_of(function, *args):
    compiled = torch.compile(function, fullgraph=True)
    compiled(*args)
    graph, = compiled.owner.stats.graphs
    assert isinstance(graph.call, Stages)
    return [isinstance(step, Graph) for step in graph.call.steps]


def test_as_few_programs_as_can_be():
    def f(x, y):
        a, b = x[x > 0], y[y > 0]
        return (a * 2).sum() + (b * 3).sum(), x.sum().item(), (x * y).sum()

    steps = stages_of(f, torch.randn(5), torch.randn(5))
    assert steps[0] and steps[-1] and sum(steps) == 2


def test_a_number_that_is_only_returned_ends_the_graph():
    def f(x, y):
        n = (x > 0).sum().item()
        y.add_(1)
        return n, x * 2

    assert stages_of(f, torch.randn(5), torch.ones(2)) == [True, False]


def test_writes_keep_their_place():
    def f(x):
        a = x.sum().item()
        x.add_(1)
        b = x.sum().item()
        x.mul_(2)
        return a, b, x[x > 2]

    compiled = torch.compile(f, fullgraph=True)
    for _ in range(2):
        x, y = torch.arange(3.0), torch.arange(3.0)
        a, b = f(x), compiled(y)
        assert a[:2] == b[:2] and torch.equal(a[2], b[2]) and torch.equal(x, y)


def test_random_numbers_are_the_same():
    def f(x):
        y = F.dropout(x, 0.5)
        n = (y > 0).sum().item()
        return F.dropout(y * n, 0.5), torch.rand(2) * n

    compiled = torch.compile(f, fullgraph=True)
    for _ in range(2):
        torch.manual_seed(3)
        wanted = f(torch.ones(8))
        torch.manual_seed(3)
        assert all(map(torch.equal, wanted, compiled(torch.ones(8))))


def test_one_capture_serves_every_count():
    compiled = torch.compile(lambda x: x[x > 0].cumsum(0) * 2, fullgraph=True)
    for shift in (-9, -1, 0, 1, 9):
        x = torch.linspace(-2, 2, 8) + shift
        assert torch.equal(compiled(x), x[x > 0].cumsum(0) * 2)
    assert compiled.owner.stats.segments == 1


def test_checks_are_carried_out_at_every_call():
    def f(x):
        n = x.sum().item()
        torch._check(n >= 0)
        torch._check(n <= 4, lambda: "n is too large")
        return torch.ones(4)[:n]

    compiled = torch.compile(f, fullgraph=True)
    for n in (2, 4, 0):
        assert compiled(torch.tensor([n])).shape == (n,)
    for n, text in ((5, "n is too large"), (-1, "does not")):
        with pytest.raises(RuntimeError, match=text):
            compiled(torch.tensor([n]))


def test_a_check_raises_the_error_it_names():
    def f(x):
        n = x.sum().item()
        torch._check_value(n != 3, lambda: "three")
        return x * n

    compiled = torch.compile(f, fullgraph=True)
    assert compiled(torch.tensor([2])).tolist() == [4]
    with pytest.raises(ValueError, match="three"):
        compiled(torch.tensor([3]))
    with pytest.raises(TypeError, match="_check_tensor_all"):
        torch._check_index(torch.ones(2) > 0)


def test_what_is_not_known_tells_the_remedy():
    def f(x):
        return torch.ones(4)[:x.sum().item()]

    with pytest.raises(RuntimeError, match=r"(?s)RB012.*u0.*torch._check"):
        torch.compile(f, fullgraph=True)(torch.tensor([2]))

    def g(x):
        return x + 1 if x.max().item() > 0 else x

    with pytest.raises(RuntimeError, match=r"(?s)RB002.*torch.where"):
        torch.compile(g, fullgraph=True)(torch.ones(2))


def test_gradients_cross_programs():
    weight = torch.randn(4, 4, requires_grad=True)

    def loss(x):
        hidden = torch.tanh(x @ weight)
        picked = hidden[hidden.sum(1) > 0]
        return (picked ** 2).sum() / (picked.shape[0] + 1)

    compiled = torch.compile(loss, fullgraph=True)
    for _ in range(3):
        x = torch.randn(6, 4)
        wanted, = torch.autograd.grad(loss(x), weight)
        got, = torch.autograd.grad(compiled(x), weight)
        torch.testing.assert_close(wanted, got)


def test_a_training_step_with_numbers_in_it():
    def make():
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        return model, torch.optim.SGD(model.parameters(), 0.1)

    def step(model, optimizer, x, t):
        loss = F.cross_entropy(model(x), t)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item(), (model(x).argmax(1) == t).sum().item()

    (plain, first), (model, second) = make(), make()
    compiled = torch.compile(step, fullgraph=True)
    for k in range(4):
        x, t = torch.randn(8, 4), torch.randint(0, 2, (8,))
        a, b = step(plain, first, x, t), compiled(model, second, x, t)
        assert abs(a[0] - b[0]) < 1e-5 and a[1] == b[1]
    assert not compiled.owner.stats.breaks


def test_writes_between_programs_stay_in_place_where_inputs_share_memory():
    def f(x, y):
        a, b = x + 1, x
        z = y * 2
        y[y > 1] = z[z > 0].sum()
        return a + b

    for shared in (False, True):
        compiled = torch.compile(f)
        for _ in range(2):
            x, p = torch.tensor([0.5, 3.5]), torch.tensor([0.5, 3.5])
            wanted, got = f(x, x if shared else x.clone()), compiled(p, p if shared else p.clone())
            assert torch.equal(wanted, got) and torch.equal(x, p)


def test_a_break_in_a_plain_function_that_a_loop_calls_again():
    def f(x, items):
        k = (x > 0).sum().item()
        return [v for v in items if v > max(1, k)]

    compiled, x = torch.compile(f), torch.tensor([-1.5, 2.0, 3.0])
    assert compiled(x, [0, 5, 2, 3]) == f(x, [0, 5, 2, 3]) == [5, 3]


def expecting(function, *args):
    """A function in one graph, on these arguments; what it gives uncompiled."""
    for backend in ("rushlight", "eager"):
        torch._dynamo.reset()
        found = torch.compile(function, fullgraph=True, backend=backend)(*args)
        torch.testing.assert_close(found, function(*args))
    return torch.compile(function, fullgraph=True)


def test_what_operators_expect_of_numbers_is_checked_when_the_graph_runs():
    counted = expecting(lambda x: torch.arange(0, x.max().item(), 1), torch.tensor([3, 1], dtype=torch.int32))
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        counted(torch.tensor([-3, -1], dtype=torch.int32))
    x = torch.arange(9.0)
    parts = expecting(lambda x, n: [p * 2 for p in x.split(n.tolist())], x, torch.tensor([2, 3, 4]))
    torch.testing.assert_close(parts(x, torch.tensor([0, 8, 1])), [x[:0] * 2, x[:8] * 2, x[8:] * 2])
    for wrong in ([2, 3, 5], [2, 9, -2]):
        with pytest.raises(RuntimeError, match="to sum exactly to 9"):
            parts(x, torch.tensor(wrong))
    part = expecting(lambda x, n: x.narrow(0, 1, n.item()) + 1, x, torch.tensor(3))
    with pytest.raises(RuntimeError, match="exceeds dimension size"):
        part(x, torch.tensor(9))


def test_parts_of_sizes_that_data_decide_carry_gradients():
    def f(x, n):
        a, b, c = x.split(n.tolist())
        return a.sum() * 1 + (b * 2).sum() + (c * 3).sum()

    x = torch.randn(6, requires_grad=True)
    torch.compile(f, fullgraph=True)(x, torch.tensor([1, 2, 3])).backward()
    assert x.grad.tolist() == [1, 2, 2, 3, 3, 3]


# --- functions of unbacked integers -----------------------------------------------------------------------------------
def clamp_size(u, y):
    torch._check_is_size(u)
    return torch.zeros(torch.sym_max(torch.sym_min(u, y.size(0)), 1)) + torch.sym_min(u, 3)


def take_builtin_extremes(u, y):
    torch._check(u >= 0)
    return torch.ones(max(u, 2, y.size(0) // 4)) * min(u, 5) + max(u * 0.5, 1.0)


def take_roots(u, y):
    torch._check(u >= 0)
    return y * torch.sym_sqrt(u) + math.sqrt(u + 1) + u ** 2


def convert(u, y):
    torch._check_is_size(u)
    return y * torch.sym_float(u) + torch.sym_int(u / 2) + math.floor(u / 3) + math.ceil(u / 3) + math.trunc(u * 0.75)


def constrain(u, y):
    torch._constrain_as_size(u, min=0, max=8)
    return y.narrow(0, 0, u)


def constrain_range(u, y):
    torch.sym_constrain_range(u, min=0, max=8)
    return y[:u].cumsum(0)


def check_negations(u, y):
    torch._check(torch.sym_not(u > y.size(0)))
    torch._check(not u < 0)
    return y[:u] * 2


def halve(u, y):
    torch._check_is_size(u)
    torch._check(u % 2 == 0)
    return torch.ones(u).view(u // 2, 2).sum(0)


def check_elements(u, y):
    torch._check_tensor_all(y[:3] >= 0, lambda: "negative")
    return y + u


def check_flag(u, y):
    flag = (y.sum() >= 0).item()
    torch._check(flag)
    torch._check(not (y < 0).any().item())
    return y * u


OF_INTEGERS = {clamp_size: (0, 3, 9), take_builtin_extremes: (0, 1, 9), take_roots: (0, 2, 7), convert: (0, 5, 8),
               constrain: (0, 8, 9), constrain_range: (0, 5, 9), check_negations: (0, 8, -1, 9), halve: (0, 4, 3),
               check_elements: (1,), check_flag: (2,)}


@pytest.mark.parametrize("function", OF_INTEGERS, ids=lambda f: f.__name__)
def test_functions_of_integers_that_data_decide(function):
    """One graph computes, and refuses, what the function does when it is called; exported programs do so, too, also
    when they come from a file."""
    class Called(torch.nn.Module):
        def forward(self, x, y):
            return function(x.item(), y)

    def found(f, *args):
        try:
            return f(*args).tolist()
        except RuntimeError:
            return RuntimeError

    y = torch.arange(8.0)
    compiled = torch.compile(lambda x, y: function(x.item(), y), fullgraph=True)
    torch.export.save(torch.export.export(Called(), (torch.tensor(4), y)), file := io.BytesIO())
    file.seek(0)
    exported = torch.export.load(file).module()
    for n, given in itertools.product(OF_INTEGERS[function], (y, y - 5)):
        args = torch.tensor(n), given
        expected = found(Called(), *args)
        assert found(compiled, *args) == found(exported, *args) == expected, (n, given)
    assert compiled.owner.stats.segments == 1


def test_products_of_quotients_follow_from_checked_remainders():
    """Whatever the divisor and the sizes: ``a * b == n`` is known where ``n % b == 0`` was checked and a is n // b."""
    drawing = random.Random(0)
    for _ in range(4):
        divisor, more = drawing.randint(2, 7), drawing.randint(0, 5)

        def f(x):
            n = x.item() + more
            torch._check(n >= 0)
            torch._check(n % divisor == 0)
            return torch.arange(n).view(divisor, n // divisor).sum(1)

        compiled = torch.compile(f, fullgraph=True)
        for count in (1, drawing.randint(2, 5)):
            x = torch.tensor(count * divisor - more)
            assert torch.equal(compiled(x), f(x))
        with pytest.raises(RuntimeError):
            compiled(torch.tensor(divisor + 1 - more))


def test_bounds_of_sizes_are_refused_as_pytorch_refuses_them():
    for call, text in (
        (lambda: torch._constrain_as_size(5, max=2), "must be greater than 2. got: 2"),
        (lambda: torch._constrain_as_size(5, min=1, max=4), r"for 5 between \[1, 4\]"),
        (lambda: torch._constrain_as_size(-1), r"for -1 between \[0, 9223372036854775807\]"),
        (lambda: torch.sym_constrain_range(5, min=6, max=2), "Got min=6 max=2"),
        (lambda: torch.sym_constrain_range(5, min=6), r"between \[6, 9223372036854775807\]")):
        with pytest.raises(RuntimeError, match=text):
            call()
    assert type(torch.sym_max(3, 2.5)) is float and type(torch.sym_min(3, 4)) is int
    with pytest.raises(ValueError):
        torch.sym_sqrt(-1)


def limited(x, y):
    a, b = x.sum(), y.sum()
    return max(a, b), min(a, b), min(max(a, 0), 1.5), max(0, min(1, b)), max(-1, 2, a, 3, b), min(2, a * b)


@pytest.mark.parametrize("sign", [(1, 1), (1, -1), (-1, 1), (-1, -1), (0, math.nan), (math.nan, 0)])
def test_extremes_of_tensors_stay_in_one_graph(sign):
    """Under fullgraph=True, the values of PyTorch without capture, NaN included, and the gradients of finite ones."""
    judge = pytest.importorskip("torch")

    def found(t, compiled):
        x, y = (t.ones(3).mul(k).requires_grad_() for k in sign)
        run = compiled.compile(limited, fullgraph=True) if compiled else limited
        values = [t.as_tensor(v, dtype=t.float32) for v in run(x, y)]
        sum(values).backward()
        return [v.detach().tolist() for v in values], [
            (t.zeros(3) if v.grad is None else v.grad).tolist() for v in (x, y)]

    ours, theirs = found(torch, torch), found(judge, None)
    for a, b in list(zip(ours, theirs))[:1 if math.nan in sign else 2]:
        torch.testing.assert_close(a, b, equal_nan=True, rtol=1e-6, atol=1e-6)


ASSERTING = """def assert_within(x):  # as text: pytest writes the asserts of its modules anew
    count = x[x > 0].shape[0]
    assert count > 2 and count < 6 and count != 4, "out of range"
    return torch.ones(count) * (1 if count > 2 else 2)
"""


def test_each_condition_of_an_assert_is_checked_when_the_graph_runs():
    namespace = {"torch": torch}
    exec(ASSERTING, namespace)
    run = torch.compile(namespace["assert_within"], fullgraph=True)
    for count in (3, 5):
        assert run(torch.ones(count)).tolist() == [1.0] * count
    for count in (2, 4, 6):
        with pytest.raises(AssertionError, match="out of range"):
            run(torch.ones(count))


COUNTED = {  # name: a function of a tensor and two numbers that it gets as data
    "zeros": lambda x, a, b: torch.zeros(a, b), "new_ones": lambda x, a, b: x.new_ones((a, b)),
    "full": lambda x, a, b: torch.full((a, b), 2.0), "empty": lambda x, a, b: torch.empty(a, b).fill_(1),
    "eye": lambda x, a, b: torch.eye(a, b), "view": lambda x, a, b: torch.ones(a * b).view(a, b),
    "repeat": lambda x, a, b: x.repeat(a, b), "repeat_interleave": lambda x, a, b: x.repeat_interleave(a),
    "cat": lambda x, a, b: torch.cat([torch.ones(a), x]), "matmul": lambda x, a, b: torch.ones(a, b) @ torch.ones(b, 3),
    "softmax": lambda x, a, b: torch.ones(a, b).softmax(-1),
    "where": lambda x, a, b: torch.where(torch.ones(a) > 0, 1, b),
    "layer_norm": lambda x, a, b: F.layer_norm(torch.ones(a, 4), (4,)),
    "conv1d": lambda x, a, b: F.conv1d(torch.ones(a, 1, 8), torch.ones(1, 1, 3)),
    "embedding": lambda x, a, b: F.embedding(torch.zeros(a, dtype=torch.long), torch.ones(3, 2)),
}


@pytest.mark.parametrize("name", COUNTED)
def test_counts_that_data_decide_need_no_check_of_the_program(name):
    def function(x, n):
        return COUNTED[name](x, *n.tolist())

    compiled, x = torch.compile(function, fullgraph=True), torch.arange(4.0)
    for n in ([2, 3], [1, 1], [0, 2], [5, 0]):
        torch.testing.assert_close(compiled(x, torch.tensor(n)), function(x, torch.tensor(n)))
    with pytest.raises(RuntimeError, match="negative|greater or equal to 0"):
        compiled(x, torch.tensor([-1, 2]))
    assert compiled.owner.stats.segments == 1
