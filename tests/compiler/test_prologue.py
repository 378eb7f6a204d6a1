"""Operands that contractions compute while they pack them: fewer steps, the same values and gradients."""
import itertools

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.compiler import prologue
from rushlight._src.compiler import assembler as program
from rushlight._src.devices.cpu.llvm.features import host
from rushlight.nn import functional as F

from ..whole import whole

pytestmark = [pytest.mark.processor, pytest.mark.sampled]  # all cases with `-m long`


@pytest.fixture(autouse=True)
def small_operands(monkeypatch):
    """Operands that are quick to compute become prologues too."""
    monkeypatch.setattr(prologue, "LEAST_BYTES", 0)
    monkeypatch.setattr(prologue, "LEAST_ROWS", 0)


@pytest.fixture
def prologues(monkeypatch):
    """The prologues that programs find."""
    found = []
    real = program.Assembler.prologues_of

    def prologues_of(self, calls):
        own = real(self, calls)
        found.extend(one for prologues in own.values() for one in prologues.values())
        return own

    monkeypatch.setattr(program.Assembler, "prologues_of", prologues_of)
    return found


def values(*shapes, dtype=torch.float32):
    torch.manual_seed(0)
    return tuple(torch.randn(*s).to(dtype) for s in shapes)


def same(body, given, tolerance=2e-5):
    """One program computes what the operators do one by one."""
    expected, found = body(*given), whole(body)(*given)
    assert found.dtype is expected.dtype and found.shape == expected.shape
    scale = float(expected.double().abs().max()) + 1e-30
    np.testing.assert_allclose(found.double().numpy() / scale, expected.double().numpy() / scale, atol=tolerance)


LEFT = {  # what the left operand [rows, k] of a product is computed from
    "normalised": lambda x, g, b: F.layer_norm(x, (x.shape[-1],), g, b),
    "scaled rows": lambda x, g, b: x * x.amax(-1, keepdim=True) + b,
    "masked": lambda x, g, b: torch.where(g > 0, torch.relu(x) - 1.0, 0.0),
}


@pytest.mark.parametrize("name", LEFT)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(37, 29), (2, 19, 33), (300, 16), (3, 2, 9, 17)])
def test_left_operands(prologues, name, turned, shape):
    *batch, rows, depth = shape
    x, g, b, w = values((*batch, depth, rows) if turned else shape, (depth,), (depth,), (depth, 21))

    def body(x, g, b, w):
        return LEFT[name](x.mT if turned else x, g, b) @ w

    same(body, (x, g, b, w))
    assert prologues


RIGHT = {  # what the right operand [k, columns] is computed from
    "scaled": lambda w, s: w * s, "activated": lambda w, s: torch.relu(w - s),
    "columns scaled": lambda w, s: (w.mT * s[:w.shape[0]]).mT}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("rows", [1, 7, 50])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_right_operands(prologues, name, rows, batch):
    x, w, s = values((*batch, rows, 45), (45, 45), (45,))
    same(lambda x, w, s: x @ RIGHT[name](w, s), (x, w, s))
    assert prologues or batch or rows == 50  # what is packed several times is better computed once


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("rows", [1, 6, 56])
@pytest.mark.parametrize("zero_point", [False, True])
def test_weights_of_another_dtype(prologues, dtype, rows, zero_point):
    x, scale, zero = torch.randn(rows, 67), torch.rand(51, 1), torch.randint(-5, 5, (51, 1)).float()
    w = torch.randint(0, 100, (51, 67)).to(dtype)

    def body(x, w, scale, zero):
        weights = w.to(torch.float32) - zero if zero_point else w.to(torch.float32)
        return F.linear(x, weights * scale)

    same(body, (x, w, scale, zero))
    assert prologues


def test_weights_of_four_bits(prologues):
    """Two to a byte: even columns of the weights in the lower half of a byte, odd ones in the upper."""
    packed, scale, even, odd = torch.randint(0, 255, (40, 33)).to(torch.uint8), torch.rand(40, 1), torch.randn(
        5, 33), torch.randn(5, 33)

    def body(packed, scale, even, odd):
        low, high = (packed & 15).to(torch.float32) - 8, (packed >> 4).to(torch.float32) - 8
        return F.linear(even, low * scale) + F.linear(odd, high * scale)

    same(body, (packed, scale, even, odd))
    assert prologues


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_gradients_through_a_normalised_layer(dtype):
    def body(x, g, b, w, u):
        h = F.gelu(F.layer_norm(x, (x.shape[-1],), g, b) @ w)
        return (torch.where(u > 0, h * 1.25, 0.0) @ w.mT).float().square().mean()

    given = values((2, 13, 26), (26,), (26,), (26, 39), (2, 13, 39), dtype=dtype)
    gradients = []
    for function in (body, whole(body)):
        leaves = [t.clone().requires_grad_() for t in given[:4]]
        function(*leaves, given[4]).backward()
        gradients.append([t.grad.double().numpy() for t in leaves])
    bound = 0.05 if dtype.is_half else 1e-4
    for expected, found in zip(*gradients):
        np.testing.assert_allclose(found / np.abs(expected).max(), expected / np.abs(expected).max(), atol=bound)


def normed(x, mean, var, g, b):
    return F.relu((x - mean) * torch.rsqrt(var * var + 1e-5) * g + b)


CONVOLUTIONS = [  # channels, outputs, size, kernel, stride, padding, groups
    (32, 24, (19, 21), 3, 1, 1, 1), (32, 24, (18, 17), 3, 2, 1, 1), (48, 32, (14, 14), 1, 1, 0, 1),
    (32, 40, (33, 31), 1, 1, 0, 1), (64, 64, (9, 7), 3, 1, 1, 2),
    (20, 16, (15, 15), 5, 1, 2, 1), (3, 8, (16, 16), 3, 1, 1, 1), (32, 32, (7, 7), 7, 1, 3, 32)]


