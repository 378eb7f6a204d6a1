"""Views, in-place operators, hooks, double backward and errors, as PyTorch has them."""
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def same(program):
    """Runs a program under both libraries and compares what it returns."""
    ours, theirs = program(rl), program(torch)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(np.asarray(a.detach().tolist()), np.asarray(b.detach().tolist()), rtol=1e-5,
                                   atol=1e-6)


def same_or_refused(program):
    """Both give the same, or both raise errors of one type."""
    try:
        program(torch)
    except (RuntimeError, TypeError) as error:
        with pytest.raises(type(error)):
            program(rl)
    else:
        same(program)


def test_gradient_of_a_product():
    def program(t):
        x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
        (x * x * 2).sum().backward()
        return [x.grad]
    same(program)


def test_gradients_accumulate():
    def program(t):
        x = t.ones(3, requires_grad=True)
        for _ in range(3):
            (x * 2).sum().backward()
        return [x.grad]
    same(program)


def test_write_into_a_view_changes_the_history_of_its_base():
    def program(t):
        x = t.arange(6.0).reshape(2, 3).requires_grad_()
        y = x * 2
        y[0].mul_(3)
        y[:, 1] = 0
        (y * y).sum().backward()
        return [x.grad, y]
    same(program)


def test_a_view_taken_before_sees_the_write():
    def program(t):
        x = t.ones(4, requires_grad=True)
        y = x * 2
        v = y[1:3]
        y.mul_(5)
        v.sum().backward()
        return [x.grad]
    same(program)


def test_in_place_on_a_leaf_is_refused():
    x = rl.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)
    with rl.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0, 2.0, 2.0]


def test_modified_saved_tensor_is_an_error():
    x = rl.ones(3, requires_grad=True)
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_second_backward_needs_retain_graph():
    x = rl.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "sin", "softmax", "logsumexp", "var", "sqrt"])
def test_double_backward(name):
    def program(t):
        x = t.tensor([[0.3, 1.2, 0.7], [0.1, 0.5, 2.0]], dtype=t.float64, requires_grad=True)
        arguments = (1,) if name in ("softmax", "logsumexp", "var") else ()
        y = getattr(x, name)(*arguments)
        g, = t.autograd.grad((y * y).sum(), x, create_graph=True)
        h, = t.autograd.grad((g * g).sum(), x)
        return [g, h]
    same(program)


def test_tensor_hooks():
    def program(t):
        x = t.ones(3, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: g * 10)
        x.register_hook(lambda g: g + 1)
        y.sum().backward()
        return [x.grad]
    same(program)


ANSWERS = {
    "a tuple": lambda t, g: (g,), "a list": lambda t, g: [g], "a number": lambda t, g: 3,
    "another shape": lambda t, g: g[:1], "another dtype": lambda t, g: g.double(),
    "nothing": lambda t, g: None, "twice": lambda t, g: g * 2}


@pytest.mark.parametrize("of_leaf", [True, False])
@pytest.mark.parametrize("name", ANSWERS)
def test_what_hooks_of_tensors_may_answer(name, of_leaf):
    def program(t):
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        (x if of_leaf else y).register_hook(lambda g: ANSWERS[name](t, g))
        y.sum().backward()
        return [x.grad]
    same_or_refused(program)


NODE_ANSWERS = {
    "a tensor": lambda g: g[0], "a list": lambda g: [g[0]], "a number": lambda g: 3, "too many": lambda g: (*g, g[0]),
    "no tensor": lambda g: (3, *g[1:]),
    "another shape": lambda g: (g[0][:1], *g[1:]), "twice": lambda g: (g[0] * 2, *g[1:])}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("name", NODE_ANSWERS)
def test_what_hooks_of_nodes_may_answer(name, before):
    def program(t):
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp()
        if before:
            y.grad_fn.register_prehook(NODE_ANSWERS[name])
        else:
            y.grad_fn.register_hook(lambda inputs, outputs: NODE_ANSWERS[name](inputs))
        y.sum().backward()
        return [x.grad]
    same_or_refused(program)


