"""What quantized layers share."""
from __future__ import annotations

from ....._src.core.dtypes import float32
from ....._src.core.later import facade, later
from ....._src.core.quantized import qint8
from .....nn import Module
from ....quantization import observer as observers

__getattr__ = later(__name__)


class WeightedQuantizedModule(Module):
    """A layer with a quantized weight, whose results have one ``scale`` and ``zero_point``."""

    scale: float
    zero_point: int

    def set_output(self, scale, zero_point):
        """Sets the scale and zero point of results, numbers or tensors of one element."""
        self.scale, self.zero_point = float(scale), int(zero_point)

    def saved_output(self, destination, prefix):
        torch = facade()
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def loaded_output(self, state_dict, prefix):
        self.set_output(state_dict.pop(prefix + "scale"), state_dict.pop(prefix + "zero_point"))

    def _get_name(self):
        return f"Quantized{type(self).__name__}"


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


def empty_weight(*shape):
    """A qint8 weight of zeros."""
    return facade()._empty_affine_quantized(shape, scale=1.0, zero_point=0, dtype=qint8)

