"""The observer that keeps a histogram, and cuts off what costs less when it is cut off than when all other values are
rounded more coarsely for it."""
from __future__ import annotations

import warnings

import numpy as np

from ..._src.core import quantized as schemes
from ..._src.core.later import facade
from ..._src.core.quantized import quint8
from .observer import BITS, EPS, UniformQuantizationObserverBase

FINER = 16  # parts of a bin that are moved when a histogram gets wider
STEP = 1e-5  # share of values that the search leaves out at once


def cube(end, begin):
    """The integral of x * x, for each bin."""
    return (end * end * end - begin * begin * begin) / np.float32(3)


def rounding_error(histogram, low, high, first, last, levels):
    """Return the sum of squared errors when bins from ``first`` to ``last`` are quantized to this number of levels,
    others to the nearest of these; values are uniform in a bin."""
    single = np.float32
    width = (high - low) / len(histogram)
    step = width * (last - first + 1) / levels
    if step == 0.0:
        return 0.0
    begin = (np.arange(len(histogram)) - first).astype(single) * single(width)
    end = begin + single(width)
    near = np.clip(np.floor(begin / single(step)), 0, levels - 1)
    far = np.clip(np.floor(end / single(step)), 0, levels - 1)
    density, half = histogram / single(width), single(step / 2)
    total = density * cube(half, begin - (near + single(0.5)) * single(step))
    total = total + (far - near - 1) * (density * cube(half, -half))
    total = total + density * cube(end - (far * single(step) + half), -half)
    return float(total.sum(dtype=single))


def best_range(histogram, low, high, levels):
    """(first bin, last bin): outer bins are left out by small shares of all values, on the side where that takes more
    bins, as long as the error gets less."""
    sums, total = np.cumsum(histogram, dtype=np.float32), float(histogram.sum(dtype=np.float32))
    alpha, beta, first, last, least = 0.0, 1.0, 0, len(histogram) - 1, float("inf")
    while alpha < beta:
        more, less = alpha + STEP, beta - STEP
        left = min(max(int(np.searchsorted(sums[first:last], np.float32(more * total), "left")) + first, first), last)
        right = max(int(np.searchsorted(sums[first + 1:last + 1], np.float32(less * total), "right")) + first, first)
        begin, end = first, last
        if left - first > last - right:
            begin, alpha = left, more
        else:
            end, beta = right, less
        if (begin, end) == (first, last):
            continue
        error = rounding_error(histogram, low, high, begin, end, levels)
        if error > least:
            break
        least, first, last = error, begin, end
    return first, last


class HistogramObserver(UniformQuantizationObserverBase):
    """A histogram of all values seen, ``bins`` long; of the ranges within it that one is chosen which loses least (L2)
    by rounding.

    Buffers: ``histogram`` [bins], ``min_val`` and ``max_val`` [], where it begins and ends.
    """

    def __init__(self, bins=2048, dtype=quint8, qscheme=schemes.per_tensor_affine, reduce_range=False, quant_min=None,
                 quant_max=None, factory_kwargs=None, eps=EPS, is_dynamic=False,
                 **kwargs):
        if qscheme not in (schemes.per_tensor_affine, schemes.per_tensor_symmetric):
            raise NotImplementedError(
                "HistogramObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine.")
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        torch, (low, high) = facade(), BITS[dtype.name]
        self.bins, self.dst_nbins, self.upsample_rate = bins, high - low + 1, FINER
        self.register_buffer("histogram", torch.zeros(bins, **self.factory))
        self.register_buffer("min_val", torch.tensor(float("inf"), **self.factory))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **self.factory))

    def forward(self, x_orig):
        """Sees a tensor, which it returns; infinite values are left out."""
        torch = facade()
        if not x_orig.numel():
            return x_orig
        x = x_orig.detach()
        low, high = torch.aminmax(x)
        if low == float("-inf") or high == float("inf"):
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            x = x[x.abs() != float("inf")]
            if not x.numel():
                return x_orig
            low, high = torch.aminmax(x)
        low, high = torch.minimum(low, self.min_val), torch.maximum(high, self.max_val)
        added = torch.histc(x, self.bins, low.item(), high.item())
        if self.min_val != float("inf"):
            added = added + self.widened(low, high)
        self.histogram, self.min_val, self.max_val = added, low.detach(), high.detach()
        return x_orig

    def widened(self, low, high):
        """Return the current histogram in bins between these bounds."""
        torch = facade()
        if low == self.min_val and high == self.max_val:
            return self.histogram
        if self.min_val == self.max_val:
            return torch.histc(self.min_val, self.bins, low.item(), high.item()) * self.histogram.sum()
        finer = self.histogram.repeat_interleave(FINER) / FINER
        size = (self.max_val - self.min_val) / (self.bins * FINER)
        middles = torch.linspace(self.min_val.item(), self.max_val.item(), self.bins * FINER + 1)[:-1] + 0.5 * size
        places = torch.bucketize(middles, torch.linspace(low.item(), high.item(), self.bins + 1), right=True) - 1
        return torch.bincount(places.clamp(0, self.bins - 1), weights=finer, minlength=self.bins)

    def calculate_qparams(self):
        torch = facade()
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            warnings.warn("must run observer before calling calculate_qparams. Returning default scale and zero point ",
                          stacklevel=2)
            return torch.tensor([1.0]), torch.tensor([0])
        first, last = best_range(self.histogram.numpy(), self.min_val.item(), self.max_val.item(), self.dst_nbins)
        width = (self.max_val - self.min_val) / self.bins
        return self._calculate_qparams(self.min_val + width * first, self.min_val + width * (last + 1))

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self):
        self.__init__(self.bins, self.dtype, self.qscheme, False, self.quant_min, self.quant_max)


default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
