"""Models, optimizers and compiled programs on a device: what they compute is what they compute on the processor."""
import pytest

import rushlight as rl
from rushlight import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(11, 16), nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.0), nn.Linear(32, 11))

    def forward(self, tokens):
        x = self.norm(self.embed(tokens))
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(x)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Flatten(), nn.Linear(8 * 4 * 4, 11))

    def forward(self, x):
        return self.body(x)


def batch(kind, where):
    rl.manual_seed(1)
    x = rl.randint(0, 11, (2, 5)) if kind is Small else rl.randn(2, 3, 8, 8)
    return x.to(where), rl.randint(0, 11, x.shape[:2] if kind is Small else (2,)).to(where)


def losses(kind, where, make, compiled=False, steps=3):
    """The losses of a few steps; every gradient and parameter lies on the device."""
    rl.manual_seed(0)
    model = kind().to(where)
    optimizer = make(model.parameters())
    forward = rl.compile(model) if compiled else model
    x, y = batch(kind, where)
    found = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(forward(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    assert {p.device for p in model.parameters()} == {p.grad.device for p in model.parameters()} == {rl.device(where)}
    return found


OPTIMIZERS = {
    "SGD": lambda p: rl.optim.SGD(p, 0.1, momentum=0.9), "AdamW": lambda p: rl.optim.AdamW(p, 0.01),
    "single": lambda p: rl.optim.Adam(p, 0.01, foreach=False),
    "fused": lambda p: rl.optim.Adam(p, 0.01, fused=True), "RMSprop": lambda p: rl.optim.RMSprop(p, 0.01),
    "Adagrad": lambda p: rl.optim.Adagrad(p, 0.01)}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    assert losses(Small, "fake:1", OPTIMIZERS[name]) == pytest.approx(losses(Small, "cpu", OPTIMIZERS[name]), rel=1e-6)


@pytest.mark.parametrize("kind", [Small, Images])
@pytest.mark.parametrize("compiled", [False, True])
def test_models(kind, compiled):
    assert losses(kind, "fake:0", OPTIMIZERS["SGD"],
                  compiled) == pytest.approx(losses(kind, "cpu", OPTIMIZERS["SGD"], compiled), rel=1e-6)


def test_sizes_that_vary():
    f = rl.compile(lambda x: (x.softmax(-1) * 2).sum(0))
    for n in range(2, 9):
        x = rl.randn(n, n + 1)
        assert f(x.to("fake")).tolist() == pytest.approx(f(x).tolist()) and (x.to("fake") * 3
                                                                             + 1).tolist() == (x * 3 + 1).tolist()


def test_compiled_programs_move_tensors():
    f = rl.compile(lambda x: (x + 1).to("fake:1") * 2)
    made = f(rl.ones(3, device="fake:0"))
    assert made.device == rl.device("fake:1") and made.tolist() == [4, 4, 4]


def test_compiled_factories():
    f = rl.compile(lambda x: x + rl.arange(3, device=x.device) + rl.ones(3, device="fake"))
    assert f(rl.ones(3, device="fake")).tolist() == [2, 3, 4]


def test_second_derivatives():
    x = rl.arange(3.0, device="fake", requires_grad=True)
    g, = rl.autograd.grad((x**3).sum(), x, create_graph=True)
    h, = rl.autograd.grad(g.sum(), x)
    assert h.device == x.device and h.tolist() == [0, 6, 12]


def test_transforms():
    x = rl.randn(3, 4, device="fake")
    assert rl.func.vmap(lambda r: r.sin().sum())(x).device == x.device
    assert rl.func.grad(lambda r: r.sin().sum())(x).tolist() == x.cos().tolist()
    assert rl.func.jvp(lambda r: r * r, (x,), (rl.ones_like(x),))[1].tolist() == (2 * x).tolist()


def test_writes():
    x = rl.zeros(3, 3, device="fake")
    x[1] = 2
    x[:, 0] += 1
    x[x > 2] = 7
    x.diagonal().fill_(5)
    assert x.tolist() == [[5, 0, 0], [7, 5, 2], [1, 0, 5]]
    y = rl.zeros(3, device="fake", requires_grad=True)
    z = (y * 2).add_(1).mul_(3)
    z.sum().backward()
    assert y.grad.tolist() == [6, 6, 6]
    out = rl.empty(3, device="fake")
    assert rl.add(y.detach(), 1, out=out) is out and out.tolist() == [1, 1, 1]


def test_packed_sequences():
    rnn = nn.GRU(3, 4)
    x, lengths = [rl.randn(n, 3) for n in (2, 4, 1)], [2, 4, 1]
    packed = nn.utils.rnn.pack_padded_sequence(nn.utils.rnn.pad_sequence(x), lengths, enforce_sorted=False)
    wanted = nn.utils.rnn.pad_packed_sequence(rnn(packed)[0])
    there = nn.utils.rnn.pack_padded_sequence(nn.utils.rnn.pad_sequence([v.to("fake") for v in x]), lengths,
                                              enforce_sorted=False)
    assert there.batch_sizes.is_cpu and there.sorted_indices.is_fake and packed.to(
        "fake").data.tolist() == there.data.tolist()
    found = nn.utils.rnn.pad_packed_sequence(rnn.to("fake")(there)[0])
    assert found[0].is_fake and found[0].tolist() == wanted[0].tolist() and found[1].tolist() == wanted[1].tolist()
