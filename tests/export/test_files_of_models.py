"""Files of whole models: PyTorch reads ours and we read PyTorch's, with the same results at several sizes."""
import io

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


def images(L):
    """Modules of convolutions, by a library."""
    nn, F = L.nn, L.nn.functional

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8),
                                      nn.ReLU(inplace=True))
            self.a, self.b = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=4)
            self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 5)

        def forward(self, x):
            x = F.max_pool2d(self.stem(x), 2)
            x = x + self.b(F.relu6(self.a(x)))
            return {"scores": self.head(self.pool(x).flatten(1)), "features": x}

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.mid = nn.Conv2d(1, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, padding=2, dilation=2)
            self.up, self.out, self.norm = nn.ConvTranspose2d(4, 4, 2, 2), nn.Conv2d(5, 2, 1), nn.GroupNorm(2, 4)

        def forward(self, x):
            y = self.up(F.silu(self.norm(self.mid(F.leaky_relu(self.down(x), 0.1)))))
            y = F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)
            return self.out(L.cat([x, y], 1)).softmax(1)

    class Mobile(nn.Module):
        def __init__(self):
            super().__init__()
            self.dw, self.se1 = nn.Conv2d(6, 6, 3, 1, 1, groups=6), nn.Conv2d(6, 3, 1)
            self.se2, self.act = nn.Conv2d(3, 6, 1), nn.Hardswish()

        def forward(self, x):
            y = self.act(self.dw(x))
            s = F.hardsigmoid(self.se2(F.relu(self.se1(F.adaptive_avg_pool2d(y, 1)))))
            return (y * s).mean((2, 3)), [y, s]

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 6, 3, padding=1)
            self.register_buffer("grid", L.arange(8.0), persistent=False)

        def forward(self, x):
            y = self.conv(x)
            boxes, scores = y[:, :4].flatten(2), y[:, 4:].flatten(2).softmax(1)
            best, where = scores.max(1)
            keep = where.eq(1) & (best > 0.4)
            order = L.argsort(best, dim=1, descending=True, stable=True)
            return (boxes.gather(2, order[:, None].expand(-1, 4, -1)), L.where(keep, best, L.zeros_like(best)),
                    y.pow(2).sum(dtype=L.float64), self.grid + y[..., :1, :])

    return Residual, UNet, Mobile, Detector


