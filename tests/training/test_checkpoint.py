"""Activation checkpointing: the same gradients, with less kept; beside torch's where it has an opinion."""
import contextlib
import gc

import numpy as np
import pytest

import rushlight as rl
from rushlight.utils import checkpoint as C

torch = pytest.importorskip("torch")
from torch.utils import checkpoint as TC  # noqa: E402


def block(t, scale=1.0):
    w = t.linspace(-1, 1, 16).reshape(4, 4).requires_grad_()
    return w, lambda x, **k: t.tanh(x @ w).exp() * k.get("scale", scale)


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients_are_the_same(reentrant):
    w, f = block(rl)
    x = rl.linspace(0, 1, 8).reshape(2, 4).requires_grad_()
    f(f(x)).sum().backward()
    plain = x.grad.tolist(), w.grad.tolist()
    x.grad = w.grad = None
    y = C.checkpoint(f, C.checkpoint(f, x, use_reentrant=reentrant), use_reentrant=reentrant)
    y.sum().backward()
    assert np.allclose(x.grad.tolist(), plain[0], rtol=1e-5) and np.allclose(w.grad.tolist(), plain[1], rtol=1e-5)


def test_nothing_within_is_kept_and_it_is_computed_once_more():
    calls = []

    def f(x):
        calls.append(1)
        return x.exp().exp().exp()

    x = rl.ones(4, requires_grad=True)
    y = C.checkpoint(f, x, use_reentrant=False)
    alive = [o for o in gc.get_objects() if type(o).__name__ == "RecomputedTensor"]
    assert alive and len(calls) == 1
    y.sum().backward()
    assert len(calls) == 2
    assert np.allclose(x.grad.tolist(), [np.exp(1) * np.exp(np.exp(1)) * np.exp(np.exp(np.exp(1)))] * 4,
                       rtol=1e-4)


def test_it_stops_early_unless_told_not_to():
    ends = []

    def f(x):
        y = x.exp().exp()
        ends.append(1)
        return y + 1

    for early, count in ((True, 1), (False, 2)):
        ends.clear()
        x = rl.ones(2, requires_grad=True)
        with C.set_checkpoint_early_stop(early):
            y = C.checkpoint(f, x, use_reentrant=False)
        y.sum().backward()
        assert len(ends) == count


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("keep", [True, False])
def test_random_numbers_are_the_same(reentrant, keep):
    x = rl.ones(1000, requires_grad=True)
    rl.manual_seed(0)
    y = C.checkpoint(lambda x: rl.nn.functional.dropout(x * x, 0.5) * x, x, use_reentrant=reentrant,
                     preserve_rng_state=keep)
    after = rl.rand(1).item()
    y.sum().backward()
    rl.manual_seed(0)
    rl.nn.functional.dropout(x * x, 0.5)
    assert after == rl.rand(1).item()
    assert ((x.grad != 0) == (y != 0)).all().item() == keep


