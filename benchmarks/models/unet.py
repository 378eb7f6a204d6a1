"""The U-Net of denoising diffusion (Ho and others 2020) for small images."""
import math

import torch
from torch import nn
from torch.nn import functional as F


def places(steps, width):
    """Sines and cosines of the steps, [batch] -> [batch, width]."""
    rates = torch.exp(torch.arange(width // 2, dtype=torch.float32) * (-math.log(10000) / (width // 2 - 1)))
    angles = steps.float()[:, None] * rates[None, :]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, time, groups):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(groups, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.side = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(y))) + self.side(x)


class Attention(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, 3, c, h * w).unbind(1)
        weights = torch.softmax(torch.bmm(q.transpose(1, 2), k) * c ** -0.5, dim=-1)
        return x + self.out(torch.bmm(v, weights.transpose(1, 2)).reshape(b, c, h, w))


class Level(nn.Module):
    """A residual block, and attention where wanted."""

    def __init__(self, inputs, outputs, time, attention, groups):
        super().__init__()
        self.residual = Residual(inputs, outputs, time, groups)
        self.attention = Attention(outputs, groups) if attention else nn.Identity()

    def forward(self, x, time):
        return self.attention(self.residual(x, time))


class Larger(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class UNet(nn.Module):
    def __init__(self, base=64, multiples=(1, 2, 2), depth=2, attention=(1,), groups=32):
        super().__init__()
        self.base, time = base, 4 * base
        self.time = nn.Sequential(nn.Linear(base, time), nn.SiLU(), nn.Linear(time, time))
        self.first, channels = nn.Conv2d(3, base, 3, padding=1), base
        self.down, kept = nn.ModuleList(), [base]
        for k, multiple in enumerate(multiples):
            for _ in range(depth):
                self.down.append(Level(channels, base * multiple, time, k in attention, groups))
                channels = base * multiple
                kept.append(channels)
            if k + 1 < len(multiples):
                self.down.append(nn.Conv2d(channels, channels, 3, 2, 1))
                kept.append(channels)
        self.middle = nn.ModuleList([Level(channels, channels, time, wanted, groups) for wanted in (True, False)])
        self.up = nn.ModuleList()
        for k, multiple in reversed(list(enumerate(multiples))):
            for _ in range(depth + 1):
                self.up.append(Level(channels + kept.pop(), base * multiple, time, k in attention, groups))
                channels = base * multiple
            if k:
                self.up.append(Larger(channels))
        self.norm, self.last = nn.GroupNorm(groups, channels), nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x, steps):
        time = self.time(places(steps, self.base))
        x = self.first(x)
        kept = [x]
        for part in self.down:
            x = part(x, time) if isinstance(part, Level) else part(x)
            kept.append(x)
        for part in self.middle:
            x = part(x, time)
        for part in self.up:
            x = part(torch.cat([x, kept.pop()], dim=1), time) if isinstance(part, Level) else part(x)
        return self.last(F.silu(self.norm(x)))
