"""A GPU's memory given to other libraries and taken from them, training in mixed precision, marks for profilers."""
import ctypes
import gc
import weakref

import numpy as np
import pytest

import rushlight as rl


class Other:
    """An array of another library, by its interface."""

    def __init__(self, tensor, **more):
        self.tensor, self.__cuda_array_interface__ = tensor, tensor.__cuda_array_interface__ | more


class Speaker:
    """Speaks DLPack for a tensor, and notes for which stream."""

    def __init__(self, tensor):
        self.tensor, self.streams = tensor, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, stream=None, **kwargs):
        self.streams.append(stream)
        return self.tensor.__dlpack__(stream=stream, **kwargs)


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.int64, rl.uint8, rl.bool, rl.complex64])
def test_dlpack(silent, dtype):
    x = rl.arange(12).to(dtype).reshape(3, 4).to("cuda")[1:]  # adjacent elements, which are copied without a kernel
    speaker = Speaker(x)
    y = rl.from_dlpack(speaker)
    assert y.data_ptr() == x.data_ptr() and y.stride() == (4, 1) and y.dtype is dtype and y.device == x.device
    assert speaker.streams == [1] and x.__dlpack_device__() == (2, 0)
    wanted, given, taken, storage = x.tolist(), weakref.ref(x), weakref.ref(y), weakref.ref(x._rush_storage)
    del x, speaker
    gc.collect()
    assert y.tolist() == wanted and given() is None and storage() is not None
    before = rl.cuda.memory_allocated()
    del y
    gc.collect()
    assert taken() is None, gc.get_referrers(taken())
    assert storage() is None, gc.get_referrers(storage())
    assert rl.cuda.memory_allocated() < before, rl.cuda.memory_snapshot()


def test_a_capsule_is_taken_once(silent):
    x = rl.arange(4.0).to("cuda:1")
    capsule = x.__dlpack__()
    held = rl.cuda.memory_allocated(1)
    del x
    assert rl.cuda.memory_allocated(1) == held
    del capsule  # nobody took it
    gc.collect()
    assert rl.cuda.memory_allocated(1) < held


def test_dlpack_orders_streams(silent):
    provider, library = silent
    x, stream = rl.arange(4.0).to("cuda"), rl.cuda.Stream()
    library.clear()
    x.__dlpack__(stream=stream.stream_id)
    assert ("cuStreamWaitEvent", stream.stream_id) in [row[:2] for row in library.notes()]
    library.clear()
    x.__dlpack__(stream=-1)
    assert not library.notes("cuStreamWaitEvent")


def test_the_interface_of_arrays(silent):
    provider, library = silent
    x = rl.arange(12.0).reshape(3, 4).to("cuda")
    found = x.t().__cuda_array_interface__
    assert found["typestr"] == "<f4" and found["shape"] == (4, 3) and found["strides"] == (4, 16)
    assert found["data"] == (x.data_ptr(), False) and x.__cuda_array_interface__["strides"] is None
    y = rl.as_tensor(Other(x.t()), device="cuda")
    assert y.data_ptr() == x.data_ptr() and y.stride() == (1, 4) and y.tolist() == x.t().tolist()
    stream = rl.cuda.Stream()
    library.clear()
    rl.as_tensor(Other(x, stream=stream.stream_id), device="cuda")
    assert library.notes("cuStreamWaitEvent")
    assert not hasattr(rl.ones(2), "__cuda_array_interface__")
    halves = x.bfloat16()
    assert halves.__cuda_array_interface__["typestr"] == "<V2"
    assert rl.as_tensor(Other(halves), device="cuda").dtype is rl.bfloat16
    for dtype in (rl.complex32, rl.float8_e5m2):
        with pytest.raises(TypeError, match="is not supported by __cuda_array_interface__"):
            x.to(dtype).__cuda_array_interface__
    with pytest.raises(TypeError, match="no tensor has elements"):
        rl.as_tensor(Other(x, typestr="<f16"), device="cuda")
    with pytest.raises(RuntimeError, match="requires grad"):
        x.requires_grad_().__cuda_array_interface__


def test_a_buffer_of_the_driver(silent):
    """Memory of which only the driver knows."""
    provider, library = silent
    rl.empty(1, device="cuda")
    address = provider.driver.made("allocate", 64)
    ctypes.memmove(address, np.arange(16, dtype=np.float32).ctypes.data, 64)

    class Buffer:
        __cuda_array_interface__ = {"typestr": "<f4", "shape": (16,), "strides": None, "data": (address, False),
                                    "version": 3}

    x = rl.as_tensor(Buffer(), device="cuda")
    assert x.tolist() == list(range(16)) and x.data_ptr() == address


def test_mixed_precision(gpu):
    """GradScaler skips a step whose gradients overflow, and the loss scale falls; other steps are the processor's."""
    import rushlight.nn.functional as F

    def run(where):
        rl.manual_seed(0)
        model = rl.nn.Linear(4, 3)
        model.load_state_dict({"weight": rl.linspace(-1, 1, 12).reshape(3, 4), "bias": rl.zeros(3)})
        model.to(where)
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
        scaler = rl.amp.GradScaler(where, init_scale=1024.0, growth_interval=2)
        x, y = rl.linspace(-2, 2, 20).reshape(5, 4).to(where), rl.tensor([0, 1, 2, 0, 1]).to(where)
        found = []
        for k in range(3):
            optimizer.zero_grad()
            with rl.autocast(where, dtype=rl.bfloat16):
                loss = F.cross_entropy(model(x * (1e38 if k == 1 else 1)).float(), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            found += [scaler.get_scale(), *model.weight.detach().cpu().flatten().tolist()]
        return found

    np.testing.assert_allclose(run("cuda"), run("cpu"), rtol=2e-2, atol=2e-2)


def test_marks_for_profilers():
    assert [rl.cuda.nvtx.range_push("a"), rl.cuda.nvtx.range_push("b")] == [0, 1]
    assert [rl.cuda.nvtx.range_pop(), rl.cuda.nvtx.range_pop()] == [1, 0]
    with rl.cuda.nvtx.range("step {}", 3):
        rl.cuda.nvtx.mark("here")


def test_the_random_streams_of_devices(silent):
    rl.cuda.manual_seed_all(7)
    assert rl.cuda.initial_seed() == 7
    state = rl.cuda.get_rng_state()
    rl.rand(4, device="cuda")
    moved = rl.cuda.get_rng_state()
    assert moved.tolist() != state.tolist()
    rl.cuda.set_rng_state(state)
    rl.rand(4, device="cuda")
    assert rl.cuda.get_rng_state().tolist() == moved.tolist()
    rl.manual_seed(9)
    assert rl.cuda.initial_seed() == 9


def test_determinism_of_scatters(gpu):
    """What several elements add to one place comes in order, with or without the flag."""
    x, at = rl.rand(200), rl.randint(0, 5, (200,))
    wanted = rl.zeros(5).index_add_(0, at, x)
    for flag in (False, True):
        rl.use_deterministic_algorithms(flag)
        try:
            found = rl.zeros(5, device="cuda").index_add_(0, at.to("cuda"), x.to("cuda"))
        finally:
            rl.use_deterministic_algorithms(False)
        assert found.tolist() == wanted.tolist()
