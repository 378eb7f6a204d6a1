"""Rows put in order by native kernels: every dtype, lengths around each way of sorting, what is equal, and what is no
number."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
LENGTHS = [1, 2, 7, 31, 128, 129, 300, 1000]


def rows(dtype, size, seed=0):
    """Two rows of this dtype with equal elements; floats with zeros of both signs, infinities and NaN."""
    draw = np.random.default_rng(seed)
    if dtype.startswith(("float", "bfloat")):
        x = draw.standard_normal((2, size)).astype(np.float32).round(2)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
        x[:, :size // 2] = draw.choice(special, (2, size // 2)) * draw.choice([1, -1], (2, size // 2))
        return draw.permuted(x, axis=1)
    low, high = (0, 2) if dtype == "bool" else (0, 200) if dtype == "uint8" else (-100, 100)
    return draw.integers(low, high, (2, size))


def both(x, dtype):
    return [lib.tensor(x).to(getattr(lib, dtype)) for lib in (rushlight, torch)]


def agree(ours, theirs):
    """The same elements and the same places."""
    assert np.array_equal(ours[0].double().numpy(), theirs[0].double().numpy(), equal_nan=True)
    assert np.array_equal(ours[1].numpy(), theirs[1].numpy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", LENGTHS)
def test_sort_is_stable(dtype, size):
    ours, theirs = both(rows(dtype, size), dtype)
    for descending in (False, True):
        agree(ours.sort(-1, descending), theirs.sort(dim=-1, descending=descending, stable=True))
    agree(ours.t().sort(0), theirs.t().sort(dim=0, stable=True))


@pytest.mark.parametrize("spread", [10, 1 << 31, 1 << 40, (1 << 63) - 1])
def test_wide_integers(spread):
    x = np.random.default_rng(0).integers(-spread - 1, spread, (3, 500))
    x[:, :3] = x[:, 100:103]
    for descending in (False, True):
        agree(rushlight.tensor(x).sort(-1, descending),
              torch.tensor(x).sort(dim=-1, descending=descending, stable=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size,k", [(5, 2), (200, 1), (1000, 3), (1000, 60), (1000, 400), (4000, 129)])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_is_the_beginning_of_a_stable_order(dtype, size, k, largest):
    ours, theirs = both(rows(dtype, size, seed=k), dtype)
    values, places = theirs.sort(dim=-1, descending=largest, stable=True)
    agree(ours.topk(k, largest=largest), (values[:, :k], places[:, :k]))


@pytest.mark.parametrize("order", ["up", "down", "same"])
def test_limits_that_fall_with_every_element(order):
    """Ordered rows: the held elements are thinned out again and again."""
    x = np.arange(3000, dtype=np.float32)
    x = {"up": x, "down": x[::-1].copy(), "same": x * 0}[order]
    agree(rushlight.tensor(x).topk(7), tuple(t[:7] for t in torch.tensor(x).sort(descending=True, stable=True)))


@pytest.mark.parametrize("size", [1, 2, 9, 500])
def test_kth_median_and_mode(size):
    x = rows("float32", size)
    x[0] = np.where(np.isfinite(x[0]), x[0], 1.0)
    ours, theirs = both(x, "float32")
    for k in {1, size // 2 + 1, size}:
        assert np.array_equal(ours.kthvalue(k)[0].numpy(), theirs.kthvalue(k)[0].numpy(), equal_nan=True)
    for call in (lambda t: t.median(-1), lambda t: t.t().median(0, keepdim=True)):
        (values, places), (wanted, _) = call(ours), call(theirs)
        assert np.array_equal(values.numpy(), wanted.numpy(), equal_nan=True)
        dim, flat = (1, ours) if values.dim() == 1 else (0, ours.t())
        found = flat.take_along_dim(places.unsqueeze(dim) if values.dim() == 1 else places, dim)
        assert np.array_equal(found.reshape(-1).numpy(), wanted.reshape(-1).numpy(), equal_nan=True)


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
@pytest.mark.parametrize("size", [1, 2, 9, 500])
def test_mode_and_its_last_place(dtype, size):
    x = rows("int64", size) % 7
    ours, theirs = both(x, dtype)
    (values, places), (wanted, _) = ours.mode(-1), theirs.mode(-1)
    assert np.array_equal(values.numpy(), wanted.numpy())
    last = [np.flatnonzero(row == value)[-1] for row, value in zip(theirs.numpy(), wanted.numpy())]
    assert places.tolist() == last


def test_gradients_reach_the_places():
    x = np.random.default_rng(0).standard_normal((4, 50))
    for call in (lambda t: t.sort(-1)[0] ** 2, lambda t: t.topk(3, 0)[0] ** 2, lambda t: t.kthvalue(20)[0],
                 lambda t: t.median(0)[0], lambda t: t.mode(1)[0]):
        slopes = []
        for lib in (rushlight, torch):
            leaf = lib.tensor(x, requires_grad=True)
            (call(leaf) * 3).sum().backward()
            slopes.append(leaf.grad.numpy())
        np.testing.assert_allclose(*slopes)


def test_no_step_runs_by_numpy():
    from rushlight._src.core.log import logger

    log, seen = logger("kernels"), []
    handler = type("Seen", (__import__("logging").Handler,),
                   {"emit": lambda self, record: seen.append(record.getMessage())})()
    log.addHandler(handler)
    log.setLevel(10)
    try:
        x = rushlight.randn(3, 77)
        x.sort(0), x.topk(5), x.median(-1), x.kthvalue(2, 0), x.cummax(1), x.mode(0)
    finally:
        log.removeHandler(handler)
        log.setLevel(0)
    assert not [m for m in seen if "by NumPy" in m]
