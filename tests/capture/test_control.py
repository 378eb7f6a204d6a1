"""Data-dependent control flow: one graph, the results and gradients of uncompiled code, no new capture for other
counts."""
import numpy as np
import pytest

import rushlight as torch
from rushlight._higher_order_ops import associative_scan, map, scan, while_loop

r = torch.randn


def branches(x, w):
    return torch.cond(x.sum() > 0, lambda x: (x @ w).tanh(), lambda x: x @ w * x.shape[0], (x,))


def nested(x, w):
    def inner(x):
        return torch.cond(x.mean() > 1, lambda x: x * w.sum(), lambda x: x - 1, (x,))
    return torch.cond(x.sum() > 0, inner, lambda x: inner(x + 2) * 2, (x,))


def trees(x, w):
    out = torch.cond(x.sum().item() > 0, lambda d, k: {"a": d["x"] + k, "b": (d["x"].t(), None)},
                     lambda d, k: {"a": d["x"] * k, "b": (d["x"].t() + 1, None)}, ({"x": x}, w.sum()))
    return out["a"] * 2, out["b"][0] + out["a"].t()


def aliases(x, w):
    y = torch.cond(x.sum() > 0, lambda x: x, lambda x: x[:], (x,))
    y = y + w.sum()
    y.mul_(2)
    return y, x


def doubling(x, w):
    n, y = while_loop(lambda n, y: y.abs().sum() < 100, lambda n, y: (n + 1, (y @ w).tanh() + y * 2),
                      (torch.tensor(0), x + 0.1))
    return y * n


def cumulated(x, w):
    carry, ys = scan(lambda h, x: ((h @ w + x).tanh(), h * x), torch.zeros(3), x)
    return carry.sum() + ys, carry


def backwards_along(x, w):
    carry, ys = scan(lambda h, row: (h + row["a"], {"y": h * row["b"]}), torch.zeros(x.shape[0]), {"a": x, "b": x * 2},
                     dim=1, reverse=True)
    return carry, ys["y"] * w.sum()


def mapped(x, w):
    return map(lambda row, w: (row @ w).sin(), x, w)


def running(x, w):
    return associative_scan(lambda a, b: a * b, x @ w, 0)


FUNCTIONS = [branches, nested, trees, aliases, doubling, cumulated, backwards_along, mapped, running]


def outcome(function, x, w):
    results = function(x, w)
    results = results if isinstance(results, tuple) else (results,)
    total = sum(v.sum() * (k + 1) for k, v in enumerate(results))
    gradients = torch.autograd.grad(total, [x, w], allow_unused=True)
    return [v.detach().numpy() for v in results] + [np.zeros(()) if g is None else g.numpy() for g in gradients]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("backend", ["eager", "rushlight"])
def test_one_graph_and_gradients(function, backend):
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for seed in range(4):
        torch.manual_seed(seed)
        w = r(3, 3, requires_grad=True)
        for sign in (1, -1):
            x = (sign * (r(4, 3) + 1)).requires_grad_()
            for a, b in zip(outcome(function, x, w), outcome(compiled, x, w)):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert compiled.owner.stats.segments == 1 and len(compiled.owner.stats.graphs) == 1


@pytest.mark.parametrize("function", [cumulated, mapped])
def test_any_number_of_steps_in_two_captures(function):
    compiled = torch.compile(function, fullgraph=True)
    w = r(3, 3, requires_grad=True)
    for count in (2, 5, 3, 8, 6):
        x = r(count, 3, requires_grad=True)
        for a, b in zip(outcome(function, x, w), outcome(compiled, x, w)):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert compiled.owner.stats.segments == 2


def test_many_steps_are_a_loop():
    def total(x):
        return scan(lambda h, x: (h * 0.5 + x, h), torch.zeros(()), x)[0]

    compiled = torch.compile(total, fullgraph=True)
    x = r(400)
    assert torch.allclose(compiled(x), total(x), atol=1e-5)
    assert len(compiled.owner.stats.graphs[0].graph.nodes) < 20


