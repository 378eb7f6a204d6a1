"""Observers: modules that see the values of a tensor go by, and choose the scale and zero point for them."""
from __future__ import annotations

import functools
import math
import warnings

from ..._src.core import quantized as schemes
from ..._src.core.dtypes import float16, float32, int32, int64
from ..._src.core.later import facade, later
from ..._src.core.quantized import qint8, quint8
from ...nn import Module

__getattr__ = later(__name__, {".histogram": ("HistogramObserver", "default_histogram_observer")})
SYMMETRIC = schemes.per_tensor_symmetric, schemes.per_channel_symmetric
BY_CHANNEL = schemes.per_channel_affine, schemes.per_channel_symmetric, schemes.per_channel_affine_float_qparams
BITS = {"qint8": (-128, 127), "int8": (-128, 127), "quint8": (0, 255), "uint8": (0, 255), "qint32": (-2**31, 2**31 - 1),
        "int32": (-2**31, 2**31 - 1), "int16": (-2**15, 2**15 - 1),
        "uint16": (0, 2**16 - 1)}
EPS = 1.1920928955078125e-07


class Partial:
    """A class with some arguments given: calling it gives the rest."""

    def __init__(self, p):
        self.p, self.callable_args = p, {}

    def __call__(self, *args, **keywords):
        given = {name: value() for name, value in self.callable_args.items() if name not in keywords}
        return self.p(*args, **given, **keywords)

    def __repr__(self):
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs):
        """With further arguments given."""
        return with_args(self, **kwargs)

    def with_callable_args(self, **kwargs):
        """With arguments that are called for each instance."""
        made = with_args(self)
        made.callable_args = {**self.callable_args, **kwargs}
        return made


def with_args(made, **kwargs) -> Partial:
    """A class, or a Partial of one, with some arguments given."""
    return Partial(functools.partial(made, **kwargs))


class ObserverBase(Module):
    """Base class of observers: ``with_args``, and the quantized dtype."""

    def __init__(self, dtype, is_dynamic=False):
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    with_args = classmethod(with_args)

    @classmethod
    def with_callable_args(cls, **kwargs):
        """The class with arguments that are called for each instance."""
        return Partial(cls).with_callable_args(**kwargs)

    def forward(self, x):
        raise NotImplementedError(f"{type(self).__name__} does not say what it does with values")

    def calculate_qparams(self, **kwargs):
        """Return (scale, zero point) for the observed values."""
        raise NotImplementedError(f"{type(self).__name__} chooses no scale")


