"""Programs of PyTorch's users on GPUs, and what drivers refuse that a forgiving one would take."""
import io
import threading

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight._src.core.devices import Registry
from rushlight._src.core.op import OPS
from rushlight._src.devices.triton import driver as drivers
from rushlight._src.devices.triton import pinned
from rushlight._src.devices.triton import provider as providers
from rushlight.nn.parallel import DataParallel, comm

from .stub import DEVICES


def test_the_accelerator_is_found_before_it_is_named(silent, monkeypatch):
    provider, _ = silent
    Registry.leave("cuda")
    providers.alias.cache_clear()
    monkeypatch.setattr(drivers, "found", lambda: provider.driver)
    monkeypatch.setattr(Registry, "accelerator", None)
    try:
        assert rl.accelerator.is_available() and rl.accelerator.device_count() == 2
        assert rl.ones(3).pin_memory().is_pinned()
    finally:
        providers.alias.cache_clear()


def test_a_driver_that_does_not_work_is_told_of(silent, monkeypatch):
    provider, library = silent
    monkeypatch.setattr(drivers.ctypes, "CDLL", lambda file: library.library)
    with library.failing("cuInit", 803), pytest.warns(UserWarning, match="CUDA initialization.*cuInit gave 803"):
        assert drivers.opened(drivers.NVIDIA) is None
    with library.failing("cuInit", drivers.NO_DEVICE):
        assert drivers.opened(drivers.NVIDIA) is None  # without a word
    library.state[DEVICES] = 0
    assert drivers.opened(drivers.NVIDIA) is None
    library.state[DEVICES] = 2
    assert drivers.opened(drivers.NVIDIA).count() == 2


def test_any_thread_may_ask_for_events_and_drop_them(silent):
    """A driver refuses what comes from a thread for which no device is current."""
    provider, library = silent
    event, found = rl.cuda.Event(enable_timing=True), []
    event.record()
    stream = rl.cuda.Stream()
    first, last = rl.cuda.Event(enable_timing=True), rl.cuda.Event(enable_timing=True)
    first.record(stream), last.record(stream)

    def ask():
        try:
            event.synchronize()
            found.extend((event.query(), stream.query(), first.elapsed_time(last) > 0))
            stream.synchronize()
            first.mark = last.mark = event.mark = None
            found.append(rl.ones(3).pin_memory().is_pinned())
        except BaseException as reason:  # noqa: BLE001 - the other thread looks at it
            found.append(reason)

    from .stub import EVENTS
    before = library[EVENTS]
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [True] * 4 and library[EVENTS] == before - 3


def test_times_of_events_that_are_not_there(silent):
    timed, plain, never = rl.cuda.Event(enable_timing=True), rl.cuda.Event(), rl.cuda.Event(enable_timing=True)
    timed.record(), plain.record()
    for first, last in ((timed, plain), (timed, never)):
        with pytest.raises(RuntimeError, match="Both events must be"):
            first.elapsed_time(last)


def test_gpus_that_reach_each_other_are_connected_once(silent):
    provider, library = silent
    x = rl.ones(4, device="cuda:0")
    for _ in range(3):
        x.to("cuda:1"), rl.ones(2, device="cuda:1").to("cuda:0")
    assert library.asked("cuCtxEnablePeerAccess") == 2 and provider.driver.connected == {(0, 1): True}
    provider.driver.connected.clear()
    with library.failing("cuCtxEnablePeerAccess", 217):  # there is no way after all: copies go by the host
        x.to("cuda:1")
    assert provider.driver.connected == {(0, 1): False}


def test_blocks_that_come_back_amid_a_look_at_them_are_seen_once(silent, monkeypatch):
    """Pinned memory that is let go of by the collector of garbage while lists are gone through."""
    provider, library = silent
    pins, x = provider.pins, rl.ones(8).pin_memory()
    late, mark = [provider.pinned(4096) for _ in range(4)], pinned.Mark

    def marked(board, stream):
        late.clear()  # as a collection may do it, at any place
        return mark(board, stream)

    x.to("cuda", non_blocking=True)
    monkeypatch.setattr(pinned, "Mark", marked)
    del x
    rl.cuda.synchronize()
    pins.returned()
    free = pins.free[4096]
    assert len(free) == len(set(free)) == 5 and not pins.waiting
    assert pins.figures()["active_requests.current"] == 0


@pytest.mark.parametrize("make", [lambda **k: rl.empty(5, **k), lambda **k: rl.randn(3, **k),
                                  lambda **k: rl.tensor([1.0, 2.0], **k), lambda **k: rl.ones(2).new_zeros(3, **k),
                                  lambda **k: rl.zeros_like(rl.ones(2), **k), lambda **k: rl.arange(4, **k)])