def test_whole_step_through_control_flow():
    def run(compiled):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x):
            _, h = while_loop(lambda n, h: n > 0, lambda n, h: (n - 1, net(h).tanh()), (torch.tensor(3), x))
            h = torch.cond(h.sum() > 0, lambda h: h * 2, lambda h: h.sin(), (h,))
            loss = h.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        made = torch.compile(step, fullgraph=True) if compiled else step
        return [made(r(5, 3)).item() for _ in range(3)], net.weight.detach().numpy()

    (a, w), (b, v) = run(False), run(True)
    np.testing.assert_allclose(a, b, rtol=1e-5)
    np.testing.assert_allclose(w, v, rtol=1e-5)


def effects(x):
    seen = []
    y = torch.cond(x.sum() > 0, lambda x: (seen.append(1), x + 1)[1], lambda x: x - 1, (x,))
    return y, len(seen)


def writes(x):
    y = x + 1
    z = torch.cond(x.sum() > 0, lambda: y.add_(1), lambda: y - 1, ())
    return z, y


def counts(x):
    n = 0

    def more(x):
        nonlocal n
        n += 1
        return x + 1
    return torch.cond(x.sum() > 0, more, lambda x: x, (x,)), n


def differing(x):
    return torch.cond(x.sum() > 0, lambda x: x[:2], lambda x: x, (x,))


def drawing(x):
    return torch.cond(x.sum() > 0, lambda x: x + 0 * torch.rand(4), lambda x: x, (x,))


def raising(x):
    def fail(x):
        raise ValueError("this is not called")
    return torch.cond(x.sum() > 100, fail, lambda x: x + 1, (x,)), 0


@pytest.mark.parametrize("function", [effects, writes, counts, differing, drawing, raising])
def test_functions_that_do_more_run_uncompiled(function):
    compiled = torch.compile(function)
    for x in (torch.ones(4), -torch.ones(4)):
        for a, b in zip(compiled(x), function(x)):
            assert torch.equal(torch.as_tensor(a), torch.as_tensor(b))
    assert compiled.owner.stats.breaks


def test_arguments_are_checked():
    x = torch.ones(2)
    for call, text in [(lambda: torch.cond(1.0, torch.sin, torch.cos, (x,)), "bool or tensor"),
                       (lambda: torch.cond(x > 0, torch.sin, torch.cos, (x,)), "single-element"),
                       (lambda: torch.cond(True, 1, torch.cos, (x,)), "callable"),
                       (lambda: torch.cond(True, torch.sin, torch.cos, x), "tuple"),
                       (lambda: while_loop(torch.any, lambda x: x, (x,)), "return a tuple|nested"),
                       (lambda: while_loop(lambda x: x, lambda x: (x,), (x,)), "boolean scalar"),
                       (lambda: scan(lambda c, x: (c, x), [], x), "init leaves"),
                       (lambda: scan(lambda c, x: (c, x), x, x, dim=1), "dimension"),
                       (lambda: scan(3, x, x), "callable"), (lambda: map(torch.sin, torch.tensor(1.0)), "Leading"),
                       (lambda: map(torch.sin, ()), "tensors")]:
        with pytest.raises(RuntimeError, match=text):
            call()
        with pytest.raises(RuntimeError, match=text):
            torch.compile(call)()


def test_names():
    x = torch.ones(2)
    assert torch.while_loop is while_loop and torch.equal(
        torch.ops.higher_order.cond(True, torch.sin, torch.cos, (x,)), torch.cond(True, torch.sin, torch.cos, (x,)))


def test_a_users_backend_sees_the_functions():
    seen = []

    def backend(module, inputs):
        seen.append(module)
        return module.forward

    compiled = torch.compile(branches, backend=backend, fullgraph=True)
    x, w = r(4, 3), r(3, 3)
    assert torch.allclose(compiled(x, w), branches(x, w))
    assert "cond" in str(seen[0].graph)


def numbered(x, w):
    scale = float(x.shape[0]) / 3
    return torch.cond(x.shape[0] > w.sum(), lambda x: nested(x, w) * scale, lambda x: nested(x, w) - x.shape[0], (x,))


