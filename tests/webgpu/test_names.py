"""The names of PyTorch for adapters: "xpu" and "mps" over an adapter that pretends to be one of those."""
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight._src.core.errors import NoDeviceError

PROGRAM = """import types
import rushlight as torch
from rushlight._src.devices.webgpu import aliases
from rushlight._src.devices.webgpu.provider import Boards

class Pretended:
    def __init__(self, adapter):
        self.adapter = adapter
        self.info = {{**dict(adapter.info), "vendor_id": 0x8086, "adapter_type": "IntegratedGPU"}}
    def __getattr__(self, name):
        return getattr(self.adapter, name)

Boards.found = [Pretended(adapter) for adapter in Boards.adapters()][:1]
aliases.here = types.SimpleNamespace(name={system!r})
kind = {kind!r}
module = getattr(torch, kind)
assert module.is_available() and module.device_count() == 1
x = torch.ones(3, 4, device=kind, requires_grad=True)
(x @ torch.ones(4, 2, device=kind)).exp().sum().backward()
assert x.grad.device == torch.device(kind, 0) and x.is_cuda is False
module.synchronize()
module.manual_seed(3)
state = module.get_rng_state()
first = torch.rand(5, device=kind)
module.set_rng_state(state)
assert torch.rand(5, device=kind).equal(first)
torch.manual_seed(3)
assert torch.rand(5, device=kind).equal(first)
module.empty_cache()
with torch.autocast(kind):
    assert (x @ x.T).dtype is torch.float16
assert torch.accelerator.current_accelerator().type == kind
{more}
"""
MORE = {"xpu": """
assert x.is_xpu and module.current_device() == 0 and module.memory_allocated() > 0
assert module.get_device_name() == module.get_device_properties(0).name
assert module.get_device_capability()["has_fp16"] and module.mem_get_info()[1] > 0
stream, event = module.Stream(), module.Event(enable_timing=True)
with module.stream(stream):
    y = x.detach() + 1
    event.record()
event.synchronize()
assert module.current_stream().device.type == kind and y.sum().item() == 24
assert module.memory_stats()["allocated_bytes.all.current"] == module.memory_allocated()
assert torch.ones(2).xpu().device.type == kind
assert isinstance(module.current_stream(), module.Stream) and module.current_stream() == module.current_stream(0)
with module.stream(None):
    assert module.current_stream().device.type == kind
for given in ("cpu", torch.device("cpu")):
    try:
        module.synchronize(given)
    except ValueError as error:
        assert "Expected a xpu device, but got: cpu" in str(error)
    else:
        raise AssertionError("another device is taken")
assert module.get_rng_state_all()[0].equal(module.get_rng_state())
""", "mps": """
assert x.is_mps and module.current_allocated_memory() > 0
assert module.driver_allocated_memory() >= module.current_allocated_memory() and module.recommended_max_memory() > 0
assert torch.backends.mps.is_available() and torch.backends.mps.is_built()
event = module.event.Event(enable_timing=True)
event.record()
event.synchronize()
assert event.query()
"""}


@pytest.mark.parametrize("kind, system", [("xpu", "linux"), ("mps", "macos")])
def test_an_adapter_under_a_name_of_pytorch(kind, system):
    program = PROGRAM.format(kind=kind, system=system, more=MORE[kind])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]


def test_where_no_adapter_has_the_name():
    if sys.platform == "darwin" or rl.xpu.is_available():
        pytest.skip("an adapter has it")
    for module in (rl.xpu, rl.mps):
        assert not module.is_available() and module.device_count() == 0
        module.manual_seed(1)
        module.empty_cache()
        with pytest.raises(NoDeviceError, match="not compiled with"):
            module.synchronize()
        with pytest.raises(NoDeviceError):
            module.get_rng_state()
    assert rl.xpu.memory_allocated() == 0 and rl.xpu.memory_stats() == {}
    assert not rl.backends.mps.is_available()
