"""Whole programs compute what their operators compute one by one."""
import copy

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight._src.compiler import memory
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.compiler import assembler as program
from rushlight._src.compiler.assembler import chunk_of
from rushlight._src.core.settings import settings
from rushlight.nn import functional as F

from ..whole import whole, whole_module


class Block(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out, self.up, self.down = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(
            32, 16)
        self.dropout = dropout

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (y.view(b, n, 4, 4).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout)
        x = x + F.dropout(self.out(y.transpose(1, 2).reshape(b, n, c)), self.dropout)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Language(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.token, self.position = nn.Embedding(11, 16), nn.Embedding(6, 16)
        self.blocks = nn.Sequential(Block(dropout), Block(dropout), Block(dropout))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 11)

    def forward(self, ids, targets):
        x = self.blocks(self.token(ids) + self.position(torch.arange(ids.shape[1])))
        return F.cross_entropy(self.head(self.norm(x)).view(-1, 11), targets.view(-1))


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv1, self.bn1 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 10)

    def forward(self, x, y):
        x = F.max_pool2d(F.relu(self.bn(self.stem(x))), 3, 2, 1)
        x = F.relu(x + self.bn1(self.conv1(x)))
        return F.cross_entropy(self.head(F.relu(self.bn2(self.conv2(x))).mean((2, 3))), y)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTM(5, 7, num_layers=2), nn.Linear(7, 3)

    def forward(self, x, y):
        return ((self.head(self.cell(x)[0]) - y) ** 2).mean()


def ids(*shape, below=11):
    return torch.randint(below, shape)


CASES = {
    "language": (Language, lambda: (ids(2, 6), ids(2, 6))),
    "language with dropout": (lambda: Language(0.3), lambda: (ids(2, 6), ids(2, 6))),
    "image": (Image, lambda: (torch.randn(4, 3, 10, 10), ids(4, below=10))),
    "recurrent": (Recurrent, lambda: (torch.randn(4, 2, 5), torch.randn(4, 2, 3))),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernels", [True, False])
def test_training_steps_are_those_of_eager_mode(case, kernels):
    build, inputs = CASES[case]
    torch.manual_seed(0)
    model = build()
    other = copy.deepcopy(model)
    step = whole_module(other)
    with torch._src.core.settings.settings.set(kernels=kernels):
        for seed in range(2):
            given = inputs()
            torch.manual_seed(seed)
            expected = model(*given)
            torch.manual_seed(seed)
            found = step(*given)
            np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-5)
            expected.backward()
            found.backward()
            for (name, p), q in zip(model.named_parameters(), other.parameters()):
                np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=2e-4, atol=2e-6, err_msg=name)
            for (name, p), q in zip(model.named_buffers(), other.buffers()):
                np.testing.assert_allclose(q.numpy(), p.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_no_two_live_temporaries_overlap(case, monkeypatch):
    plans, original = [], memory.plan

    def plan(lives):
        offsets, size = original(lives)
        plans.append((lives, offsets, size))
        return offsets, size

    monkeypatch.setattr(memory, "plan", plan)
    build, inputs = CASES[case]
    whole_module(build())(*inputs()).backward()
    assert max(len(lives) for lives, _, _ in plans) > 10
    for lives, offsets, size in plans:
        memory.verify(lives, offsets)
        assert all(at + life.size <= size for at, life in zip(offsets, lives))
    lives, _, size = max(plans, key=lambda p: len(p[0]))
    assert size < sum(life.size for life in lives) * 0.7


def test_a_value_is_computed_once():
    """Twenty residual layers take steps in proportion to their number."""
    def steps(layers):
        weights = [torch.randn(8, 8) for _ in range(layers)]

        def body(x, *weights):
            for w in weights:
                x = x + torch.tanh(x @ w)
            return x

        operator = whole(body)
        x = torch.randn(4, 8)
        np.testing.assert_allclose(operator(x, *weights).numpy(), body(x, *weights).numpy(), rtol=1e-4, atol=1e-5)
        plan, = operator.plans.values()
        return len(plan.code_owner.labels), max(label.count("nodes") and int(label.split()[0])
                                                for label in plan.code_owner.labels)

    few, many = steps(5), steps(20)
    assert many[0] <= 4 * few[0] + 4
    assert many[1] <= few[1]


def test_joined_results_are_written_piece_by_piece():
    def body(x, w):
        return torch.cat([torch.relu(x), x * 2, x @ w[:4, :3]], 1) @ w.T

    x, w = torch.randn(5, 4), torch.randn(6, 11)
    operator = whole(body)
    np.testing.assert_allclose(operator(x, w).numpy(), body(x, w).numpy(), rtol=1e-4, atol=1e-5)


def test_products_of_several_shapes_and_empty_ones():
    def body(x, y, e):
        return x @ y, (e @ y).sum(), torch.cat([e, x @ y[:, :4]]), (x.T @ x).T

    x, y, e = torch.randn(3, 4), torch.randn(4, 5), torch.randn(0, 4)
    for found, expected in zip(whole(body)(x, y, e), body(x, y, e)):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_what_numpy_computes_lies_between_kernels():
    def body(x):
        values, order = torch.sort(torch.relu(x) * 2, dim=1)
        return (values + 1).sum(1), torch.gather(x, 1, order)

    x = torch.randn(3, 7)
    for found, expected in zip(whole(body)(x), body(x)):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)


