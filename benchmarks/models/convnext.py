"""ConvNeXt (Liu and others 2022): depthwise 7x7 convolutions in the shape of a transformer; tiny by default."""
import torch
from torch import nn
from torch.nn import functional as F


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of [batch, channels, height, width]."""

    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels)), eps

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        spread = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(spread + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Block(nn.Module):
    def __init__(self, width, scale=1e-6):
        super().__init__()
        self.around = nn.Conv2d(width, width, kernel_size=7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(scale * torch.ones(width))

    def forward(self, x):
        y = self.around(x).permute(0, 2, 3, 1)
        y = self.gamma * self.down(self.act(self.up(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self, depths=(3, 3, 9, 3), widths=(96, 192, 384, 768), classes=1000):
        super().__init__()
        self.smaller = nn.ModuleList([nn.Sequential(nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0]))])
        for before, after in zip(widths, widths[1:]):
            self.smaller.append(nn.Sequential(ChannelNorm(before), nn.Conv2d(before, after, 2, 2)))
        self.stages = nn.ModuleList([nn.Sequential(*[Block(width) for _ in range(depth)])
                                     for depth, width in zip(depths, widths)])
        self.norm, self.head = nn.LayerNorm(widths[-1], eps=1e-6), nn.Linear(widths[-1], classes)

    def forward(self, x):
        for smaller, stage in zip(self.smaller, self.stages):
            x = stage(smaller(x))
        return self.head(self.norm(x.mean([-2, -1])))
