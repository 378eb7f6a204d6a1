"""Hooks on saved tensors and on several gradients, beside torch's."""
import gc
import weakref

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def network(t, x, w):
    return (t.tanh(x @ w).exp() * t.sigmoid(w).sum()).sum()


def operands(t):
    rng = np.random.default_rng(0)
    return t.tensor(rng.standard_normal((3, 4)).astype(np.float32)), t.tensor(rng.standard_normal((4, 4))
                                                                              .astype(np.float32), requires_grad=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_saved_tensors_go_through_hooks(compiled):
    packed, unpacked = [], []

    def pack(tensor):
        packed.append(tuple(tensor.shape))
        return tensor.numpy() if not tensor.requires_grad else tensor.detach().numpy()

    def unpack(array):
        unpacked.append(array.shape)
        return rl.tensor(array)

    x, w = operands(rl)
    plain = rl.autograd.grad(network(rl, x, w), w)[0]
    f = rl.compile(lambda x, w: network(rl, x, w)) if compiled else lambda x, w: network(rl, x, w)
    with rl.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = f(x, w)
    assert packed and not unpacked
    assert np.allclose(rl.autograd.grad(loss, w)[0].numpy(), plain.numpy(), atol=1e-6)
    assert sorted(packed) == sorted(unpacked)


def test_double_backward_through_hooks():
    def run(t, hooked):
        x, w = operands(t)
        hooks = t.autograd.graph.saved_tensors_hooks(lambda a: a * 1 if a.requires_grad else a, lambda a: a)
        if hooked:
            with hooks:
                loss = network(t, x, w)
        else:
            loss = network(t, x, w)
        slope, = t.autograd.grad(loss, w, create_graph=True)
        slope.square().sum().backward()
        return w.grad.numpy()
    assert np.allclose(run(rl, True), run(torch, False), rtol=1e-3)


def test_functions_of_ones_own_go_through_hooks():
    class Square(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = rl.tensor([2.0, 3.0], requires_grad=True)
    with rl.autograd.graph.saved_tensors_hooks(lambda t: t + 1, lambda t: t - 1):
        y = Square.apply(x)
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_the_innermost_hooks_count_and_errors_are_torchs():
    for t in (rl, torch):
        g = t.autograd.graph
        x = t.ones(2, requires_grad=True)
        seen = []
        with g.saved_tensors_hooks(lambda a: seen.append("outer") or a,
                                   lambda a: a), g.saved_tensors_hooks(lambda a: seen.append("inner") or a,
                                                                       lambda a: a):
            x * x
        assert set(seen) == {"inner"}
        with g.saved_tensors_hooks(lambda a: a, lambda a: 3):
            y = (x * x).sum()
        with pytest.raises(TypeError, match="unpack_hook"):
            y.backward()
        allowed = [t._C._autograd._saved_tensors_hooks_is_enabled()]
        with g.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
            with g.disable_saved_tensors_hooks("nor here"):
                allowed.append(t._C._autograd._saved_tensors_hooks_is_enabled())
            allowed.append(t._C._autograd._saved_tensors_hooks_is_enabled())
            with g.saved_tensors_hooks(lambda a: a, lambda a: a):
                pass
        assert [*allowed, t._C._autograd._saved_tensors_hooks_is_enabled()] == [True, False, False, True]
        with g.saved_tensors_hooks(lambda a: a.add_(1), lambda a: a), pytest.raises(RuntimeError):
            (x * 2).detach().requires_grad_().exp()


def test_save_on_cpu_and_allowed_mutation():
    x = rl.ones(3, requires_grad=True)
    with rl.autograd.graph.save_on_cpu():
        (x.exp() * x).sum().backward()
    assert np.allclose(x.grad.numpy(), 2 * np.e)
    with rl.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 2
        z = y.square().sum()
        y.detach().zero_()
        x.grad = None
        z.backward()
    assert x.grad.tolist() == [8.0] * 3


def test_what_hooks_packed_is_freed_with_the_graph():
    x = rl.ones(1000, requires_grad=True)
    with rl.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = x.exp().exp()
    step = weakref.ref(y._rush_grad_node)
    del y
    gc.collect()
    assert step() is None


@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_on_several_gradients(mode):
    def run(t):
        a, b, c = (t.tensor([float(k)], requires_grad=True) for k in (1, 2, 3))
        mid = a * b
        seen = []

        def hook(gradients):
            seen.append([None if g is None else g.tolist() for g in gradients] if mode == "all" else "called")
        handle = t.autograd.graph.register_multi_grad_hook((a, b, c, mid), hook, mode=mode)
        (mid * c).sum().backward()
        (a * 2).sum().backward()
        handle.remove()
        (a * b * c).sum().backward()
        return seen
    assert run(rl) == run(torch)


def test_edges():
    x = rl.ones(2, requires_grad=True)
    y = x * 2
    edge = rl.autograd.graph.get_gradient_edge(y)
    assert edge.node.name() == "MulBackward0" and edge.output_nr == 0
    z = y.square().sum()
    assert rl.autograd.grad(z, edge)[0].tolist() == [4.0, 4.0]
    with pytest.raises(RuntimeError):
        rl.autograd.graph.get_gradient_edge(rl.ones(1))
    rl.autograd.graph.increment_version(x)
    assert x._version == 1


def test_blocks_that_allow_mutation():
    torch = rl
    block = torch.autograd.graph.allow_mutation_on_saved_tensors
    a = torch.ones(2, requires_grad=True)
    with block():
        with pytest.raises(RuntimeError, match="cannot be nested"), block():
            pass
        out = (a ** 2).sum()
        with torch.no_grad():
            a.mul_(5)
        out.backward()
        assert a.grad.tolist() == [2, 2]
        late = (a ** 2).sum()
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        late.backward()


def swapped(t, finish):
    weight, other = t.nn.Parameter(t.ones(2)), t.nn.Parameter(t.zeros(2))
    before = (weight * 3).sum()
    if finish:
        before.backward()
        del before
    t.utils.swap_tensors(weight, other)
    after = (weight + other * 2).sum()
    after.backward()
    grads = weight.grad.tolist(), other.grad.tolist()
    if not finish:
        before.backward()
    return grads


@pytest.mark.parametrize("finish", [True, False])
def test_graphs_of_leaves_that_were_swapped_refuse_gradients(finish):
    if finish:
        assert swapped(rl, True) == swapped(torch, True)
        return
    for t in (rl, torch):
        with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
            swapped(t, False)