def sequences(L):
    """Modules of attention and recurrence, by a library."""
    nn, F = L.nn, L.nn.functional

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(50, 16), nn.Parameter(L.zeros(1, 32, 16))
            layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
            self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 50)

        def forward(self, ids, mask=None):
            x = self.tokens(ids) + self.places[:, :ids.shape[1]]
            return self.head(self.encoder(x, src_key_padding_mask=mask)), None, 3

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.qkv, self.proj = nn.Embedding(40, 16), nn.Linear(16, 48), nn.Linear(16, 16)
            self.norm, self.mlp = nn.LayerNorm(16), nn.Sequential(nn.Linear(16, 64), nn.GELU(approximate="tanh"),
                                                                  nn.Linear(64, 16))
            self.head = nn.Linear(16, 40, bias=False)
            self.head.weight = self.wte.weight

        def forward(self, ids):
            x = self.wte(ids)
            b, t, c = x.shape
            q, k, v = (z.view(b, t, 4, c // 4).transpose(1, 2) for z in self.qkv(self.norm(x)).split(c, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, c))
            return self.head(x + self.mlp(x))

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(6, 8, 2, batch_first=True), nn.Linear(8, 3)

        def forward(self, x):
            y, (h, c) = self.rnn(x)
            return self.head(y[:, -1]), (h, c)

    return Encoder, Decoder, Recurrent


def others(L):
    """Modules with state that is written, nested inputs and tables, by a library."""
    nn = L.nn

    class Mutating(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", L.zeros(2, 8))
            self.register_buffer("count", L.zeros((), dtype=L.int64))
            self.scale = nn.Parameter(L.ones(8))

        def forward(self, x, state):
            self.cache.mul_(0.9).add_(x)
            self.count += 1
            state.add_(self.cache.sum())
            return self.cache * self.scale, {"state": state * 1, "n": self.count + 0}

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch, self.norm = nn.Conv2d(3, 8, 4, 4), nn.LayerNorm(8)
            self.tokens, self.channels, self.bias = nn.Linear(4, 4), nn.Linear(8, 8), nn.Parameter(L.zeros(2))
            self.table = L.tensor([[0, 1], [1, 0]])

        def forward(self, batch):
            x, scale = batch["x"], batch["more"][0]
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
            x = self.channels(x) * scale + self.bias[self.table].sum()
            return {"x": x, "top": tuple(L.topk(x.mean(1), 2))}

    class Recommender(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag = nn.EmbeddingBag(20, 4, mode="sum")
            self.mlp = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5))

        def forward(self, dense, ids, offsets):
            both = L.stack([self.mlp(dense), self.bag(ids, offsets)], 1)
            return L.sigmoid(L.bmm(both, both.transpose(1, 2)).triu(1).sum((1, 2))).clamp(min=0.1)

    return Mutating, Mixer, Recommender


def models(L):
    """{name: (class of a module, function from a batch size to arguments, dynamic shapes)} for a library."""
    Residual, UNet, Mobile, Detector = images(L)
    Encoder, Decoder, Recurrent = sequences(L)
    Mutating, Mixer, Recommender = others(L)
    b, t = L.export.Dim("b", min=1, max=64), L.export.Dim("t", min=2, max=32)
    return {
        "residual": (Residual, lambda n: (L.rand(n, 3, 16, 16),), ({0: b},)),
        "encoder": (Encoder, lambda n: (L.randint(0, 50, (n, n + 5)),
                                        (L.arange(n + 5) > n + 2).expand(n, n + 5).contiguous()),
                    ({0: b, 1: t}, {0: b, 1: t})),
        "decoder": (Decoder, lambda n: (L.randint(0, 40, (n, 7 + n)),), ({0: b, 1: t},)),
        "mutating": (Mutating, lambda n: (L.rand(2, 8), L.rand(3)), None),
        "recurrent": (Recurrent, lambda n: (L.rand(n, 5, 6),), ({0: b},)),
        "unet": (UNet, lambda n: (L.rand(n, 1, 16, 16),), ({0: b},)),
        "mobile": (Mobile, lambda n: (L.rand(n, 6, 8, 8),), ({0: b},)),
        "mixer": (Mixer, lambda n: ({"x": L.rand(n, 3, 8, 8), "more": [L.rand(1), 2, None]},),
                  ({"x": {0: b}, "more": [None, None, None]},)),
        "recommender": (Recommender, lambda n: (L.rand(n, 3), L.randint(0, 20, (3 * n,)), L.arange(n) * 3), None),
        "detector": (Detector, lambda n: (L.rand(n, 3, 8, 8),), ({0: b},)),
    }


def moved(tree, source, target):
    """Arguments of one library as those of the other, in memory of their own."""
    return source.utils._pytree.tree_map(
        lambda x: target.from_numpy(x.detach().numpy().copy()) if isinstance(x, source.Tensor) else x, tree)


def leaves(tree, library):
    return [x.detach().numpy() if hasattr(x, "detach") else x for x in library.utils._pytree.tree_leaves(tree)]


def saved(program, library):
    file = io.BytesIO()
    library.export.save(program, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("source, target", [(torch, rl), (rl, torch)], ids=["PyTorch's", "ours"])
@pytest.mark.parametrize("name", models(rl))
def test_models_come_back(name, source, target):
    source.manual_seed(0)
    kind, arguments, shapes = models(source)[name]
    program = source.export.export(kind().eval(), arguments(4), dynamic_shapes=shapes)
    back = target.export.load(saved(program, source)).module()
    wanted_module = program.module()
    for count in (4, 9) if shapes else (4, 4):
        given = arguments(count)
        found = leaves(back(*moved(given, source, target)), target)
        wanted = leaves(wanted_module(*moved(given, source, source)), source)
        for one, other in zip(found, wanted, strict=True):
            if other is not None:
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
            else:
                assert one is None
