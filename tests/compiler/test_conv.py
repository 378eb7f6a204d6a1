"""Planned convolutions against torch: dimensions, strides, dilation, groups, gradients, other CPUs."""

import random

import pytest

torch = pytest.importorskip("torch")

from rushlight._src.devices.cpu.llvm import pool  # noqa: E402
from rushlight._src.devices.cpu.templates.conv import (  # noqa: E402
    Convolution, plan_conv, plan_conv_input_grad, plan_conv_weight_grad)

from .contractions import Runner, bias_epilogue  # noqa: E402

pytestmark = [pytest.mark.processor, pytest.mark.sampled]  # all cases with `-m long`

# batch, in, out, size, kernel, stride, pad, dilation, groups
CASES = {
    "3x3": (2, 3, 5, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "strided": (2, 16, 20, (14, 14), (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "strided pixels": (2, 16, 20, (14, 15), (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "pixels": (3, 16, 40, (7, 9), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "many pixels": (2, 20, 30, (20, 20), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "stem": (1, 3, 64, (40, 40), (7, 7), (2, 2), (3, 3), (1, 1), 1),
    "depthwise": (2, 8, 8, (12, 12), (3, 3), (1, 1), (1, 1), (1, 1), 8),
    "depthwise strided": (2, 8, 16, (13, 12), (5, 5), (2, 2), (2, 2), (1, 1), 8),
    "depthwise, wide": (2, 5, 5, (9, 37), (3, 5), (1, 1), (1, 2), (2, 1), 5),
    "depthwise, many taps": (2, 6, 6, (7, 7), (7, 7), (1, 1), (3, 3), (1, 1), 6),
    "depthwise, several a channel": (2, 3, 6, (11, 34), (3, 3), (2, 2), (1, 1), (1, 1), 3),
    "depthwise, strided both ways": (2, 6, 6, (13, 37), (3, 5), (2, 1), (1, 2), (1, 1), 6),
    "depthwise, wide stride": (2, 6, 6, (12, 40), (5, 3), (2, 2), (1, 0), (1, 2), 6),
    "grouped": (2, 8, 16, (12, 12), (5, 3), (2, 1), (2, 0), (1, 2), 4),
    "1d": (2, 6, 9, (31,), (4,), (3,), (2,), (2,), 3),
    "3d": (1, 4, 6, (6, 7, 8), (3, 2, 3), (1, 2, 1), (1, 0, 2), (1, 1, 1), 2),
    "deep": (2, 200, 30, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "small images": (9, 40, 33, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "stride beyond kernel": (1, 2, 3, (5, 5), (3, 3), (4, 4), (2, 2), (1, 1), 1),
    "patches": (2, 3, 24, (16, 16), (4, 4), (4, 4), (0, 0), (1, 1), 1),
    "wide patches": (2, 5, 40, (8, 36), (2, 4), (2, 4), (0, 0), (1, 1), 1),
    "kernel as large as the image": (2, 5, 6, (4, 4), (4, 4), (1, 1), (0, 0), (1, 1), 1),
    "more padding than kernel": (1, 2, 3, (4, 4), (2, 2), (1, 1), (3, 3), (1, 1), 1),
    "channels in lanes": (3, 34, 50, (9, 11), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "channels in lanes, strided": (2, 48, 66, (15, 20), (3, 2), (2, 3), (1, 0), (1, 2), 1),
    "channels in lanes, groups": (2, 96, 64, (6, 8), (3, 3), (1, 1), (1, 1), (1, 1), 2),
    "channels in lanes, 3d": (2, 16, 32, (3, 6, 7), (2, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "channels in lanes, far pixels": (2, 64, 40, (13, 29), (1, 1), (3, 3), (0, 0), (1, 1), 1),
    "channels in lanes, many taps": (2, 64, 64, (9, 10), (5, 5), (1, 1), (2, 2), (1, 1), 1),
    "channels in lanes, deep": (2, 256, 48, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "narrow groups": (2, 64, 64, (9, 10), (3, 3), (1, 1), (1, 1), (1, 1), 16),
    "narrow groups, strided": (1, 36, 24, (12, 11), (3, 2), (2, 3), (1, 0), (1, 2), 12),
    "one pixel": (4, 10, 20, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1), 1),
}
TOLERANCE = {"float32": 2e-5, "float64": 1e-13, "bfloat16": 2e-2, "float16": 3e-3}


def reference(case, dtype, x=None):
    batch, channels, out, size, kernel, stride, pad, dilation, groups = case
    torch.manual_seed(0)
    # integers, so that the reference is exact for each dtype under test
    kind = getattr(torch, dtype)
    x = torch.randn(batch, channels, *size).to(kind)
    weight, bias = torch.randn(out, channels // groups, *kernel).to(kind), torch.randn(out).to(kind)
    function = getattr(torch.nn.functional, f"conv{len(size)}d")
    wide = [t.double().requires_grad_() for t in (x, weight)]
    y = function(*wide, bias.double(), stride, pad, dilation, groups)
    grad = torch.randn(y.shape).to(kind)
    grads = torch.autograd.grad(y, wide, grad.double())
    return x, weight, bias, grad, y.detach(), *grads


def close(got, wanted, dtype):
    assert not got.isnan().any()
    assert (got.double() - wanted).abs().max() <= TOLERANCE[dtype] * wanted.abs().max()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_forward_and_gradients(name, dtype):
    case = CASES[name]
    x, weight, bias, grad, y, grad_x, grad_weight = reference(case, dtype)
    problem = Convolution(*case, dtype)
    got_y, got_x, got_weight = (torch.full(t.shape, float("nan"), dtype=x.dtype) for t in (grad, x, weight))
    pointers = {"weight": weight.data_ptr(), "x": x.data_ptr(), "y": got_y.data_ptr(), "bias": bias.data_ptr()}
    Runner(plan_conv(problem, bias_epilogue(dtype, "row", "y")), **pointers)()
    close(got_y, y, dtype)
    Runner(plan_conv_input_grad(problem), x=got_x.data_ptr(), weight=weight.data_ptr(), y=grad.data_ptr())()
    close(got_x, grad_x, dtype)
    Runner(plan_conv_weight_grad(problem), x=x.data_ptr(), weight=got_weight.data_ptr(), y=grad.data_ptr())()
    close(got_weight, grad_weight, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["3x3", "strided", "pixels", "many pixels", "depthwise", "grouped", "3d",
                                  "small images", "stem", "deep", "channels in lanes",
                                  "channels in lanes, strided", "channels in lanes, groups",
                                  "channels in lanes, far pixels"])
def test_channels_last(name, dtype):
    case = CASES[name]
    x, weight, bias, grad, y, grad_x, grad_weight = reference(case, dtype)
    form = torch.channels_last_3d if x.dim() == 5 else torch.channels_last
    # what is computed lies row by row, or with channels last
    for result in (torch.contiguous_format, form):
        x, grad = x.contiguous(memory_format=form), grad.contiguous(memory_format=form)
        got_y, got_x = (torch.full(t.shape, float("nan"), dtype=t.dtype).contiguous(memory_format=result)
                        for t in (grad, x))
        problem = Convolution(*case, dtype, x.stride(), got_y.stride())
        pointers = {"weight": weight.data_ptr(), "x": x.data_ptr(), "y": got_y.data_ptr(), "bias": bias.data_ptr()}
        Runner(plan_conv(problem, bias_epilogue(dtype, "row", "y")), **pointers)()
        close(got_y, y, dtype)
        Runner(plan_conv_input_grad(Convolution(*case, dtype, got_x.stride(), grad.stride())),
               x=got_x.data_ptr(), weight=weight.data_ptr(), y=grad.data_ptr())()
        close(got_x, grad_x, dtype)
    got_weight = torch.full(weight.shape, float("nan"), dtype=weight.dtype)
    Runner(plan_conv_weight_grad(Convolution(*case, dtype, x.stride(), grad.stride())),
           x=x.data_ptr(), weight=got_weight.data_ptr(), y=grad.data_ptr())()
    close(got_weight, grad_weight, dtype)


def random_case(number):
    """A small convolution in two dimensions: (batch, in, out, size, kernel, stride, pad, dilation, groups)."""
    chosen = random.Random(number)
    groups = chosen.choice([1, 1, 1, 2, 8, 32])
    channels, out = ((chosen.choice([1, 3, 4, 8, 16, 24, 32, 48]), chosen.choice([1, 4, 8, 32, 40]))
                     if groups == 1 else chosen.choice([(4, 4), (1, 1), (1, 2), (16, 32), (32, 32), (3, 5)]))
    kernel = tuple(chosen.choice([1, 2, 3, 5]) for _ in range(2))
    dilation = tuple(chosen.choice([1, 1, 2]) for _ in range(2))
    pad = tuple(chosen.randint(0, k) for k in kernel)
    size = tuple(max(d * (k - 1) + 1 - 2 * p, chosen.randint(1, 30)) for k, d, p in zip(kernel, dilation, pad))
    stride = tuple(chosen.choice([1, 2, 3]) for _ in range(2))
    return chosen.randint(1, 3), channels * groups, out * groups, size, kernel, stride, pad, dilation, groups


@pytest.fixture(params=[1, 2])
def threads(request):
    before = pool.get_num_threads()
    pool.set_num_threads(request.param)
    yield request.param
    pool.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("number", range(40))
def test_gradients_of_weights_with_channels_last_at_random(number, dtype, threads):
    case, last = random_case(number), torch.channels_last
    x, weight, _, grad, *_, grad_weight = reference(case, dtype)
    wide = torch.randn(x.shape[0], x.shape[1] + 3, *x.shape[2:]).to(x.dtype).contiguous(memory_format=last)
    wide[:, :x.shape[1]] = x
    for image in (x.contiguous(memory_format=last), wide[:, :x.shape[1]]):  # the second one's pixels lie apart
        got = torch.full(weight.shape, float("nan"), dtype=weight.dtype)
        y = grad.contiguous(memory_format=last)
        Runner(plan_conv_weight_grad(Convolution(*case, dtype, image.stride(), y.stride())),
               x=image.data_ptr(), weight=got.data_ptr(), y=y.data_ptr())()
        close(got, grad_weight, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_many_parts_of_an_image(dtype, threads):
    case, last = (2, 32, 40, (90, 110), (3, 3), (1, 1), (1, 1), (1, 1), 1), torch.channels_last
    x, weight, _, grad, *_, grad_weight = reference(case, dtype)
    x, y, got = x.contiguous(memory_format=last), grad.contiguous(memory_format=last), torch.empty_like(weight)
    Runner(plan_conv_weight_grad(Convolution(*case, dtype, x.stride(), y.stride())),
           x=x.data_ptr(), weight=got.data_ptr(), y=y.data_ptr())()
    close(got, grad_weight, dtype)


def test_refusals():
    with pytest.raises(ValueError, match="does not fit"):
        plan_conv(Convolution(1, 1, 1, (2,), (3,), (1,), (0,), (1,)))
    with pytest.raises(ValueError, match="do not divide"):
        plan_conv(Convolution(1, 3, 4, (5,), (3,), (1,), (0,), (1,), groups=2))
