"""Fourier transforms against torch: every transform, size, norm and kind of number, with gradients."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from .judge import arrays, same  # noqa: E402

pytestmark = pytest.mark.sampled  # all cases with `-m long`


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms(name, norm):
    real = name in ("rfft", "ihfft")
    x, = arrays((3, 4, 6), dtype=np.float64 if real else np.complex128)
    for n in (None, 5, 8):
        same(lambda lib, x: getattr(lib.fft, name)(x, n, 1, norm), x)
    same(lambda lib, x: getattr(lib.fft, name + "2")(x, None, (0, 2), norm), x)
    same(lambda lib, x: getattr(lib.fft, name + "n")(x, (4, 7), (2, 1), norm), x)


def test_there_and_back():
    x = rushlight.randn(5, 9)
    assert rushlight.allclose(rushlight.fft.irfft(rushlight.fft.rfft(x), 9), x, atol=1e-6)


def test_frequencies_and_shifts():
    for n in (5, 8):
        same(lambda lib: lib.fft.fftfreq(n, 0.5))
        same(lambda lib: lib.fft.rfftfreq(n, 0.5))
        same(lambda lib, x: lib.fft.ifftshift(lib.fft.fftshift(x) + 1, dim=0), arrays((n, 3))[0])


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_short_time(center, normalized):
    signal, window = arrays((2, 50), (12,))
    how = dict(hop_length=3, win_length=12, center=center, normalized=normalized)
    same(lambda lib, x, w: lib.stft(x, 16, window=w, return_complex=True, **how), signal, np.abs(window) + 1)
    same(lambda lib, x, w: lib.istft(lib.stft(x, 16, window=w, return_complex=True, **{**how, "center": True}), 16,
                                     window=w, **{**how, "center": True}),
         signal, np.abs(window) + 1)


@pytest.mark.parametrize("call", [
    lambda lib: lib.fft.fft(lib.ones(3), norm="x"), lambda lib: lib.fft.fft(lib.ones(3), 0),
    lambda lib: lib.fft.rfft(lib.ones(3, dtype=lib.complex64)),
    lambda lib: lib.fft.fftn(lib.ones(3, 3), dim=(0, 0)), lambda lib: lib.stft(lib.ones(9), 4),
    lambda lib: lib.istft(lib.ones(3, 4), 4)])
def test_arguments_refused(call):
    with pytest.raises(RuntimeError):
        call(torch)
    with pytest.raises(RuntimeError):
        call(rushlight)


def test_complex_numbers_as_pairs():
    z, = arrays((3, 2), dtype=np.complex128)
    same(lambda lib, z: lib.view_as_real(z), z)
    same(lambda lib, x: lib.view_as_complex(x), arrays((3, 2))[0])


LENGTHS = [1, 2, 3, 5, 8, 13, 16, 34, 45, 64, 97, 120, 134, 512, 1000]


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("single", [True, False])
def test_every_length_along_rows_and_columns(size, single):
    """Powers of two, odd and prime factors, and lengths with a large prime, beside NumPy's transforms in double
    precision."""
    generator = np.random.default_rng(size)
    real, tolerance = (np.float32, 1e-5) if single else (np.float64, 1e-13)
    for shape, dim in (((3, size), 1), ((2, size, 19), 1)):
        x = generator.standard_normal(shape).astype(real)
        z = (x + 1j * generator.standard_normal(shape)).astype(np.result_type(real, np.complex64))
        for name, given, more in (("fft", z, {}), ("ifft", z, {}), ("rfft", x, {}), ("irfft", z, {"n": 2 * size - 1}),
                                  ("irfft", z, {"n": 2 * size})):
            wanted = getattr(np.fft, name)(given.astype(np.complex128 if name != "rfft" else np.float64), axis=dim,
                                           **more)
            found = getattr(rushlight.fft, name)(rushlight.tensor(given), dim=dim, **more).numpy()
            assert found.dtype == (real if name == "irfft" else z.dtype)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


def test_transforms_within_compiled_functions():
    x, = arrays((4, 30))
    compiled = rushlight.compile(lambda x: rushlight.fft.irfft(rushlight.fft.rfft(x)
                                                               * rushlight.exp(rushlight.tensor(0.5j)), 30).sum(),
                                 fullgraph=True)
    a = rushlight.tensor(x, requires_grad=True)
    b = torch.tensor(x, requires_grad=True)
    compiled(a).backward()
    torch.fft.irfft(torch.fft.rfft(b) * torch.exp(torch.tensor(0.5j)), 30).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=1e-6)