@pytest.mark.parametrize("body", [
    lambda x: torch.cat([x[k:k + 1 + k % 3] for k in range(20)]) * 2,
    lambda x: sum(x[k:k + 3] * x[k + 2:k + 5] for k in range(0, 80, 2))])
def test_what_reads_many_operands_is_computed_by_several_kernels(body):
    x = torch.randn(84, 6)
    operator = whole(body)
    np.testing.assert_allclose(operator(x).numpy(), body(x).numpy(), rtol=1e-4, atol=1e-5)
    plan, = operator.plans.values()
    assert len(plan.code_owner.labels) > 1


def test_kernels_of_a_scan_by_doubling_stay_small(monkeypatch):
    """Values read at other places are read from memory: computing them again for each place doubles the work with every
    step."""
    def scan(a, b):
        for k in (1, 2, 4, 8):
            a, b = torch.cat([a[:k], a[k:] * a[:-k]]), torch.cat([b[:k], a[k:] * b[:-k] + b[k:]])
        return b

    texts, text = [], Module.text
    monkeypatch.setenv("RUSHLIGHT_CACHE", "0")  # else a run before this one may have written them
    monkeypatch.setattr(Module, "text", lambda self: texts.append(text(self)) or texts[-1])

    def function(x, y, w):
        return (scan(torch.exp(-F.softplus(x) * w), torch.tanh(y) * x) * y).sum()  # functions that are short themselves

    results = []
    for one in (function, torch.compile(function)):
        torch.manual_seed(0)
        leaves = [torch.rand(12, 8, 16), torch.randn(12, 8, 16), torch.rand(16)]
        results.append(torch.autograd.grad(one(*(leaf.requires_grad_() for leaf in leaves)), leaves))
    for found, expected in zip(*results):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
    assert max(map(len, texts)) < 200_000


def test_kernels_of_a_long_recurrence_stay_small(monkeypatch):
    """The cell states of a backward pass are computed by equal kernels, not by one that grows with the steps."""
    texts, text = [], Module.text
    monkeypatch.setenv("RUSHLIGHT_CACHE", "0")  # else a run before this one may have written them
    monkeypatch.setattr(Module, "text", lambda self: texts.append(text(self)) or texts[-1])
    longest = {}
    for steps in (12, 32):
        torch.manual_seed(0)
        cell, x = nn.LSTM(7, 11), torch.randn(steps, 3, 7)  # sizes of no other test: their plans are made here
        texts.clear()
        with settings.set(regions=False):
            cell(x)[0].sum().backward()
        longest[steps] = max(len(one) for one in texts if "define  void @k" in one)
    assert longest[32] < 1.5 * longest[12]


def test_kernels_end_with_a_round_of_what_comes_round_again():
    assert chunk_of("itgoch" * 9) == 6 and chunk_of("abc" * 9) == 6 and chunk_of("a" * 20) == 8
    assert chunk_of("abcdefghijklm") == 8 and chunk_of("ab") == 8
    assert chunk_of("xy" + "sstastm" * 30) == 7
