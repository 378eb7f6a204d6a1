"""Residual networks for images (He and others 2015): 18 layers of basic blocks, 50 of bottlenecks."""
import torch
from torch import nn


def convolution(inputs, outputs, kernel, stride=1):
    """A convolution that keeps the image's size (or divides it by the stride), and its normalisation."""
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]


class Block(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            layers = [*convolution(inputs, width, 1), nn.ReLU(inplace=True), *convolution(width, width, 3, stride),
                      nn.ReLU(inplace=True), *convolution(width, outputs, 1)]
        else:
            layers = [*convolution(inputs, width, 3, stride), nn.ReLU(inplace=True), *convolution(width, outputs, 3)]
        self.main = nn.Sequential(*layers)
        self.side = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(*convolution(inputs, outputs,
                                                                                                       1, stride))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.main(x) + self.side(x))


class ResNet(nn.Module):
    def __init__(self, blocks, bottleneck, classes=1000, first=64):
        super().__init__()
        self.stem = nn.Sequential(*convolution(3, first, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        layers, inputs = [], first
        for stage, count in enumerate(blocks):
            width = first << stage
            for k in range(count):
                layers.append(Block(inputs, width, 2 if stage and not k else 1, bottleneck))
                inputs = 4 * width if bottleneck else width
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(self.layers(self.stem(x)), 1), 1))


def resnet18():
    return ResNet((2, 2, 2, 2), False)


def resnet50():
    return ResNet((3, 4, 6, 3), True)
