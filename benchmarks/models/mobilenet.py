"""MobileNetV3 (Howard and others 2019): inverted residuals with squeeze and excitation; large by default."""
from torch import nn
from torch.nn import functional as F

LARGE = (  # kernel, expanded, outputs, squeeze, hard swish, stride
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1), (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1), (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1))


def multiple(value, of=8):
    """The nearest multiple that isn't more than a tenth below."""
    near = max(of, int(value + of / 2) // of * of)
    return near + of if near < 0.9 * value else near


class Convolution(nn.Sequential):
    def __init__(self, inputs, outputs, kernel, stride=1, groups=1, act=None):
        layers = [nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
                  nn.BatchNorm2d(outputs, eps=0.001, momentum=0.01)]
        super().__init__(*layers, *([act(inplace=True)] if act else []))


class Squeeze(nn.Module):
    def __init__(self, channels):
        super().__init__()
        inner = multiple(channels // 4)
        self.down, self.up = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x):
        y = F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))
        return x * F.hardsigmoid(self.up(y))


class Inverted(nn.Module):
    def __init__(self, inputs, kernel, expanded, outputs, squeeze, hard, stride):
        super().__init__()
        act = nn.Hardswish if hard else nn.ReLU
        layers = [Convolution(inputs, expanded, 1, act=act)] if expanded != inputs else []
        layers.append(Convolution(expanded, expanded, kernel, stride, expanded, act))
        layers += [Squeeze(expanded)] if squeeze else []
        self.layers = nn.Sequential(*layers, Convolution(expanded, outputs, 1))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.layers(x)
        return x + y if self.residual else y


class MobileNetV3(nn.Module):
    def __init__(self, blocks=LARGE, last=1280, classes=1000):
        super().__init__()
        layers, inputs = [Convolution(3, 16, 3, 2, act=nn.Hardswish)], 16
        for block in blocks:
            layers.append(Inverted(inputs, *block))
            inputs = block[2]
        self.features = nn.Sequential(*layers, Convolution(inputs, 6 * inputs, 1, act=nn.Hardswish))
        self.head = nn.Sequential(nn.Linear(6 * inputs, last), nn.Hardswish(inplace=True), nn.Dropout(0.2),
                                  nn.Linear(last, classes))

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))
