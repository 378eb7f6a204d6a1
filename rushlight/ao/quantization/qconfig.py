"""QConfigs: the observers of a layer's activations and its weight."""
from __future__ import annotations

from typing import NamedTuple

from ..._src.core.dtypes import float16
from ..._src.core.later import later
from . import fake_quantize as rounding
from . import observer as observers
from .fake_quantize import FakeQuantize, FusedMovingAvgObsFakeQuantize
from .histogram import HistogramObserver
from .observer import MovingAverageMinMaxObserver, NoopObserver, PlaceholderObserver
from ...nn import Identity, Module

__getattr__ = later(__name__)
BACKENDS = "fbgemm", "x86", "qnnpack", "onednn"


class Pair(NamedTuple):
    activation: object
    weight: object


class QConfig(Pair):
    """Classes (or what makes instances) of the observers of a layer's ``activation`` and ``weight``.  ValueError for
    instances."""

    __slots__ = ()

    def __new__(cls, activation, weight):
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. Use "
                "MyObserver.with_args(x=1) to override arguments to constructor if needed")
        return super().__new__(cls, activation, weight)


per_channel = observers.default_per_channel_weight_observer
default_qconfig = QConfig(activation=observers.default_observer, weight=observers.default_weight_observer)
default_debug_qconfig = QConfig(weight=observers.default_weight_observer, activation=observers.default_debug_observer)
default_per_channel_qconfig = QConfig(activation=observers.default_observer, weight=per_channel)
default_dynamic_qconfig = QConfig(activation=observers.default_dynamic_quant_observer,
                                  weight=observers.default_weight_observer)
float16_dynamic_qconfig = QConfig(activation=PlaceholderObserver.with_args(dtype=float16, is_dynamic=True),
                                  weight=PlaceholderObserver.with_args(dtype=float16))
per_channel_dynamic_qconfig = QConfig(activation=observers.default_dynamic_quant_observer, weight=per_channel)
float_qparams_weight_only_qconfig = QConfig(activation=observers.default_placeholder_observer,
                                            weight=observers.default_float_qparams_observer)
default_qat_qconfig = QConfig(activation=rounding.default_fake_quant, weight=rounding.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(activation=rounding.default_dynamic_fake_quant,
                                      weight=rounding.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(activation=Identity, weight=rounding.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(activation=rounding.default_fake_quant, weight=Identity)
default_qat_qconfig_v2 = QConfig(activation=rounding.default_fused_act_fake_quant,
                                 weight=rounding.default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(activation=observers.default_reuse_input_observer, weight=NoopObserver)


def check_backend(backend):
    if backend not in BACKENDS:
        raise AssertionError(f"backend: {backend} not supported. backend must be one of {list(BACKENDS)}")


def get_default_qconfig(backend="x86", version=0) -> QConfig:
    """Return the QConfig for calibration: a histogram of activations (7 bits for x86 and fbgemm), weights by channel
    (not for qnnpack)."""
    check_backend(backend)
    if version != 0:
        raise AssertionError(
            f"Version number: {version} in get_default_qconfig is not supported. Version number must be 0")
    weight = observers.default_weight_observer if backend == "qnnpack" else per_channel
    return QConfig(activation=HistogramObserver.with_args(reduce_range=backend in ("fbgemm", "x86")), weight=weight)


def get_default_qat_qconfig(backend="x86", version=1) -> QConfig:
    """Return the QConfig for training: moving averages of activations, with fake quantization."""
    check_backend(backend)
    if version not in (0, 1):
        raise AssertionError(
            f"Version number: {version} in get_default_qat_qconfig is not supported. Version number must be 0 or 1")
    kind, reduced = FusedMovingAvgObsFakeQuantize if version else FakeQuantize, backend in ("fbgemm", "x86")
    activation = kind.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
                                **({"reduce_range": reduced} if reduced or not version or backend != "onednn" else {}))
    if backend == "qnnpack":
        weight = rounding.default_fused_wt_fake_quant if version else rounding.default_weight_fake_quant
    else:
        weight = (rounding.default_fused_per_channel_wt_fake_quant if version
                  else rounding.default_per_channel_weight_fake_quant)
    return QConfig(activation=activation, weight=weight)


def made_of(maker):
    """Return the identity of an observer's constructor: the class, and the given arguments."""
    inner = getattr(maker, "p", maker)
    return (getattr(inner, "func", inner), getattr(inner, "args", ()),
            {k: made_of(v) if callable(v) else v for k, v in getattr(inner, "keywords", {}).items()})


def qconfig_equals(q1, q2) -> bool:
    """Whether two QConfigs make the same observers."""
    if q1 is None or q2 is None:
        return q1 is q2
    return all(made_of(a) == made_of(b) for a, b in zip(q1, q2))
