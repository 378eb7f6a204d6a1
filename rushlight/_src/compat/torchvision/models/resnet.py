"""Residual networks (He et al. 2015, arXiv:1512.03385; wide: Zagoruyko 2016; ResNeXt: Xie et al. 2016), with
torchvision's names of parameters."""
from __future__ import annotations

from functools import partial

from rushlight import nn
from .weights import check, weights_class


def conv3x3(in_planes, out_planes, stride=1, groups=1, dilation=1):
    """A 3 x 3 convolution that keeps the size, apart from its stride."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, dilation, dilation, groups, bias=False)


def conv1x1(in_planes, out_planes, stride=1):
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with a residual connection."""

    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64, dilation=1,
                 norm_layer=None):
        super().__init__()
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        norm = norm_layer or nn.BatchNorm2d
        self.conv1, self.bn1, self.relu = conv3x3(inplanes, planes, stride), norm(planes), nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv3x3(planes, planes), norm(planes)
        self.downsample, self.stride = downsample, stride

    def forward(self, x):
        around = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + around)


class Bottleneck(nn.Module):
    """A 3 x 3 convolution between two of 1 x 1 with a residual connection; the middle one has the stride."""

    expansion = 4

    def __init__(self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64, dilation=1,
                 norm_layer=None):
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1, self.bn1 = conv1x1(inplanes, width), norm(width)
        self.conv2, self.bn2 = conv3x3(width, width, stride, groups, dilation), norm(width)
        self.conv3, self.bn3 = conv1x1(width, planes * self.expansion), norm(planes * self.expansion)
        self.relu, self.downsample, self.stride = nn.ReLU(inplace=True), downsample, stride

    def forward(self, x):
        around = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + around)


class ResNet(nn.Module):
    """Four stages of ``layers`` blocks each: images [n, 3, h, w] to scores [n, num_classes].

    ``replace_stride_with_dilation``: for each of the last three stages, True to dilate instead of downsampling.
      ValueError unless it is None or has three elements.
    """

    def __init__(self, block, layers, num_classes=1000, zero_init_residual=False, groups=1, width_per_group=64,
                 replace_stride_with_dilation=None, norm_layer=None):
        super().__init__()
        dilate = replace_stride_with_dilation or [False, False, False]
        if len(dilate) != 3:
            raise ValueError(
                f"replace_stride_with_dilation should be None or a 3-element tuple, got {replace_stride_with_dilation}")
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation, self.groups, self.base_width = 64, 1, groups, width_per_group
        self.conv1 = nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1, self.relu = self._norm_layer(self.inplanes), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], stride=2, dilate=dilate[0])
        self.layer3 = self._make_layer(block, 256, layers[2], stride=2, dilate=dilate[1])
        self.layer4 = self._make_layer(block, 512, layers[3], stride=2, dilate=dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        self._start(zero_init_residual)

    def _start(self, zero_init_residual):
        """Kaiming initialization; with ``zero_init_residual`` every block begins as the identity."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(module.weight, 1)
                nn.init.constant_(module.bias, 0)
            if zero_init_residual and isinstance(module, (BasicBlock, Bottleneck)):
                nn.init.constant_((module.bn2 if isinstance(module, BasicBlock) else module.bn3).weight, 0)

    def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
        norm, before = self._norm_layer, self.dilation
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(conv1x1(self.inplanes, planes * block.expansion, stride),
                                       norm(planes * block.expansion))
        made = [block(self.inplanes, planes, stride, downsample, self.groups, self.base_width, before, norm)]
        self.inplanes = planes * block.expansion
        made += [block(self.inplanes, planes, groups=self.groups, base_width=self.base_width, dilation=self.dilation,
                       norm_layer=norm) for _ in range(1, blocks)]
        return nn.Sequential(*made)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


KINDS = {  # block, layers, other options
    "resnet18": (BasicBlock, [2, 2, 2, 2], {}), "resnet34": (BasicBlock, [3, 4, 6, 3], {}),
    "resnet50": (Bottleneck, [3, 4, 6, 3], {}), "resnet101": (Bottleneck, [3, 4, 23, 3], {}),
    "resnet152": (Bottleneck, [3, 8, 36, 3], {}),
    "resnext50_32x4d": (Bottleneck, [3, 4, 6, 3], {"groups": 32, "width_per_group": 4}),
    "resnext101_32x8d": (Bottleneck, [3, 4, 23, 3], {"groups": 32, "width_per_group": 8}),
    "wide_resnet50_2": (Bottleneck, [3, 4, 6, 3], {"width_per_group": 128}),
    "wide_resnet101_2": (Bottleneck, [3, 4, 23, 3], {"width_per_group": 128})}


def build(name, *, weights=None, progress=True, **kwargs):
    """The network of that name; keyword arguments are those of ``ResNet``."""
    check(weights, name)
    block, layers, own = KINDS[name]
    return ResNet(block, layers, **{**own, **kwargs})


globals().update({name: partial(build, name) for name in KINDS})
WEIGHTS = {"ResNet18_Weights": 1, "ResNet34_Weights": 1, "ResNet50_Weights": 2, "ResNet101_Weights": 2,
           "ResNet152_Weights": 2, "ResNeXt50_32X4D_Weights": 2,
           "ResNeXt101_32X8D_Weights": 2, "Wide_ResNet50_2_Weights": 2, "Wide_ResNet101_2_Weights": 2}
globals().update({name: weights_class(name, *[f"IMAGENET1K_V{k + 1}" for k in range(count)])
                  for name, count in WEIGHTS.items()})
__all__ = ["BasicBlock", "Bottleneck", "ResNet", *KINDS, *WEIGHTS]