def test_double_backward_nested_calls_and_retained_graphs():
    def run(t, checkpoint):
        w, f = block(t)
        x = t.linspace(0, 1, 8).reshape(2, 4).requires_grad_()

        def outer(x):
            return checkpoint(f, x, use_reentrant=False).sin()
        y = checkpoint(outer, x, use_reentrant=False).sum()
        slope, = t.autograd.grad(y, x, create_graph=True)
        slope.square().sum().backward()
        return x.grad.tolist(), w.grad.tolist()
    for ours, theirs in zip(run(rl, C.checkpoint), run(torch, lambda f, x, use_reentrant: f(x))):
        assert np.allclose(ours, theirs, rtol=1e-3, atol=1e-5)
    x = rl.ones(2, requires_grad=True)
    y = C.checkpoint(lambda x: x.exp() * x, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert np.allclose(x.grad.tolist(), [4 * np.e] * 2)


def test_autocast_is_as_it_was():
    w, _ = block(rl)
    seen = []

    def f(x):
        y = x @ w
        seen.append(y.dtype)
        return y.float().exp()
    x = rl.ones(2, 4, requires_grad=True)
    with rl.autocast("cpu"):
        y = C.checkpoint(f, x, use_reentrant=False)
    y.sum().backward()
    assert seen == [rl.bfloat16] * 2


def test_what_differs_is_an_error():
    for module, t in ((C, rl), (TC, torch)):
        sizes = [3, 2]

        def f(x):
            return (x * t.ones(sizes.pop(), 1)).exp().sum()
        y = module.checkpoint(f, t.ones(1, 2, requires_grad=True), use_reentrant=False)
        with pytest.raises(RuntimeError):
            y.backward()
        with pytest.raises(ValueError):
            module.checkpoint(lambda x, k: x, t.ones(1, requires_grad=True), k=1, use_reentrant=True)
        with pytest.warns(UserWarning):
            module.checkpoint(lambda x: x * 1, t.ones(1), use_reentrant=True)


@pytest.mark.parametrize("segments", [1, 2, 3])
def test_sequences(segments):
    rl.manual_seed(0)
    model = rl.nn.Sequential(*[rl.nn.Sequential(rl.nn.Linear(4, 4), rl.nn.Tanh()) for _ in range(5)])
    x = rl.randn(2, 4, requires_grad=True)
    plain = rl.autograd.grad(model(x).sum(), list(model.parameters()))
    C.checkpoint_sequential(model, segments, x, use_reentrant=False).sum().backward()
    for p, g in zip(model.parameters(), plain):
        assert rl.allclose(p.grad, g, atol=1e-6)


@pytest.mark.parametrize("as_list", [True, False])
def test_selective(as_list, monkeypatch):
    w, f = block(rl)
    given = []
    original = C.given_back
    monkeypatch.setattr(C, "given_back", lambda shared, func, args: given.append(str(func))
                        or original(shared, func, args))
    chosen = []

    def policy(ctx, op, *args, **kwargs):
        chosen.append(op)
        return C.CheckpointPolicy.MUST_SAVE if "mm" in str(op) or "matmul" in str(
            op) else C.CheckpointPolicy.PREFER_RECOMPUTE

    x = rl.linspace(0, 1, 8).reshape(2, 4).requires_grad_()
    f(x).sin().sum().backward()
    plain = x.grad.tolist(), w.grad.tolist()
    C.checkpoint(lambda x: f(x).sin(), x, use_reentrant=False,
                 context_fn=lambda: C.create_selective_checkpoint_contexts(policy))
    products = [op for op in set(chosen) if "mm" in str(op) or "matmul" in str(op)]
    assert products
    x.grad = w.grad = None
    y = C.checkpoint(lambda x: f(x).sin(), x, use_reentrant=False,
                     context_fn=lambda: C.create_selective_checkpoint_contexts(products if as_list else policy))
    y.sum().backward()
    assert np.allclose(x.grad.tolist(), plain[0], rtol=1e-5) and np.allclose(w.grad.tolist(), plain[1], rtol=1e-5)
    assert given == [str(products[0])]
    with pytest.raises(TypeError):
        C.create_selective_checkpoint_contexts(3)


NORMALIZED = {"var_mean": lambda t, x: t.mul(*t.var_mean(x, 1)), "std": lambda t, x: x.std(1),
              "softmax": lambda t, x: x.softmax(1), "logsumexp": lambda t, x: x.logsumexp(1),
              "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (3,)), "max": lambda t, x: x.max(1)[0],
              "norm": lambda t, x: x.norm(dim=1), "cumprod": lambda t, x: x.cumprod(1),
              "sort": lambda t, x: x.sort(1)[0]}


@pytest.mark.parametrize("name", NORMALIZED)
def test_selective_keeps_what_backward_steps_save_beside_results(name):
    def run(x):
        return NORMALIZED[name](rl, x.sin()).cos()

    plain, kept = (rl.arange(6.0).reshape(2, 3).add(0.5).requires_grad_() for _ in range(2))
    run(plain).sum().backward()
    y = C.checkpoint(run, kept, use_reentrant=False, context_fn=lambda: C.create_selective_checkpoint_contexts(
        lambda ctx, op, *args, **kwargs: C.CheckpointPolicy.MUST_SAVE))
    y.sum().backward(retain_graph=True)
    assert np.allclose(kept.grad.tolist(), plain.grad.tolist(), rtol=1e-5)
    with pytest.raises(RuntimeError, match="backward an extra time"):
        y.sum().backward()


def test_selective_allows_writes_to_kept_results():
    """Kept results may be written again when the caller says that they may be mutated."""
    def run(x):
        return x.sin().relu_().cos()

    plain, kept = (rl.arange(6.0).reshape(2, 3).requires_grad_() for _ in range(2))
    run(plain).sum().backward()
    allowed, refused = (C.checkpoint(run, kept, use_reentrant=False, context_fn=lambda: (
        C.create_selective_checkpoint_contexts([rl.ops.aten.sin.default], allow_cache_entry_mutation=allow)))
        for allow in (True, False))
    allowed.sum().backward()
    assert np.allclose(kept.grad.tolist(), plain.grad.tolist(), rtol=1e-5)
    with pytest.raises(RuntimeError, match="has been mutated"):
        refused.sum().backward()


def slope(f):
    """The gradient of a function as a function of its own, which can be differentiated."""
    def run(x):
        with rl.enable_grad():
            return rl.autograd.grad(f(x), x, create_graph=True)[0]
    return run


def checkpointed(f):
    return lambda x: C.checkpoint(f, x, use_reentrant=False)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("form", [
    lambda f, s, c: s(c(s(f))), lambda f, s, c: c(s(s(c(f)))), lambda f, s, c: s(c(s(c(f)))),
    lambda f, s, c: s(c(s(s(c(f))))), lambda f, s, c: s(c(s(c(s(c(f))))))])
def test_gradients_within_checkpoints(form, early):
    def f(x):
        return x.sin().exp().sin()

    x = rl.tensor(0.7, requires_grad=True)
    with C.set_checkpoint_early_stop(early):
        assert rl.allclose(form(f, slope, checkpointed)(x), form(f, slope, lambda f: f)(x))


def kept(run, x):
    """The bytes that the backward steps of a result keep."""
    y = run(x)
    step, total = y._rush_grad_node, 0
    for value in step.saved:
        if isinstance(value, rl.Tensor) and value._rush_storage is not x._rush_storage:
            total += value._rush_meta.nbytes
    return y, total


@pytest.mark.parametrize("random", [False, True])
def test_compiled_checkpoints_keep_less(random):
    rl.manual_seed(0)
    layers = [rl.nn.Linear(32, 32) for _ in range(3)]

    def block(x):
        for layer in layers:
            x = rl.nn.functional.gelu(layer(x))
        return rl.nn.functional.dropout(x, 0.5) if random else x

    def plain(x):
        return block(block(x)).sum()

    def checkpointed(x):
        return C.checkpoint(block, C.checkpoint(block, x, use_reentrant=False), use_reentrant=False).sum()

    results = []
    for function in (plain, checkpointed):
        run = rl.compile(function)
        x = rl.linspace(0, 1, 64 * 32).reshape(64, 32).requires_grad_()
        rl.manual_seed(1)
        y, size = kept(run, x)
        y.backward()
        results.append((y.item(), x.grad, [layer.weight.grad.clone() for layer in layers], size))
        for layer in layers:
            layer.weight.grad = layer.bias.grad = None
        assert len(run.owner.stats.graphs) == 1
    (y, dx, dw, large), (again, dx2, dw2, small) = results
    assert abs(y - again) < 1e-3 and rl.allclose(dx, dx2, atol=1e-6) and all(rl.allclose(a, b, atol=1e-4)
                                                                             for a, b in zip(dw, dw2))
    assert small < large / 2, (small, large)


def test_a_whole_step_with_checkpoints_is_one_program():
    def run(compiled):
        rl.manual_seed(0)
        model = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.Tanh(), rl.nn.Linear(8, 1))
        optimizer = rl.optim.Adam(model.parameters(), lr=0.1)

        def step(x):
            loss = C.checkpoint(model, x, use_reentrant=False).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss
        call = rl.compile(step) if compiled else step
        out = [call(rl.ones(3, 4) * k).item() for k in range(4)]
        assert not compiled or not call.owner.stats.breaks
        return out
    assert np.allclose(run(True), run(False), rtol=1e-4)


