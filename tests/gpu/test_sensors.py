"""Figures of GPUs that the driver's tools tell, properties, and what is counted of pinned memory."""
import ctypes
import functools
import gc

import pytest

import rushlight as rl
from rushlight._src.core.errors import NoDeviceError
from rushlight._src.devices.triton import sensors
from rushlight._src.devices.triton.driver import AMD
from rushlight._src.devices.triton.properties import AMDProperties, properties_of

from . import stub_sensors


@pytest.fixture
def watched(silent, tmp_path):
    """(the provider, its library); what tells of its GPUs stands in, too."""
    path = tmp_path / "libnvidia-ml-stand-in.so.1"
    path.write_bytes(stub_sensors.image())
    silent[0].sensors = sensors.Managed(ctypes.CDLL(str(path)))
    return silent


def test_gpus_are_asked_by_their_place_on_the_bus(watched):
    cuda = rl.cuda
    assert watched[0].driver.bus(1) == "0000:00:11.0"
    assert (cuda.utilization(), cuda.memory_usage(), cuda.temperature()) == (10, 61, 41)
    assert (cuda.utilization(1), cuda.memory_usage("cuda:1"), cuda.temperature(1)) == (20, 62, 42)
    assert (cuda.power_draw(1), cuda.clock_rate(1)) == (200_000, 1702)
    with cuda.device(1):
        assert cuda.utilization() == 20
    lines = cuda.list_gpu_processes(1).splitlines()
    assert len(lines) == 21 and lines[0] == "GPU:1" and lines[3] == "process       1002 uses        3.000 MB GPU memory"


def test_what_the_library_refuses_is_said_in_its_words(watched):
    with pytest.raises(RuntimeError, match="gave 6: a stub"):
        watched[0].sensors.rates("0000:00:1f.0")


def test_a_missing_library_is_named(silent, monkeypatch):
    monkeypatch.setattr(sensors.finding, "opened", lambda files: None)
    with pytest.raises(RuntimeError, match="libnvidia-ml.so.1"):
        rl.cuda.utilization()


def test_gpus_of_amd_are_told_by_files(tmp_path):
    where = tmp_path / "0000:0c:00.0"
    (where / "hwmon" / "hwmon3").mkdir(parents=True)
    for name, text in (("gpu_busy_percent", "77"), ("mem_busy_percent", "5"), ("hwmon/hwmon3/temp1_input", "55000"),
                       ("hwmon/hwmon3/power1_average", "300000000"), ("hwmon/hwmon3/freq1_input", "2100000000")):
        (where / name).write_text(text + "\n")
    told = sensors.Told(str(tmp_path))
    assert told.rates("0000:0C:00.0") == (77, 5)
    assert [told.figure("0000:0c:00.0", one) for one in ("temperature", "power", "clock")] == [
        55, 300_000, 2100]
    with pytest.raises(RuntimeError, match="has no gpu_busy_percent"):
        told.rates("0000:0d:00.0")
    assert isinstance(sensors.sensors("hip"), sensors.Told)


def test_properties_have_pytorchs_names(silent):
    found = rl.cuda.get_device_properties(1)
    assert (found.major, found.minor, found.warp_size, found.max_threads_per_multi_processor) == (9, 0, 32, 2048)
    assert found.name == "a stub" and found.multi_processor_count == 4 and found.total_memory == 1 << 34
    assert not hasattr(found, "gcnArchName") and rl.cuda.is_tf32_supported()


def test_properties_of_amd():
    class Driver:
        vendor = AMD
        name, total = (lambda self, index: "a GPU"), (lambda self, index: 1 << 36)
        units, architecture = (lambda self, index: 304), (lambda self, index: "gfx942")

    assert properties_of(Driver(), 0, (9, 4)) == AMDProperties("a GPU", 1 << 36, 304, 9, 4, 64, "gfx942")


def test_each_gpu_has_a_generator(silent):
    found = rl.cuda.default_generators
    assert len(found) == 2 and found[1] is found[-1] is list(found)[1] is not found[0]
    rl.cuda.manual_seed_all(7)
    assert [one.initial_seed() for one in found[:]] == [7, 7]
    with pytest.raises(IndexError):
        found[2]


def test_pinned_memory_is_counted(silent):
    rl.cuda.reset_accumulated_host_memory_stats()
    rl.cuda.reset_peak_host_memory_stats()
    before = rl.cuda.host_memory_stats()
    x, y = rl.empty(1000).pin_memory(), rl.empty(100_000).pin_memory()
    found = rl.cuda.host_memory_stats()
    assert found["active_requests.current"] == before["active_requests.current"] + 2
    assert found["active_bytes.current"] - before["active_bytes.current"] == 4096 + (1 << 19)
    assert found["num_host_alloc"] == found["host_alloc_time.count"] == 2 and found["host_alloc_time.total"] >= 0
    del y
    gc.collect()
    found = rl.cuda.memory.host_memory_stats_as_nested_dict()
    assert found["active_requests"]["freed"] == 1 and found["allocations"]["freed"] == 0
    assert found["active_bytes"]["peak"] - found["active_bytes"]["current"] == 1 << 19
    rl.cuda.empty_cache()
    found = rl.cuda.host_memory_stats()
    assert found["num_host_free"] == 1 and found["allocated_bytes.freed"] == 1 << 19
    rl.cuda.reset_peak_host_memory_stats()
    assert rl.cuda.host_memory_stats()["active_bytes.peak"] == found["active_bytes.current"] and x.is_pinned()


@pytest.mark.parametrize("name, extra", [("cuda.gds.GdsFile", "cuda"), ("cuda.cudart", "rocm"),
                                         ("mps.profiler.start", "webgpu")])
def test_what_is_not_built_names_the_extra(name, extra):
    """Whether or not a device is there."""
    found = functools.reduce(getattr, name.split("."), rl)
    with pytest.raises(NoDeviceError, match=rf"rushlight\[{extra}\]") as reason:
        found()
    assert "runs on the CPU" not in str(reason.value)
