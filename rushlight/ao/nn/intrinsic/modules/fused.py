"""Layers in a row that quantization takes as one."""
from __future__ import annotations

from ....._src.core.later import later
from .....nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, Linear, ReLU, Sequential

__getattr__ = later(__name__)


class _FusedModule(Sequential):
    """Base class of fused layers."""


def fused(name, *kinds):
    """A class of two layers in a row, of these classes each.  AssertionError for others."""
    def __init__(self, *layers):
        if len(layers) != len(kinds) or not all(isinstance(layer, kind) for layer, kind in zip(layers, kinds)):
            raise AssertionError(
                f"Incorrect types for input modules {' '.join(type(layer).__name__ for layer in layers)}: {name} is "
                f"made of {', '.join(k.__name__ for k in kinds)}")
        Sequential.__init__(self, *layers)

    return type(name, (_FusedModule,),
                {"__init__": __init__, "__module__": __name__,
                 "__doc__": f"{', then '.join(k.__name__ for k in kinds)}, taken as one.  [*] -> [*]."})


ConvReLU1d, ConvReLU2d, ConvReLU3d = fused("ConvReLU1d", Conv1d, ReLU), fused("ConvReLU2d", Conv2d,
                                                                              ReLU), fused("ConvReLU3d", Conv3d, ReLU)
LinearReLU = fused("LinearReLU", Linear, ReLU)
BNReLU2d, BNReLU3d = fused("BNReLU2d", BatchNorm2d, ReLU), fused("BNReLU3d", BatchNorm3d, ReLU)
ConvBn1d, ConvBn2d, ConvBn3d = (fused("ConvBn1d", Conv1d, BatchNorm1d), fused("ConvBn2d", Conv2d, BatchNorm2d),
                                fused("ConvBn3d", Conv3d, BatchNorm3d))
ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d = (fused("ConvBnReLU1d", Conv1d, BatchNorm1d, ReLU),
                                            fused("ConvBnReLU2d", Conv2d, BatchNorm2d, ReLU),
                                            fused("ConvBnReLU3d", Conv3d, BatchNorm3d, ReLU))
LinearBn1d = fused("LinearBn1d", Linear, BatchNorm1d)
