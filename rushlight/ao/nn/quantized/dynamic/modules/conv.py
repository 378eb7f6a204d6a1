"""Convolutions that quantize their inputs by their extremes."""
from __future__ import annotations

from ......_src.core.later import later
from ......_src.ops.quantized_library import LIBRARY
from ......nn import functional as F
from ...modules import conv
from ...modules.utils import layer_of

__getattr__ = later(__name__)


class Dynamic:
    """A convolution of float32 tensors [n, c, *space] by a qint8 weight; the input is quantized by its extremes."""

    def forward(self, input, reduce_range=True):
        if input.dim() != self.rank + 2:
            raise ValueError(f"Input shape must be `(N, C, {('L', 'H, W', 'D, H, W')[self.rank - 1]})`!")
        if self.padding_mode != "zeros":
            input = F.pad(input, [p for size in reversed(self.padding) for p in (size, size)], mode=self.padding_mode)
        return self.compute(input, self._packed_params, reduce_range)

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float layer that has a ``qconfig``."""
        return cls.of(*layer_of(mod), 1.0, 0)


def dynamic(name):
    """The class of this name, dynamic."""
    rank, turned = int(name[-2]), "_transpose" if "Transpose" in name else ""
    compute = staticmethod(LIBRARY[f"conv{turned}{rank}d_dynamic"])
    return type(name, (Dynamic, getattr(conv, name)), {"compute": compute, "__module__": __name__,
                                                       "__doc__": Dynamic.__doc__})


Conv1d, Conv2d, Conv3d = map(dynamic, ("Conv1d", "Conv2d", "Conv3d"))
ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = map(dynamic, ("ConvTranspose1d", "ConvTranspose2d",
                                                                  "ConvTranspose3d"))