def test_retain_grad():
    def program(t):
        x = t.ones(3, requires_grad=True)
        y = x * 2
        y.retain_grad()
        (y * y).sum().backward()
        return [x.grad, y.grad]
    same(program)


def test_custom_function():
    def program(t):
        class Cube(t.autograd.Function):
            @staticmethod
            def forward(ctx, x, scale):
                ctx.save_for_backward(x)
                ctx.scale = scale
                return x**3 * scale

            @staticmethod
            def backward(ctx, g):
                x, = ctx.saved_tensors
                return g * 3 * x**2 * ctx.scale, None

        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = Cube.apply(x, 2.0)
        y.sum().backward()
        return [y, x.grad]
    same(program)


def test_grad_mode_is_restored_after_an_error():
    with pytest.raises(ZeroDivisionError):
        with rl.no_grad():
            assert not rl.is_grad_enabled()
            1 / 0
    assert rl.is_grad_enabled()


def test_deep_graphs_are_freed_without_recursion():
    x = rl.ones(2, requires_grad=True)
    y = x
    for _ in range(20000):
        y = y + 1
    y.sum().backward()
    del y
    gc.collect()
    assert x.grad.tolist() == [1.0, 1.0]


def test_backward_in_threads():
    def work(results, k):
        x = rl.full((16,), float(k), requires_grad=True)
        for _ in range(20):
            (x * x).sum().backward()
        results[k] = x.grad.tolist()[0]
    results = {}
    threads = [threading.Thread(target=work, args=(results, k)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == {k: 40.0 * k for k in range(4)}


def test_gradients_of_a_long_list():
    for t in (rl, torch):
        parts = [t.full((2,), float(k), requires_grad=k % 3 != 0) for k in range(200)]
        (t.stack(parts).cumsum(0) * t.arange(400.0).reshape(200, 2)).sum().backward()
        found = [None if p.grad is None else p.grad.tolist() for p in parts]
        if t is rl:
            ours = found
    assert ours == found


@pytest.mark.parametrize("run", [
    lambda t, x, y, g: (x + y).backward(g),
    lambda t, x, y, g: ((x + y) * 2).sum().backward(),
    lambda t, x, y, g: (x.t() + y.t()).t().backward(g),
    lambda t, x, y, g: t.cat((x.sum(1), y.sum(1))).sum().backward(),
    lambda t, x, y, g: t.compile(lambda a, b: ((a + b).sin() * 2).sum())(x, y).backward(),
])
def test_gradients_that_pass_through_are_not_shared(run):
    """The gradient of a sum is the same for both sides; each leaf still owns what it gets."""
    x, y, g = rl.ones(3, 4, requires_grad=True), rl.ones(3, 4, requires_grad=True), rl.full((3, 4), 3.0)
    run(rl, x, y, g)
    before = y.grad.tolist(), g.tolist()
    x.grad.add_(1)
    assert (y.grad.tolist(), g.tolist()) == before


@pytest.mark.parametrize("native", ["1", "0"])
def test_gradients_that_a_hook_or_a_function_keeps_are_not_added_to(native):
    """Whatever counts references, interpreted or compiled: the second backward pass leaves what was kept of the first
    one."""
    source = """if True:
        import rushlight as torch
        kept = []

        class Keeping(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                kept.append(g * 2)
                return kept[-1]

        x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
        x.register_hook(kept.append)
        for _ in range(3):
            (x.exp().sum() - x.exp().sum() + x.sum() * 5 + Keeping.apply(y).sum()).backward()
        assert all(g.tolist() in ([5.0] * 2, [2.0] * 2) for g in kept), kept
        assert (x.grad.tolist(), y.grad.tolist()) == ([15.0] * 2, [6.0] * 2)
    """
    subprocess.run([sys.executable, "-c", source], check=True, env={**os.environ, "RUSHLIGHT_NATIVE": native})


def test_a_gradient_that_passes_through_is_no_copy():
    x, g = rl.ones(3, 4, requires_grad=True), rl.full((4, 3), 3.0)
    found, = rl.autograd.grad(x.t(), x, g)
    assert found.data_ptr() == g.data_ptr() and tuple(found.stride()) == (1, 3)
    wide, = rl.autograd.grad(x.sum(), x)
    assert tuple(wide.stride()) == (0, 0) and wide.tolist() == [[1.0] * 4] * 3


def test_dropout_keeps_its_mask():
    """The backward reads one byte an element instead of drawing again."""
    x = rl.ones(64, requires_grad=True)
    y = rl.nn.functional.dropout(x, 0.5)
    graph = y._rush_grad_node.plan.derived.traits["derived"]
    graph = getattr(graph, "graph", graph)  # of a plan from disk
    tensors = [n for n in graph.inputs if not n.weak]  # without the symbols of a polymorphic plan
    assert all(n.op.name != "prims.random_bits" for n in graph.nodes) and tensors[0].dtype is rl.bool
    found, = rl.autograd.grad(y, x, rl.ones(64))
    assert found.tolist() == y.tolist()


def test_backward_within_a_backward_with_leaves_of_both():
    def program(t):
        class Sum(t.autograd.Function):
            @staticmethod
            def forward(ctx, *parameters):
                ctx.save_for_backward(*parameters)
                return sum(p.sum() for p in parameters)

            @staticmethod
            def backward(ctx, gradient):
                a, b = ctx.saved_tensors
                with t.enable_grad():
                    inner, = t.autograd.grad((a * a * b).sum(), (a,))
                return inner * gradient, inner.exp() * gradient

        a, b = t.tensor([1.0, 2.0], requires_grad=True), t.tensor([0.5, 0.25], requires_grad=True)
        (Sum.apply(a, b) * 3 + (a * b).sum()).backward()
        return [a.grad, b.grad]
    same(program)


def test_backward_within_a_backward_through_the_same_steps():
    def program(t):
        class Twice(t.autograd.Function):
            @staticmethod
            def forward(ctx, x, holder):
                ctx.holder = holder
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                with t.enable_grad():
                    ctx.holder[0].sum().backward(retain_graph=True)
                return gradient * 2, None

        x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
        shared = x.sin() * 2
        y = Twice.apply(shared, [shared])
        (y.cos() + shared * shared).sum().backward(retain_graph=True)
        return [x.grad]
    same(program)


def test_reentrant_checkpoint_of_a_tied_weight():
    def program(t):
        from importlib import import_module
        checkpoint = import_module(t.__name__ + ".utils.checkpoint").checkpoint
        w = t.tensor([[0.5, -1.0], [0.25, 2.0]], requires_grad=True)
        x = t.tensor([[1.0, 2.0]], requires_grad=True)
        y = checkpoint(lambda h: (h @ w).tanh(), x @ w, use_reentrant=True)
        (y @ w).sum().backward()
        return [w.grad, x.grad]
    same(program)


def test_threads_with_shared_parameters():
    weights = [rl.full((64, 64), 0.01 * k, requires_grad=True) for k in range(1, 5)]
    x = rl.ones(64, 64)

    def run():
        y = x
        for w in weights:
            y = (y @ w).tanh() + y
        return rl.autograd.grad(y.sum(), weights)

    wanted = [g.clone() for g in run()]
    found = []

    def work():
        for _ in range(40):
            found.append(run())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 120
    for gradients in found:
        for a, b in zip(gradients, wanted):
            rl.testing.assert_close(a, b)


def test_threads_add_to_one_leaf():
    w = rl.ones(1000, requires_grad=True)

    def work():
        for _ in range(100):
            (w * 1.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert w.grad.tolist() == [400.0] * 1000
