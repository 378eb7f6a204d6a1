"""Norms without gradients are one program; with them they go operator by operator, and numbers are never mixed up."""
import pytest

import rushlight as rl
from rushlight._src.core.native.objects import PYTHON, RUN

F = rl.nn.functional


def kinds(op) -> set:
    return {plan.kind for plan in op.plans.values()}


def test_batch_norm_knows_its_numbers():
    x, ones = rl.arange(24.0).reshape(2, 3, 4), rl.ones(3)
    mean, var = rl.zeros(3), rl.ones(3)
    trained = F.batch_norm(x, mean, var, ones, ones, True, 0.5, 1e-5)
    assert mean.tolist() == pytest.approx([3.75, 5.75, 7.75])
    assert trained.mean().item() == pytest.approx(1, abs=1e-5)
    for eps in (1e-5, 0.5, 3.0):
        found = F.batch_norm(x, rl.zeros(3), rl.ones(3), None, None, False, 0.1, eps)
        rl.testing.assert_close(found, x / (1 + eps) ** 0.5)
    again = rl.zeros(3)
    F.batch_norm(x, again, rl.ones(3), ones, ones, True, 0.1)
    assert again.tolist() == pytest.approx([0.75, 1.15, 1.55])


def test_one_program_without_gradients():
    op = F.layer_norm
    op.plans.clear()
    x, w = rl.randn(4, 8), rl.ones(8)
    F.layer_norm(x, (8,), w, w)
    assert kinds(op) == {RUN}
    op.plans.clear()
    F.layer_norm(x.requires_grad_(), (8,), w, w)
    assert kinds(op) == {PYTHON}
    with rl.no_grad():
        F.layer_norm(x, (8,), w, w, 0.5)
    assert kinds(op) == {PYTHON, RUN}


def test_results_may_be_overwritten():
    x = rl.randn(2, 4, 4, requires_grad=True)
    F.layer_norm(x, (4,)).relu_().sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("call", [lambda: F.layer_norm(rl.ones(2, 3), (4,)), lambda: F.layer_norm(rl.ones(2), ()),
                                  lambda: F.group_norm(rl.ones(2, 3), 2)])
def test_errors_stay(call):
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Expected|Given"):
            call()


@pytest.mark.parametrize("weight", ["float64", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.filterwarnings("ignore")
def test_root_mean_squares_take_weights_of_any_dtype(dtype, weight):
    torch = pytest.importorskip("torch")
    found = []
    for t in (torch, rl):
        x = t.arange(8.0).reshape(2, 4).to(getattr(t, dtype)).requires_grad_()
        y = t.nn.functional.rms_norm(x, (4,), t.linspace(1, 2, 4).to(getattr(t, weight)))
        y.sum().backward()
        found.append((str(y.dtype), str(x.grad.dtype), y.tolist(), x.grad.tolist()))
    (kind, grad_kind, values, grads), ours = found
    assert ours[:2] == (kind, grad_kind)
    for a, b in zip(ours[2:], (values, grads)):
        rl.testing.assert_close(rl.tensor(a), rl.tensor(b), rtol=2e-3, atol=2e-3)
