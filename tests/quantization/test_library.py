"""torch.ops.quantized against PyTorch's x86 engine: the same integers, except where a result is halfway between two."""
import numpy as np
import pytest

import rushlight
from rushlight._src.core.op import OPS

from .judge import distance, units

pytestmark = [pytest.mark.processor, pytest.mark.filterwarnings("ignore")]
rng = np.random.default_rng(1)
X = rng.standard_normal((2, 8, 14, 14)).astype(np.float32)
ROWS = rng.standard_normal((5, 8)).astype(np.float32)


def quantized(t, x, scale=0.05, zero_point=30, dtype="quint8"):
    return t.quantize_per_tensor(t.tensor(x), scale, zero_point, getattr(t, dtype))


def weight(t, w):
    scales = np.abs(w).reshape(len(w), -1).max(1) / 127
    return t.quantize_per_channel(t.tensor(w), t.tensor(scales), t.zeros(len(w), dtype=t.int64), 0, t.qint8)


@pytest.mark.parametrize("groups, out, kernel, stride, padding, dilation", [
    (1, 16, 3, 1, 1, 1), (1, 16, 1, 1, 0, 1), (1, 16, 3, 2, 1, 1), (8, 8, 3, 1, 1, 1), (2, 16, 3, 1, 1, 1),
    (1, 12, 3, 1, 2, 2), (4, 8, 5, 2, 2, 1)])
@pytest.mark.parametrize("zero_point", [0, 30])
@pytest.mark.parametrize("relu", ["", "_relu"])
def test_convolution(groups, out, kernel, stride, padding, dilation, zero_point, relu):
    w, b = rng.standard_normal((out, 8 // groups, kernel,
                                kernel)).astype(np.float32), rng.standard_normal(out).astype(np.float32)

    def program(t):
        packed = t.ops.quantized.conv2d_prepack(weight(t, w), t.tensor(b), [stride] * 2, [padding] * 2, [dilation] * 2,
                                                groups)
        return getattr(t.ops.quantized, f"conv2d{relu}")(quantized(t, X, zero_point=zero_point), packed, 0.1, 60)

    largest, share = units(program)
    assert largest <= 1 and share < 0.002


def linear(name):
    w, b = np.random.default_rng(2).standard_normal((2, 16, 8)).astype(np.float32)

    def program(t):
        packed = t.ops.quantized.linear_prepack(weight(t, w), t.tensor(b[:, 0].copy()))
        if "dynamic" in name:
            return getattr(t.ops.quantized, name)(t.tensor(ROWS), packed)
        return getattr(t.ops.quantized, name)(quantized(t, ROWS), packed, 0.1, 60)
    return program


@pytest.mark.parametrize("name", ["linear", "linear_relu"])
def test_linear(name):
    largest, share = units(linear(name))
    assert largest <= 1 and share < 0.02


@pytest.mark.parametrize("name", ["linear_dynamic", "linear_relu_dynamic"])
def test_dynamic_linear(name):
    assert distance(linear(name)) < 2e-6


def test_weights_are_unpacked_as_they_were():
    w = weight(rushlight, ROWS)
    found, bias = rushlight.ops.quantized.linear_unpack(rushlight.ops.quantized.linear_prepack(w, None))
    assert rushlight.equal(found, w) and bias is None


PAIR = object()
ELEMENTWISE = [("add", (PAIR, 0.1, 20)), ("add_relu", (PAIR, 0.1, 20)), ("mul", (PAIR, 0.1, 20)),
               ("mul_relu", (PAIR, 0.1, 20)), ("add_scalar", (1.0,)), ("mul_scalar", (2.5,)),
               ("mul_scalar", (-2.5,)), ("add_scalar", (5.0,)), ("add_scalar", (-50.0,)), ("add_scalar_relu", (-1.0,)),
               ("hardswish", (0.1, 20)),
               ("leaky_relu", (0.1, False, 0.1, 20)), ("elu", (0.1, 20, 1.0)), ("sigmoid", (1 / 256, 0)),
               ("softmax", (1, 1 / 256, 0))]


@pytest.mark.parametrize("name, args", ELEMENTWISE)
def test_elementwise(name, args):
    def program(t):
        return getattr(t.ops.quantized, name)(quantized(t, X),
                                              *(quantized(t, X * 0.7 + 0.2, 0.03, 5) if a is PAIR else a for a in args))

    largest, share = units(program)
    assert largest <= 1 and share < 0.1  # halves of the new scale are frequent among sums of multiples


NORMS = {"layer_norm": lambda t, q: t.ops.quantized.layer_norm(q, [14], t.ones(14), t.zeros(14), 1e-5, 0.05, 60),
         "group_norm": lambda t, q: t.ops.quantized.group_norm(q, 4, t.ones(8), t.zeros(8), 1e-5, 0.05, 60),
         "instance_norm": lambda t, q: t.ops.quantized.instance_norm(q, t.ones(8), t.zeros(8), 1e-5, 0.05, 60),
         "batch_norm2d": lambda t, q: t.ops.quantized.batch_norm2d(q, t.ones(8) * 2, t.zeros(8), t.zeros(8) + 0.1,
                                                                   t.ones(8), 1e-5, 0.05, 60),
         "cat": lambda t, q: t.ops.quantized.cat([q, quantized(t, X, 0.1, 3)], 1, 0.1, 20),
         "matmul": lambda t, q: t.ops.quantized.matmul(q, quantized(t, X, 0.02, 5).transpose(2, 3).contiguous(), 0.3,
                                                       20)}


@pytest.mark.parametrize("name", NORMS)
def test_others(name):
    largest, share = units(lambda t: NORMS[name](t, quantized(t, X)))
    assert largest <= 1 and share < 0.01


@pytest.mark.parametrize("rows, depth, columns", [(1, 8, 16), (7, 33, 5), (300, 576, 64), (64, 1024, 256)])
@pytest.mark.parametrize("zero_point", [0, 99])
def test_requantisation_is_its_numpy_meaning_bit_for_bit(rows, depth, columns, zero_point):
    x, w = rng.integers(0, 256, (rows, depth)).astype(np.uint8), rng.integers(-128, 128, (columns, depth)).astype(
        np.int8)
    scales, bias = rng.random(columns).astype(np.float32) * 0.01, rng.standard_normal(columns).astype(np.float32)
    factor, total = OPS["_int8_operand"](rushlight.tensor(w))
    shift, multiplier, offset = OPS["_requantizing"](total, rushlight.tensor(scales), rushlight.tensor(bias), 0.02,
                                                     zero_point, 0.7)
    q = OPS["_with_meaning"](rushlight.tensor(x), 0.02, zero_point, rushlight.quint8)
    found = OPS["_quantized_linear"](q, factor, shift, multiplier, offset, 0.7, 5, 3,
                                     rushlight.quint8).int_repr().numpy()
    sums = (x.astype(np.int32) - zero_point) @ w.T.astype(np.int32)
    meant = np.rint(sums.astype(np.float32) * multiplier.numpy() + offset.numpy()) + 5
    assert (found == np.clip(meant, 3, 255).astype(np.uint8)).all()


def test_hardsigmoid_in_place_changes_what_the_numbers_stand_for():
    def program(t):
        x = quantized(t, ROWS)
        found = t.ao.nn.quantized.functional.hardsigmoid(x, inplace=True)
        assert found is x or t is not rushlight
        return x

    largest, _ = units(program)
    assert largest == 0