@pytest.mark.parametrize("channels, outputs, size, kernel, stride, padding, groups", CONVOLUTIONS)
@pytest.mark.parametrize("last", [False, True])
def test_images_and_their_gradients(channels, outputs, size, kernel, stride, padding, groups, last):
    """With and without a template that packs images; images that lie channel by channel or pixel by pixel."""
    x, mean, var, g, b, w = values((3, channels, *size), *[(1, channels, 1, 1)] * 4,
                                   (outputs, channels // groups, kernel, kernel))
    if last:
        x = x.to(memory_format=torch.channels_last)

    def body(x, mean, var, g, b, w):
        return F.conv2d(normed(x, mean, var, g, b), w, None, stride, padding, 1, groups)

    same(body, (x, mean, var, g, b, w), 1e-4)
    gradients = []
    for function in (body, whole(body)):
        leaves = [t.clone().requires_grad_() for t in (x, mean, var, g, b, w)]
        function(*leaves).sin().sum().backward()
        gradients.append([t.grad.numpy() for t in leaves])
    for expected, found in zip(*gradients):
        np.testing.assert_allclose(found / np.abs(expected).max(), expected / np.abs(expected).max(), atol=2e-4)


def test_which_convolutions_compute_their_images(prologues):
    x, mean, var, g, b, w = values((2, 32, 19, 21), *[(1, 32, 1, 1)] * 4, (24, 32, 3, 3))
    same(lambda *t: F.conv2d(normed(*t[:5]), t[5], None, 1, 1), (x, mean, var, g, b, w), 1e-4)
    assert len(prologues) == 1 and len(prologues[0].inside) >= 4


@pytest.mark.parametrize("threads", [1, 2])
def test_some_images_at_a_time(prologues, threads):
    """Batches of which the packed images would not stay in the cache, with numbers of their own for each image."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x, g, w = values((3, 64, 96, 96), (3, 64, 1, 1), (16, 64, 3, 3))
        same(lambda x, g, w: F.conv2d(torch.relu(x * g + 1.0), w, None, 1, 1), (x, g, w), 1e-4)
    finally:
        torch.set_num_threads(before)
    assert prologues or host().width == 128  # narrow tiles pack an image more than once, which may not pay


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_padding_of_a_computed_image_is_zero(dtype):
    """Not what the formula makes of zeros."""
    x, w = values((1, 32, 11, 9), (16, 32, 3, 3), dtype=dtype)
    same(lambda x, w: F.conv2d(torch.exp(x) + 3.0, w, None, 1, 1), (x, w), 1e-5)


def test_zeros_beside_infinities(prologues):
    """Elements that fill up a panel are zero whatever the formula is of zero."""
    x, w = values((5, 9), (9, 3))
    same(lambda x, w: torch.exp(x) @ (1.0 / w), (x, w))
    found = whole(lambda x, w: (1.0 / x) @ w)(torch.ones(3, 5), torch.ones(5, 2))
    assert torch.equal(found, torch.full((3, 2), 5.0))
    assert prologues


def test_what_is_shared_is_computed_once(prologues):
    """An operand that another node reads, or that is a result, is materialized."""
    x, g, b, w = values((40, 24), (24,), (24,), (24, 8))
    normalised = LEFT["normalised"]
    for body in (lambda x, g, b, w: (normalised(x, g, b), normalised(x, g, b) @ w),
                 lambda x, g, b, w: torch.sin(normalised(x, g, b)).sum() + normalised(x, g, b) @ w):
        expected, found = body(x, g, b, w), whole(body)(x, g, b, w)
        for e, f in zip(expected if isinstance(expected, tuple) else [expected], found if isinstance(found, tuple)
                        else [found]):
            np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=1e-4, atol=1e-4)
    assert not prologues


def test_operands_that_stay_near_are_written(prologues, monkeypatch):
    monkeypatch.setattr(prologue, "LEAST_BYTES", 1 << 20)
    x, w = values((64, 64), (64, 64))
    same(lambda x, w: torch.relu(x) @ w, (x, w))
    assert not prologues


@pytest.mark.parametrize("rows,streams", [(1, True), (4, True), (16, False)])
def test_few_bytes_of_weights_are_read_once(prologues, monkeypatch, rows, streams):
    """However small, weights of bytes are not written as floats for hardly any rows."""
    monkeypatch.setattr(prologue, "LEAST_BYTES", 1 << 20)
    x, w = torch.randn(rows, 64), torch.randint(-100, 100, (48, 64)).to(torch.int8)
    same(lambda x, w: F.linear(x, w.to(torch.float32)), (x, w))
    assert bool(prologues) == streams


def test_sizes_that_vary():
    @torch.compile(dynamic=True, fullgraph=True)
    def body(x, g, b, w):
        return F.layer_norm(x, (x.shape[-1],), g, b) @ torch.relu(w)

    for rows, depth, columns in itertools.product((3, 40), (8, 33), (5, 70)):
        x, g, b, w = values((2, rows, depth), (depth,), (depth,), (depth, columns))
        expected = F.layer_norm(x, (depth,), g, b) @ torch.relu(w)
        np.testing.assert_allclose(body(x, g, b, w).numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


def test_threads():
    """Blocks of threads pack operands on their own; a long sum is divided."""
    before = torch.get_num_threads()
    x, g, b, w = values((8, 9000), (9000,), (9000,), (9000, 6))
    torch.set_num_threads(2)
    try:
        same(lambda x, g, b, w: torch.relu(x * g + b) @ torch.relu(w), (x, g, b, w))
    finally:
        torch.set_num_threads(before)
