"""Operands of matmuls that are computed while they are packed: layouts, broadcasts, dtypes, blocks, batches, threads.
"""

import numpy as np
import pytest

from rushlight._src.devices.cpu.llvm import pool
from rushlight._src.compiler.target import leaf
from rushlight._src.devices.cpu.templates.expression import expression_prologue
from rushlight._src.devices.cpu.templates.matmul import Matmul, plan_matmul
from rushlight._src.core import dtypes
from rushlight._src.core.expr import apply, convert

from .contractions import Runner

NAMES = ("x", "scale", "shift")
X, SCALE, SHIFT = map(leaf, NAMES)
NORMALISED = expression_prologue(apply("exp", apply("mul", apply("add", apply("mul", X, SCALE), SHIFT), 0.5)),
                                 (X, SCALE, SHIFT))


def laid_out(values, order):
    """The same matrices: by rows, by columns, or every second element of larger ones."""
    if order == "columns":
        return np.ascontiguousarray(values.swapaxes(-1, -2)).swapaxes(-1, -2)
    if order == "apart":
        wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    return values


def strides_of(array, shape):
    """The strides of an array seen in a shape, in elements."""
    seen = np.broadcast_to(array, shape)
    return tuple(0 if size == 1 else stride // array.itemsize for size, stride in zip(seen.shape, seen.strides))


def operand(generator, shape, order):
    """(the operand, its parts)."""
    x = generator.standard_normal(shape).astype(np.float32)
    parts = [laid_out(x, order), generator.standard_normal((*shape[:-1], 1)).astype(np.float32),
             generator.standard_normal(shape[-1]).astype(np.float32)]
    return np.exp((parts[0] * parts[1] + parts[2]) * 0.5), parts


# blocked, B packed once, several blocks along k, parts of a long sum, few rows, batches, batches that are rows
PRODUCTS = [((), 40, 50, 60), ((), 500, 33, 70), ((), 70, 33, 3000), ((), 20, 30, 9000), ((), 3, 100, 200),
            ((3,), 17, 20, 30), ((2, 3), 9, 17, 5)]


@pytest.mark.parametrize("order", ["rows", "columns", "apart"])
@pytest.mark.parametrize("batch, rows, columns, depth", PRODUCTS)
def test_both_operands_computed(batch, rows, columns, depth, order):
    generator = np.random.default_rng(0)
    a, a_parts = operand(generator, (*batch, rows, depth), order)
    b, b_parts = operand(generator, (*batch[:-1], *(1 for _ in batch[-1:]), depth, columns), order)
    a /= depth
    wanted = a.astype(np.float64) @ b * depth
    for chosen in ((True, True), (True, False), (False, True)):
        c = np.full(wanted.shape, np.nan, np.float32)
        given = {"c": c}
        strides, prologues, parts = [], [], []
        for name, value, own, use in (("a", a * np.float32(depth), a_parts, chosen[0]), ("b", b, b_parts, chosen[1])):
            shape = (*batch, *value.shape[-2:])
            strides.append(strides_of(own[0] if use else value, shape))
            prologues.append(NORMALISED if use else None)
            parts.append(tuple((*strides_of(part, shape), 0) for part in own) if use else ())
            given.update({f"{name}{k}": part for k, part in enumerate(own)} if use else {name: value})
        problem = Matmul(batch, rows, columns, depth, *strides, strides_of(c, c.shape), a_parts=parts[0],
                         b_parts=parts[1])
        for threads in (1, 2):
            c[...] = np.nan
            before = pool.get_num_threads()
            pool.set_num_threads(threads)
            try:
                Runner(plan_matmul(problem, a_from=prologues[0], b_from=prologues[1]), **given)()
            finally:
                pool.set_num_threads(before)
            np.testing.assert_allclose(c, wanted, rtol=2e-4)


@pytest.mark.parametrize("order", ["rows", "columns"])
def test_bytes_and_halves_become_halves(order):
    """int8 weights with a scale and a zero point for each output, dequantized to bfloat16 for a bfloat16 matmul."""
    generator = np.random.default_rng(1)
    rows, columns, depth = 21, 37, 55
    scale = generator.integers(1, 9, columns).astype(np.float32) / 8
    weights, zero = generator.integers(-128, 127, (depth, columns)).astype(np.int8), generator.integers(
        -9, 9, columns).astype(np.int8)
    x = generator.integers(-4, 4, (rows, depth)).astype(np.float32)
    w, s, z = leaf("w", dtypes.int8), leaf("s"), leaf("z", dtypes.int8)
    value = convert(apply("mul", convert(apply("sub", convert(w, dtypes.int32), convert(z, dtypes.int32)),
                                         dtypes.float32), s), dtypes.bfloat16)
    prologue = expression_prologue(value, (w, s, z))
    parts = [laid_out(weights, order), scale, zero]
    strides = tuple((*strides_of(part, (depth, columns)), 0) for part in parts)
    halves = (x.view(np.uint32) >> 16).astype(np.uint16)  # integers this small are exact
    c = np.full((rows, columns), np.nan, np.float32)
    problem = Matmul((), rows, columns, depth, (depth, 1), strides[0][:2], (columns, 1), "bfloat16", "float32",
                     b_parts=strides)
    Runner(plan_matmul(problem, b_from=prologue), a=halves, c=c, **{f"b{k}": part for k, part in enumerate(parts)})()
    rounded = ((weights.astype(np.float32) - zero) * scale)
    bits = rounded.view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)
    np.testing.assert_allclose(c, x.astype(np.float64) @ rounded, rtol=1e-5)


def test_sums_of_several_products():
    generator = np.random.default_rng(2)
    count, rows, columns, depth = 3, 11, 18, 40
    x, y = generator.standard_normal((count, rows,
                                      depth)).astype(np.float32), generator.standard_normal((count, columns,
                                                                                             depth)).astype(np.float32)
    scale = generator.standard_normal((rows, 1)).astype(np.float32)
    prologue = expression_prologue(apply("mul", X, SCALE), (X, SCALE))
    c = np.full((rows, columns), np.nan, np.float32)
    problem = Matmul((), rows, columns, depth, (depth, 1), (1, depth), (columns, 1),
                     sums=(count, rows * depth, columns * depth),
                     a_parts=((depth, 1, rows * depth), (1, 0, 0)))
    Runner(plan_matmul(problem, a_from=prologue), a0=x, a1=scale, b=y, c=c)()
    np.testing.assert_allclose(c, np.einsum("nrk,nck->rc", x * scale, y), rtol=1e-4, atol=1e-4)