@pytest.mark.parametrize("block,debug,logs", [(None, True, True), (True, False, True), (False, True, False),
                                              (None, False, False)])
def test_errors_of_checkpoints_list_operators_for_debugging(block, debug, logs):
    """For those asked to by ``debug``, or by a block around the call, which prevails."""
    def run(early, late):
        calls = []

        def function(x):
            calls.append(x)
            return (early if len(calls) == 1 else late)(x)

        with C.set_checkpoint_debug_enabled(block):
            out = C.checkpoint(function, rl.ones(1, requires_grad=True), use_reentrant=False, debug=debug)
        out.sum().backward()

    for early, late in ((lambda x: x.sin().exp(), lambda x: x.sin() * rl.tensor([1.0, 2.0])),
                        (lambda x: x.sin().exp().cos(), lambda x: x.sin())):
        with pytest.raises(C.CheckpointError) as caught:
            run(early, late)
        text = str(caught.value)
        assert ("You are seeing this error because you passed `debug=True` to checkpoint" in text) is logs
        assert (text.count("aten.sin.default") >= 2 and "aten.exp.default" in text) is logs
    run(lambda x: x.sin().exp(), lambda x: x.sin().exp())  # alike: no error


def test_debugging_of_checkpoints_takes_no_contexts():
    for t in (rl, torch):
        c = t.utils.checkpoint
        with pytest.raises(ValueError, match="incompatible with non-default context_fn"):
            c.checkpoint(lambda x: x.sin(), t.ones(1, requires_grad=True), use_reentrant=False, debug=True,
                         context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext()))
