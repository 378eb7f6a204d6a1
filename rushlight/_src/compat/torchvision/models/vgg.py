"""VGG (Simonyan and Zisserman 2014, arXiv:1409.1556), with torchvision's names of parameters."""
from __future__ import annotations

from functools import partial

from rushlight import nn
from .weights import check, weights_class

cfgs = {"A": [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
        "B": [64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
        "D": [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"],
        # widths; M halves the image
        "E": [64, 64, "M", 128, 128, "M", 256, 256, 256, 256, "M", 512, 512, 512, 512, "M", 512, 512, 512, 512, "M"]}
LETTERS = {"vgg11": "A", "vgg13": "B", "vgg16": "D", "vgg19": "E"}


def make_layers(cfg, batch_norm=False):
    """The convolutions of a configuration."""
    layers, width = [], 3
    for one in cfg:
        if one == "M":
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
            continue
        layers += [nn.Conv2d(width, one, kernel_size=3, padding=1), *([nn.BatchNorm2d(one)] if batch_norm else []),
                   nn.ReLU(inplace=True)]
        width = one
    return nn.Sequential(*layers)


class VGG(nn.Module):
    """Convolutions, then three linear layers: images [n, 3, h, w] to scores [n, num_classes]."""

    def __init__(self, features, num_classes=1000, init_weights=True, dropout=0.5):
        super().__init__()
        self.features, self.avgpool = features, nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(nn.Linear(512 * 7 * 7, 4096), nn.ReLU(True), nn.Dropout(dropout),
                                        nn.Linear(4096, 4096), nn.ReLU(True), nn.Dropout(dropout),
                                        nn.Linear(4096, num_classes))
        for module in self.modules() if init_weights else ():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
            if isinstance(module, (nn.Conv2d, nn.Linear)) and module.bias is not None:
                nn.init.constant_(module.bias, 0)

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def build(name, batch_norm, *, weights=None, progress=True, **kwargs):
    """The network of that name; keyword arguments are those of ``VGG``."""
    check(weights, name)
    return VGG(make_layers(cfgs[LETTERS[name]], batch_norm), **kwargs)


globals().update({name + suffix: partial(build, name, bool(suffix)) for name in LETTERS for suffix in ("", "_bn")})
WEIGHTS = {f"{name.upper()}{suffix}_Weights": ("IMAGENET1K_V1",
                                               *(("IMAGENET1K_FEATURES",) if name + suffix == "vgg16" else ()))
           for name in LETTERS for suffix in ("", "_BN")}
globals().update({name: weights_class(name, *versions) for name, versions in WEIGHTS.items()})
__all__ = ["VGG", *(name + suffix for name in LETTERS for suffix in ("", "_bn")), *WEIGHTS]
