"""Tile registers: the model against exact sums, and against the processor's own bit for bit where it has them."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from rushlight._src.core.llvm.loaded import callable_at
from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.features import host
from rushlight._src.devices.cpu.llvm.tiles import configured, tiles_of
from rushlight._src.devices.cpu.llvm.types import ptr

pytestmark = pytest.mark.processor

KINDS = ["bf16ps", "bssd", "bsud", "busd", "buud"]
# bfloat16: zeros, denormal, infinite, NaN, least, one, largest
KNOWN = [0x0000, 0x8000, 0x0001, 0x807F, 0x7F80, 0xFF80, 0x7FC1, 0x0080, 0x3F80, 0x7F7F]


def product(kind, tiles):
    """A function that adds a product to sums: three addresses, of sums, rows and columns."""
    def text():
        module = Module(replace(host(), tiles=tiles))
        f = module.function("product", [("sums", ptr), ("rows", ptr), ("columns", ptr)])

        def body():
            registers = tiles_of(f)
            for tile, pointer in zip((0, 4, 7), f.parameters):
                registers.load(tile, pointer, 64)
            registers.zero(1)
            registers.multiply_add(kind, 1, 4, 7)
            registers.multiply_add(kind, 0, 4, 7)
            registers.store(0, f.parameters[0], 64)
            registers.store(1, f.parameters[1], 64)

        configured(f, body)
        f.ret()
        return module.text()

    source = text()
    return callable_at(jit.build(source, lambda: source, ["product"])["product"],
                       ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3))


def run(kind, tiles, *operands):
    """What is left of copies of the three operands."""
    arrays = [array.copy() for array in operands]
    product(kind, tiles)(*(array.ctypes.data for array in arrays))
    return arrays


def operands(kind, seed):
    """Random accumulators, rows and columns as words; bfloat16 values include special numbers."""
    generator = np.random.default_rng(seed)
    words = [generator.integers(0, 1 << 32, (16, 16), np.uint32) for _ in range(3)]
    if kind == "bf16ps":
        floats = [generator.standard_normal((16, 16 if k == 0 else 32)).astype(np.float32)
                  * np.float32(2.0 ** generator.integers(-70, 60)) for k in range(3)]
        halves = [(array.view(np.uint32) >> 16).astype(np.uint16) for array in floats[1:]]
        for array in halves:
            rare = generator.random(array.shape) < 0.02 * (seed % 3)
            array[rare] = generator.choice(KNOWN, rare.sum())
        words = [floats[0].view(np.uint32), *(array.view(np.uint32) for array in halves)]
    return words


@pytest.mark.parametrize("kind", KINDS[1:])
def test_sums_of_bytes_are_exact(kind):
    sums, rows, columns = operands(kind, 1)
    left = rows.view(np.int8 if kind[1] == "s" else np.uint8).reshape(16, 64).astype(np.int64)
    right = columns.view(np.int8 if kind[2] == "s" else np.uint8).reshape(16, 16, 4).astype(np.int64)
    wanted = left @ right.transpose(0, 2, 1).reshape(64, 16)
    both, alone, _ = run(kind, "model", sums, rows, columns)
    assert (alone.view(np.int32) == wanted.astype(np.int32)).all()
    assert (both == sums + wanted.astype(np.uint32)).all()


def test_sums_of_bfloats():
    sums, rows, columns = operands("bf16ps", 0)
    wide = [((array.view(np.uint16).astype(np.uint32)) << 16).view(np.float32).astype(np.float64)
            for array in (rows, columns)]
    left, right = wide[0].reshape(16, 32), wide[1].reshape(16, 16, 2).transpose(0, 2, 1).reshape(32, 16)
    wanted, scale = left @ right, abs(left) @ abs(right)
    _, alone, _ = run("bf16ps", "model", sums, rows, columns)
    assert (abs(alone.view(np.float32) - wanted) <= 1e-5 * scale).all()


@pytest.mark.skipif(host().tiles != "amx", reason="this processor has no tile registers")
@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_the_processor_bit_for_bit(kind):
    for seed in range(60):
        given = operands(kind, seed)
        for model, processor in zip(run(kind, "model", *given), run(kind, "amx", *given)):
            if kind == "bf16ps":  # NaNs are NaNs, whichever
                model, processor = (np.where(np.isnan(x.view(np.float32)), np.uint32(1), x) for x in (model, processor))
            assert (model == processor).all(), seed
