"""Products and convolutions by the template of Triton, run by its interpreter: results and gradients of the
processor."""
import numpy as np
import pytest

import rushlight as rl
from rushlight._src.devices.shared.host import HostStep

from ..webgpu.test_products import CASES, values

FEW = {"small", "batches", "broadcast", "vector", "epilogue", "conv2d", "groups", "transposed"}


def compared(name, dtype, tolerance):
    f, *shapes = CASES[name]
    rl.manual_seed(0)
    operands = [rl.randn(*shape).to(dtype) for shape in shapes]
    for found, wanted in zip(values(f, operands, "cuda"), values(f, operands, "cpu")):
        assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("name", [name if name in FEW else pytest.param(name, marks=pytest.mark.long)
                                  for name in CASES])
def test_float32(gpu, name):
    compared(name, rl.float32, 1e-5)


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16, rl.float64])
def test_other_floats(gpu, dtype):
    compared("epilogue", dtype, 1e-12 if dtype is rl.float64 else 2e-2)


def test_products_are_templates(gpu):
    before = sum(HostStep.runs.values())
    compared("small", rl.float32, 1e-5)
    assert sum(HostStep.runs.values()) == before
