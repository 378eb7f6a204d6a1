"""Matmuls with int8 weights, against torch, and how few rows compute them: as they are read."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from ..whole import whole  # noqa: E402

LIMITS = {"float32": 1e-6, "bfloat16": 1e-2, "float16": 2e-3}


def operands(rows, columns, depth, dtype):
    random = np.random.default_rng(rows + columns)
    x, s = random.normal(size=(rows, depth)).astype(np.float32), random.uniform(0.01, 0.1, columns).astype(np.float32)
    w = random.integers(-128, 128, (columns, depth), dtype=np.int8)
    return [(f.from_numpy(x).to(getattr(f, dtype)), f.from_numpy(w), f.from_numpy(s).to(getattr(f, dtype)))
            for f in (rushlight, torch)]


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("rows, columns, depth", [(1, 48, 64), (1, 1600, 768), (3, 50, 70), (7, 3, 1), (40, 130, 96),
                                                  (1, 9, 0), (0, 9, 4), (17, 1100, 1000)])
def test_bytes_with_scales(dtype, rows, columns, depth):
    (x, w, s), (tx, tw, ts) = operands(rows, columns, depth, dtype)
    expected = (tx.double() @ tw.double().T * ts.double()).numpy()
    limit = LIMITS[dtype] * max(abs(expected).max(initial=0), 1e-6)
    for call in (rushlight._weight_int8pack_mm, rushlight.compile(rushlight._weight_int8pack_mm)):
        out = call(x, w, s)
        assert out.dtype is x.dtype
        assert abs(out.double().numpy() - expected).max(initial=0) <= limit
    if 0 not in (rows, depth) and depth % 16 == 0:
        theirs = abs(torch._weight_int8pack_mm(tx, tw, ts).double().numpy() - expected).max()
        assert abs(out.double().numpy() - expected).max() <= 1.01 * theirs + 1e-6 * abs(expected).max()


WRONG = {"three dimensions": lambda f, x, w, s: (x[None], w, s), "depth": lambda f, x, w, s: (x, w[:, :32], s),
         "count": lambda f, x, w, s: (x, w, s[:4]),
         "unsigned": lambda f, x, w, s: (x, w.to(f.uint8), s), "mixed": lambda f, x, w, s: (x, w, s.to(f.bfloat16)),
         "doubles": lambda f, x, w, s: (x.double(), w, s.double())}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    for f, given in zip((rushlight, torch), operands(3, 8, 64, "float32")):
        with pytest.raises(RuntimeError):
            f._weight_int8pack_mm(*WRONG[name](f, *given))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("rows", [1, 5])
def test_a_cast_of_weights_is_not_written(dtype, rows):
    (x, w, s), (tx, tw, ts) = operands(rows, 1600, 768, dtype)
    operator = whole(lambda x, w, s: rushlight.nn.functional.linear(x, w.to(x.dtype)) * s)
    out = operator(x, w, s)
    (plan,) = operator.plans.values()
    assert len(plan.code_owner.labels) == 1, plan.code_owner.labels
    expected = (tx.double() @ tw.double().T * ts.double()).numpy()
    assert abs(out.double().numpy() - expected).max() <= LIMITS[dtype] * abs(expected).max()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8"])
@pytest.mark.parametrize("depth", [40, 64, 100, 129, 800, 5000])
def test_one_row_of_every_length(dtype, depth):
    random = np.random.default_rng(depth)
    x, w = random.normal(size=(1, depth)).astype(np.float32), random.integers(-50, 50, (37, depth)).astype(np.float32)
    rows = rushlight.tensor(x).to(rushlight.float32 if dtype == "int8" else getattr(rushlight, dtype))
    weights = rushlight.tensor(w).to(getattr(rushlight, dtype))
    expected = rows.double().numpy() @ w.T.astype(np.float64)
    out = whole(lambda x, w: rushlight.nn.functional.linear(x, w.to(x.dtype)))(rows, weights)
    assert abs(out.double().numpy()
               - expected).max() <= {"float64": 1e-13}.get(dtype, LIMITS.get(dtype, 1e-6)) * abs(expected).max()
