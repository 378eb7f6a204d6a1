"""MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381), with torchvision's names of parameters."""
from __future__ import annotations

from rushlight import nn
from ..ops.misc import Conv2dNormActivation
from ._utils import _make_divisible
from .weights import check, weights_class

__all__ = ["MobileNetV2", "MobileNet_V2_Weights", "mobilenet_v2"]
MobileNet_V2_Weights = weights_class("MobileNet_V2_Weights", "IMAGENET1K_V1", "IMAGENET1K_V2")


class InvertedResidual(nn.Module):
    """A depthwise convolution in a space of more channels; the input is added if shapes agree."""

    def __init__(self, inp, oup, stride, expand_ratio, norm_layer=None):
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm, hidden = norm_layer or nn.BatchNorm2d, int(round(inp * expand_ratio))
        layers = [Conv2dNormActivation(inp, hidden, kernel_size=1, norm_layer=norm,
                                       activation_layer=nn.ReLU6)] if expand_ratio != 1 else []
        self.conv = nn.Sequential(*layers, Conv2dNormActivation(hidden, hidden, stride=stride, groups=hidden,
                                                                norm_layer=norm, activation_layer=nn.ReLU6),
                                  nn.Conv2d(hidden, oup, 1, 1, 0, bias=False), norm(oup))
        self.stride, self.out_channels, self.use_res_connect = stride, oup, stride == 1 and inp == oup

    def forward(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


# widening, width, count, stride
SETTING = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class MobileNetV2(nn.Module):
    """Inverted residuals: images [n, 3, h, w] to scores [n, num_classes]."""

    def __init__(self, num_classes=1000, width_mult=1.0, inverted_residual_setting=None, round_nearest=8, block=None,
                 norm_layer=None, dropout=0.2):
        super().__init__()
        block, norm = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        width = _make_divisible(32 * width_mult, round_nearest)
        self.last_channel = _make_divisible(1280 * max(1.0, width_mult), round_nearest)
        features = [Conv2dNormActivation(3, width, stride=2, norm_layer=norm, activation_layer=nn.ReLU6)]
        for widening, wanted, count, stride in inverted_residual_setting or SETTING:
            following = _make_divisible(wanted * width_mult, round_nearest)
            for k in range(count):
                features.append(block(width, following, stride if k == 0 else 1, expand_ratio=widening,
                                      norm_layer=norm))
                width = following
        features.append(Conv2dNormActivation(width, self.last_channel, kernel_size=1, norm_layer=norm,
                                             activation_layer=nn.ReLU6))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
            elif isinstance(module, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.ones_(module.weight)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x):
        return self.classifier(nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1)).flatten(1))


def mobilenet_v2(*, weights=None, progress=True, **kwargs):
    """MobileNetV2; keyword arguments are those of the class."""
    check(weights, "mobilenet_v2")
    return MobileNetV2(**kwargs)
