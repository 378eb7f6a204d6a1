"""Models as people write them in their own programs."""
import math

import torch
from torch import nn
from torch.nn import functional as F


def double(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
                         nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Ronneberger and others 2015, two levels deep."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.middle = double(3, 8), double(8, 16), double(16, 32)
        self.up2, self.join2 = nn.ConvTranspose2d(32, 16, 2, stride=2), double(32, 16)
        self.up1, self.join1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), double(24, 8)
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        y = self.middle(F.max_pool2d(b, 2))
        y = self.join2(torch.cat([self.up2(y), b], dim=1))
        return self.last(self.join1(torch.cat([self.up1(y), a], dim=1)))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding, self.cells, self.head = nn.Embedding(50, 16), kind(16, 24, 2, batch_first=True), nn.Linear(
            24, 50)

    def forward(self, ids):
        y, state = self.cells(self.embedding(ids))
        return self.head(y), state


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), 2)
        self.head = nn.Linear(32, 5)

    def forward(self, ids):
        padding = torch.zeros(ids.shape, dtype=torch.bool)
        padding[-1, -3:] = True
        return self.head(self.layers(self.embedding(ids) * math.sqrt(32), src_key_padding_mask=padding)[:, 0])


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.transformer = nn.Transformer(32, 4, 2, 2, 64, dropout=0.0, batch_first=True)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.head(self.transformer(self.embedding(source), self.embedding(target), tgt_mask=mask,
                                          tgt_is_causal=True))


class Tagger(nn.Module):
    """A bidirectional LSTM over sentences of different lengths."""

    def __init__(self):
        super().__init__()
        self.embedding, self.cells, self.head = (nn.Embedding(50, 12, padding_idx=0),
                                                 nn.LSTM(12, 10, bidirectional=True, batch_first=True),
                                                 nn.Linear(20, 4))

    def forward(self, ids):
        lengths = torch.tensor([8, 5, 3])
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(ids), lengths, batch_first=True)
        y, _ = nn.utils.rnn.pad_packed_sequence(self.cells(packed)[0], batch_first=True)
        return self.head(y).log_softmax(-1)


class Policy(nn.Module):
    """The clipped objective of proximal policy optimisation."""

    def __init__(self):
        super().__init__()
        self.body, self.actor, self.critic = nn.Sequential(nn.Linear(4, 16),
                                                           nn.Tanh()), nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, state, actions):
        y = self.body(state)
        choice = torch.distributions.Categorical(logits=self.actor(y))
        ratio = (choice.log_prob(actions) - choice.log_prob(actions).detach() + 0.3).exp()
        value = self.critic(y).squeeze(-1)
        return torch.min(ratio * value, ratio.clamp(0.8, 1.2) * value) - 0.01 * choice.entropy()


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 16))
        self.decode = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 784), nn.Sigmoid())

    def forward(self, x, noise):
        mean, logvar = self.encode(x).chunk(2, dim=1)
        found = self.decode(mean + noise * torch.exp(0.5 * logvar))
        return F.binary_cross_entropy(found, x.flatten(1).sigmoid(),
                                      reduction="sum") - 0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())


class Detector(nn.Module):
    """Boxes for every cell of a grid, as the YOLO family predicts them."""

    def __init__(self, anchors=3, kinds=4):
        super().__init__()
        self.anchors, self.outputs = anchors, 5 + kinds
        widths = [3, 8, 16, 24]
        self.body = nn.Sequential(*[nn.Sequential(nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b), nn.SiLU())
                                    for a, b in zip(widths, widths[1:])])
        self.head = nn.Conv2d(24, anchors * self.outputs, 1)

    def forward(self, x):
        y = self.head(self.body(x))
        batch, _, height, width = y.shape
        y = y.view(batch, self.anchors, self.outputs, height, width).permute(0, 1, 3, 4, 2).contiguous()
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        places = torch.stack((columns, rows), 2).view(1, 1, height, width, 2).to(y.dtype)
        y[..., 0:2] = (y[..., 0:2].sigmoid() * 2 - 0.5 + places) * 8
        return torch.cat([y[..., :2], y[..., 2:4].exp(), y[..., 4:].sigmoid()], -1)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(True),
                                    nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
                                    nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.layers(z)


class Potential(nn.Module):
    """Energies and, by differentiating them, forces."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, r):
        return torch.func.vmap(torch.func.jacrev(self.layers))(r), self.layers(r)


class Adapting(nn.Module):
    """One inner step of model-agnostic meta-learning: gradients of a loss after a step of gradients."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, affine=True, track_running_stats=False),
                                 nn.ReLU(), nn.Flatten(), nn.Linear(576, 5))

    def forward(self, x, y):
        weights = dict(self.net.named_parameters())
        with torch.enable_grad():
            loss = F.cross_entropy(torch.func.functional_call(self.net, weights, (x,)), y)
            gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        return torch.func.functional_call(self.net, {name: w - 0.1 * g
                                                     for (name, w), g in zip(weights.items(), gradients)}, (x,))


def recommender():
    return nn.Sequential(nn.Linear(60, 24), nn.SELU(), nn.Linear(24, 12), nn.SELU(), nn.Linear(12, 24), nn.SELU(),
                         nn.Linear(24, 60))


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.layers = nn.ModuleList([nn.Sequential(nn.BatchNorm2d(8 + 4 * k), nn.ReLU(),
                                                   nn.Conv2d(8 + 4 * k, 4, 3, padding=1, bias=False))
                                     for k in range(3)])
        self.head = nn.Linear(20, 10)

    def forward(self, x):
        y = self.first(x)
        for layer in self.layers:
            y = torch.cat([layer(y), y], dim=1)
        return self.head(F.adaptive_avg_pool2d(F.avg_pool2d(y, 2), (1, 1)).flatten(1))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs),
                                 nn.ReLU(),
                                 nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs))
        self.side = nn.Conv2d(inputs, outputs, 1, stride) if stride != 1 else None

    def forward(self, x):
        z = self.net(x)
        return F.relu(z + (x if self.side is None else self.side(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                                    Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2),
                                    nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(32, 10))

    def forward(self, x):
        return self.layers(x)


class Speaker(nn.Module):
    """Voices as directions: LSTM layers with projections, and what their last state points at."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTM(20, 32, batch_first=True, proj_size=16),
                                    nn.LSTM(16, 32, batch_first=True, proj_size=16)])
        self.scale, self.shift = nn.Parameter(torch.tensor(10.0)), nn.Parameter(torch.tensor(-5.0))

    def forward(self, x):
        for cells in self.cells:
            x = cells(x)[0]
        found = F.normalize(x[:, -1], p=2, dim=1)
        return found @ found.t() * self.scale.clamp(min=1e-6) + self.shift


class Bags(nn.Module):
    """Features that are looked up beside features that are given."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(30, 8, mode=mode) for mode in ("sum", "mean", "max")])
        self.bottom, self.top = nn.Linear(6, 8), nn.Linear(14, 1)

    def forward(self, ids, dense):
        x = torch.stack([self.bottom(dense).relu(), *[table(ids) for table in self.tables]], dim=1)
        pairs = torch.bmm(x, x.transpose(1, 2))
        rows, columns = torch.tril_indices(4, 4, offset=-1)
        return self.top(torch.cat([x[:, 0], pairs[:, rows, columns]], dim=1)).sigmoid()
