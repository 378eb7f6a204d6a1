"""PyTorch's names over a device: ``torch.accelerator``, streams and events, extensions."""
import os
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight import nn


def test_accelerator(fake):
    a = rl.accelerator
    assert a.is_available() and a.device_count() == 2 and a.current_accelerator() == rl.device(
        "fake") and a.current_device_index() == 0
    with a.device_index(1):
        assert a.current_device_index() == 1 and rl.ones(1, device="fake").device == rl.device("fake:1") and rl.ones(
            1, device=0).device == rl.device("fake:0")
    a.set_device_index(1)
    assert rl.device(1) == rl.device("fake:1") and a.current_stream().device == rl.device("fake:1")
    a.set_device_index(0)
    before = a.memory_allocated()
    a.reset_peak_memory_stats()
    x = rl.ones(1000, device="fake")
    assert a.memory_allocated() - before == 4096
    assert a.max_memory_allocated() >= a.memory_allocated() and a.memory_reserved() >= a.memory_allocated()
    assert a.memory_stats()["allocated_bytes.all.current"] == a.memory_allocated() and a.get_memory_info()[
        0] < a.get_memory_info()[1]
    del x
    assert a.memory_allocated() == before
    a.empty_cache(), a.synchronize(), a.synchronize("fake:1")
    assert rl.float32 in a.get_device_capability()["supported_dtypes"]
    assert rl.get_device_module() is rl.get_device_module("fake:1") is rl.fake and rl.get_device_module(
        rl.device("cpu")) is rl.cpu
    with pytest.raises(RuntimeError, match="already been registered"):
        rl._register_device_module("fake", rl.cpu)


NONE = """
import rushlight as rl
a = rl.accelerator
assert not a.is_available() and a.device_count() == 0 and a.current_accelerator() is None and a.memory_allocated() == 0 and not a.memory_stats()
a.empty_cache(), a.reset_peak_memory_stats()
for call in (a.synchronize, a.current_stream, a.current_device_index, rl.Stream, rl.Event, lambda: rl.Stream("cpu")):
    try:
        call()
    except RuntimeError as error:
        assert "accelerator" in str(error), error
    else:
        raise AssertionError(call)
assert rl.get_device_module().__name__ == "rushlight.cpu" and rl.ones(2).pin_memory().is_pinned() is False
rl.utils.rename_privateuse1_backend("npu")
assert rl.device("privateuseone:1") == rl.device("npu:1")
try:
    rl.utils.rename_privateuse1_backend("other")
except RuntimeError as error:
    assert "Current backend: npu" in str(error)
else:
    raise AssertionError
"""


def test_without_accelerator():
    subprocess.run([sys.executable, "-c", NONE], check=True)


def test_methods():
    x = rl.ones(2)
    assert x.fake().device == rl.device("fake:0") and x.fake(1).is_fake and not x.is_fake and x.fake(
        "fake:1").cpu().is_cpu
    with pytest.raises(RuntimeError, match="Invalid device, must be fake device"):
        x.fake("cpu")
    model = nn.Linear(2, 2).fake(1)
    assert model.weight.is_fake and model.bias.get_device() == 1
    packed = nn.utils.rnn.pack_sequence([rl.ones(3, 2), rl.ones(2, 2)]).fake()
    assert packed.is_fake and nn.utils.rnn.pad_packed_sequence(packed)[0].device == rl.device("fake:0")
    assert x.untyped_storage().fake().is_fake and x.storage().fake(1).device == rl.device("fake:1")
    with pytest.raises(RuntimeError, match="already been registered"):
        rl.utils.generate_methods_for_privateuse1_backend()


def test_copies_that_do_not_block():
    x = rl.arange(4.0).pin_memory()
    assert x.is_pinned() and not rl.ones(1).is_pinned() and x.tolist() == [0, 1, 2, 3]
    there = x.to("fake", non_blocking=True)
    x.fill_(7)  # too early: the copy has not begun
    assert there.tolist() == [7, 7, 7, 7]
    back = there.to("cpu", non_blocking=True)
    assert back.is_pinned()
    back.zero_()
    assert back.tolist() == [0, 0, 0, 0]
    rl.accelerator.synchronize()
    assert back.tolist() == [7, 7, 7, 7]
    target = rl.zeros(4).pin_memory()
    target.copy_(there, non_blocking=True)
    assert target.tolist() == [0, 0, 0, 0]
    rl.accelerator.current_stream().synchronize()
    assert target.tolist() == [7, 7, 7, 7]
    ordinary = rl.ones(4)
    there = ordinary.to("fake", non_blocking=True)  # memory that is not pinned has to be read at once
    ordinary.zero_()
    assert there.tolist() == [1, 1, 1, 1]


