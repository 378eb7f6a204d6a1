"""What a device allows: buffers larger than can be bound at once, few bindings, and a device that is lost."""
import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.native import mine
from rushlight._src.devices.shared.host import HostStep
from rushlight._src.devices.webgpu import board as boards
from rushlight._src.devices.webgpu.provider import Boards, provider

WINDOW = 1 << 21


@pytest.fixture
def lowered(monkeypatch):
    """The board of a device whose shaders bind at most WINDOW bytes of a buffer."""
    made = boards.Board(Boards.adapters()[0], {boards.BOUND: WINDOW}, first=1 << 20)
    monkeypatch.setitem(Boards.made, 0, made)
    monkeypatch.setattr(provider, "compiler", None)
    return made


def sent(array):
    return rl.tensor(array).to("webgpu")


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int64"])
def test_windows(lowered, dtype):
    """Kernels that use each element where they are: any number of windows, from any place on."""
    kind = getattr(rl, dtype)
    x = np.arange(3 * WINDOW // kind.itemsize + 37) % 50
    a, b = (rl.tensor(x).to(kind) for _ in range(2))
    there, other = a.to("webgpu"), b.to("webgpu")
    assert lowered.wide

    def same(found, wanted):
        np.testing.assert_array_equal(found.cpu().numpy(), wanted.numpy())

    same(there + other * 2 + there[:1] + 1, a + b * 2 + a[:1] + 1)
    same(there[5:] + other[:-5], a[5:] + b[:-5])
    there.mul_(3)
    there[100:].add_(1)
    a.mul_(3)
    a[100:].add_(1)
    same(there, a)


def test_what_needs_a_buffer_whole_is_refused(lowered):
    x = rl.ones(WINDOW // 2, device="webgpu")
    with pytest.raises(RuntimeError, match=f"this device binds at most {WINDOW}"):
        x.reshape(256, -1).t().contiguous()
    assert (x + 1)[:3].clone().cpu().tolist() == [2, 2, 2]
    small = rl.ones(64, 64, device="webgpu")
    assert (small @ small).sum().item() == 64 ** 3
    assert lowered.lost == ""


def test_more_bindings_than_there_are(monkeypatch):
    """A kernel that would bind more buffers than a shader has is computed by the host, or in parts."""
    made = boards.Board(Boards.adapters()[0], {boards.BINDINGS: 4}, first=1 << 21)
    monkeypatch.setitem(Boards.made, 0, made)
    monkeypatch.setattr(provider, "compiler", None)
    parts = [rl.arange(6.0) + k for k in range(7)]
    run = rl.compile(lambda *x: sum(x) * 2)
    before = HostStep.runs.copy()
    assert run(*(x.to("webgpu") for x in parts)).tolist() == (sum(parts) * 2).tolist()
    assert HostStep.runs != before


def test_a_device_that_is_lost(monkeypatch):
    """Errors say so, nothing hangs, and the device can be made anew."""
    made = boards.Board(Boards.adapters()[0], first=1 << 22)
    monkeypatch.setitem(Boards.made, 0, made)
    monkeypatch.setattr(provider, "queues", {})
    x = sent([1.0, 2.0])
    y = x + 1
    made.device.destroy()
    for use in (lambda: y.tolist(), lambda: x + 1, lambda: sent([1.0]), lambda: rl.empty(1 << 20, device="webgpu"),
                lambda: x.clone().cpu(), provider.board(0).wait):
        with pytest.raises(rl.AcceleratorError, match="is lost, and with it all tensors on it"):
            use()
    rl.devices.recover("webgpu")
    assert (sent([1.0, 2.0]) + 1).tolist() == [2, 3]
    for use in (lambda: y.tolist(), lambda: x + 1):
        with pytest.raises(rl.AcceleratorError, match="has been lost since"):
            use()
    del x, y
    again = provider.board(0)
    rl.devices.recover("webgpu")
    assert provider.board(0) is again and mine.queue is None
