"""What a call costs the queue: one submission a program, and bind groups that are made once."""
import pytest

import rushlight as rl
from rushlight import nn
from rushlight._src.devices.webgpu.provider import provider


class Counting:
    """An object of wgpu, of which the calls of one method are counted."""

    def __init__(self, own, name):
        self.own, self.name, self.count = own, name, 0

    def __getattr__(self, name):
        if name == self.name:
            self.count += 1
        return getattr(self.own, name)


@pytest.fixture
def counted(monkeypatch):
    """(submissions, bind groups) so far, as a function."""
    board = provider.board(0)
    queue, device = Counting(board.queue, "submit"), Counting(board.device, "create_bind_group")
    monkeypatch.setattr(board, "queue", queue)
    monkeypatch.setattr(board, "device", device)
    return lambda: (queue.count, device.count)


def of_calls(f, counted, times=4):
    found = []
    for _ in range(times):
        before, kept = counted(), f()
        found.append(tuple(now - then for now, then in zip(counted(), before)))
        del kept
    return found


def test_operators(counted):
    x = rl.randn(8, 16, device="webgpu")
    assert of_calls(lambda: x + 1, counted)[1:] == [(1, 0)] * 3


def test_compiled_programs(counted):
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).to("webgpu")

    @rl.compile
    def run(x):
        for _ in range(4):
            x = model(x).softmax(-1)
        return x

    x = rl.randn(8, 16, device="webgpu")
    with rl.no_grad():
        assert of_calls(lambda: run(x), counted)[1:] == [(1, 0)] * 3


def test_training(counted):
    """Forward, backward and optimizer: a submission each."""
    model = nn.Linear(16, 4).to("webgpu")
    optimizer, x = rl.optim.SGD(model.parameters(), 0.1, momentum=0.9), rl.randn(8, 16, device="webgpu")

    @rl.compile
    def loss_of(x):
        return model(x).square().mean()

    def step():
        optimizer.zero_grad()
        loss_of(x).backward()
        optimizer.step()

    found = of_calls(step, counted, 8)
    assert max(count for count, _ in found[4:]) <= 6 and found[-1][1] == 0, found
