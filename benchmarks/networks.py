"""Models that benchmarks run with either library: each function takes the library's module and returns a model."""
import pathlib

EXAMPLE = pathlib.Path(__file__).resolve().parents[1] / "examples" / "gpt.py"


def example(library):
    """The classes of examples/gpt.py, with ``library`` in the place of torch."""
    source = EXAMPLE.read_text()
    for line in ("import torch\n", "from torch import nn\n", "from torch.nn import functional as F\n"):
        assert line in source, line
        source = source.replace(line, "")
    names = {"torch": library, "nn": library.nn, "F": library.nn.functional, "__name__": "example"}
    exec(compile(source, str(EXAMPLE), "exec"), names)
    return names


def gpt(t, layers=6, width=384, heads=6, context=256, dropout=0.0):
    """A character-level GPT; called with ids and targets it returns the loss."""
    return example(t)["GPT"](65, context, layers, heads, width, dropout)


def resnet(t, counts, bottleneck, width=64, classes=1000):
    """A residual network (He et al. 2015) with ``counts`` blocks in its four stages."""
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self, inputs, planes, stride):
            super().__init__()
            outputs = planes * (4 if bottleneck else 1)
            sizes = [(inputs, planes, 1, 1), (planes, planes, 3, stride), (planes, outputs, 1, 1)] if bottleneck else [(inputs, planes, 3, stride), (planes, planes, 3, 1)]
            self.convs = nn.ModuleList(nn.Conv2d(i, o, k, s, k // 2, bias=False) for i, o, k, s in sizes)
            self.norms = nn.ModuleList(nn.BatchNorm2d(o) for _, o, _, _ in sizes)
            self.shortcut = None
            if stride != 1 or inputs != outputs:
                self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = x
            for k, (conv, norm) in enumerate(zip(self.convs, self.norms)):
                y = norm(conv(F.relu(y) if k else y))
            return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
            blocks, inputs = [], width
            for stage, count in enumerate(counts):
                for k in range(count):
                    blocks.append(Block(inputs, width << stage, 2 if stage and not k else 1))
                    inputs = (width << stage) * (4 if bottleneck else 1)
            self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(inputs, classes)

        def forward(self, x, targets=None):
            x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
            x = self.head(self.blocks(x).mean((2, 3)))
            return x if targets is None else F.cross_entropy(x, targets)

    return ResNet()


def resnet18(t, **options):
    return resnet(t, (2, 2, 2, 2), False, **options)


def resnet50(t, **options):
    return resnet(t, (3, 4, 6, 3), True, **options)


def vit(t, layers=12, width=384, heads=6, image=224, patch=16, classes=1000):
    """A vision transformer (Dosovitskiy et al. 2020)."""
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, n, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, heads, c // heads).permute(2, 0, 3, 1, 4).unbind(0)
            x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class VisionTransformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, patch)
            self.first = nn.Parameter(t.zeros(1, 1, width))
            self.position = nn.Parameter(t.zeros(1, (image // patch) ** 2 + 1, width))
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

        def forward(self, x, targets=None):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = t.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.position
            x = self.head(self.norm(self.blocks(x))[:, 0])
            return x if targets is None else F.cross_entropy(x, targets)

    return VisionTransformer()
