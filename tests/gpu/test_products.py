"""Matmuls and convolutions by the template of Triton, run by its interpreter: results and gradients of the CPU."""
import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.settings import settings
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


NONE = {"rows": ((0, 16), (16, 4)), "columns": ((4, 16), (16, 0)), "depth": ((4, 0), (0, 4)),
        "matrices": ((0, 4, 16), (0, 16, 4)), "rows of matrices": ((2, 0, 16), (2, 16, 4)),
        "depth of matrices": ((2, 4, 0), (2, 0, 4))}


@pytest.mark.parametrize("name", NONE)
@pytest.mark.parametrize("vendor", ["auto", "always"])
def test_products_without_elements(gpu, name, vendor):
    """Results and gradients are empty, or zeros where there is nothing to be added."""
    with settings.set(vendor=vendor):
        operands = [rl.ones(shape) for shape in NONE[name]]
        for found, wanted in zip(values(rl.matmul, operands, "cuda"), values(rl.matmul, operands, "cpu"), strict=True):
            assert found.shape == wanted.shape and (found == wanted).all()
    if name == "rows":
        assert rl.nn.functional.linear(rl.ones(0, 16, device="cuda"), rl.ones(8, 16, device="cuda")).shape == (0, 8)
