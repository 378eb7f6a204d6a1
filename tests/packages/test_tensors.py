"""Packages run on tensors as DLPack describes them: where they lie, or refused with a code and its words."""
import ctypes

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.core.dlpack import Array, Device, kind_of
from rushlight._src.packages.interface import (MISSING, WRONG_DEVICE, WRONG_DTYPE, WRONG_SHAPE, WRONG_SIZES,
                                               WRONG_STRIDES)

from .test_calls import packaged

nn = torch.nn


def described(array, **changed):
    """An Array of an array of NumPy, which it keeps."""
    shape, strides = ((ctypes.c_int64 * array.ndim)(*row) for row in (
        array.shape, [n // array.itemsize for n in array.strides]))
    kind = kind_of(torch.from_numpy(array).dtype)
    made = Array(array.ctypes.data, Device(1, 0), array.ndim, kind, shape, strides, 0)
    for name, value in changed.items():
        setattr(made, name, value)
    made.kept = array, shape, strides
    return made


def table(tensors):
    made = (ctypes.c_void_p * len(tensors))(*(t and ctypes.addressof(t) for t in tensors))
    made.kept = tensors
    return made


def run(loaded, inputs, outputs):
    return loaded.library.rl_run_dlpack(loaded.model, table(inputs), table(outputs))


@pytest.fixture(scope="module", params=[False, True], ids=["one size", "many sizes"])
def opened(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.pt2"
    model, inputs = packaged(path, request.param)
    return torch._inductor.aoti_load_package(path), model, inputs


def given(inputs):
    arrays = [x.numpy() for x in inputs]
    return arrays, [np.zeros((len(arrays[0]), 8), np.float32), np.zeros(len(arrays[0]), np.float32)]


def test_results_are_those_of_the_model_in_the_memory_that_was_given(opened):
    loaded, model, inputs = opened
    for batch in (6, *((1, 17) if loaded.varying else ())):
        inputs = torch.randn(batch, 24), torch.randn(batch, 8)
        arrays, results = given(inputs)
        assert run(loaded, [described(a) for a in arrays], [described(a) for a in results]) == 0
        for found, wanted in zip(results, model(*inputs), strict=True):
            np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_offsets_and_tensors_without_strides(opened):
    loaded, model, inputs = opened
    arrays, results = given(inputs)
    room = np.zeros(arrays[0].nbytes + 20, np.uint8)
    room[20:] = arrays[0].ravel().view(np.uint8)
    first = described(arrays[0], data=room.ctypes.data, offset=20, strides=None)
    to = np.zeros(results[1].size + 3, np.float32)
    last = described(results[1], data=to.ctypes.data, offset=12, strides=None)
    assert run(loaded, [first, described(arrays[1])], [described(results[0]), last]) == 0
    wanted = model(*inputs)
    np.testing.assert_allclose(results[0], wanted[0].detach().numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(to[3:], wanted[1].numpy(), rtol=1e-5, atol=1e-5)
    assert not to[:3].any()


def test_what_does_not_fit_is_refused(opened):
    loaded, _, inputs = opened
    arrays, results = given(inputs)

    def code(place=0, output=False, **changed):
        tensors = [[described(a) for a in arrays], [described(a) for a in results]]
        kept = tensors[output][place].kept
        for name, value in changed.items():
            setattr(tensors[output][place], name, value)
        tensors[output][place].kept = kept
        return run(loaded, *tensors)

    assert code() == 0
    assert code(1, kind=kind_of(torch.float64)) == WRONG_DTYPE - 1
    assert code(1, True, kind=kind_of(torch.int32)) == WRONG_DTYPE - 3
    assert code(kind=type(kind_of(torch.float32))(2, 32, 4)) == WRONG_DTYPE
    assert code(1, device=Device(2, 0)) == WRONG_DEVICE - 1
    assert code(device=Device(3, 0)) == 0  # pinned memory
    assert code(0, True, device=Device(10, 0)) == WRONG_DEVICE - 2
    assert code(ndim=1) == code(ndim=3) == WRONG_SIZES and code(1, ndim=-1) == WRONG_SIZES - 1
    assert code(0, True, ndim=1) == WRONG_SHAPE - 2
    assert code(1, shape=(ctypes.c_int64 * 2)(6, 9)) == WRONG_SIZES - 1
    assert code(0, True, shape=(ctypes.c_int64 * 2)(6, 9)) == WRONG_SHAPE - 2
    assert code(1, True, shape=(ctypes.c_int64 * 1)(7)) == WRONG_SHAPE - 3
    assert code(strides=(ctypes.c_int64 * 2)(1, 6)) == WRONG_STRIDES
    assert code(1, strides=(ctypes.c_int64 * 2)(-8, 1)) == WRONG_STRIDES - 1
    assert code(0, True, strides=(ctypes.c_int64 * 2)(16, 1)) == WRONG_STRIDES - 2
    assert code(data=None) == code(1, True, data=None) == code(shape=None) == MISSING
    assert run(loaded, [None, None], [None, None]) == MISSING
    fine = [table([described(a) for a in rows]) for rows in (arrays, results)]
    call = loaded.library.rl_run_dlpack
    assert call(None, *fine) == call(loaded.model, None, fine[1]) == call(loaded.model, fine[0], None) == MISSING
    texts = [loaded.library.rl_error(code - 1) for code in (WRONG_DTYPE, WRONG_DEVICE, WRONG_SHAPE, WRONG_STRIDES)]
    for word, text in zip((b"dtype", b"device", b"shape", b"strides"), texts, strict=True):
        assert word in text


class Orders(nn.Module):
    """Takes and gives tensors that do not lie in row-major order, of several dtypes, and one without dimensions."""

    def forward(self, x, flags, scale):
        return x.mT.double() * scale, flags.logical_not(), x.to(torch.bfloat16), (x * 1j)[:1]


def test_orders_dtypes_and_sizes_of_one(tmp_path):
    inputs = torch.randn(3, 5).t(), torch.tensor([True, False]), torch.tensor(2.5)
    program = torch.export.export(Orders(), inputs)
    torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    loaded = torch._inductor.aoti_load_package(tmp_path / "model.pt2")
    wanted = Orders()(*inputs)
    results = [torch.empty_strided(tuple(row["shape"]), tuple(row["strides"]), dtype=w.dtype)
               for row, w in zip(loaded.manifest["outputs"], wanted, strict=True)]

    def of(tensor, strides=None):
        shape, found = ((ctypes.c_int64 * tensor.dim())(*row) for row in (tensor.shape, strides or tensor.stride()))
        made = Array(tensor.data_ptr(), Device(1, 0), tensor.dim(), kind_of(tensor.dtype), shape or None,
                     found or None, 0)
        made.kept = tensor, shape, found
        return made

    assert run(loaded, list(map(of, inputs)), list(map(of, results))) == 0
    for found, one in zip(results, wanted, strict=True):
        assert found.dtype == one.dtype and torch.equal(found, one)
    dense = inputs[0].contiguous()
    assert run(loaded, [of(dense), *map(of, inputs[1:])], list(map(of, results))) == WRONG_STRIDES
    one = next(k for k, tensor in enumerate(results) if tensor.dim() == 2 and tensor.shape[0] == 1)
    told = [of(tensor, (77, 1) if k == one else None) for k, tensor in enumerate(results)]
    assert run(loaded, list(map(of, inputs)), told) == 0  # of one element strides do not matter
