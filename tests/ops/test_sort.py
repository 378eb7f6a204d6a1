"""Sorting and selection beside torch: order of equal elements, NaN, zeros of both signs, every dtype."""
import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

DTYPES = ["float32", "float64", "bfloat16", "float16", "int64", "int32", "int8", "uint8", "bool"]
SHAPES = [((5, 30), 1), ((30, 5), 0), ((4, 7, 9), 1), ((1,), 0), ((3, 0), 1), ((6, 1), 1)]


def both(shape, dtype):
    """The same elements under both libraries, with ties and unusual values."""
    a = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float64) / (1 if "int" in dtype else 4)
    if dtype.startswith(("float", "bfloat")) and a.size > 8:
        a.reshape(-1)[::5], a.reshape(-1)[1::6], a.reshape(-1)[2::6] = np.nan, 0.0, -0.0
    a = abs(a) if dtype == "uint8" else a
    return rl.tensor(a).to(getattr(rl, dtype)), torch.tensor(a).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape,dim", SHAPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(shape, dim, dtype, descending):
    ours, theirs = both(shape, dtype)
    x, y = ours.sort(dim, descending=descending), theirs.sort(dim=dim, descending=descending, stable=True)
    np.testing.assert_array_equal(x.values.double().numpy(), y.values.double().numpy())
    np.testing.assert_array_equal(x.indices.numpy(), y.indices.numpy())


@pytest.mark.parametrize("dtype", DTYPES[:-1])
@pytest.mark.parametrize("shape,dim", SHAPES)
@pytest.mark.parametrize("largest", [False, True])
def test_topk_values_and_where_they_are(shape, dim, dtype, largest):
    ours, theirs = both(shape, dtype)
    for k in sorted({0, min(1, shape[dim]), shape[dim] // 2, shape[dim]}):
        x, y = ours.topk(k, dim, largest=largest), theirs.topk(k, dim, largest=largest)
        np.testing.assert_array_equal(x.values.double().numpy(), y.values.double().numpy())
        if k:
            np.testing.assert_array_equal(ours.gather(dim, x.indices).double().numpy(), x.values.double().numpy())


def test_gradient_of_topk_goes_to_the_chosen():
    x = rl.tensor([[1.0, 5.0, 3.0], [2.0, 0.0, 9.0]], requires_grad=True)
    x.topk(2, 1).values.sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]


@pytest.mark.parametrize("keepdim", [False, True])
def test_medians_with_unknown_numbers_beside_torch(keepdim):
    a = np.array([[3.0, np.nan, 1.0, np.nan], [4.0, 1.0, 3.0, 2.0], [np.nan] * 4])
    ours, theirs = rl.tensor(a).median(1, keepdim), torch.tensor(a).median(1, keepdim)
    np.testing.assert_array_equal(ours.values.numpy(), theirs.values.numpy())
    np.testing.assert_array_equal(ours.indices.numpy(), theirs.indices.numpy())


@pytest.mark.parametrize("name", ["median", "mode"])
def test_selections_map_with_their_gradients(name):
    x = rl.randn(3, 5, 4, dtype=rl.float64)
    slope = rl.func.grad(lambda v: (getattr(v, name)(0).values ** 2).sum())
    np.testing.assert_allclose(rl.func.vmap(slope)(x).numpy(), np.stack([slope(v).numpy() for v in x]))