def range_of(dtype, quant_min, quant_max, reduce_range):
    """Return the least and the greatest quantized value."""
    if quant_min is not None and quant_max is not None:
        return (quant_min // 2, quant_max // 2) if reduce_range else (quant_min, quant_max)
    low, high = BITS[dtype.name]
    if not reduce_range or dtype.name.endswith("32"):
        return low, high
    return -((-low) // 2), high // 2


class UniformQuantizationObserverBase(ObserverBase):
    """Base class of observers that choose one scale, or one for each channel, from the least and largest values.

    Buffers: ``eps``, the least scale.  ValueError for a scheme or a range that is not of use.
    """

    _version = 3

    def __init__(self, dtype=quint8, qscheme=schemes.per_tensor_affine, reduce_range=False, quant_min=None,
                 quant_max=None, factory_kwargs=None, eps=EPS, is_dynamic=False,
                 **kwargs):
        super().__init__(dtype, is_dynamic, **kwargs)
        if qscheme not in schemes.QSCHEMES:
            raise AssertionError(f"an observer takes one of {schemes.QSCHEMES}, got {qscheme}")
        if dtype.name not in BITS:
            raise AssertionError(f"Default Observer only works for dtypes {', '.join(BITS)}, got {dtype}")
        if reduce_range:
            warnings.warn(
                "Please use quant_min and quant_max to specify the range for observers. reduce_range will be "
                "deprecated in a future release of PyTorch.", stacklevel=2)
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.factory = facade().nn.factory_kwargs(factory_kwargs)
        self.register_buffer("eps", facade().tensor([eps], **self.factory))
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange and not quant_min < quant_max:
            raise AssertionError(f"quant_min {quant_min} must be less than quant_max {quant_max}")
        self.quant_min, self.quant_max = range_of(dtype, quant_min, quant_max, reduce_range)

    def _calculate_qparams(self, min_val, max_val):
        """(scale, zero point) of [1] or [channels] each, for the least and largest values."""
        torch = facade()
        if min_val.numel() == 0 or bool((min_val > max_val).any()):
            warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=2)
            return torch.tensor([1.0]), torch.tensor([0])
        low, high, steps = min_val.clamp(max=0.0), max_val.clamp(min=0.0), float(self.quant_max - self.quant_min)
        if self.qscheme in SYMMETRIC:
            scale = torch.maximum(torch.maximum(-low, high) / (steps / 2), self.eps)
            zero = (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128
            zero_point = torch.full(scale.shape, zero if self.dtype.name in ("quint8", "uint8") else 2**15
                                    if self.dtype.name == "uint16" else 0, dtype=int64)
        elif self.qscheme is schemes.per_channel_affine_float_qparams:
            scale = (max_val - min_val) / steps
            scale = torch.where(scale > self.eps, scale, torch.ones_like(scale))
            zero_point = -1 * min_val / scale
        else:
            scale = torch.maximum((high - low) / steps, self.eps)
            zero_point = (self.quant_min - torch.round(low / scale).to(int32)).clamp(self.quant_min, self.quant_max)
        return scale.reshape(-1), zero_point.reshape(-1)

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        raise NotImplementedError("Cannot reset min/max values in the given observer.")


class MinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest value seen."""

    def __init__(self, dtype=quint8, qscheme=schemes.per_tensor_affine, reduce_range=False, quant_min=None,
                 quant_max=None, factory_kwargs=None, eps=EPS, is_dynamic=False, **kwargs):
        if qscheme in BY_CHANNEL:
            raise NotImplementedError(
                "MinMaxObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine.")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.register_buffer("min_val", facade().tensor(float("inf"), **self.factory))
        self.register_buffer("max_val", facade().tensor(float("-inf"), **self.factory))

    def forward(self, x_orig):
        """Sees a tensor, which it returns."""
        if x_orig.numel():
            low, high = facade().aminmax(x_orig.detach().to(self.min_val.dtype))
            self.min_val, self.max_val = self.joined(low, high)
        return x_orig

    def joined(self, low, high):
        """Return the extremes merged with new ones."""
        torch = facade()
        return torch.minimum(low, self.min_val), torch.maximum(high, self.max_val)

    def calculate_qparams(self):
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self):
        self.min_val, self.max_val = (facade().tensor(bound, **self.factory) for bound in (math.inf, -math.inf))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Extremes that follow those of each tensor by the share ``averaging_constant``."""

    def __init__(self, averaging_constant=0.01, dtype=quint8, qscheme=schemes.per_tensor_affine, reduce_range=False,
                 quant_min=None, quant_max=None, eps=EPS, is_dynamic=False, **kwargs):
        self.averaging_constant = averaging_constant
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging constant != 1")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, None, eps, is_dynamic, **kwargs)
        self.averaging_constant = averaging_constant

    def joined(self, low, high):
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            return low, high
        return self.min_val + self.averaging_constant * (low - self.min_val), self.max_val + self.averaging_constant * (
            high - self.max_val)


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest value seen of each index of dimension ``ch_axis``."""

    def __init__(self, ch_axis=0, dtype=quint8, qscheme=schemes.per_channel_affine, reduce_range=False, quant_min=None,
                 quant_max=None, factory_kwargs=None, eps=EPS,
                 is_dynamic=False, **kwargs):
        if qscheme not in BY_CHANNEL:
            raise NotImplementedError(
                "PerChannelMinMaxObserver's qscheme only support torch.per_channel_symmetric, "
                "torch.per_channel_affine and torch.per_channel_affine_float_qparams.")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.ch_axis = ch_axis
        self.reset_min_max_vals()

    def forward(self, x_orig):
        """Sees a tensor, which it returns."""
        if x_orig.numel():
            x = x_orig.detach().to(float32)
            low, high = facade().aminmax(x.transpose(0, self.ch_axis).flatten(1), dim=1)
            self.min_val, self.max_val = (low, high) if not self.min_val.numel() else self.joined(low, high)
        return x_orig

    joined = MinMaxObserver.joined
    calculate_qparams = MinMaxObserver.calculate_qparams
    extra_repr = MinMaxObserver.extra_repr

    def reset_min_max_vals(self):
        self.register_buffer("min_val", facade().tensor([], **self.factory))
        self.register_buffer("max_val", facade().tensor([], **self.factory))

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        for name in ("min_val", "max_val"):  # as long as there are channels, which the file knows
            if prefix + name in state_dict:
                setattr(self, name, facade().empty_like(state_dict[prefix + name]))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Extremes of each channel that follow those of each tensor by the share ``averaging_constant``."""

    def __init__(self, averaging_constant=0.01, ch_axis=0, dtype=quint8, qscheme=schemes.per_channel_affine,
                 reduce_range=False, quant_min=None, quant_max=None, eps=EPS, is_dynamic=False,
                 **kwargs):
        super().__init__(ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, None, eps, is_dynamic, **kwargs)
        self.averaging_constant = averaging_constant

    def joined(self, low, high):
        return self.min_val + self.averaging_constant * (low - self.min_val), self.max_val + self.averaging_constant * (
            high - self.max_val)


class FixedQParamsObserver(ObserverBase):
    """A scale and a zero point that are known beforehand."""

    def __init__(self, scale, zero_point, dtype=quint8, qscheme=schemes.per_tensor_affine, quant_min=0, quant_max=255,
                 is_dynamic=False, **kwargs):
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype, is_dynamic, **kwargs)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", facade().tensor([scale]))
        self.register_buffer("zero_point", facade().tensor([zero_point]))

    def forward(self, X):
        return X

    def calculate_qparams(self):
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Sees nothing: says which dtype is meant, and whether scales are chosen at run time."""

    def __init__(self, dtype=float32, custom_op_name="", compute_dtype=None, quant_min=None, quant_max=None,
                 qscheme=None, eps=None, is_dynamic=False):
        super().__init__(dtype, is_dynamic)
        self.qscheme, self.quant_min, self.quant_max, self.eps, self.custom_op = (qscheme or schemes.per_tensor_affine,
                                                                                  quant_min, quant_max, eps,
                                                                                  custom_op_name)
        if compute_dtype:
            self.is_dynamic = True

    def forward(self, x):
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for PlaceholderObserver")  # noqa: TRY002 - as in PyTorch


class NoopObserver(ObserverBase):
    """Sees nothing: only says that a dtype is meant."""

    def __init__(self, dtype=float16, custom_op_name=""):
        super().__init__(dtype)
        self.custom_op = custom_op_name

    def forward(self, x):
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for NoopObserver")  # noqa: TRY002 - as in PyTorch


class ReuseInputObserver(ObserverBase):
    """Stands for the observer of the input, as reshape wants it."""

    def __init__(self):
        super().__init__(quint8)

    def forward(self, x):
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for ReuseInputObserver")  # noqa: TRY002 - as in PyTorch


class RecordingObserver(ObserverBase):
    """Keeps every tensor that it sees."""

    def __init__(self, dtype=quint8):
        super().__init__(dtype)
        self.tensor_val = []

    def forward(self, x):
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for RecordingObserver")  # noqa: TRY002 - as in PyTorch

    def get_tensor_value(self):
        """The tensors seen."""
        return self.tensor_val


def _is_activation_post_process(module) -> bool:
    """Whether a module is an observer, or rounds as one says."""
    from .fake_quantize import FakeQuantizeBase
    return isinstance(module, (ObserverBase, FakeQuantizeBase))


_PartialWrapper, _with_args, _ObserverBase = Partial, with_args, UniformQuantizationObserverBase
default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer, default_debug_observer, default_reuse_input_observer = (PlaceholderObserver,
                                                                                      RecordingObserver,
                                                                                      ReuseInputObserver)
default_weight_observer = MinMaxObserver.with_args(dtype=qint8, qscheme=schemes.per_tensor_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(dtype=qint8, qscheme=schemes.per_tensor_symmetric,
                                                                quant_min=-127, quant_max=127, eps=2**-12)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(dtype=qint8,
                                                                         qscheme=schemes.per_channel_symmetric)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=schemes.per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12)
default_dynamic_quant_observer = PlaceholderObserver.with_args(dtype=quint8, quant_min=0, quant_max=255,
                                                               is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(dtype=quint8,
                                                                    qscheme=schemes.per_channel_affine_float_qparams,
                                                                    ch_axis=0)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(scale=2.0 / 256.0, zero_point=128,
                                                                              dtype=quint8, quant_min=0, quant_max=255)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(scale=1.0 / 256.0, zero_point=0,
                                                                           dtype=quint8, quant_min=0, quant_max=255)
default_symmetric_fixed_qparams_observer, default_affine_fixed_qparams_observer = (
    default_fixed_qparams_range_neg1to1_observer, default_fixed_qparams_range_0to1_observer)

