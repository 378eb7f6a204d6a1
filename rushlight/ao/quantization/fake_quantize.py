"""Modules that round values as their observer says, with gradients that go straight through: how models learn to be
quantized."""
from __future__ import annotations

import numpy as np

from ..._src.core import quantized as schemes
from ..._src.core.dtypes import float32, int32, int64, uint8
from ..._src.core.later import facade, later
from ..._src.core.quantized import qint8, quint8
from ...nn import Module
from . import observer as observers
from .observer import (BITS, BY_CHANNEL, SYMMETRIC, MovingAverageMinMaxObserver,
                       MovingAveragePerChannelMinMaxObserver, with_args)

__getattr__ = later(__name__)
LEAST_SCALE = np.float64(np.float32(6.1e-5))  # of moving averages


class FakeQuantizeBase(Module):
    """Base class of fake-quantization modules: flags for rounding and for observing, as buffers of one element."""

    def __init__(self):
        super().__init__()
        self.register_buffer("fake_quant_enabled", facade().tensor([1], dtype=uint8))
        self.register_buffer("observer_enabled", facade().tensor([1], dtype=uint8))

    with_args = classmethod(with_args)

    def calculate_qparams(self, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} chooses no scale")

    def enable_fake_quant(self, enabled=True):
        """Enable or disable the rounding of values."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self):
        self.enable_fake_quant(False)

    def enable_observer(self, enabled=True):
        """Enable or disable the observation of values."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self):
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """Observes a tensor, and rounds it to what the observed scale and zero point can hold.

    ``observer``: a class; further arguments are its own.  Buffers: ``scale``, ``zero_point``.
    """

    def __init__(self, observer=MovingAverageMinMaxObserver, quant_min=None, quant_max=None, is_dynamic=False,
                 **observer_kwargs):
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError("quant_min must be less than or equal to quant_max")
            low, high = BITS[observer_kwargs.get("dtype", quint8).name]
            if not low <= quant_min <= quant_max <= high:
                raise AssertionError(f"quant_min and quant_max must lie within {low} and {high}, which the dtype holds")
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process = observer(**observer_kwargs)
        own = self.activation_post_process
        self.quant_min, self.quant_max, self.is_dynamic, self.dtype, self.qscheme = (own.quant_min, own.quant_max,
                                                                                     is_dynamic, own.dtype, own.qscheme)
        self.ch_axis, self.is_per_channel = getattr(own, "ch_axis", -1), own.qscheme in BY_CHANNEL
        fractions = self.qscheme is schemes.per_channel_affine_float_qparams
        self.register_buffer("scale", facade().tensor([1.0]))
        self.register_buffer("zero_point", facade().tensor([0], dtype=float32 if fractions else int32))

    def calculate_qparams(self):
        return self.activation_post_process.calculate_qparams()

    def fit(self):
        """The scale and the zero point to round by."""
        return self.calculate_qparams()

    def forward(self, X):
        """Rounded values.  [*] -> [*]."""
        torch = facade()
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.fit()
            self.scale, self.zero_point = scale.to(float32), zero_point.to(self.zero_point.dtype)
        if self.fake_quant_enabled[0] == 1:
            if self.is_per_channel:
                return torch.fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis,
                                                              self.quant_min, self.quant_max)
            return torch.fake_quantize_per_tensor_affine(X, self.scale.reshape(()), self.zero_point.reshape(()),
                                                         self.quant_min, self.quant_max)
        return X

    def extra_repr(self):
        return (f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
                f"quant_min={self.quant_min}, quant_max={self.quant_max}, "
                f"dtype={self.dtype}, qscheme={self.qscheme}, ch_axis={self.ch_axis}, scale={self.scale}, "
                f"zero_point={self.zero_point}")

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        for name in ("scale", "zero_point"):  # as long as there are channels, which the file knows
            if prefix + name in state_dict:
                setattr(self, name, facade().empty_like(state_dict[prefix + name]))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds by a scale and a zero point that are known beforehand."""

    def __init__(self, observer):
        super().__init__(observer=observer)
        own = self.activation_post_process
        self.scale, self.zero_point = own.scale, own.zero_point.to(int32)

    def calculate_qparams(self):
        return self.scale, self.zero_point


def fitted(low, high, quant_min, quant_max, symmetric):
    """Return (scales, zero points) that map the values between these bounds to integers, 0 exactly; NumPy arrays of
    one length.

    Symmetric ranges that hold both signs reach as far as the side that needs the larger steps: there is one whole
    number more below 0.
    """
    low, high = np.minimum(low, 0.0).astype(np.float64), np.maximum(high, 0.0).astype(np.float64)
    levels, both = float(quant_max - quant_min), (low < 0) & (high > 0) & symmetric
    half = float(int(levels) // 2)
    widest = np.maximum(np.abs(low / (half + 1)), np.abs(high / half))
    low, high = np.where(both, -widest * (half + 1), low), np.where(both, widest * half, high)
    scale = (high - low) / levels
    scale = np.where(scale.astype(np.float32) < np.finfo(np.float32).tiny / 2, 0.1, scale)
    wider = np.maximum(LEAST_SCALE / scale, 1.0)
    low, high, scale = low * wider, high * wider, scale * wider
    below = np.abs(quant_min) - np.abs(low / scale) < np.abs(quant_max) - np.abs(high / scale)
    zero = np.where(below, quant_min - low / scale, quant_max - high / scale)
    zero = np.where(both, (quant_min + quant_max) / 2, zero)
    return scale.astype(np.float32), np.rint(np.clip(zero, quant_min, quant_max)).astype(np.int32)


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """A FakeQuantize that observes by moving averages; integer buffers hold ``fake_quant_enabled`` and
    ``observer_enabled``."""

    def __init__(self, observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **observer_kwargs):
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        self.register_buffer("fake_quant_enabled", facade().tensor([1], dtype=int64))
        self.register_buffer("observer_enabled", facade().tensor([1], dtype=int64))

    def fit(self):
        """The scale and the zero point to round by while training."""
        torch, own = facade(), self.activation_post_process
        found = fitted(own.min_val.numpy().reshape(-1), own.max_val.numpy().reshape(-1), self.quant_min,
                       self.quant_max, self.qscheme in SYMMETRIC)
        return tuple(torch.from_numpy(v) for v in found)


def switching(method, meaning):
    """A function for ``model.apply`` that calls a method of every FakeQuantize."""
    def switch(mod):
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, method)()
    switch.__name__, switch.__doc__ = method, meaning
    return switch


enable_fake_quant = switching("enable_fake_quant", "Lets a FakeQuantize round.")
disable_fake_quant = switching("disable_fake_quant", "Lets a FakeQuantize return values as they are.")
enable_observer = switching("enable_observer", "Lets a FakeQuantize observe.")
disable_observer = switching("disable_observer", "Keeps the scale of a FakeQuantize as it is.")

TENSOR = {"dtype": qint8, "qscheme": schemes.per_tensor_symmetric}
CHANNEL = {"dtype": qint8, "qscheme": schemes.per_channel_symmetric}
default_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
                                            dtype=quint8, qscheme=schemes.per_tensor_affine, reduce_range=True)
default_weight_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127,
                                                   reduce_range=False, **TENSOR)
default_dynamic_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
                                                    is_dynamic=True, dtype=quint8, averaging_constant=1)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=observers.default_fixed_qparams_range_neg1to1_observer)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=observers.default_fixed_qparams_range_0to1_observer)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(observer=MovingAveragePerChannelMinMaxObserver,
                                                               quant_min=-128, quant_max=127, reduce_range=False,
                                                               ch_axis=0, **CHANNEL)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver,
                                                                       quant_min=0, quant_max=255, dtype=quint8)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver,
                                                                      quant_min=-128, quant_max=127, **TENSOR)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, **CHANNEL)
