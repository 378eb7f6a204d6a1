"""Short programs as users first write them, for ``cold.py``: ``python short.py NAME`` runs one, under ``torch``.

Each trains a small model for some steps on random inputs, or computes with one, and prints its last loss.
"""

from __future__ import annotations

import math
import sys

import torch
from torch import nn

F = nn.functional


def fit(model, batches, loss, optimizer=torch.optim.Adam, **options):
    """Trains on each batch (inputs, target) once; the last loss."""
    optimizer = optimizer(model.parameters(), **{"lr": 1e-3, **options})
    for inputs, target in batches:
        found = loss(model(*inputs), target)
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
    return found.item()


def batches(count, inputs, target):
    return (((inputs(),), target()) for _ in range(count))


def classes(number, *shape):
    return lambda: torch.randint(0, number, shape)


def normal(*shape):
    return lambda: torch.randn(*shape)


# --- classifiers ------------------------------------------------------------------------------------------------------
def mlp():
    """A perceptron of two hidden layers with dropout, as digits are classified."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 64), nn.ReLU(),
                          nn.Linear(64, 10))
    found = fit(model, batches(100, normal(64, 1, 28, 28), classes(10, 64)), nn.CrossEntropyLoss())
    model.eval()
    with torch.no_grad():
        x, y = torch.randn(256, 1, 28, 28), torch.randint(0, 10, (256,))
        return found + (model(x).argmax(1) == y).float().mean().item()


def cnn():
    """Two convolutions with pooling, by SGD with momentum."""
    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Dropout2d(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10),
                          nn.LogSoftmax(1))
    return fit(model, batches(12, normal(64, 1, 28, 28), classes(10, 64)), F.nll_loss, torch.optim.SGD, momentum=0.9)


class Residual(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(out)) + self.shortcut(x))


def resnet():
    """A residual network of 18 layers on small images."""
    layers, channels = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for out, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(Residual(channels, out, stride))
        channels = out
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return fit(model, batches(4, normal(16, 3, 32, 32), classes(10, 16)), F.cross_entropy, torch.optim.SGD,
               momentum=0.9, weight_decay=5e-4)


# --- sequences --------------------------------------------------------------------------------------------------------
class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.joined, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.joined(x).split(width, 2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        scores = scores.masked_fill(torch.tril(torch.ones(length, length)) == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.body(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, words=65, length=64, width=128, depth=3):
        super().__init__()
        self.length, self.words, self.places = length, nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def gpt():
    """A decoder with attention written out, trained, then sampled from at growing lengths."""
    model = GPT()
    found = fit(model, batches(15, classes(65, 16, 64), classes(65, 16 * 64)),
                lambda out, target: F.cross_entropy(out.flatten(0, 1), target), torch.optim.AdamW)
    model.eval()
    ids = torch.zeros(1, 1, dtype=torch.long)
    with torch.no_grad():
        for _ in range(40):
            chances = (model(ids[:, -64:])[:, -1] / 0.8).softmax(-1)
            ids = torch.cat([ids, torch.multinomial(chances, 1)], 1)
    return found + ids.shape[1]


class Tagger(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.words, self.body = nn.Embedding(200, 64), kind(64, 96, 2, batch_first=True, dropout=0.2)
        self.head = nn.Linear(96, 200)

    def forward(self, ids):
        return self.head(self.body(self.words(ids))[0]).flatten(0, 1)


def lstm():
    """A language model of two recurrent layers, its gradients clipped."""
    model = Tagger(nn.LSTM)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(10):
        found = F.cross_entropy(model(torch.randint(0, 200, (20, 35))), torch.randint(0, 200, (700,)))
        optimizer.zero_grad()
        found.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
    return found.item()


def gru():
    """A recurrent classifier of sequences whose lengths vary."""
    model, head = nn.GRU(8, 32, batch_first=True), nn.Linear(32, 4)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-3)
    for step in range(20):
        last = model(torch.randn(32, 10 + step % 5, 8))[1][-1]
        found = F.cross_entropy(head(last), torch.randint(0, 4, (32,)))
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
    return found.item()


def encoder():
    """PyTorch's own transformer encoder over padded batches."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    body, words, head = nn.TransformerEncoder(layer, 2), nn.Embedding(100, 64), nn.Linear(64, 2)
    parameters = [p for part in (body, words, head) for p in part.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 15)
    for _ in range(15):
        ids = torch.randint(1, 100, (16, 24))
        padded = torch.arange(24) >= torch.randint(5, 25, (16, 1))
        x = body(words(ids) * 8, src_key_padding_mask=padded)
        x = x.masked_fill(padded.unsqueeze(-1), 0).sum(1) / (~padded).sum(1, keepdim=True)
        found = F.cross_entropy(head(x), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
        rate.step()
    return found.item()


# --- images in, images out --------------------------------------------------------------------------------------------
def double(channels, out):
    return nn.Sequential(nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
                         nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([double(3, 16), double(16, 32), double(32, 64)])
        self.widen = nn.ModuleList([nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)])
        self.up, self.head = nn.ModuleList([double(64, 32), double(32, 16)]), nn.Conv2d(16, 1, 1)

    def forward(self, x):
        kept = []
        for k, part in enumerate(self.down):
            x = part(F.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for widen, part, other in zip(self.widen, self.up, (kept[1], kept[0])):
            x = part(torch.cat([other, widen(x)], 1))
        return self.head(x)


def unet():
    """Segmentation by encoder and decoder, with a loss of overlap."""
    def loss(out, target):
        chance = out.sigmoid()
        overlap = 1 - (2 * (chance * target).sum() + 1) / (chance.sum() + target.sum() + 1)
        return F.binary_cross_entropy_with_logits(out, target) + overlap
    return fit(UNet(), batches(6, normal(4, 3, 64, 64), lambda: (torch.rand(4, 1, 64, 64) > 0.5).float()), loss)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.mean, self.spread = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
        self.wide, self.out = nn.Linear(20, 400), nn.Linear(400, 784)

    def forward(self, x):
        inner = self.inner(x.view(-1, 784)).relu()
        mean, spread = self.mean(inner), self.spread(inner)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        return torch.sigmoid(self.out(self.wide(z).relu())), mean, spread


def vae():
    """A variational autoencoder of digits."""
    def loss(found, target):
        out, mean, spread = found
        return (F.binary_cross_entropy(out, target.view(-1, 784), reduction="sum")
                - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp()))
    images = [torch.rand(128, 1, 28, 28) for _ in range(30)]
    return fit(VAE(), (((x,), x) for x in images), loss)


def gan():
    """Generator and discriminator by turns, by convolutions."""
    maker = nn.Sequential(nn.ConvTranspose2d(32, 64, 4, 1, 0, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
                          nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(True),
                          nn.ConvTranspose2d(32, 1, 4, 2, 1, bias=False), nn.Tanh())
    judge = nn.Sequential(nn.Conv2d(1, 32, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True),
                          nn.Conv2d(32, 64, 4, 2, 1, bias=False), nn.BatchNorm2d(64), nn.LeakyReLU(0.2, True),
                          nn.Conv2d(64, 1, 4, 1, 0, bias=False), nn.Sigmoid(), nn.Flatten(0))
    for module in (*maker, *judge):
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(module.weight, 0.0, 0.02)
    loss, both = nn.BCELoss(), [torch.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (judge, maker)]
    for _ in range(10):
        real, label = torch.randn(32, 1, 16, 16), torch.full((32,), 1.0)
        judge.zero_grad()
        loss(judge(real), label).backward()
        fake = maker(torch.randn(32, 32, 1, 1))
        loss(judge(fake.detach()), label.fill_(0.0)).backward()
        both[0].step()
        maker.zero_grad()
        found = loss(judge(fake), label.fill_(1.0))
        found.backward()
        both[1].step()
    return found.item()


def diffusion():
    """A denoiser of points in the plane, with embeddings of time, then a whole sampling."""
    model = nn.Sequential(nn.Linear(2 + 32, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    betas = torch.linspace(1e-4, 0.02, 50)
    kept = torch.cumprod(1 - betas, 0)

    def noise(x, t):
        angles = t.float().unsqueeze(-1) * torch.exp(torch.arange(16) * (-math.log(10000) / 16))
        return model(torch.cat([x, angles.sin(), angles.cos()], -1))

    for _ in range(100):
        x, t, e = torch.randn(256, 2) * 0.1 + 1, torch.randint(0, 50, (256,)), torch.randn(256, 2)
        share = kept[t].unsqueeze(-1)
        found = F.mse_loss(noise(share.sqrt() * x + (1 - share).sqrt() * e, t), e)
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
    with torch.no_grad():
        x = torch.randn(256, 2)
        for k in reversed(range(50)):
            x = (x - betas[k] / (1 - kept[k]).sqrt() * noise(x, torch.full((256,), k))) / (1 - betas[k]).sqrt()
            x = x + betas[k].sqrt() * torch.randn_like(x) if k else x
    return found.item()


# --- others -----------------------------------------------------------------------------------------------------------
def dqn():
    """Learning of values from a buffer of transitions, with a target network."""
    def net():
        return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))

    policy, target = net(), net()
    target.load_state_dict(policy.state_dict())
    optimizer, memory, state = torch.optim.AdamW(policy.parameters(), lr=1e-4, amsgrad=True), [], torch.randn(1, 4)
    for step in range(200):
        with torch.no_grad():
            action = policy(state).max(1).indices.view(1, 1) if step % 3 else torch.tensor([[step % 2]])
        following, reward = state + 0.1 * torch.randn(1, 4), torch.tensor([1.0])
        memory.append((state, action, following, reward))
        state = following
        if len(memory) < 64:
            continue
        states, actions, after, rewards = (torch.cat(part) for part in zip(*memory[-64:]))
        values = policy(states).gather(1, actions)
        with torch.no_grad():
            best = target(after).max(1).values
        found = F.smooth_l1_loss(values, (best * 0.99 + rewards).unsqueeze(1))
        optimizer.zero_grad()
        found.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        for name, value in policy.state_dict().items():
            target.state_dict()[name].mul_(0.995).add_(value, alpha=0.005)
    return found.item()


def policy():
    """REINFORCE: actions are drawn one at a time, returns are normalised."""
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.4), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(8):
        logs, rewards = [], []
        for step in range(30):
            chances = torch.distributions.Categorical(model(torch.randn(1, 4)).softmax(1))
            action = chances.sample()
            logs.append(chances.log_prob(action))
            rewards.append(float(action.item() == step % 2))
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        found = torch.cat([-log * value for log, value in zip(logs, returns)]).sum()
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
    return found.item()


class GraphAttention(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.weight, self.a = nn.Parameter(torch.randn(width, out) * 0.1), nn.Parameter(torch.randn(2 * out, 1) * 0.1)

    def forward(self, x, edges):
        h = x @ self.weight
        left, right = h @ self.a[: h.shape[1]], h @ self.a[h.shape[1]:]
        scores = F.leaky_relu(left + right.T, 0.2)
        chances = torch.where(edges > 0, scores, torch.full_like(scores, -9e15)).softmax(1)
        return F.elu(F.dropout(chances, 0.5, self.training) @ h)


def gat():
    """Attention over a dense graph, on few labels."""
    layers, last = nn.ModuleList(GraphAttention(64, 8) for _ in range(4)), GraphAttention(32, 5)
    edges, x = (torch.rand(400, 400) > 0.98).float() + torch.eye(400), torch.rand(400, 64)
    labels, known = torch.randint(0, 5, (400,)), torch.arange(100)
    optimizer = torch.optim.Adam([*layers.parameters(), *last.parameters()], lr=5e-3, weight_decay=5e-4)
    for _ in range(20):
        h = torch.cat([layer(F.dropout(x, 0.5), edges) for layer in layers], 1)
        out = F.log_softmax(last(F.dropout(h, 0.5), edges), 1)
        found = F.nll_loss(out[known], labels[known])
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
    return found.item()


def messages():
    """Convolutions over edges by gather and scatter, pooled by graph."""
    first, second, head = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 3)
    optimizer = torch.optim.Adam([p for m in (first, second, head) for p in m.parameters()], lr=1e-2)
    for step in range(20):
        nodes = 200 + 7 * (step % 4)
        x, edges = torch.randn(nodes, 16), torch.randint(0, nodes, (2, 4 * nodes))
        graph, degree = torch.arange(nodes) % 10, torch.zeros(nodes).index_add_(0, edges[1], torch.ones(4 * nodes))
        scale = degree.clamp(min=1).pow(-0.5)
        for layer in (first, second):
            h = layer(x)
            h = torch.zeros_like(h).index_add(0, edges[1], h[edges[0]] * (scale[edges[0]] * scale[edges[1]])[:, None])
            x = h.relu()
        pooled = torch.zeros(10, 32).scatter_reduce(0, graph[:, None].expand(-1, 32), x, "mean", include_self=False)
        found = F.cross_entropy(head(pooled), torch.randint(0, 3, (10,)))
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
    return found.item()


class DeepAR(nn.Module):
    def __init__(self):
        super().__init__()
        self.kinds, self.body = nn.Embedding(10, 4), nn.LSTM(9, 24, 2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(24, 3)

    def forward(self, x, kind, features, state=None):
        scale = x.abs().mean(1, keepdim=True).clamp_min(1e-3)
        kinds = self.kinds(kind).unsqueeze(1).expand(-1, x.shape[1], -1)
        h, state = self.body(torch.cat([(x / scale).unsqueeze(-1), kinds, features], -1), state)
        freedom, mean, spread = self.head(h).unbind(-1)
        return torch.distributions.StudentT(2 + F.softplus(freedom), mean * scale, F.softplus(spread) * scale), state


def forecast():
    """Probabilistic forecasts: a recurrent network gives distributions, which are sampled from step by step."""
    model = DeepAR()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(12):
        x, kind, features = torch.randn(32, 36).cumsum(1), torch.randint(0, 10, (32,)), torch.randn(32, 36, 4)
        found = -model(x[:, :-1], kind, features[:, 1:])[0].log_prob(x[:, 1:]).mean()
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        given, state = model(x, kind, features)
        for _ in range(12):
            given, state = model(given.sample()[:, -1:], kind, features[:, :1], state)
    return found.item()


class Gated(nn.Module):
    def __init__(self, width, inner, out):
        super().__init__()
        self.first, self.second, self.gate = nn.Linear(width, inner), nn.Linear(inner, inner), nn.Linear(inner, 2 * out)
        self.norm, self.skip = nn.LayerNorm(out), nn.Linear(width, out) if width != out else None

    def forward(self, x):
        kept = x if self.skip is None else self.skip(x)
        return self.norm(F.glu(self.gate(self.second(F.elu(self.first(x))))) + kept)


class Selection(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.parts = nn.ModuleList(Gated(1, width, width) for _ in range(count))
        self.weights = Gated(count * width, width, count)

    def forward(self, x):
        parts = torch.stack([part(x[..., k: k + 1]) for k, part in enumerate(self.parts)], -1)
        return (parts * self.weights(parts.flatten(-2)).softmax(-1).unsqueeze(-2)).sum(-1)


class Fusion(nn.Module):
    def __init__(self, count=6, width=16):
        super().__init__()
        self.past, self.future = Selection(count, width), Selection(3, width)
        self.first, self.second = (nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.attention, self.gated = nn.MultiheadAttention(width, 2, batch_first=True), Gated(width, width, width)
        self.head = nn.Linear(width, 7)

    def forward(self, past, future):
        before, state = self.first(self.past(past))
        after = self.second(self.future(future), state)[0]
        both, steps = torch.cat([before, after], 1), after.shape[1]
        hidden = torch.triu(torch.ones(steps, both.shape[1], dtype=torch.bool), both.shape[1] - steps + 1)
        return self.head(self.gated(self.attention(after, both, both, attn_mask=hidden)[0] + after))


def quantiles():
    """A temporal fusion transformer: many small modules, one batch smaller than the others, evaluated in between."""
    model, levels = Fusion(), torch.tensor([0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(2):
        model.train()
        for step in range(8):
            count = 32 if step < 7 else 20
            past, future = torch.randn(count, 24, 6), torch.randn(count, 6, 3)
            error = torch.randn(count, 6, 1) - model(past, future)
            found = torch.max((levels - 1) * error, levels * error).sum(-1).mean()
            optimizer.zero_grad()
            found.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            found = found + model(past, future).mean()
    return found.item()


def regression():
    """Lines and polynomials, by hand and by an optimizer."""
    x = torch.linspace(-math.pi, math.pi, 2000)
    y, powers = torch.sin(x), x.unsqueeze(-1).pow(torch.tensor([1, 2, 3]))
    a, b, c, d = (torch.randn((), requires_grad=True) for _ in range(4))
    for _ in range(200):
        loss = (a + b * x + c * x**2 + d * x**3 - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for p in (a, b, c, d):
                p -= 1e-6 * p.grad
                p.grad = None
    model = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0, 1))
    return fit(model, (((powers,), y) for _ in range(200)), nn.MSELoss(reduction="sum"), torch.optim.RMSprop)


PROGRAMS = (mlp, cnn, resnet, gpt, lstm, gru, encoder, unet, vae, gan, diffusion, dqn, policy, gat, messages, forecast,
            quantiles, regression)

if __name__ == "__main__":
    torch.manual_seed(0)
    print(f"{next(one for one in PROGRAMS if one.__name__ == sys.argv[1])():.4f}")
