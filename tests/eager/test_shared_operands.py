"""An operand of several matmuls of a program is packed once, and their results stay the same."""
import numpy as np
import pytest

import rushlight as torch

from ..whole import whole


def repeated(times, transposed=False, change=None):
    """A recurrence of matmuls with one matrix."""
    def body(h, w):
        for k in range(times):
            h = (h @ (w.t() if transposed else w)).tanh()
            if change and k == times // 2:
                change(w)
        return h
    return body


def operands(rows, size, dtype=torch.float32):
    torch.manual_seed(rows)
    return torch.randn(rows, size, dtype=dtype), torch.randn(size, size, dtype=dtype) / size ** 0.5


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows", [3, 5, 8, 12, 20, 27, 28, 40])
def test_a_recurrence_packs_its_matrix_once(rows, transposed):
    h, w = operands(rows, 70)
    operator = whole(repeated(6, transposed))
    operator(h, w)
    (plan,) = operator.plans.values()
    assert len(plan.code_owner.labels) <= 7, plan.code_owner.labels
    expected = h.double().numpy()
    for _ in range(6):
        expected = np.tanh(expected @ (w.double().numpy().T if transposed else w.double().numpy()))
    assert abs(operator(h, w).numpy() - expected).max() < 1e-5


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes(dtype):
    h, w = operands(20, 70, dtype)
    body = repeated(5)
    assert (whole(body)(h, w) - body(h, w)).abs().max() <= (0.05 if dtype is not torch.float64 else 1e-14)


def test_gradients_through_a_recurrence():
    found = []
    for make in (lambda body: body, whole):
        h, w = (x.requires_grad_() for x in operands(20, 70))
        make(repeated(6))(h, w).square().sum().backward()
        found.append((h.grad.numpy(), w.grad.numpy()))
    for ours, expected in zip(*found):
        assert abs(ours - expected).max() < 1e-4 * abs(expected).max()


def test_a_matrix_that_is_written_meanwhile():
    body = repeated(6, change=lambda w: w.mul_(0.5))
    h, w = operands(20, 70)
    again = w.clone()
    expected = body(h, again)
    assert (whole(body)(h, w) - expected).abs().max() < 1e-5 and (w - again).abs().max() == 0


def test_slices_of_one_matrix_are_different_operands():
    def body(x, w):
        across = [x @ w[:32, first:first + 32] for first in (0, 16, 32, 0, 16)]
        return (*across, *(x @ w[first:first + 32, :32].t() for first in (0, 32, 0)))

    x, w = torch.randn(20, 32), torch.randn(96, 96)
    for ours, expected in zip(whole(body)(x, w), body(x, w)):
        assert (ours - expected).abs().max() < 1e-5
