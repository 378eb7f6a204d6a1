"""Models train on WebGPU as on the processor, by kernels of the device alone."""
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from rushlight._src.devices.shared.host import HostStep


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.feed = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(b, t, d))
        return x + self.feed(self.second(x))


class Letters(nn.Module):
    """A small GPT."""

    def __init__(self, words=31, size=32, length=16):
        super().__init__()
        self.words, self.places = nn.Embedding(words, size), nn.Embedding(length, size)
        self.body = nn.Sequential(Block(size, 4), Block(size, 4), nn.LayerNorm(size), nn.Linear(size, words))

    def forward(self, x):
        return self.body(self.words(x) + self.places(rl.arange(x.shape[1], device=x.device)))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x):
        return (x + self.norms[1](self.second(self.norms[0](self.first(x)).relu()))).relu()


def images():
    """A small ResNet."""
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), Residual(4),
                         nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.ReLU(), Residual(8), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(8, 10))


OPTIMIZERS = {Letters: lambda p: rl.optim.AdamW(p, 1e-3), images: lambda p: rl.optim.SGD(p, 0.05, momentum=0.9)}


def losses(make, where, compiled, steps):
    rl.manual_seed(0)
    model = make().to(where)
    optimizer, forward = OPTIMIZERS[make](model.parameters()), rl.compile(model) if compiled else model
    x = rl.randint(0, 31, (4, 17)) if make is Letters else rl.randn(4, 3, 8, 8)
    y = x[:, 1:] if make is Letters else rl.randint(0, 10, (4,))
    x, y = (x[:, :-1] if make is Letters else x).to(where), y.to(where)
    found = []
    for _ in range(steps):
        loss = F.cross_entropy(forward(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def trained(make, compiled, steps):
    wanted, before = losses(make, "cpu", compiled, steps), sum(HostStep.runs.values())
    # a loss near 0 is a difference of numbers near 1
    assert losses(make, "webgpu", compiled, steps) == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    assert sum(HostStep.runs.values()) == before and wanted[-1] < wanted[0]


@pytest.mark.parametrize("make", [Letters, images])
def test_a_few_steps(make):
    trained(make, False, 3)


@pytest.mark.parametrize("make", [Letters, images])
def test_twenty_compiled_steps(make):
    trained(make, True, 20)


@pytest.mark.long
@pytest.mark.parametrize("make", [Letters, images])
def test_twenty_steps(make):
    trained(make, False, 20)


def test_comparisons_of_positions():
    """A driver took those of numbers in 64 bits for true that were made of 32."""
    x = rl.randn(2, 9, 9)
    q, k, v = x.unbind(0)[0], x.unbind(0)[1], rl.eye(9)
    found = [F.scaled_dot_product_attention(*(a.to(w)[None, None] for a in (q, k, v)), is_causal=True).cpu()
             for w in ("cpu", "webgpu")]
    rl.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-6)
    assert (found[1].triu(1) == 0).all()


def test_loops_within_loops():
    x = rl.linspace(0.3, 4, 7)
    found = [rl.autograd.grad(rl.digamma(a).sum(), a)[0].cpu() for w in ("cpu", "webgpu")
             for a in [x.to(w).detach().clone().requires_grad_()]]
    rl.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
