"""Matmuls with int4 weights, against torch: packed layout, values, odd sizes, gradients, and refused arguments."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from ..startup.machine_code import search_path  # noqa: E402

pytestmark = pytest.mark.processor

LIMITS = {"float32": 2e-6, "bfloat16": 5e-3, "float16": 6e-4}


def given(rows, columns, depth, group, dtype, f, seed=0):
    """Operands for a library: x, int4 weights, scales and zero points."""
    random = np.random.default_rng(seed + rows + columns)
    x, s = random.normal(size=(rows, depth)), np.stack([random.uniform(0.01, 0.1, (depth // group, columns)),
                                                        random.normal(size=(depth // group, columns))], 2)
    q = random.integers(0, 16, (columns, depth), dtype=np.int32)
    return f.from_numpy(x).to(getattr(f, dtype)), f.from_numpy(q), f.from_numpy(s).to(getattr(f, dtype))


def exactly(x, q, s, group):
    """The product in float64, and what it would be if all terms had one sign."""
    x, q, s = x.double().numpy(), q.double().numpy(), s.double().numpy()
    w = (q - 8) * np.repeat(s[:, :, 0], group, 0).T + np.repeat(s[:, :, 1], group, 0).T
    return x @ w.T, abs(x) @ abs(w).T


def check(rows, columns, depth, group, dtype, calls):
    x, q, s = given(rows, columns, depth, group, dtype, rushlight)
    packed = rushlight._convert_weight_to_int4pack_for_cpu(q, 2)
    expected, _ = exactly(x, q, s, group)
    for call in calls:
        out = call(x, packed, group, s)
        assert out.dtype is x.dtype and out.shape == expected.shape
        assert abs(out.double().numpy() - expected).max(initial=0) <= LIMITS[dtype] * max(abs(expected).max(initial=0),
                                                                                          1e-6)


SIZES = [(1, 64, 128, 32), (1, 16, 32, 32), (2, 80, 256, 64), (3, 48, 512, 128), (5, 112, 512, 256), (16, 192, 96, 32),
         (17, 128, 288, 32), (50, 144, 768, 256), (1, 208, 256, 128), (2, 192, 512, 256),
         (0, 64, 64, 32), (1, 0, 64, 32), (3, 64, 0, 32)]


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("rows, columns, depth, group", SIZES)
def test_products(rows, columns, depth, group, dtype):
    check(rows, columns, depth, group, dtype, (rushlight._weight_int4pack_mm_for_cpu, rushlight._weight_int4pack_mm,
                                               rushlight.compile(rushlight._weight_int4pack_mm_for_cpu)))


@pytest.mark.parametrize("rows", [1, 2])
def test_large_elements_leave_small_ones_their_digits(rows):
    x, q, s = given(rows, 64, 128, 64, "bfloat16", rushlight)
    x[:, 5], x[:, 70] = 3e4, -2e4
    s[:, :, 1] = 0
    q[:, 5] = q[:, 70] = 8  # their weights are zero
    out = rushlight._weight_int4pack_mm_for_cpu(x, rushlight._convert_weight_to_int4pack_for_cpu(q, 2), 64, s)
    expected, _ = exactly(x, q, s, 64)
    assert abs(out.double().numpy() - expected).max() <= 8e-3 * abs(expected).max()


@pytest.mark.parametrize("columns, depth", [(64, 2), (16, 6), (48, 32), (128, 10), (176, 8), (0, 4), (64, 0)])
def test_layout(columns, depth):
    q = np.random.default_rng(columns).integers(0, 16, (columns, depth), dtype=np.int32)
    packed = rushlight._convert_weight_to_int4pack_for_cpu(rushlight.from_numpy(q), 2)
    assert packed.dtype is rushlight.uint8 and packed.shape == (columns, depth // 2)
    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        assert (packed.numpy() == torch._convert_weight_to_int4pack_for_cpu(torch.from_numpy(q), 2).numpy()).all()
    turned = rushlight.from_numpy(np.ascontiguousarray(q.T)).T
    assert (rushlight._convert_weight_to_int4pack_for_cpu(turned, 2).numpy() == packed.numpy()).all()


@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="torch packs otherwise there")
@pytest.mark.parametrize("dtype", LIMITS)
def test_as_exact_as_torch(dtype):
    x, q, s = given(2, 192, 1024, 128, dtype, rushlight)
    tx, tq, ts = given(2, 192, 1024, 128, dtype, torch)
    expected, _ = exactly(x, q, s, 128)
    ours = rushlight._weight_int4pack_mm_for_cpu(x, rushlight._convert_weight_to_int4pack_for_cpu(q, 2), 128, s)
    theirs = torch._weight_int4pack_mm_for_cpu(tx, torch._convert_weight_to_int4pack_for_cpu(tq, 2), 128, ts)
    assert abs(ours.double().numpy() - expected).max() <= 1.2 * abs(theirs.double().numpy()
                                                                    - expected).max() + 1e-6 * abs(expected).max()


@pytest.mark.parametrize("rows", [1, 20])
def test_strided_operands(rows):
    x, q, s = given(rows, 80, 128, 64, "bfloat16", rushlight)
    packed = rushlight._convert_weight_to_int4pack_for_cpu(q, 2)
    call = rushlight._weight_int4pack_mm_for_cpu
    strided = rushlight.stack([x, -x], 2)[:, :, 0], rushlight.stack([packed, packed + 1],
                                                                    2)[:, :, 0], 64, s.transpose(
                                                                        0, 1).contiguous().transpose(0, 1)
    assert (call(*strided) == call(x, packed, 64, s)).all()


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("rows", [1, 3, 18])
def test_nan_stays_in_its_row(rows, dtype):
    x, q, s = given(rows, 80, 128, 64, dtype, rushlight)
    x[0, 70] = float("nan")
    out = rushlight._weight_int4pack_mm_for_cpu(x, rushlight._convert_weight_to_int4pack_for_cpu(q, 2), 64, s)
    assert out[0].isnan().all() and not out[1:].isnan().any()
    x[0, 70] = float("inf")
    out = rushlight._weight_int4pack_mm_for_cpu(x, rushlight._convert_weight_to_int4pack_for_cpu(q, 2), 64, s)
    assert not out[0].isfinite().any() and out[1:].isfinite().all()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("columns", [64, 16, 80])
def test_gradient_of_the_input(columns, compiled):
    x, q, s = given(3, columns, 128, 32, "float32", rushlight)
    packed = rushlight._convert_weight_to_int4pack_for_cpu(q, 2)
    call = rushlight.compile(
        rushlight._weight_int4pack_mm_for_cpu) if compiled else rushlight._weight_int4pack_mm_for_cpu
    x.requires_grad_()
    call(x, packed, 32, s).sum().backward()
    expected, _ = exactly(rushlight.eye(128), q, s, 32)
    assert abs(x.grad.numpy() - expected.sum(1)).max() <= 1e-5 * abs(expected.sum(1)).max()


def test_many_samples():
    x, q, s = given(6, 80, 64, 32, "float32", rushlight)
    packed = rushlight._convert_weight_to_int4pack_for_cpu(q, 2)
    call = lambda x: rushlight._weight_int4pack_mm_for_cpu(x, packed, 32, s)
    assert rushlight.allclose(rushlight.vmap(call)(x.reshape(3, 2, 64)).reshape(6, 80), call(x), atol=1e-5)


WRONG = {"three dimensions": lambda f, x, w, g, s: (x[None], w, g, s),
         "depth": lambda f, x, w, g, s: (x, w[:, :32], g, s), "group": lambda f, x, w, g, s: (x, w, 16, s),
         "signed": lambda f, x, w, g, s: (x, w.to(f.int8), g, s), "scales": lambda f, x, w, g, s: (x, w, g, s[:, :, 0]),
         "mixed": lambda f, x, w, g, s: (x, w, g, s.to(f.bfloat16)),
         "doubles": lambda f, x, w, g, s: (x.double(), w, g, s.double())}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    for f in (rushlight, torch):
        x, q, s = given(3, 64, 128, 64, "float32", f)
        with pytest.raises(RuntimeError):
            f._weight_int4pack_mm_for_cpu(*WRONG[name](f, x, f._convert_weight_to_int4pack_for_cpu(q, 2), 64, s))


def test_scales_of_other_groups_are_refused():
    x, q, s = given(3, 64, 128, 64, "float32", rushlight)
    with pytest.raises(RuntimeError, match="qScaleAndZeros"):
        rushlight._weight_int4pack_mm_for_cpu(x, rushlight._convert_weight_to_int4pack_for_cpu(q, 2), 32, s)


@pytest.mark.parametrize("q", [lambda f: f.zeros(64, 32, dtype=f.uint8), lambda f: f.zeros(64, dtype=f.int32),
                               lambda f: f.zeros(50, 32, dtype=f.int32)])
def test_weights_that_are_refused(q):
    for f in (rushlight, torch):
        with pytest.raises(RuntimeError):
            f._convert_weight_to_int4pack_for_cpu(q(f), 2)


LEVELS = """
from tests.ops.test_nibbles import check, rushlight
for sizes in ((1, 80, 64, 32), (6, 144, 128, 64), (18, 64, 288, 32)):
    for dtype in ("float32", "bfloat16", "float16"):
        check(*sizes, dtype, (rushlight._weight_int4pack_mm_for_cpu,))
"""


@pytest.mark.long
@pytest.mark.parametrize("level", ["generic", "avx2", "avx512", "amx-model"])
def test_on_lesser_processors(level):
    root = pathlib.Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", LEVELS], cwd=root,
                   env={**os.environ, "RUSHLIGHT_CPU": level, "PYTHONPATH": search_path(root)}, check=True)
