"""What forward keeps for backward lies in one buffer, where the backward program lays its temporaries."""
import numpy as np
import pytest
import torch as judge

import rushlight as torch
from rushlight._src.compiler import residuals
from rushlight._src.compiler import memory

from ..whole import whole


def layers(x, *weights):
    for w in weights:
        x = torch.nn.functional.layer_norm(torch.nn.functional.gelu(x @ w), (x.shape[-1],)) + x
    return x.square().mean()


def made(rows=200):
    torch.manual_seed(0)
    return [torch.randn(rows, 32, requires_grad=True), *(torch.randn(32, 32, requires_grad=True) for _ in range(6))]


def convolutions(x, *weights):
    """Large values first, small ones last."""
    for w in weights:
        x = torch.nn.functional.batch_norm(torch.nn.functional.conv2d(x, w, None, 2, 1), None, None,
                                           training=True).relu()
    return x


def images():
    torch.manual_seed(0)
    return [torch.randn(2, 3, 96, 96),
            *(torch.randn(n, m, 3, 3, requires_grad=True) for m, n in ((3, 16), (16, 16), (16, 16)))]


def gradients(loss, given, **how):
    return [g.numpy().copy() for g in torch.autograd.grad(loss, given, **how)]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(residuals, "WORTHWHILE", 1)


def test_gradients_do_not_depend_on_where_they_are_computed(small):
    given = made()
    expected = gradients(layers(*given), given)
    operator = whole(layers)
    loss = operator(*given)
    plan, = operator.plans.values()
    assert plan.donating is not None and plan.extra == 1
    for how in ({"retain_graph": True}, {"retain_graph": True}, {}):  # the last one overwrites what it has read
        for found, e in zip(gradients(loss, given, **how), expected):
            np.testing.assert_allclose(found, e, rtol=1e-4, atol=1e-7)
    with pytest.raises(RuntimeError):
        gradients(loss, given)


def test_gradients_of_gradients(small):
    def norm(function):
        given = made()
        first = torch.autograd.grad(function(*given), given, create_graph=True)
        return gradients(sum(g.square().sum() for g in first), given)

    for found, expected in zip(norm(whole(layers)), norm(layers)):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


def test_a_backward_program_takes_less_memory_of_its_own(monkeypatch):
    arenas, original = [], memory.plan
    monkeypatch.setattr(memory, "plan", lambda lives: arenas.append(original(lives)) or arenas[-1])

    def arena(limit):
        monkeypatch.setattr(residuals, "WORTHWHILE", limit)
        whole(convolutions)(*images()).sum().backward()
        return arenas[-1][1]

    assert arena(1) < arena(1 << 40)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_floats_of_a_byte(small, fullgraph):
    """They lie in the buffer as they are anywhere: their codes are read once."""
    def found(lib):
        class Scaled(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, w):
                q, p = (x.sin() * 30).to(lib.float8_e4m3fn), (w.cos() * 7).to(lib.float8_e5m2)
                ctx.save_for_backward(q, p)
                return q.float() * p.float()

            @staticmethod
            def backward(ctx, g):
                q, p = ctx.saved_tensors
                return g * p.float() * 2, g * q.float() * 3

        x, w = ((lib.arange(512.0) % n - n // 2).reshape(8, 64).requires_grad_() for n in (37, 23))

        def loss(x, w):
            return Scaled.apply(x, w).sum()

        (torch.compile(loss, fullgraph=fullgraph) if lib is torch else loss)(x, w).backward()
        return x.grad.tolist(), w.grad.tolist()

    assert found(torch) == found(judge)


def test_tight_places():
    life = memory.Life
    donated = [(life(128, -1, 3), 0), (life(128, -1, 1), 128)]
    lives = [life(64, 2, 5), life(64, 2, 3), life(256, 4, 5), life(64, 0, 5), life(128, 4, 4)]
    found = memory.within(lives, donated, 256)
    assert 2 in found or {0, 1} <= set(found)
    assert 3 not in found
    everything = [s for s, _ in donated] + [lives[k] for k in found]
    memory.verify(everything, [at for _, at in donated] + list(found.values()))


def test_what_only_one_kept_value_reads_is_not_kept():
    """The normalised image and its activation are recomputed where they are read, not materialized."""
    from rushlight._src.compiler import assembler as program

    seen = []
    original = program.Schedule.keep_shared

    def keep_shared(self):
        original(self)
        seen.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program.Schedule, "keep_shared", keep_shared)
        whole(convolutions)(*images()).sum().backward()
    backward = seen[-1]
    elementwise = [n for n in backward.kept if n.op is not None and n.op.kind.name == "elementwise"
                   and n.shape == (2, 16, 48, 48)]
    # the gradients before and after the normalisation, the activation that the next layer reads
    assert len(elementwise) <= 3, elementwise
