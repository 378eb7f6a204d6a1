"""The device ``lazy``: what PyTorch's LazyTensor promises of results, views, steps and counters."""
import io

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._lazy import metrics, ts_backend
from rushlight._src.core.devices import Registry


@pytest.fixture(scope="module", autouse=True)
def lazy():
    before = Registry.accelerator
    ts_backend.init()
    yield rl.device("lazy:0")
    assert Registry.accelerator == before  # it is no accelerator
    Registry.leave("lazy")


def test_it_is_available_only_after_init():
    Registry.leave("lazy")
    with pytest.raises(RuntimeError, match="lazy"):
        rl.ones(1, device="lazy")
    ts_backend.init()
    ts_backend.init()
    assert rl.ones(1, device="lazy").device == rl.device("lazy:0")
    with pytest.raises(RuntimeError, match="lazy:1"):
        rl.ones(1, device="lazy:1")


VIEWS = [
    lambda x: x.t(), lambda x: x[1], lambda x: x[:, ::2], lambda x: x.view(-1), lambda x: x.diagonal(),
    lambda x: x.unsqueeze(1), lambda x: x.as_strided((2, 2), (3, 1), 1), lambda x: x.expand(2, 4, 3),
    lambda x: x.unfold(0, 2, 1), lambda x: x.movedim(0, 1), lambda x: x.narrow(0, 1, 2)]


@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_views_share_memory_as_on_the_cpu(lazy, number):
    view = VIEWS[number]
    here = rl.arange(12.0).view(4, 3).clone()
    there = here.to(lazy)
    ours, theirs = view(there), view(here)
    assert ours._base is there and ours.device == lazy and ours.stride() == theirs.stride()
    if number != 7 and number != 8:  # elements of those share memory with one another
        ours.mul_(-2), theirs.mul_(-2)
    there[1, 1] = 50
    here[1, 1] = 50
    assert rl.equal(there.cpu(), here) and rl.equal(ours.cpu(), theirs)


def test_a_step_of_training_computes_what_the_cpu_does(lazy):
    rl.manual_seed(3)
    model, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 2)), rl.randn(5, 4)
    other = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 2)).to(lazy)
    other.load_state_dict(model.state_dict())
    for one, given in ((model, x), (other, x.to(lazy))):
        optimizer = rl.optim.AdamW(one.parameters(), lr=0.1)
        nn.functional.cross_entropy(one(given), rl.tensor([0, 1, 1, 0, 1], device=given.device)).backward()
        optimizer.step()
        rl._lazy.mark_step(str(given.device) if given.device == lazy else "")
    for a, b in zip(model.parameters(), other.parameters()):
        assert b.device == lazy
        rl.testing.assert_close(b.cpu(), a)


def test_steps_refuse_other_devices_and_copies_are_on_the_cpu(lazy):
    x = rl.ones(2, device=lazy)
    rl._lazy.wait_device_ops(), rl._lazy.wait_device_ops(["lazy:0"]), rl._lazy.sync_multi([x], [])
    with pytest.raises(RuntimeError, match="'lazy:0', but got 'cpu'"):
        rl._lazy.mark_step("cpu")
    moved = rl._lazy.to_cpu({"x": [x, 3]})
    assert moved["x"][0].device.type == "cpu" and moved["x"][1] == 3
    file = io.BytesIO()
    rl._lazy.save({"x": x}, file)
    file.seek(0)
    assert rl.load(file)["x"].device.type == "cpu"


def test_counters(lazy):
    metrics.reset()
    assert metrics.counter_names() == []
    (rl.ones(3).to(lazy) + 1).tolist()
    assert metrics.counter_value("ExecuteProgram") >= 1 and metrics.counter_value("TransferToDevice") >= 1
    assert "TransferFromDevice" in metrics.counter_names() and "Counter: ExecuteProgram" in metrics.metrics_report()
    assert metrics.counter_value("nothing of this name") == 0
