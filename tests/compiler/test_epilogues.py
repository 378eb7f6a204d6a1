"""Exprs fused into the store of matmuls and convolutions: activations, biases, residuals, on every path of a
template."""

import numpy as np
import pytest

from rushlight._src.devices.cpu.llvm import pool
from rushlight._src.devices.cpu.templates.conv import Convolution, plan_conv
from rushlight._src.compiler.target import Operand, leaf
from rushlight._src.devices.cpu.templates.expression import expression_epilogue
from rushlight._src.devices.cpu.templates.matmul import Matmul, plan_matmul
from rushlight._src.core.dtypes import float16, float32
from rushlight._src.core.expr import apply, convert

from .contractions import Runner

pytestmark = pytest.mark.processor

SUMS = leaf("sums")


def gelu(x):
    return apply("mul", apply("mul", x, 0.5), apply("add", apply("erf", apply("mul", x, 0.5 ** 0.5)), 1.0))


def gelu_numpy(x):
    from math import erf
    return x * 0.5 * (np.vectorize(erf)(x * 0.5 ** 0.5) + 1)


# blocked, several blocks along k, dot products, parts of a long sum, batches
PRODUCTS = [((), 40, 50, 60), ((), 70, 33, 3000), ((), 3, 100, 200), ((), 20, 30, 9000), ((3,), 17, 20, 30)]


@pytest.mark.parametrize("layout", ["n", "t"])
@pytest.mark.parametrize("batch, rows, columns, depth", PRODUCTS)
def test_products_with_bias_activation_and_residual(batch, rows, columns, depth, layout):
    generator = np.random.default_rng(0)
    a = generator.standard_normal((*batch, rows, depth)).astype(np.float32) / depth ** 0.5
    b = generator.standard_normal((*batch, depth, columns)).astype(np.float32)
    if layout == "t":
        b = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    bias, residual = generator.standard_normal(columns).astype(np.float16), generator.standard_normal((*batch, rows,
                                                                                                       columns)).astype(
                                                                                                           np.float32)
    c = np.full_like(residual, np.nan)
    value = apply("add", gelu(apply("add", SUMS, convert(leaf("bias", float16), float32))), leaf("residual"))
    epilogue = expression_epilogue(value, (Operand("bias", float16, "column"), Operand("residual", float32, "element")))
    strides = [tuple(s // x.itemsize for s in x.strides) for x in (a, b, c)]
    for threads in (1, 2):
        before = pool.get_num_threads()
        pool.set_num_threads(threads)
        try:
            plan = plan_matmul(Matmul(batch, rows, columns, depth, *strides), epilogue)
            Runner(plan, a=a, b=b, c=c, bias=bias, residual=residual)()
        finally:
            pool.set_num_threads(before)
        wanted = gelu_numpy(a.astype(np.float64) @ b.astype(np.float64) + bias) + residual
        np.testing.assert_allclose(c, wanted, atol=2e-5)


# stored adjacently, compressed, scattered (small images; channels last), single pixels, several images at a time
CONVOLUTIONS = {
    "wide": (1, 5, 6, (20, 40), (3, 3), (1, 1), (1, 1), False),
    "small": (9, 40, 33, (7, 7), (3, 3), (1, 1), (1, 1), False),
    "strided": (2, 16, 20, (14, 14), (3, 3), (2, 2), (1, 1), False),
    "channels last": (2, 6, 20, (9, 9), (3, 3), (1, 1), (1, 1), True),
    "pixels": (2, 20, 30, (20, 20), (1, 1), (1, 1), (0, 0), False),
    "many images": (6, 64, 8, (60, 60), (3, 3), (1, 1), (1, 1), False),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_with_bias_residual_and_relu(name):
    torch = pytest.importorskip("torch")
    batch, channels, out, size, kernel, stride, pad, last = CONVOLUTIONS[name]
    torch.manual_seed(0)
    x, weight, bias = torch.randn(batch, channels, *size), torch.randn(out, channels, *kernel), torch.randn(out)
    wanted = torch.nn.functional.conv2d(x, weight, bias, stride, pad)
    residual = torch.randn(wanted.shape)
    if last:
        x, residual = (t.contiguous(memory_format=torch.channels_last) for t in (x, residual))
    wanted = (wanted + residual).relu()
    got = torch.full_like(residual, float("nan"))
    value = apply("maximum", apply("add", apply("add", SUMS, leaf("bias")), leaf("residual")), 0.0)
    epilogue = expression_epilogue(value, (Operand("bias", float32, "row"), Operand("residual", float32, "element")),
                                   ("y", float32))
    problem = Convolution(batch, channels, out, size, kernel, stride, pad, (1, 1), 1, "float32", x.stride(),
                          got.stride())
    operands = {"x": x, "weight": weight, "y": got, "bias": bias, "residual": residual}
    Runner(plan_conv(problem, epilogue), **{key: t.data_ptr() for key, t in operands.items()})()
    assert (got - wanted).abs().max() <= 2e-5 * wanted.abs().max()


def test_expressions_without_instructions_are_refused():
    epilogue = expression_epilogue(apply("no such operation", SUMS))
    with pytest.raises(NotImplementedError, match="no such operation"):
        plan_matmul(Matmul((), 8, 8, 8, (8, 1), (8, 1), (8, 1)), epilogue)
