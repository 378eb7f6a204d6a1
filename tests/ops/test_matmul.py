"""Integer matmuls."""

import numpy as np
import pytest
import torch

import rushlight
from rushlight._src.devices.cpu.llvm.features import level, targeting
from rushlight._src.devices.cpu.templates.contraction import numbers

pytestmark = pytest.mark.processor


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("rows, columns, depth", [(17, 8, 16), (40, 33, 70), (1, 5, 300), (3, 4, 0)])
def test_int_mm_is_exact(rows, columns, depth, dtype):
    generator, limits = np.random.default_rng(0), np.iinfo(dtype)
    a = generator.integers(limits.min, limits.max, (rows, depth), dtype, endpoint=True)
    b = generator.integers(-128, 128, (columns, depth), np.int8)
    got = rushlight._int_mm(rushlight.tensor(a), rushlight.tensor(b).t())
    assert got.dtype is rushlight.int32
    np.testing.assert_array_equal(got.numpy(), a.astype(np.int32) @ b.T.astype(np.int32))


LAYOUTS = ("rows", "transposed", "every second", "a part")


def laid_out(values, layout):
    """An array's numbers in a larger array, by such strides."""
    rows, columns = values.shape
    larger = np.full((columns + 3, rows + 5) if layout == "transposed" else (rows + 2, 2 * columns + 3), 77,
                     values.dtype)
    part = {"rows": larger[:rows, :columns].copy(), "transposed": larger.T[:rows, :columns],
            "every second": larger[:rows, :2 * columns:2], "a part": larger[1:1 + rows, 3:3 + columns]}[layout]
    part[...] = values
    return part


def int_mm(library, a, b):
    return library._int_mm(*(library.from_numpy(x) for x in (a, b))).numpy()


@pytest.mark.parametrize("layouts", [*zip(LAYOUTS, LAYOUTS), *zip(LAYOUTS, LAYOUTS[1:]), *zip(LAYOUTS[1:], LAYOUTS)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_int_mm_of_any_strides(dtype, layouts):
    generator, limits = np.random.default_rng(0), np.iinfo(dtype)
    for rows, depth, columns in [(1, 1, 1), (5, 1, 7), (17, 3, 33), (1, 64, 48), (33, 67, 129), (64, 128, 64),
                                 (0, 4, 3), (3, 4, 0), (3, 0, 4), (2, 130, 1)]:
        a = generator.integers(limits.min, limits.max, (rows, depth), dtype, endpoint=True)
        b = generator.integers(-64, 64, (depth, columns), np.int8)  # of larger ones some CPUs' sums saturate in torch
        given = [laid_out(x, layout) for x, layout in zip((a, b), layouts)]
        found = int_mm(rushlight, *given)
        np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))
        np.testing.assert_array_equal(found, int_mm(torch, *given))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("rows, depth, columns", [(1, 65793, 5), (3, 65793, 40), (40, 4099, 33), (5, 100003, 3)])
def test_int_mm_of_extreme_numbers(rows, depth, columns, dtype):
    """65793 is the largest depth at which sums of 255 times -128 are an int32; beyond, they wrap."""
    limits = np.iinfo(dtype)
    for left, right in [(limits.max, -128), (limits.min, -128), (limits.max, 127), (limits.min, 127)]:
        a, b = np.full((rows, depth), left, dtype), np.full((depth, columns), right, np.int8)
        wanted = np.full((rows, columns), int(left) * right * depth, np.int64).astype(np.int32)
        np.testing.assert_array_equal(int_mm(rushlight, a, b), wanted)


def test_int_mm_runs_by_template(caplog):
    with caplog.at_level("DEBUG", "rushlight.kernels"):
        rushlight._int_mm(rushlight.ones(19, 24, dtype=rushlight.int8), rushlight.ones(24, 16, dtype=rushlight.int8))
    assert "prims.int_matmul by template" in caplog.text


def test_vnni_multiplies_unsigned_rows_as_they_are():
    """Its instruction takes an unsigned operand first; signed rows are flipped and corrected."""
    with targeting(level("x86-64-vnni")):
        unsigned, signed = (numbers(dtype, "int8") for dtype in ("uint8", "int8"))
    assert unsigned.dot == signed.dot and unsigned.dot.intrinsic == "llvm.x86.avx512.vpdpbusd.512"
    assert signed.flips and not unsigned.flips and unsigned.per_word == 4


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
