"""Whole training steps keep of the forward pass what a backward pass of its own would keep."""
import numpy as np
import pytest

import rushlight as torch
from rushlight._src.compiler import recompute
from rushlight._src.compiler.recompute import recomputed
from rushlight._src.core.native.blocks import heap, trim
from rushlight._src.core.settings import settings
from rushlight.nn import functional as F


def model(depth=4):
    torch.manual_seed(0)
    block = lambda: torch.nn.Sequential(torch.nn.LayerNorm(64), torch.nn.Linear(64, 256), torch.nn.GELU(),
                                        torch.nn.Linear(256, 64), torch.nn.Dropout(0.1))  # noqa: E731
    return torch.nn.Sequential(*(block() for _ in range(depth)))


def step_of(net, optimizer):
    def step(x, y):
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()
    return step


def run(compiled, count=3, batch=512):
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    step = step_of(net, optimizer)
    step = torch.compile(step) if compiled else step
    torch.manual_seed(1)
    x, y = torch.randn(batch, 64), torch.randn(batch, 64)
    losses = [step(x, y).item() for _ in range(count)]
    trim()
    heap.peak = heap.live
    before = heap.live
    step(x, y)
    return losses, [p.detach().numpy() for p in net.parameters()], heap.peak - before


def test_steps_are_the_same_and_hold_less():
    (losses, weights, most), (expected, others, eager) = run(True), run(False)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for a, b in zip(weights, others):
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=2e-3)
    assert most < eager


def test_without_the_cut_more_is_held(monkeypatch):
    _, _, less = run(True)
    monkeypatch.setattr("rushlight._src.compiler.pipeline.recomputed", lambda graph, *rest: graph)
    with settings.set(store=False):
        _, _, more = run(True, batch=514)
    assert less < 0.8 * more


@pytest.mark.parametrize("recorded", [False, True])
def test_gradients_within_programs(recorded):
    def penalised(x, w):
        y = torch.tanh(x @ w).square().sum()
        g, = torch.autograd.grad(y, w, create_graph=True)
        loss = y + (g.square().sum() if recorded else 0)
        return torch.autograd.grad(loss, w)[0]

    w = torch.randn(8, 8, requires_grad=True)
    x = torch.randn(16, 8)
    np.testing.assert_allclose(torch.compile(penalised)(x, w).detach().numpy(), penalised(x, w).detach().numpy(),
                               rtol=1e-3, atol=1e-3)


def test_programs_without_a_backward_pass_are_left_alone():
    from rushlight._src.core.meta import Meta
    from rushlight._src.graph.graph import Graph
    from rushlight._src.transforms.trace import Trace

    trace = Trace()
    x = trace.input(Meta.of((4,), torch.float32))
    with trace:
        y = recompute.P.exp(x)
    graph = Graph(trace.inputs, trace.nodes, [y.node])
    assert recomputed(graph) is graph


def test_an_update_follows_its_gradient(monkeypatch):
    """No more than a layer's gradient waits: parameters are overwritten as soon as nothing reads them."""
    from rushlight._src.compiler import layout

    sizes, original = [], layout.MemoryLayout.arrange
    monkeypatch.setattr(layout.MemoryLayout, "arrange", lambda self: (original(self), sizes.append(self.size)))
    width, depth = 300, 6
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(depth)))
    before = [p.detach().clone() for p in net.parameters()]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    x, y = torch.randn(8, width), torch.randn(8, width)
    with settings.set(store=False):
        torch.compile(step_of(net, optimizer))(x, y)
    gradients = depth * width * width * 4
    assert max(sizes) < 0.6 * gradients
    compiled = [p.detach().clone() for p in net.parameters()]
    with torch.no_grad():
        for p, b in zip(net.parameters(), before):
            p.copy_(b)
    step_of(net, torch.optim.Adam(net.parameters(), lr=0.01))(x, y)
    for a, b in zip(compiled, net.parameters()):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-3, atol=1e-4)


def test_parameters_are_not_overwritten_before_they_are_read():
    """One matrix is used twice: its second use backward comes after the first gradient."""
    w = torch.nn.Parameter(torch.randn(64, 64) * 0.1)
    x = torch.randn(32, 64)

    def step(w, optimizer):
        loss = torch.tanh(torch.tanh(x @ w) @ w.T).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach(), w.detach().sum()

    other = torch.nn.Parameter(w.detach().clone())
    first, second = torch.optim.SGD([w], lr=0.1, momentum=0.9), torch.optim.SGD([other], lr=0.1, momentum=0.9)
    compiled = torch.compile(step)
    for _ in range(3):
        for a, b in zip(compiled(w, first), step(other, second)):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-3)


def test_gradients_of_tables_are_used_up_one_by_one(monkeypatch):
    from rushlight._src.compiler import layout

    sizes, original = [], layout.MemoryLayout.arrange
    monkeypatch.setattr(layout.MemoryLayout, "arrange", lambda self: (original(self), sizes.append(self.size)))
    torch.manual_seed(0)
    tables = torch.nn.ModuleList([torch.nn.Embedding(5000, 16) for _ in range(6)])
    weights = [t.weight.detach().clone() for t in tables]
    ids = torch.randint(0, 5000, (6, 20))

    def step(ids, optimizer):
        loss = sum(t(i).square().sum() for t, i in zip(tables, ids))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    with settings.set(store=False):
        torch.compile(step)(ids, torch.optim.Adam(tables.parameters(), lr=0.01))
    assert max(sizes) < 0.5 * 6 * 5000 * 16 * 4
    found = [t.weight.detach().clone() for t in tables]
    with torch.no_grad():
        for t, w in zip(tables, weights):
            t.weight.copy_(w)
    step(ids, torch.optim.Adam(tables.parameters(), lr=0.01))
    for t, w in zip(tables, found):
        np.testing.assert_allclose(w.numpy(), t.weight.detach().numpy(), rtol=1e-4, atol=1e-6)
