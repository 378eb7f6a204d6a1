"""Dynamic shapes: one or two captures serve every size, with the results of uncompiled code; marks and checks."""
import pytest

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

torch.manual_seed(0)
conv, linear, lstm = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(8, 8), nn.LSTM(8, 4, batch_first=True)
norm, attention = nn.BatchNorm2d(4), nn.MultiheadAttention(8, 2, batch_first=True)
SIZES = (4, 6, 9, 12)
r = torch.randn

CASES = {
    "convolution": (1, lambda x: F.relu(conv(x)).mean((2, 3)), lambda s: (r(2, 3, s, s),)),
    "batch": (2, lambda x: F.max_pool2d(norm(conv(x)), 2).flatten(1).sum(1), lambda s: (r(s, 3, 8, 8),)),
    "linear": (1, lambda x: linear(x).softmax(-1), lambda s: (r(s, 8),)),
    "attention": (2, lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), lambda s: (r(1, 2, s, 8),)),
    "heads": (2, lambda x: attention(x, x, x, need_weights=False)[0], lambda s: (r(2, s, 8),)),
    "recurrent": (2, lambda x: lstm(x)[0], lambda s: (r(s, 3, 8),)),
    "cat": (1, lambda x, y: torch.cat([x, y, x], 0), lambda s: (r(s, 3), r(s + 1, 3))),
    "split": (2, lambda x: x.split(x.shape[0] // 2)[0] * 2, lambda s: (r(2 * s, 3),)),
    "chunk": (2, lambda x: sum(c.sum(0) for c in x.chunk(2)), lambda s: (r(2 * s, 3),)),
    "index": (1, lambda x, i: x[i] + x[:, 0].sum(), lambda s: (r(s, 3), torch.arange(s) // 2)),
    "slice": (2, lambda x: x[1:-1, :x.shape[1] - 1] * x.shape[0], lambda s: (r(s, s + 1),)),
    "view of halves": (2, lambda x: x.view(x.shape[0] // 2, 2, -1).transpose(0, 1).reshape(2, -1),
                       lambda s: (r(2 * s, 6),)),
    "expand": (2, lambda x: x.expand(x.shape[0], 5, x.shape[2]).sum((0, 1)), lambda s: (r(s, 1, 3),)),
    "mask": (2, lambda x: x.masked_fill(torch.ones(x.shape[0], x.shape[0]).tril() == 0, -1.0), lambda s: (r(s, s),)),
    "embedding": (1, lambda t: F.embedding(t, linear.weight).mean(1), lambda s: (torch.randint(0, 8, (2, s)),)),
    "cross entropy": (2, lambda x, t: F.cross_entropy(x, t), lambda s: (r(s, 5), torch.randint(0, 5, (s,)))),
    "layer norm": (2, lambda x: F.layer_norm(x, (x.shape[-1],)), lambda s: (r(3, s),)),
    "sort": (2, lambda x: (x.topk(2).values, x.sort(0).values), lambda s: (r(s, s),)),
    "einsum": (2, lambda x: torch.einsum("bij,bkj->bik", x, x), lambda s: (r(2, s, 4),)),
    "resampled": (2, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda s: (r(2, 3, s, s + 1),)),
    "resampled to a size": (2, lambda x: F.interpolate(x, size=(5, 7), mode="bicubic"), lambda s: (r(2, 3, s, s + 1),)),
    "resampled to its size": (2, lambda x: F.interpolate(x.new_ones(1, 1, 3, 3), size=x.shape[-2:], mode="nearest") + x,
                              lambda s: (r(2, 3, s, s + 1),)),
    "evenly spaced": (2, lambda x: x * torch.linspace(0, 1, x.shape[0])[:, None], lambda s: (r(s, 3),)),
    "cut in three": (2, lambda x: sum(p.sum() for p in torch.tensor_split(x, 3)), lambda s: (r(3 * s, 3),)),
    "inverse": (2, lambda x: torch.linalg.pinv(x), lambda s: (r(s + 2, 3),)),
    "variance": (4, lambda x: (x.var(-1, correction=8), x.std(0, correction=6.5), torch.cov(x, correction=7)),
                 lambda s: (r(s, s),)),
    "negated size": (2, lambda x: x[-(x.shape[0] - 1):], lambda s: (r(s, 3),)),
    "recurrent, in time": (2, lambda x: lstm(x)[0], lambda s: (r(2, s, 8),)),
    "head size": (2, lambda q: F.scaled_dot_product_attention(q, q, q), lambda s: (r(1, 2, 5, 4 * s),)),
    "bags by offsets": (2, lambda i, o: F.embedding_bag(i, linear.weight, o, mode="sum"),
                        lambda s: (torch.randint(0, 8, (2 * s,)), torch.arange(0, 2 * s, 2))),
    "random integers below": (2, lambda x, n: torch.randint(0, n, (3,)).clamp(0, 0) + x, lambda s: (r(3), s)),
    "evenly spaced up to": (2, lambda x, n: torch.linspace(0, n, 5) + x.sum(), lambda s: (r(3), s)),
    "resampled by a factor": (2, lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
                              lambda s: (r(1, 2, s, s),)),
    "rolled by": (2, lambda x, n: x.roll(n) + x[:n].sum() + x.topk(n).values.sum(), lambda s: (r(20), s)),
    "blended by": (2, lambda x, t: torch.lerp(x, x + 1, t) + torch.add(x, x, alpha=t), lambda s: (r(3), s / 16)),
    "mean by size": (2, lambda x: x.sum(0) / x.shape[0] + x.numel() % 5, lambda s: (r(s, 3),)),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes(name):
    captures, function, make = CASES[name]
    compiled = torch.compile(function)
    for size in SIZES:
        given = make(size)
        wanted, got = function(*given), compiled(*given)
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (wanted, got))):
            assert a.shape == b.shape and torch.allclose(a, b, atol=1e-4), size
    assert compiled.owner.stats.segments <= captures and not compiled.owner.stats.breaks


def test_training_at_several_sizes():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))
    compiled = torch.compile(lambda x: (model(x) ** 2).mean() / x.shape[0])
    for size in SIZES:
        x = r(size, 8)
        wanted = torch.autograd.grad((model(x) ** 2).mean() / size, list(model.parameters()))
        model.zero_grad()
        compiled(x).backward()
        for p, w in zip(model.parameters(), wanted):
            assert torch.allclose(p.grad, w, atol=1e-5)
    assert compiled.owner.stats.segments == 2


def test_a_size_that_no_longer_halves_is_captured_again():
    def f(x):
        return x.view(x.shape[0] // 2, -1) if x.shape[0] % 2 == 0 else x.sum(0)

    compiled = torch.compile(f)
    for size in (4, 6, 8, 10, 7, 9, 12):
        x = r(size, 2)
        assert torch.equal(compiled(x), f(x)) or torch.allclose(compiled(x), f(x))
    assert compiled.owner.stats.segments <= 4


def test_a_number_that_becomes_zero_is_not_divided_by():
    def f(x, n):
        try:
            return x + 12 // n
        except ZeroDivisionError:
            return x - 1

    compiled = torch.compile(f)
    for n in (1, 2, 3, 0, 4, 0):
        assert torch.equal(compiled(torch.ones(2), n), f(torch.ones(2), n))


def test_marks():
    def captures(mark):
        compiled = torch.compile(lambda x: x * x.shape[0] + x.shape[1])
        for size in (4, 5, 6):
            x = r(size, 3)
            mark(x)
            assert torch.allclose(compiled(x), x * size + 3)
        return compiled.owner.stats.segments

    assert captures(lambda x: torch._dynamo.mark_dynamic(x, 0)) == captures(lambda x: torch._dynamo.mark_unbacked(
        x, 0)) == 1
    assert captures(lambda x: torch._dynamo.mark_static(x)) <= 3


def test_checks():
    def f(x, n):
        torch._check(n > 1, lambda: f"n is {n}")
        torch._check_is_size(n, max=10)
        return x[:n]

    compiled = torch.compile(f, fullgraph=True)
    for n in (2, 3, 4):
        assert torch.equal(compiled(torch.arange(8), n), torch.arange(n))
    with pytest.raises(RuntimeError, match="n is 1"):
        compiled(torch.arange(8), 1)
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        torch._check(False)
    with pytest.raises(TypeError, match="_check_tensor_all"):
        torch._check(torch.ones(2) > 0)
    torch._check_tensor_all(torch.ones(2) > 0)
    with pytest.raises(RuntimeError):
        torch._check_tensor_all(torch.zeros(2) > 0)


def fixing(x):
    return x * 2 if x.shape[0] == 3 else x


def test_marked_sizes_that_the_program_fixes():
    x = torch.ones(3)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(torch._src.capture.errors.ConstraintViolationError, match="needs it to be 3"):
        torch.compile(fixing)(x)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    assert torch.equal(torch.compile(fixing)(x), torch.full((3,), 2.0))


def test_marked_sizes_that_must_be_even_or_equal_vary():
    def halves(x, y):
        a, b = x.chunk(2)
        return a + b + y[:a.shape[0]], x + y

    compiled = torch.compile(halves)
    for n in (4, 6, 8):
        x, y = torch.ones(n), torch.ones(n)
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.mark_dynamic(y, 0)
        compiled(x, y)
    assert compiled.owner.stats.segments == 1


def test_bounds_of_marked_sizes():
    compiled = torch.compile(lambda x: x * x.shape[0])
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=8)
    for n in (4, 8, 2, 9, 100):
        given = x if n == 4 else torch.ones(n)
        assert torch.equal(compiled(given), given * n)
    assert compiled.owner.stats.segments == 2
    with pytest.raises(torch._src.capture.errors.ConstraintViolationError, match=r"range \[5, 8\]"):
        torch._dynamo.mark_dynamic(x, 0, min=5, max=8)
        torch.compile(lambda x: x + 1)(x)


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_are_marked_as_static(dynamic):
    compiled = torch.compile(lambda x: x * x.shape[0], dynamic=dynamic)
    for n in (3, 5, 7):
        x = torch.ones(n, n)
        torch._dynamo.mark_static(x)
        compiled(x)
    assert compiled.owner.stats.segments == 3
