"""Products of whole numbers."""

import numpy as np
import pytest

import rushlight


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("rows, columns, depth", [(17, 8, 16), (40, 33, 70), (1, 5, 300), (3, 4, 0)])
def test_int_mm_is_exact(rows, columns, depth, dtype):
    generator, limits = np.random.default_rng(0), np.iinfo(dtype)
    a = generator.integers(limits.min, limits.max, (rows, depth), dtype, endpoint=True)
    b = generator.integers(-128, 128, (columns, depth), np.int8)
    got = rushlight._int_mm(rushlight.tensor(a), rushlight.tensor(b).t())
    assert got.dtype is rushlight.int32
    np.testing.assert_array_equal(got.numpy(), a.astype(np.int32) @ b.T.astype(np.int32))


def test_int_mm_runs_by_template(caplog):
    with caplog.at_level("DEBUG", "rushlight.kernels"):
        rushlight._int_mm(rushlight.ones(19, 24, dtype=rushlight.int8), rushlight.ones(24, 16, dtype=rushlight.int8))
    assert "prims.int_matmul by template" in caplog.text


def test_int_mm_mapped():
    a, b = rushlight.randint(-9, 9, (3, 4, 5)).to(rushlight.int8), rushlight.randint(-9, 9, (5, 6)).to(rushlight.int8)
    got = rushlight.func.vmap(rushlight._int_mm, (0, None))(a, b)
    assert got.tolist() == [rushlight._int_mm(x, b).tolist() for x in a]


@pytest.mark.parametrize("a, b, text", [
    (rushlight.ones(2, 3), rushlight.ones(3, 2), "int8"),
    (rushlight.ones(2, 3, dtype=rushlight.int8), rushlight.ones(3, 2, dtype=rushlight.uint8), "int8"),
    (rushlight.ones(2, 3, dtype=rushlight.int8), rushlight.ones(2, 2, dtype=rushlight.int8), "2x3 and 2x2"),
    (rushlight.ones(3, dtype=rushlight.int8), rushlight.ones(3, 2, dtype=rushlight.int8), "1-D and 2-D")])
def test_int_mm_refuses(a, b, text):
    with pytest.raises(RuntimeError, match=text):
        rushlight._int_mm(a, b)
