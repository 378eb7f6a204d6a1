"""Elementwise operations fused into the store of matmuls and convolutions: fewer steps, the same values."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F

from ..whole import whole


def linear_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b))


def linear_residual(x, w, b):
    return F.relu(x) + F.linear(F.relu(x), w, b) * 0.5


def activation_and_its_argument(x, w, b):
    y = F.linear(x, w, b)
    return torch.tanh(y), y


def batch_norm(x, k, mean, var, w, b):
    return F.relu(F.batch_norm(F.conv2d(x, k, None, 1, 1), mean, var, w, b) + x)


def two_products(x, w, b):
    return torch.sigmoid(x @ w) * (x @ w.T)


def scaled_by_a_tensor(x, w, b):
    return (x @ w) * b.sum() + x[:, :1]


def random(*shapes):
    torch.manual_seed(0)
    return tuple(torch.randn(*s) for s in shapes)


LAYER = (5, 24), (24, 24), (24,)
IMAGE = (2, 8, 9, 9), (8, 8, 3, 3), (8,), (8,), (8,), (8,)
CASES = {linear_gelu: (LAYER, 1), linear_residual: (LAYER, 2), activation_and_its_argument: (LAYER, 1),
         batch_norm: (IMAGE, 5),
         two_products: (LAYER, 2), scaled_by_a_tensor: (LAYER, 3)}


@pytest.mark.parametrize("body", CASES, ids=lambda f: f.__name__)
def test_what_follows_a_contraction_is_computed_with_it(body):
    shapes, most = CASES[body]
    values = random(*shapes)
    if body is batch_norm:
        values = (*values[:3], values[3].abs() + 0.5, *values[4:])
    operator = whole(body)
    expected, found = body(*values), operator(*values)
    for e, f in zip(*(r if isinstance(r, tuple) else (r,) for r in (expected, found))):
        np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=2e-5, atol=2e-5)
    plan, = operator.plans.values()
    assert len(plan.code_owner.labels) <= most, plan.code_owner.labels


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_gradients_through_tails(dtype):
    def body(x, w, b, mask):
        y = F.gelu(F.linear(x, w, b))
        return (torch.where(mask, F.linear(y, w.T) * 1.25, 0.0) + x).float().square().mean()

    x, w, b = (t.to(dtype) for t in random(*LAYER))
    mask = torch.arange(5 * 24).reshape(5, 24) % 3 > 0
    gradients = []
    for function in (body, whole(body)):
        given = [t.clone().requires_grad_() for t in (x, w, b)]
        function(*given, mask).backward()
        gradients.append([t.grad.float().numpy() for t in given])
    for expected, found in zip(*gradients):
        np.testing.assert_allclose(found, expected, rtol=5e-2 if dtype is torch.bfloat16 else 1e-4,
                                   atol=0.3 if dtype is torch.bfloat16 else 1e-6)


def test_a_sum_of_images_and_a_strided_gradient():
    def body(x, k, skip):
        return (F.relu(F.conv2d(x, k, None, 2, 1)) * skip).sum()

    x, k, skip = random((2, 6, 11, 11), (7, 6, 3, 3), (2, 7, 6, 6))
    gradients = []
    for function in (body, whole(body)):
        given = [t.clone().requires_grad_() for t in (x, k, skip)]
        function(*[given[0].sin(), *given[1:]]).backward()
        gradients.append([t.grad.numpy() for t in given])
    for expected, found in zip(*gradients):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [8, 3000])
def test_a_product_of_which_only_a_mask_is_kept(depth):
    a, b = torch.randn(20, depth), torch.randn(depth, 6)
    assert torch.equal(torch.compile(lambda a, b: a @ b > 0, fullgraph=True)(a, b), a @ b > 0)


@pytest.mark.parametrize("rows", [1, 5, 40, 130])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.int32])
def test_products_of_bytes_are_scaled_where_they_are_stored(rows, dtype):
    """Scales of rows and columns, zero point, bias, activation; and what becomes bytes again."""
    a, b = torch.randint(-128, 127, (rows, 72)).to(torch.int8), torch.randint(-128, 127, (72, 34)).to(torch.int8)
    of_rows, of_columns, bias, zero = torch.rand(rows, 1) / 300, torch.rand(34) / 300, torch.randn(34), torch.randint(
        -50, 50, (34,)).to(torch.int32)

    def body(a, b, of_rows, of_columns, bias, zero):
        sums = torch._int_mm(a, b) - zero
        if dtype is torch.int32:
            return torch.relu(sums)
        y = F.gelu(sums.to(torch.float32) * of_rows * of_columns + bias)
        return torch.clamp(torch.round(y * 9), -128, 127).to(dtype) if dtype is torch.int8 else y.to(dtype)

    operator = whole(body)
    expected, found = body(a, b, of_rows, of_columns, bias, zero), operator(a, b, of_rows, of_columns, bias, zero)
    assert found.dtype is dtype
    np.testing.assert_allclose(found.double().numpy(), expected.double().numpy(), rtol=1e-2 if dtype is torch.bfloat16
                               else 1e-5, atol=1 if dtype is torch.int8 else 1e-5)
    plan, = operator.plans.values()
    assert not any("nodes" in label for label in plan.code_owner.labels), plan.code_owner.labels


def test_a_number_for_each_row_of_rows_with_several_dimensions():
    def body(x, w, s):
        return F.relu(F.linear(x, w) * s)

    x, w, s = random((2, 7, 24), (16, 24), (2, 7, 1))
    operator = whole(body)
    np.testing.assert_allclose(operator(x, w, s).numpy(), body(x, w, s).numpy(), rtol=1e-5, atol=1e-5)
    plan, = operator.plans.values()
    assert not any("nodes" in label for label in plan.code_owner.labels), plan.code_owner.labels
