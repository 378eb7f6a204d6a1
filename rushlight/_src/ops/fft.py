"""Discrete Fourier transforms (Cooley & Tukey 1965), and short-time transforms by them."""
from __future__ import annotations

import math

import numpy as np

from ..core.advice import warn
from ..core.devices import placing
from ..core.dtypes import Defaults, int64
from ..core.kinds import Foreign, P
from ..core.meta import product
from ..core.op import OPS, op, sample
from ..core.tensor import refuse_where, wrapped
from .prims.primitive import primitive

AUTOCAST = "float32"  # sensitive to rounding

NAMESPACE = "fft"


# --- primitives: unnormalized, so that each is the transpose of another -----------------------------------------------
def along(dim, rank, size):
    """Shape of a vector along one dimension."""
    return tuple(size if k == dim else 1 for k in range(rank))


def resized(x, dim, size):
    """Truncate a dimension, or pad it with zeros at the end."""
    have = x.shape[dim]
    if have == size:
        return x
    rank = len(x.shape)
    if size < have:
        return P.slice(x, starts=(0,) * rank, steps=(1,) * rank,
                       shape=tuple(size if k == dim else s for k, s in enumerate(x.shape)))
    return P.pad(x, low=(0,) * rank, high=tuple(size - have if k == dim else 0 for k in range(rank)), inner=(0,) * rank,
                 value=0)


def transform_numpy(x, dims, inverse):
    return (np.fft.ifftn(x, axes=dims, norm="forward") if inverse else np.fft.fftn(x, axes=dims)) if x.size else x


def real_transform_gradient(g, y, x, dim):
    return [P.real(P.fft(resized(g, dim, x.shape[dim]), dims=(dim,), inverse=True))]


def real_inverse_gradient(g, y, x, dim, size):
    """Every coefficient but the first (and the middle one of an even size) also represents its mirror image."""
    rank, half = len(x.shape), x.shape[dim]
    k = P.iota(size=half, dtype=int64)
    once = P.logical_or(P.eq(k, 0), P.eq(P.mul(k, 2), size))
    weight = P.reshape(P.convert(P.sub(2.0, P.convert(once, dtype=g.dtype)), dtype=x.dtype),
                       shape=along(dim, rank, half))
    return [P.mul(P.rfft(g, dim=dim), weight)]


def with_size(x, dim, size, dtype):
    return x.like(tuple(size if k == dim else s for k, s in enumerate(x.shape)), None, dtype)


P_fft = primitive("fft", Foreign(transform_numpy, lambda x, dims, inverse: x.like(tuple(x.shape)),
                                 lambda g, y, x, dims, inverse: [P.fft(g, dims=dims, inverse=not inverse)]),
                  lambda x, dims, inverse: 0, arity=1,
                  doc="sum_j x_j exp(-2 pi i j k / n) over each of dims (+2 pi i for the inverse), without a factor.")