def test_factories_pin(silent, make):
    made = make(pin_memory=True)
    assert made.is_pinned() and not make().is_pinned()
    if made.is_floating_point():
        assert make(pin_memory=True, requires_grad=True).requires_grad
    assert made.untyped_storage().is_pinned()


def test_what_cannot_be_pinned_is_refused(silent):
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        rl.ones(2, device="cuda", pin_memory=True)
    assert rl.ones(3, device="meta", pin_memory=True).is_meta


def test_all_that_make_tensors_know_how_to_pin(silent):
    named = [op for op in OPS.values() if op.signature is not None and "pin_memory" in op.signature.parameters]
    assert len(named) > 30 and not [op.name for op in named if getattr(op.body, "__wrapped__", None) is None]


def test_pinning_without_an_accelerator():
    if rl.accelerator.is_available():
        pytest.skip("there is an accelerator")
    torch = pytest.importorskip("torch")
    for where in (rl, torch):
        for make in (lambda: where.ones(2, pin_memory=True), lambda: where.tensor([1.0], pin_memory=True)):
            with pytest.raises(RuntimeError, match="no pinned memory allocator"):
                make()


def test_storages_move(gpu):
    x = rl.arange(4.0)
    there = x.untyped_storage().cuda(1)
    assert there.is_cuda and there.get_device() == 1 and there.device == rl.device("cuda:1")
    assert there.cpu().tolist() == x.untyped_storage().tolist() and not x.untyped_storage().is_cuda
    file = io.BytesIO()
    rl.save(x.cuda(), file)
    file.seek(0)
    found = rl.load(file, map_location=lambda storage, place: storage.cuda(1))
    assert found.device == rl.device("cuda:1") and found.tolist() == x.tolist()


def test_capsules_of_gpus(gpu):
    from rushlight.utils.dlpack import from_dlpack, to_dlpack
    x = rl.arange(6.0, device="cuda:1").reshape(2, 3)
    y = from_dlpack(to_dlpack(x))
    assert y.device == x.device and y.data_ptr() == x.data_ptr() and y.tolist() == x.tolist()


def test_default_types_of_gpus(silent):
    try:
        rl.set_default_tensor_type("torch.cuda.DoubleTensor")
        assert rl.ones(2).is_cuda and rl.ones(2).dtype is rl.float64
        rl.set_default_tensor_type(rl.cuda.FloatTensor)
        assert rl.ones(2).is_cuda and rl.ones(2).dtype is rl.float32
    finally:
        rl.set_default_tensor_type("torch.FloatTensor")
    assert rl.ones(2).device == rl.device("cpu")


