"""Hooks on sparse tensors, and gradients that accumulate into sparse ones, beside torch's."""
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def leaf(t, layout):
    values = t.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse(layout=getattr(t, layout))
    return values.requires_grad_()


def compare(run, *args):
    ours, theirs = run(rl, *args), run(torch, *args)
    assert ours == theirs
    return ours


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_hooks_see_and_replace_sparse_gradients(layout):
    def run(t):
        seen, x = [], leaf(t, layout)
        handle = x.register_hook(lambda g: seen.append(g.to_dense().tolist()))
        second = x.register_hook(lambda g: g * 2)
        (x.to_dense() * t.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        handle.remove(), second.remove()
        x.to_dense().sum().backward()
        return seen, x.grad.to_dense().tolist()

    compare(run)


def test_gradients_of_uncoalesced_tensors_reach_hooks():
    def run(t):
        seen = []
        x = t.sparse_coo_tensor([[1, 1]], [1.0, 2.0], (3,)).requires_grad_()
        x.register_hook(lambda g: seen.append(g.to_dense().tolist()))
        (x.to_dense() * t.tensor([1.0, 2.0, 3.0])).sum().backward()
        return seen

    assert compare(run) == [[0.0, 2.0, 0.0]]


def test_results_retain_sparse_gradients():
    def run(t):
        x = leaf(t, "sparse_coo")
        y = x * 3
        y.retain_grad()
        (y.to_dense() * y.to_dense()).sum().backward()
        return y.retains_grad, x.retains_grad, y.grad.to_dense().tolist(), x.grad.to_dense().tolist()

    compare(run)


def test_post_accumulate_hooks_get_the_leaf():
    def run(t):
        seen, x = [], leaf(t, "sparse_coo")
        x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.to_dense().tolist())))
        x.to_dense().sum().backward()
        return seen

    assert compare(run)[0][0]


def test_hooks_do_not_keep_their_tensor():
    import gc
    import weakref
    x = leaf(rl, "sparse_coo")
    x.register_hook(lambda g: None)
    x.register_post_accumulate_grad_hook(lambda p: None)
    gc.disable()
    try:
        known = weakref.ref(x)
        del x
        assert known() is None
    finally:
        gc.enable()


def test_detaching_in_place_removes_the_history():
    def run(t):
        x = (leaf(t, "sparse_coo") * 2).detach_()
        return x.requires_grad, x.is_leaf, x.to_dense().tolist()

    compare(run)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("before", ["dense", "sparse"])
@pytest.mark.parametrize("after", ["dense", "sparse"])
def test_sparse_gradients_accumulate_in_place_where_they_can(before, after, create_graph):
    def run(t):
        def gradient(kind):
            return t.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (3,)) if kind == "sparse" else t.ones(3)

        x = t.zeros(3, requires_grad=True)
        x.grad = given = gradient(before)
        x.backward(gradient(after), create_graph=create_graph)
        return x.grad is given, x.grad.is_sparse, x.grad.to_dense().tolist()

    kept, *_ = compare(run)
    assert kept == (not create_graph and (before, after) != ("sparse", "dense"))


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_hooks_get_none_for_no_gradient(layout):
    """A hook is called with None if a function has no gradient for the tensor, and may return None."""
    def run(t):
        class Stop(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return None

        seen, x = [], leaf(t, layout)
        y = x * 1
        y.register_hook(seen.append)
        Stop.apply(y.to_dense()).sum().backward()
        return seen, None if x.grad is None else x.grad.to_dense().tolist()

    compare(run)