P_rfft = primitive("rfft", Foreign(lambda x, dim: np.fft.rfft(x, axis=dim),
                                   lambda x, dim: with_size(x, dim, x.shape[dim] // 2 + 1, x.dtype.to_complex()),
                                   real_transform_gradient), lambda x, dim: 0, arity=1,
                   doc="The first half of the transform of a real x.")
P_irfft = primitive("irfft", Foreign(lambda x, dim, size: np.fft.irfft(x, size, axis=dim, norm="forward"),
                                     lambda x, dim, size: with_size(x, dim, size, x.dtype.to_real()),
                                     real_inverse_gradient), lambda x, dim, size: 0, arity=1,
                    doc="The inverse of rfft, without a factor: a real result of ``size`` elements.")


# --- one dimension and several ----------------------------------------------------------------------------------------
def factor(norm, size, inverse):
    """Factor that normalizes a transform."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"; it is one of "backward", "ortho", "forward"')
    if norm == "ortho":
        return 1 / math.sqrt(size)
    return 1 / size if (norm == "forward") != inverse else 1.0


def scaled(x, scale):
    return x if scale == 1.0 else P.mul(x, scale)


def working(input, complex_):
    """Convert the input to a floating (or complex) dtype."""
    if input.dtype.is_half:
        raise RuntimeError(f"Unsupported dtype {input.dtype} for FFTs: use .float() first")
    dtype = input.dtype if input.dtype.is_inexact else Defaults.floating
    dtype = dtype.to_complex() if complex_ else dtype
    return P.convert(input, dtype=dtype) if input.dtype is not dtype else input


def real_only(name, input):
    if input.dtype.is_complex:
        raise RuntimeError(f"{name} expects a real-valued input tensor, but got {input.dtype}")


def plan_dims(name, input, s, dim):
    """Dimensions and their sizes in the result of the transform."""
    rank = len(input.shape)
    s = (s,) if isinstance(s, int) else s
    dim = (dim,) if isinstance(dim, int) else dim
    if dim is None:
        dims = tuple(range(rank)) if s is None else tuple(range(rank - len(s), rank))
        if s is not None and len(s) > rank:
            raise RuntimeError(f"{name}: Got shape with {len(s)} values but input tensor only has {rank} dimensions.")
    else:
        dims = tuple(wrapped(d, rank) for d in dim)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"{name}: FFT dims must be unique, got {list(dim)}")
    if s is not None and len(s) != len(dims):
        raise RuntimeError(f"{name}: When given, dim and shape arguments must have the same length")
    sizes = tuple(input.shape[d] if s is None or s[k] == -1 else s[k] for k, d in enumerate(dims))
    for size in sizes:
        if size < 1:
            raise RuntimeError(f"{name}: Invalid number of data points ({size}) specified")
    return dims, sizes


def complex_transform(name, input, s, dim, norm, inverse):
    dims, sizes = plan_dims(name, input, s, dim)
    x = working(input, True)
    for d, size in zip(dims, sizes):
        x = resized(x, d, size)
    return scaled(transformed(x, dims, inverse), factor(norm, product(sizes), inverse)) if dims else P.copy(x)


def transformed(x, dims, inverse):
    """Transform one dimension after the other."""
    for dim in reversed(dims):
        x = P.fft(x, dims=(dim,), inverse=inverse)
    return x


def from_real(name, input, s, dim, norm, inverse):
    """Real to half complex: transform the last of dims, then the others as complex.  The inverse direction (ihfft)
    conjugates."""
    real_only(name, input)
    dims, sizes = plan_dims(name, input, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    x = working(input, False)
    for d, size in zip(dims, sizes):
        x = resized(x, d, size)
    out = P.rfft(x, dim=dims[-1])
    out = P.conj(out) if inverse else out
    out = transformed(out, dims[:-1], inverse)
    return scaled(out, factor(norm, product(sizes), inverse))


def to_real(name, input, s, dim, norm, inverse):
    """Half complex to real: complex along all but the last of dims, then real along it.  The forward direction (hfft)
    conjugates."""
    dims, sizes = plan_dims(name, input, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    given = s[-1] if isinstance(s, (tuple, list)) else s
    last = given if given not in (None, -1) else 2 * (input.shape[dims[-1]] - 1)
    if last < 1:
        raise RuntimeError(f"{name}: Invalid number of data points ({last}) specified")
    x = working(input, True)
    for d, size in zip(dims, (*sizes[:-1], last // 2 + 1)):
        x = resized(x, d, size)
    x = transformed(x, dims[:-1], inverse)
    x = x if inverse else P.conj(x)
    return scaled(P.irfft(x, dim=dims[-1], size=last), factor(norm, product(sizes[:-1]) * last, inverse))


WHAT = {"fft": (complex_transform, False, "The Fourier transform"),
        "ifft": (complex_transform, True, "The inverse Fourier transform"),
        "rfft": (from_real, False, "The first half of the Fourier transform of a real signal"),
        "irfft": (to_real, True, "The inverse of rfft, a real signal"),
        "hfft": (to_real, False,
                 "The Fourier transform, real, of a signal that is Hermitian and given by its first half"),
        "ihfft": (from_real, True, "The inverse of hfft")}
SAMPLES = {"fft": sample((3, 4)), "ifft": sample((3, 4)), "rfft": sample((3, 5)), "irfft": sample((3, 4)),
           "hfft": sample((3, 4)), "ihfft": sample((3, 4))}


def declare(name):
    run, inverse, text = WHAT[name]

    def one(input, n=None, dim=-1, norm=None):
        return run(name, input, None if n is None else (n,), (dim,), norm, inverse)

    def two(input, s=None, dim=(-2, -1), norm=None):
        return run(f"{name}2", input, s, dim, norm, inverse)

    def many(input, s=None, dim=None, norm=None):
        return run(f"{name}n", input, s, dim, norm, inverse)

    for body, ending, place in ((one, "", "along a dimension"), (two, "2", "along two dimensions"),
                                (many, "n", "along several dimensions")):
        body.__name__, body.__doc__ = (name + ending,
                                       f"{text}, {place}; ``norm`` is \"backward\", \"ortho\" or \"forward\".")
        op(body, namespace=NAMESPACE, samples=(SAMPLES[name],))


for _name in WHAT:
    declare(_name)


# --- frequencies ------------------------------------------------------------------------------------------------------
@op(composite=True, namespace=NAMESPACE)
@placing
def fftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequency of each coefficient of a transform of n samples, d apart: [n]."""
    k = OPS["arange"](n, dtype=dtype or Defaults.floating)
    k = OPS["where"](k < (n + 1) // 2, k, k - n) * (1.0 / (n * d))
    return k.requires_grad_() if requires_grad else k


@op(composite=True, namespace=NAMESPACE)
@placing
def rfftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequency of each coefficient of rfft of n samples, d apart: [n // 2 + 1]."""
    k = OPS["arange"](n // 2 + 1, dtype=dtype or Defaults.floating) * (1.0 / (n * d))
    return k.requires_grad_() if requires_grad else k


def shift(name, amount, doc):
    def body(input, dim=None):
        dims = range(len(input.shape)) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
        return OPS["roll"](input, tuple(amount(input.shape[d]) for d in dims), tuple(dims)) if dims else input.clone()
    body.__name__, body.__doc__ = name, doc
    return op(body, composite=True, namespace=NAMESPACE)


fftshift = shift("fftshift", lambda n: n // 2, "The zero frequency moved to the middle.")
ifftshift = shift("ifftshift", lambda n: -(n // 2), "The inverse of fftshift.")


# --- short-time transforms --------------------------------------------------------------------------------------------
def window_of(name, window, n_fft, win_length, like):
    """The window, centered in n_fft zeros."""
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={win_length}, n_fft={n_fft}")
    if window is None:
        if win_length > 1:
            warn(f"{name}: a window was not provided, and a rectangular one is applied, which leaks between "
                 f"frequencies. Pass one such as hann_window({win_length}), or "
                 f"ones({win_length}) for a rectangular one.")
        window = like.new_ones(win_length)
    elif tuple(window.shape) != (win_length,):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window.shape)}")
    left = (n_fft - win_length) // 2
    return OPS["nn.functional.pad"](window, (left, n_fft - win_length - left)) if win_length < n_fft else window


@op(composite=True, samples=(sample((40,), 8, return_complex=True),))
def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
         onesided=None, return_complex=None,
         align_to_window=None):
    """Fourier transforms of windows of a signal, ``hop_length`` apart: [*, t] -> [*, frequencies, frames]."""
    complex_ = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not complex_:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future release.")
    if input.dim() not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got {input.dim()}D tensor")
    if not input.dtype.is_inexact:
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, got {input.dtype}")
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if onesided and complex_:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    onesided = not complex_ if onesided is None else onesided
    if return_complex is False:
        warn("stft with return_complex=False is deprecated: let it return complex tensors, and convert them with "
             "view_as_real.")
    x = input.unsqueeze(0) if input.dim() == 1 else input
    if center:
        half = n_fft // 2
        x = OPS["nn.functional.pad"](x.unsqueeze(1), (half, half), pad_mode).squeeze(1)
    if not 0 < n_fft <= x.size(1):
        raise RuntimeError(f"stft: expected 0 < n_fft <= {x.size(1)}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    frames = x.unfold(1, n_fft, hop) * window_of("stft", window, n_fft, length, x)
    out = OPS["fft.rfft" if onesided else "fft.fft"](frames, norm="ortho" if normalized else None).transpose(1, 2)
    out = out.squeeze(0) if input.dim() == 1 else out
    return out if return_complex or return_complex is None else OPS["view_as_real"](out)


@op(composite=True)
def istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
          length=None, return_complex=False):
    """Invert ``stft`` by overlap and add (Griffin & Lim 1984): [*, frequencies, frames] -> [*, t]."""
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True, "
            f"got {input.dtype}")
    if input.dim() not in (2, 3) or not input.numel():
        raise RuntimeError(f"istft(): expected a non-empty tensor with 2 or 3 dimensions, got {list(input.shape)}")
    hop = n_fft // 4 if hop_length is None else hop_length
    span = n_fft if win_length is None else win_length
    if not 0 < hop <= span:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, but got hop_length={hop}, win_length={span}")
    onesided = input.size(-2) != n_fft if onesided is None else onesided
    if input.size(-2) != (n_fft // 2 + 1 if onesided else n_fft):
        raise RuntimeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft ({n_fft}), "
            f"but got {input.size(-2)}")
    spectrum = (input.unsqueeze(0) if input.dim() == 2 else input).transpose(1, 2)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = OPS["fft.ifft"](spectrum, norm=norm)
    else:
        frames = OPS["fft.irfft"](spectrum if onesided else spectrum[..., :n_fft // 2 + 1], n_fft, norm=norm)
    weight = window_of("istft", window, n_fft, span, frames.real if return_complex and window is None else frames)
    total = n_fft + hop * (frames.size(1) - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start if center else total
    y = added(frames * weight, hop, total)[:, start:end]
    envelope = added((weight * weight).expand((1, *frames.shape[1:])), hop, total)[:, start:end]
    refuse_where(envelope.abs().min() <= 1e-11, RuntimeError(
        "istft: window overlap add min: 1; the windows leave gaps, so the signal cannot be recovered. Use a smaller "
        "hop_length or another window"))
    y = y / envelope
    if length is not None and y.size(1) < length:
        y = OPS["nn.functional.pad"](y, (0, length - y.size(1)))
    return y.squeeze(0) if input.dim() == 2 else y


def added(frames, hop, total):
    """Add up frames [n, frames, size], ``hop`` apart: [n, total]."""
    n, count, size = frames.shape
    at = (OPS["arange"](count).unsqueeze(1) * hop + OPS["arange"](size)).reshape(-1)
    return frames.new_zeros((n, total)).index_add(1, at, frames.reshape(n, count * size))