def test_own_functions_under_autocast(gpu):
    class Own(rl.autograd.Function):
        @staticmethod
        @rl.cuda.amp.custom_fwd(cast_inputs=rl.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @rl.cuda.amp.custom_bwd
        def backward(ctx, g):
            return g * 2

    with rl.autocast("cuda"):
        x = rl.ones(2, device="cuda", dtype=rl.float16, requires_grad=True)
        y = Own.apply(x)
    y.sum().backward()
    assert y.dtype is rl.float32 and x.grad.tolist() == [2, 2]


def test_priorities_of_streams(silent):
    assert rl.cuda.Stream.priority_range() == (0, -5)
    assert [rl.cuda.Stream(priority=k).priority for k in (0, -1, -9, 3)] == [0, -1, -5, 0]
    assert rl.cuda.default_stream().priority == 0


def test_figures_by_pool(silent):
    small, large = rl.empty(100, device="cuda"), rl.empty(1 << 25, device="cuda")
    found = rl.cuda.memory_stats()
    for name in ("allocated_bytes", "reserved_bytes", "allocation", "segment", "active_bytes"):
        assert found[f"{name}.small_pool.current"] + found[f"{name}.large_pool.current"] == found[
            f"{name}.all.current"], name
    assert found["allocated_bytes.small_pool.current"] == 512 and found["allocation.large_pool.current"] == 1
    assert found["inactive_split_bytes.all.current"] == (1 << 22) - 512
    assert rl.accelerator.memory_stats() == found
    del small, large
    assert rl.cuda.memory_stats()["inactive_split_bytes.all.current"] == 0


def test_refusals_look_at_tensors_alone(silent):
    """The largest tensors are found without asking every object for its class, which may warn, or do more."""
    class Asked:
        @property
        def __class__(self):
            raise AssertionError("nobody asks")

    kept, x = Asked(), rl.empty(1 << 20, device="cuda")
    with pytest.raises(rl.OutOfMemoryError, match="of shape \\[1048576\\]"):
        rl.empty(1 << 40, device="cuda")
    assert type(kept) is Asked and x.is_cuda


def test_tensors_to_several_gpus_and_back(gpu):
    x = rl.arange(8.0, device="cuda:0").reshape(4, 2)
    copies = comm.broadcast(x, devices=[0, 1])
    assert [one.device.index for one in copies] == [0, 1] and copies[1].tolist() == x.tolist()
    parts = rl.cuda.comm.scatter(x, [0, 1], chunk_sizes=[1, 3])
    assert [(one.device.index, len(one)) for one in parts] == [(0, 1), (1, 3)]
    streams = [None, rl.cuda.Stream(1)]
    assert comm.scatter(x, [0, 1], streams=streams)[1].tolist() == x[2:].tolist()
    assert comm.gather(parts, destination=1).device.index == 1 and comm.gather(parts).tolist() == x.tolist()
    assert comm.gather(parts, destination=-1).device.type == "cpu"
    assert comm.reduce_add([x, copies[1]], destination=1).tolist() == (2 * x).tolist()
    assert comm.broadcast_coalesced([x, x + 1], [1])[0][1].tolist() == (x + 1).tolist()
    assert comm.reduce_add_coalesced([[x], [copies[1]]])[0].device.index == 0
    with pytest.raises(AssertionError):
        comm.reduce_add([x.cpu()])
    for call in (lambda: comm.broadcast(x), lambda: comm.gather(parts, destination=0, out=rl.ones(4, 2)),
                 lambda: comm.scatter(x, [0], out=[x])):
        with pytest.raises(RuntimeError):
            call()


def test_a_module_on_several_gpus(gpu):
    module = rl.nn.Sequential(rl.nn.Linear(2, 3), rl.nn.BatchNorm1d(3, track_running_stats=False)).cuda()
    spread, x = DataParallel(module), rl.randn(6, 2)
    assert spread.device_ids == [0, 1] and spread.output_device == 0
    found = spread(x)
    assert found.device == rl.device("cuda:0") and found.shape == (6, 3)
    wanted = rl.cat([module(part.cuda()) for part in x.chunk(2)])
    np.testing.assert_allclose(found.detach().cpu().numpy(), wanted.detach().cpu().numpy(), rtol=1e-5, atol=1e-6)
    found.square().sum().backward()
    first = [one.grad.clone() for one in module.parameters()]
    module.zero_grad()
    wanted.square().sum().backward()
    for one, parameter in zip(first, module.parameters()):
        np.testing.assert_allclose(one.cpu().numpy(), parameter.grad.cpu().numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="must have its parameters and buffers on device cuda:0"):
        DataParallel(rl.nn.Linear(2, 3).to("cuda:1"))(x)


def test_shapes_of_tensors_that_lie_elsewhere(gpu):
    x, y = rl.arange(4.0, device="cuda"), rl.ones(2, 2)
    assert x.view_as(y).shape == x.reshape_as(y).shape == (2, 2) and x[:2].expand_as(other=y).tolist() == [[0, 1]] * 2
    assert y.type_as(x).is_cuda


def test_names_of_ones_place_on_the_bus(tmp_path, monkeypatch):
    """Indices of AMD's library are not the order of Linux's driver: variables of the environment choose."""
    for number, (version, location) in enumerate(((0, 0), (90402, 0x8100), (120001, 0x0C08))):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "properties").write_text(
            f"gfx_target_version {version}\nlocation_id {location}\ndomain 0\n")
    monkeypatch.setattr(drivers, "NODES", str(tmp_path))
    assert drivers.versions() == {"0000:81:00.0": "gfx942", "0000:0c:01.0": "gfx1201"}


def test_memory_that_launches_do_not_give_is_refused(monkeypatch):
    from rushlight._src.core.encoding import encode
    from rushlight._src.devices.triton import binaries

    class Cached:
        __version__ = "none"

    monkeypatch.setattr(binaries, "imported", lambda: Cached)
    monkeypatch.setattr(binaries.cache, "get", lambda *key: encode((b"", "k", 0, 32, 128)))
    module = binaries.Module("k", "", (), (), False, 0, 0, "thread")
    with pytest.raises(binaries.Unfit, match="128 bytes of memory for each program"):
        binaries.binary(module, binaries.Variant(64), "sm_90")


def test_attention_of_several_gpus_lies_where_its_arguments_do(gpu):
    q = rl.randn(1, 1, 4, 8, device="cuda:1")
    assert F.scaled_dot_product_attention(q, q, q).device.index == 1
