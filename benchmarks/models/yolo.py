"""A detector after YOLO (Redmon and others 2016; its later one-stage forms): a backbone whose blocks split channels,
features of three sizes that are joined both ways, and boxes and classes at every place of these."""
import torch
from torch import nn
from torch.nn import functional as F


class Conv(nn.Sequential):
    def __init__(self, inputs, outputs, size=1, stride=1):
        super().__init__(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs),
                         nn.SiLU())


class Block(nn.Module):
    """Half of the channels pass through residual pairs of convolutions."""

    def __init__(self, inputs, outputs, depth, shortcut=True):
        super().__init__()
        half = outputs // 2
        self.first, self.last = Conv(inputs, outputs), Conv((2 + depth) * half, outputs)
        self.pairs = nn.ModuleList(nn.Sequential(Conv(half, half, 3), Conv(half, half, 3)) for _ in range(depth))
        self.shortcut = shortcut

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for pair in self.pairs:
            y = pair(parts[-1])
            parts.append(parts[-1] + y if self.shortcut else y)
        return self.last(torch.cat(parts, 1))


class Pools(nn.Module):
    """Largest values of growing neighbourhoods beside each other."""

    def __init__(self, channels):
        super().__init__()
        self.first, self.last = Conv(channels, channels // 2), Conv(2 * channels, channels)

    def forward(self, x):
        found = [self.first(x)]
        for _ in range(3):
            found.append(F.max_pool2d(found[-1], 5, 1, 2))
        return self.last(torch.cat(found, 1))


class Head(nn.Module):
    """Box (centre, size) and classes at each place of [batch, channels, h, w]: [batch, h * w, 4 + classes]."""

    def __init__(self, channels, classes, stride):
        super().__init__()
        self.box = nn.Sequential(Conv(channels, channels, 3), nn.Conv2d(channels, 4, 1))
        self.kind = nn.Sequential(Conv(channels, channels, 3), nn.Conv2d(channels, classes, 1))
        self.stride = stride

    def forward(self, x):
        h, w = x.shape[2:]
        rows, columns = torch.arange(h).float() + 0.5, torch.arange(w).float() + 0.5
        places = torch.stack([columns.expand(h, w), rows[:, None].expand(h, w)])
        centre, size = self.box(x).chunk(2, 1)
        centre = (places + centre.tanh()) * self.stride
        size = F.softplus(size) * self.stride
        return torch.cat([centre, size, self.kind(x).sigmoid()], 1).flatten(2).transpose(1, 2)


class YOLO(nn.Module):
    def __init__(self, width=16, classes=80, depths=(1, 2, 2, 1)):
        super().__init__()
        c = [width * 2 ** k for k in range(5)]
        self.stem = nn.Sequential(Conv(3, c[0], 3, 2), Conv(c[0], c[1], 3, 2), Block(c[1], c[1], depths[0]))
        self.near = nn.Sequential(Conv(c[1], c[2], 3, 2), Block(c[2], c[2], depths[1]))
        self.middle = nn.Sequential(Conv(c[2], c[3], 3, 2), Block(c[3], c[3], depths[2]))
        self.far = nn.Sequential(Conv(c[3], c[4], 3, 2), Block(c[4], c[4], depths[3]), Pools(c[4]))
        self.up1, self.up2 = Block(c[4] + c[3], c[3], 1, False), Block(c[3] + c[2], c[2], 1, False)
        self.step1, self.step2 = Conv(c[2], c[2], 3, 2), Conv(c[3], c[3], 3, 2)
        self.down1, self.down2 = Block(c[2] + c[3], c[3], 1, False), Block(c[3] + c[4], c[4], 1, False)
        self.heads = nn.ModuleList(Head(c[k], classes, 2 ** (k + 1)) for k in (2, 3, 4))

    def forward(self, images):
        """[batch, 3, h, w] -> [batch, places, 4 + classes]; h and w are multiples of 32."""
        near = self.near(self.stem(images))
        middle = self.middle(near)
        far = self.far(middle)
        middle = self.up1(torch.cat([F.interpolate(far, scale_factor=2.0), middle], 1))
        near = self.up2(torch.cat([F.interpolate(middle, scale_factor=2.0), near], 1))
        middle = self.down1(torch.cat([self.step1(near), middle], 1))
        far = self.down2(torch.cat([self.step2(middle), far], 1))
        return torch.cat([head(x) for head, x in zip(self.heads, (near, middle, far))], 1)
