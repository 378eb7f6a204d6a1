"""Helpers of quantized layers."""
from __future__ import annotations

from ....._src.core.dtypes import float32
from ....._src.core.later import facade, later
from ....._src.core.quantized import qint8
from ....._src.restored import found
from .....nn import Module
from ....quantization import observer as observers
from ...intrinsic.modules.fused import _FusedModule
from ...qat.modules.rounded import Rounded

__getattr__ = later(__name__)


def quantized_name(module):
    """Return the name that a module is printed with."""
    return f"Quantized{type(module).__name__}"


class Prepared:
    """A module that has prepared weights, as files hold them."""

    def __setstate__(self, state):
        super().__setstate__({name: found(value) for name, value in state.items()})


class WeightedQuantizedModule(Module):
    """A layer with a quantized weight, whose results have one ``scale`` and ``zero_point``."""

    scale: float
    zero_point: int

    def set_output(self, scale, zero_point):
        """Sets the scale and zero point of results, numbers or tensors of one element."""
        self.scale, self.zero_point = float(scale), int(zero_point)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        torch = facade()
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        self.set_output(state_dict.pop(prefix + "scale"), state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, args[0], False, *args[2:])

    _get_name = quantized_name


class Scaled:
    """A module whose results have a scale and a zero point of their own, which are buffers."""

    _get_name = quantized_name

    def set_output(self, scale, zero_point, device=None, dtype=None):
        torch = facade()
        self.register_buffer("scale", torch.tensor(float(scale), device=device, dtype=dtype))
        self.register_buffer("zero_point", torch.tensor(int(zero_point), device=device, dtype=dtype))
        self.known = float(self.scale), int(zero_point)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.known = float(self.scale), int(self.zero_point)


def quantized_weight(weight, observer=None):
    """A float weight as qint8, by its observer, or by one of its own (a scale a channel)."""
    torch = facade()
    observer = observers.default_per_channel_weight_observer() if observer is None else observer
    if observer.dtype is not qint8:
        raise AssertionError(f"Weight observer must have dtype torch.qint8, got {observer.dtype}")
    weight = weight.detach().to(float32)
    observer(weight)
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in observers.BY_CHANNEL:
        return torch.quantize_per_channel(weight, scale.to(torch.float64), zero_point.to(torch.int64),
                                          getattr(observer, "ch_axis", 0), qint8)
    return torch.quantize_per_tensor(weight, float(scale), int(zero_point), qint8)


def layer_of(mod):
    """Return (float layer, observer of its weight) of a module to convert, fused or not, for training or not."""
    observer = mod.weight_fake_quant if isinstance(mod, Rounded) else mod.qconfig.weight()
    mod = mod.to_float() if isinstance(mod, Rounded) else mod
    return mod[0] if isinstance(mod, _FusedModule) else mod, observer


def empty_weight(*shape):
    """A qint8 weight of zeros."""
    return facade()._empty_affine_quantized(shape, scale=1.0, zero_point=0, dtype=qint8)