def test_streams_and_events():
    stream, first = rl.Stream("fake"), rl.accelerator.current_stream()
    assert stream != first and first == rl.accelerator.current_stream("fake:0") and hash(first) == hash(
        rl.accelerator.current_stream())
    x = rl.arange(3.0).pin_memory()
    with stream:
        assert rl.accelerator.current_stream() == stream
        there = x.to("fake", non_blocking=True)
        event = stream.record_event(rl.Event("fake", enable_timing=True))
    assert rl.accelerator.current_stream() == first and not stream.query() and not event.query() and first.query()
    first.wait_event(event)
    assert (there + 1).tolist() == [1, 2, 3]  # computed on the first stream, after the event
    assert event.query() and stream.query()
    last = first.record_event(rl.Event("fake", enable_timing=True))
    last.synchronize()
    assert event.elapsed_time(last) > 0
    with pytest.raises(RuntimeError, match="enable_timing"):
        rl.Event("fake").elapsed_time(last)
    with stream:
        there = x.to("fake", non_blocking=True)
    first.wait_stream(stream)
    assert there.add(1).sum().item() == 6
    other = rl.Stream("fake:1")
    rl.accelerator.set_stream(other)
    assert rl.accelerator.current_device_index() == 1 and rl.accelerator.current_stream() == other
    rl.accelerator.set_stream(first)
    assert rl.accelerator.current_device_index() == 0
    with pytest.raises(RuntimeError, match="does not match recording stream"):
        rl.Event("fake:1").record(first)


def test_extensions_are_loaded(tmp_path):
    (tmp_path / "seen_extension.py").write_text(
        "import rushlight as rl\n\n\ndef activate():\n    rl.seen = 1\n\n\ndef fail():\n    raise KeyError('lost')\n")
    info = tmp_path / "seen_extension-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: seen-extension\nVersion: 1.0\n")

    def run(entry, ask, **environment):
        (info / "entry_points.txt").write_text(f"[torch.backends]\nseen = seen_extension:{entry}\n")
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        return subprocess.run([sys.executable, "-c", f"import rushlight as rl; print({ask})"],
                              env={**os.environ, "PYTHONPATH": path, **environment}, capture_output=True, text=True)

    assert run("activate", "rl.seen").stdout.strip() == "1"
    assert run("activate", "hasattr(rl, 'seen')", TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout.strip() == "False"
    assert ("Failed to load the backend extension: seen. You can disable extension auto-loading with "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0.") in run("fail", "1").stderr


@pytest.mark.parametrize("entry", ["activate", "mend"])
def test_extensions_that_import_torch_find_what_stands_in_for_it(tmp_path, entry):
    """``import rushlight`` neither fails for one of them nor starts PyTorch; one that fails is an error under the name
    torch."""
    (tmp_path / "extension_of_torch.py").write_text(
        "import torch\n\n\ndef activate():\n    torch.seen = torch.__file__\n\n\ndef mend():\n"
        "    raise KeyError('lost')\n")
    info = tmp_path / "extension_of_torch-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extension-of-torch\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[torch.backends]\nseen = extension_of_torch:{entry}\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    def run(*arguments, **environment):
        return subprocess.run([sys.executable, *arguments], env={**os.environ, "PYTHONPATH": path, **environment},
                              capture_output=True, text=True)

    plain = run("-c", "import sys, rushlight as rl; print(hasattr(rl, 'seen'), 'torch' in sys.modules)")
    assert plain.stdout.split() == ["False", "False"] and not plain.stderr
    hidden = run("-m", "rushlight", "-c", "import torch; print(hasattr(torch, 'seen'))",
                 TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert hidden.stdout.strip() == "False"
    for shown in (run("-m", "rushlight", "-c", "import torch; print(torch.seen == torch.__file__)"),
                  run("-c", "import rushlight.compat, sys; rushlight.compat.install(); import torch; "
                            "print(torch.seen == torch.__file__)")):
        if entry == "activate":
            assert shown.stdout.strip() == "True", shown.stderr
        else:
            assert shown.returncode and "Failed to load the backend extension: seen." in shown.stderr
