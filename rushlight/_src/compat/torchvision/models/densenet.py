"""Densely connected networks (Huang et al. 2016, arXiv:1608.06993), with torchvision's names of parameters."""
from __future__ import annotations

from collections import OrderedDict
from functools import partial

import rushlight as torch
from rushlight import nn
from rushlight.utils.checkpoint import checkpoint
from .weights import check, weights_class


class _DenseLayer(nn.Module):
    """A layer whose inputs are the outputs of all layers before it."""

    def __init__(self, num_input_features, growth_rate, bn_size, drop_rate, memory_efficient=False):
        super().__init__()
        inner = bn_size * growth_rate
        self.norm1, self.relu1 = nn.BatchNorm2d(num_input_features), nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, inner, kernel_size=1, stride=1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(inner), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(inner, growth_rate, kernel_size=3, stride=1, padding=1, bias=False)
        self.drop_rate, self.memory_efficient = float(drop_rate), memory_efficient

    def bn_function(self, inputs):
        return self.conv1(self.relu1(self.norm1(torch.cat(inputs, 1))))

    def forward(self, input):
        inputs = list(input) if isinstance(input, (list, tuple)) else [input]
        if self.memory_efficient and any(x.requires_grad for x in inputs):
            narrow = checkpoint(lambda *given: self.bn_function(list(given)), *inputs, use_reentrant=False)
        else:
            narrow = self.bn_function(inputs)
        found = self.conv2(self.relu2(self.norm2(narrow)))
        return nn.functional.dropout(found, self.drop_rate, self.training) if self.drop_rate > 0 else found


class _DenseBlock(nn.ModuleDict):
    """A sequence of dense layers."""

    def __init__(self, num_layers, num_input_features, bn_size, growth_rate, drop_rate, memory_efficient=False):
        super().__init__()
        for k in range(num_layers):
            self.add_module(f"denselayer{k + 1}",
                            _DenseLayer(num_input_features + k * growth_rate, growth_rate, bn_size, drop_rate,
                                        memory_efficient))

    def forward(self, init_features):
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class _Transition(nn.Sequential):
    """Fewer channels, and an image of half the size."""

    def __init__(self, num_input_features, num_output_features):
        super().__init__(OrderedDict(norm=nn.BatchNorm2d(num_input_features), relu=nn.ReLU(inplace=True),
                                     conv=nn.Conv2d(num_input_features, num_output_features, kernel_size=1, stride=1,
                                                    bias=False), pool=nn.AvgPool2d(kernel_size=2, stride=2)))


class DenseNet(nn.Module):
    """Blocks of layers with transitions between them: images [n, 3, h, w] to scores [n, num_classes]."""

    def __init__(self, growth_rate=32, block_config=(6, 12, 24, 16), num_init_features=64, bn_size=4, drop_rate=0,
                 num_classes=1000, memory_efficient=False):
        super().__init__()
        self.features = nn.Sequential(OrderedDict(conv0=nn.Conv2d(3, num_init_features, kernel_size=7, stride=2,
                                                                  padding=3, bias=False),
                                                  norm0=nn.BatchNorm2d(num_init_features),
                                                  relu0=nn.ReLU(inplace=True),
                                                  pool0=nn.MaxPool2d(kernel_size=3, stride=2, padding=1)))
        width = num_init_features
        for k, count in enumerate(block_config, 1):
            self.features.add_module(f"denseblock{k}",
                                     _DenseBlock(count, width, bn_size, growth_rate, drop_rate, memory_efficient))
            width += count * growth_rate
            if k != len(block_config):
                self.features.add_module(f"transition{k}", _Transition(width, width // 2))
                width //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.constant_(module.weight, 1)
                nn.init.constant_(module.bias, 0)
            elif isinstance(module, nn.Linear):
                nn.init.constant_(module.bias, 0)

    def forward(self, x):
        x = nn.functional.relu(self.features(x), inplace=True)
        return self.classifier(nn.functional.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


KINDS = {"densenet121": (32, (6, 12, 24, 16), 64), "densenet161": (48, (6, 12, 36, 24), 96),
         "densenet169": (32, (6, 12, 32, 32), 64), "densenet201": (32, (6, 12, 48, 32), 64)}


def build(name, *, weights=None, progress=True, **kwargs):
    """The network of that name; keyword arguments are those of ``DenseNet``."""
    check(weights, name)
    return DenseNet(*KINDS[name], **kwargs)


globals().update({name: partial(build, name) for name in KINDS})
WEIGHTS = [f"DenseNet{name[8:]}_Weights" for name in KINDS]
globals().update({name: weights_class(name) for name in WEIGHTS})
__all__ = ["DenseNet", *KINDS, *WEIGHTS]