@pytest.mark.parametrize("function", [branches, nested, trees, aliases, numbered])
@pytest.mark.parametrize("dynamic", [False, True])
def test_choices_in_graphs_are_calls_of_cond(function, dynamic):
    seen = []
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic,
                             backend=lambda module, inputs: seen.append(module) or module.forward)
    for sign, rows in ((1, 4), (-1, 4), (1, 5), (-1, 3)):
        x, w = (sign * (r(rows, 3) + 1)).requires_grad_(), r(3, 3, requires_grad=True)
        for a, b in zip(outcome(function, x, w), outcome(compiled, x, w)):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    for module in seen[0].modules():
        module.graph.lint()
        for node in module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond):
            parts = [getattr(module, part.target) for part in node.args[1:3]]
            assert len(node.args) == 4 and all(isinstance(part, torch.fx.GraphModule) for part in parts)
            assert all(len(part.graph.find_nodes(op="placeholder")) == len(node.args[3]) for part in parts)


def test_programs_in_graphs_have_names_of_their_own_and_say_what_they_are_part_of():
    """Numbers count what is inside first, as PyTorch's do."""
    from rushlight._higher_order_ops.wrap import wrap

    seen = []
    f = lambda x, w: nested(wrap(lambda x: wrap(torch.sin, x) * 2, x), w) + wrap(torch.cos, x)
    torch.compile(f, fullgraph=True, backend=lambda module, inputs: seen.append(module) or module.forward)(
        r(2, 3), r(3, 3))
    assert {name for name, _ in seen[0].named_modules()} == {
        "", "cond_true_2", "cond_true_2.cond_true_0", "cond_true_2.cond_false_0", "cond_false_2",
        "cond_false_2.cond_true_1", "cond_false_2.cond_false_1", "wrap_body_1", "wrap_body_1.wrap_body_0",
        "wrap_body_2"}
    stacks = {node.name: [name for name, _ in node.meta["source_fn_stack"]] for module in seen[0].modules()
              for node in module.graph.nodes if node.op == "call_function"}
    assert stacks["sin"] == ["wrap", "wrap", "sin"] and stacks["cos"] == ["wrap", "cos"] and stacks["cond"][0] == "cond"
    shown = seen[0].print_readable(print_output=False)
    assert "torch.ops.higher_order.cond(" in shown and "    class cond_true_2(torch.nn.Module):" in shown


def test_a_choice_for_each_example_of_a_batch():
    def f(v):
        return torch.func.vmap(lambda a: torch.cond(a > 0, lambda a: (a.sin(), a * 2), lambda a: (a.cos(), a), (a,)))(v)

    v = torch.arange(-2.0, 3.0)
    wanted = torch.where(v > 0, v.sin(), v.cos()), torch.where(v > 0, v * 2, v)
    for run in (f, torch.compile(f, fullgraph=True)):
        for got, one in zip(run(v), wanted):
            assert torch.allclose(got, one)
    slopes = torch.func.vmap(torch.func.grad(lambda a: torch.cond(a > 0, lambda a: a * a, lambda a: -a, (a,))))(v)
    assert slopes.tolist() == [-1.0, -1.0, -1.0, 2.0, 4.0]
    with pytest.raises(RuntimeError, match="nested alike"):
        torch.func.vmap(lambda a: torch.cond(a > 0, lambda a: (a,), lambda a: a, (a,)))(v)


def test_loops_carry_numbers():
    def f(x, limit):
        return torch.while_loop(lambda n, s, x: n < limit, lambda n, s, x: (n + 2, s * 0.5, x + n * s), (0, 1.0, x))

    compiled, x = torch.compile(f, fullgraph=True), torch.ones(3)
    for limit in (5, 7, 8, 0):
        wanted, got = f(x, limit), compiled(x, limit)
        assert got[:2] == wanted[:2] and torch.equal(got[2], wanted[2])
    assert compiled.owner.stats.segments <= 3  # 0 ends the loop before it begins


def test_a_number_that_becomes_another_kind_is_not_carried():
    def f(x):
        return torch.while_loop(lambda n, x: n < 2, lambda n, x: (n + 0.5, x * 2), (0, x))

    assert torch.compile(f)(torch.ones(2))[0] == f(torch.ones(2))[0] == 2.0


def test_the_operator_behind_cond_has_its_name():
    from rushlight._higher_order_ops.cond import cond_op
    x = torch.ones(2)
    assert cond_op(torch.tensor(True), lambda v: v + 1, lambda v: v, (x,)).tolist() == [2, 2]
