"""AlexNet as of 2014 (Krizhevsky, arXiv:1404.5997), with torchvision's names of parameters."""
from __future__ import annotations

from rushlight import nn
from .weights import check, weights_class

__all__ = ["AlexNet", "AlexNet_Weights", "alexnet"]
CONVOLUTIONS = ((3, 64, 11, 4, 2, True), (64, 192, 5, 1, 2, True), (192, 384, 3, 1, 1, False),
                (384, 256, 3, 1, 1, False), (256, 256, 3, 1, 1, True))
AlexNet_Weights = weights_class("AlexNet_Weights")


class AlexNet(nn.Module):
    """Five convolutions and three linear layers: images [n, 3, h, w], at least 63 by 63, to scores [n, num_classes]."""

    def __init__(self, num_classes=1000, dropout=0.5):
        super().__init__()
        layers = []
        for inputs, outputs, size, stride, padding, pooled in CONVOLUTIONS:
            layers += [nn.Conv2d(inputs, outputs, size, stride, padding), nn.ReLU(inplace=True),
                       *([nn.MaxPool2d(kernel_size=3, stride=2)] if pooled else [])]
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(inplace=True),
                                        nn.Dropout(p=dropout), nn.Linear(4096, 4096),
                                        nn.ReLU(inplace=True), nn.Linear(4096, num_classes))

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def alexnet(*, weights=None, progress=True, **kwargs):
    """AlexNet; keyword arguments are those of the class."""
    check(weights, "alexnet")
    return AlexNet(**kwargs)
