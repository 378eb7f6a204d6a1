"""Matmuls, convolutions and attention on WebGPU: results and gradients of the CPU, by templates of shaders."""
import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight._src.devices.shared.host import HostStep

CASES = {
    "small": (lambda a, b: a @ b, (5, 7), (7, 3)),
    "tiles": (lambda a, b: a @ b, (130, 70), (70, 100)),
    "batches": (lambda a, b: a @ b, (2, 3, 20, 33), (2, 3, 33, 50)),
    "broadcast": (lambda a, b: a @ b, (2, 3, 20, 33), (33, 50)),
    "vector": (lambda a, b: a @ b, (20, 33), (33,)),
    "epilogue": (lambda a, b, c: F.gelu(F.linear(a, b, c)), (64, 80), (96, 80), (96,)),
    "prologue": (lambda a, b: (a * 2 + 1).relu() @ b, (600, 500), (500, 40)),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(), (2, 3, 9, 9), (8, 3, 3, 3), (8,)),
    "groups": (lambda x, w: F.conv2d(x, w, stride=2, padding=2, dilation=2, groups=2), (2, 4, 13, 11), (6, 2, 3, 3)),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=4), (2, 4, 7, 6), (4, 1, 3, 3)),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1), (2, 4, 13), (6, 4, 3)),
    "conv3d": (lambda x, w: F.conv3d(x, w, padding=1), (2, 2, 5, 6, 7), (3, 2, 3, 2, 2)),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), (2, 4, 7, 6),
                   (4, 5, 3, 3)),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (2, 2, 9, 8), (2, 2, 9, 8),
                  (2, 2, 9, 8)),
}


def values(f, operands, where):
    """The result and the gradients of its sum of squares."""
    given = [x.detach().to(where).requires_grad_() for x in operands]
    result = f(*given)
    (result.float() ** 2).sum().backward()
    return [y.detach().cpu().double().numpy() for y in (result, *(x.grad for x in given))]


def compared(name, dtype, tolerance):
    f, *shapes = CASES[name]
    rl.manual_seed(0)
    operands, before = [rl.randn(*shape).to(dtype) for shape in shapes], sum(HostStep.runs.values())
    for found, wanted in zip(values(f, operands, "webgpu"), values(f, operands, "cpu")):
        assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()
    assert sum(HostStep.runs.values()) == before


@pytest.mark.parametrize("name", CASES)
def test_float32(name):
    compared(name, rl.float32, 1e-5)


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16, rl.float64])
@pytest.mark.parametrize("name", ["small", "epilogue", "conv2d"])
def test_other_floats(name, dtype):
    compared(name, dtype, 1e-12 if dtype is rl.float64 else 2e-2)


def test_bytes():
    a, b = rl.randint(-128, 128, (9, 20), dtype=rl.int8), rl.randint(-128, 128, (20, 5), dtype=rl.int8)
    if hasattr(rl, "_int_mm"):
        assert rl._int_mm(a.to("webgpu"), b.to("webgpu")).tolist() == rl._int_mm(a, b).tolist()


def test_compiled():
    f, *shapes = CASES["epilogue"]
    x = [rl.randn(*shape) for shape in shapes]
    rl.testing.assert_close(rl.compile(f)(*(a.to("webgpu") for a in x)).cpu(), f(*x), rtol=1e-4, atol=1e-4)
