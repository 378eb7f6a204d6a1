"""Fourier transforms and long scans on WebGPU: numbers of the processor, by the device alone."""
import pytest

import rushlight as rl
from rushlight import fft
from rushlight._src.compiler.kernel import Buffer, Kernel, KernelStage, Reduction, StoreTo
from rushlight._src.core import expr
from rushlight._src.devices.shared.host import HostStep
from rushlight._src.devices.shared.writer import spread
from rushlight._src.devices.webgpu.emit import SCANNED
from rushlight._src.devices.webgpu.templates.fourier import factors_of

REAL = {"rfft": lambda a: fft.rfft(a, dim=1), "rfft2": lambda a: fft.rfft2(a, dim=(0, 1)),
        "back": lambda a: fft.irfft(fft.rfft(a, dim=1), n=a.shape[1], dim=1), "ihfft": lambda a: fft.ihfft(a, dim=1)}
COMPLEX = {"fft": fft.fft, "ifft": fft.ifft, "first": lambda a: fft.fft(a, dim=0), "both": fft.fft2}


def near(f, x, tolerance=1e-5):
    wanted, found = f(x), f(x.to("webgpu")).cpu()
    assert wanted.shape == found.shape
    assert (wanted - found).abs().max() <= tolerance * max(wanted.abs().max().item(), 1e-3)


def test_factors():
    for size in (1, 2, 97, 360, 1024, 4097, 99991):
        product = 1
        for factor in factors_of(size):
            product *= factor
        assert product == size


@pytest.mark.parametrize("size", [1, 2, 7, 30, 97, 360])
def test_transforms(size):
    before = HostStep.runs.copy()
    rl.manual_seed(0)
    x, z = rl.randn(3, size, 2), rl.complex(rl.randn(3, size), rl.randn(3, size))
    for f in REAL.values():
        near(f, x)
    for f in COMPLEX.values():
        near(f, z)
    assert not any("fft" in name for name in HostStep.runs - before)


def test_wide_numbers():
    near(fft.fft, rl.complex(rl.randn(2, 12).double(), rl.randn(2, 12).double()), 1e-12)


def test_gradients():
    x, found = rl.arange(24.0).reshape(2, 12), []
    for where in ("cpu", "webgpu"):
        y = x.to(where).clone().requires_grad_()
        fft.rfft(y).abs().sum().backward()
        found.append(y.grad.cpu())
    rl.testing.assert_close(*found, rtol=1e-4, atol=1e-3)


def test_long_scans():
    before = HostStep.runs.copy()
    rl.manual_seed(0)
    for shape in ((3, 1000), (70_000,), (2, 700, 3)):
        x, whole = rl.randn(*shape), rl.randint(-5, 5, shape)
        for dim in range(len(shape)):
            rl.testing.assert_close(x.to("webgpu").cumsum(dim).cpu(), x.cumsum(dim), rtol=1e-4, atol=1e-4)
            assert whole.to("webgpu").cumsum(dim).cpu().equal(whole.cumsum(dim))
            assert x.to("webgpu").cummax(dim)[1].cpu().equal(x.cummax(dim)[1])
    y = rl.randn(2, 600, device="webgpu")
    wanted = y.cumsum(1)
    assert y.cumsum_(1).cpu().equal(wanted.cpu()) and HostStep.runs == before


@pytest.mark.parametrize("size", [8, 14, 15])
def test_what_real_results_do_not_depend_on(size):
    """Imaginary parts of the first number, and of the middle one of an even length, are not looked at."""
    rl.manual_seed(0)
    real, imaginary = rl.randn(3, size // 2 + 1), rl.randn(3, size // 2 + 1)
    imaginary[:, 0] = float("nan")
    if size % 2 == 0:
        imaginary[:, -1] = float("inf")
    near(lambda z: fft.irfft(z, n=size), rl.complex(real, imaginary))


def test_scans_of_scans():
    rl.manual_seed(0)
    x = rl.randn(2, 700)
    for f in (lambda x: x.cumsum(1).cumsum(1), lambda x: (x.cumsum(1) * 0.01).sin().cumsum(1)):
        rl.testing.assert_close(rl.compile(f)(x.to("webgpu")).cpu(), f(x), rtol=1e-4, atol=1e-2)


def test_a_scan_of_what_another_has_so_far_is_not_shared():
    """Parts of a row know only their own part of another scan."""
    axis, outer = expr.index("i1", 700), expr.index("i0", 2)
    x, (first, second) = Buffer("x", rl.float32), (expr.Expr("result", (), (r,), rl.float32) for r in ("r0", "r1"))
    value = expr.load(x, outer * 700 + axis, rl.float32)

    def made(inner):
        scans = [Reduction(first, "add", value, running=True), Reduction(second, "add", inner, running=True)]
        return Kernel((outer,), None, [KernelStage((axis,), scans, [StoreTo(Buffer("y", rl.float32, "output"),
                                                                    outer * 700 + axis, second)])])

    assert [spread(made(inner), SCANNED) for inner in (value, first)] == ["scan", "thread"]
