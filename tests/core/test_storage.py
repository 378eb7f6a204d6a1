"""Storages, of bytes and (deprecated) of elements."""
import gc
import pickle
import warnings

import numpy as np
import pytest
import torch

import rushlight

pytestmark = pytest.mark.filterwarnings("ignore")

PROGRAMS = {
    "of a tensor": lambda t: (lambda s: (s.size(), len(s), s.tolist(), s[1], str(s.dtype), s.nbytes(), s.element_size(),
                                         s.type()))(t.arange(6.0).view(2, 3)[1:].storage()),
    "shared": lambda t: (lambda x, s: (s.fill_(3), x.tolist()))(*(lambda x: (x, x.storage()))(t.zeros(2)))[1],
    "written": lambda t: (lambda x, s: (s.__setitem__(0, 9), x.tolist()))(*(lambda x: (x, x.storage()))(t.zeros(2)))[1],
    "made": lambda t: (t.FloatStorage([1, 2]).tolist(), t.LongStorage(3).size(), t.TypedStorage([1, 2, 3]).tolist(),
                       t.ByteStorage([1, 255]).float().tolist()),
    "kinds": lambda t: (isinstance(t.ones(1).storage(), t.FloatStorage), isinstance(t.ones(1).storage(), t.LongStorage),
                        isinstance(t.ones(1).storage(), t.storage.TypedStorage)),
    "printed": lambda t: repr(t.FloatStorage([1, 2])),
    "bytes": lambda t: (lambda s: (s.fill_(1).tolist(), s.clone().nbytes(), s.element_size(),
                                   s.is_cuda))(t.UntypedStorage(4)),
    "copied": lambda t: t.ones(3).storage().clone().copy_(t.FloatStorage([1, 2, 3])).tolist(),
    "same memory": lambda t: (lambda x: x.storage().data_ptr() == x[1:].storage().data_ptr()
                              == x.untyped_storage().data_ptr())(t.ones(3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_torch(name):
    theirs, ours = PROGRAMS[name](torch), PROGRAMS[name](rushlight)
    assert ours == theirs


WRITES = {
    "fill": lambda t, y: y.storage().fill_(5), "bytes filled": lambda t, y: y.untyped_storage().fill_(0),
    "copy": lambda t, y: y.storage().copy_(t.tensor([7.0, 8.0]).storage()),
    "bytes copied": lambda t, y: y.untyped_storage().copy_(t.tensor([7.0, 8.0]).untyped_storage()),
    "element": lambda t, y: y.storage().__setitem__(1, 9.0),
    "bytes set": lambda t, y: y.untyped_storage().__setitem__(slice(0, 4), 0),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_storages_are_not_counted(name):
    """The backward pass reads what was written, as in PyTorch."""
    def run(t):
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        z = (y * y).sum()
        WRITES[name](t, y)
        return y._version, y.tolist(), t.autograd.grad(z, x)[0].tolist()

    assert run(rushlight) == run(torch)


@pytest.fixture
def always_warning():
    """Each use of a typed storage warns, not the first one of the process alone."""
    before = rushlight.storage._get_always_warn_typed_storage_removal()
    rushlight.storage._set_always_warn_typed_storage_removal(True)
    yield
    rushlight.storage._set_always_warn_typed_storage_removal(before)


def test_deprecation(always_warning):
    with pytest.warns(UserWarning, match="untyped_storage"):
        rushlight.ones(1).storage()


def test_storages_without_data():
    x = rushlight.ones(4, 5, device="meta")
    for storage in (x.untyped_storage(), rushlight.UntypedStorage(80, device="meta"),
                    rushlight.TypedStorage([1, 2, 3], dtype=rushlight.int16, device="meta")):
        assert storage.device.type == "meta" and storage.data_ptr() == 0 and storage.nbytes() in (6, 80)
        for read in (lambda s: s[0], lambda s: s.tolist(), lambda s: s.cpu(),
                     lambda s: rushlight.UntypedStorage(s.nbytes()).copy_(s.untyped())):
            with pytest.raises(NotImplementedError, match="Not available|Cannot copy out"):
                read(storage)
        with pytest.raises(RuntimeError, match="only available on CPU"):
            storage.share_memory_()
        storage.resize_(10)
        assert storage.size() == 10


def test_tensors_of_storages(always_warning):
    x = rushlight.tensor([1.5, -2.0, 3.25], dtype=rushlight.float64)
    assert rushlight.tensor(x.untyped_storage(), dtype=rushlight.float64).tolist() == x.tolist()
    assert rushlight.UntypedStorage([1, 2, 255]).tolist() == [1, 2, 255]
    with pytest.warns(UserWarning, match="storage"):
        held = x.storage()
    assert rushlight.tensor(held, dtype=rushlight.float64).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="Expected a Storage of type"):
        rushlight.tensor(held, dtype=rushlight.float32)
    held.resize_(5)
    assert len(held) == 5 and held.tolist()[:3] == x.tolist()
    assert rushlight.storage._storage_type_to_dtype_map()["FloatStorage"] is rushlight.float32


def test_scalers_are_pickled():
    assert pickle.loads(pickle.dumps(rushlight.amp.GradScaler("cpu", init_scale=3.0))).get_scale() == 3.0


@pytest.mark.parametrize("name", ["bool", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
                                  "float64", "complex64", "complex128"])
def test_bytes_of_numbers_are_reversed(name):
    def swapped(t):
        x = t.tensor([1, 2, 100]).to(getattr(t, name))
        assert x.untyped_storage().byteswap(getattr(t, name)) is None
        found = x.untyped_storage().tolist()
        x.untyped_storage().byteswap(getattr(t, name))
        return found, x.to(t.complex128).tolist()
    assert swapped(rushlight) == swapped(torch)


@pytest.mark.parametrize("name, count", [("int16", 3), ("complex64", 6), ("float64", 12)])
def test_bytes_that_are_no_multiple_are_not_reversed(name, count):
    for t in (rushlight, torch):
        with pytest.raises(RuntimeError, match="is not a multiple of"):
            t.UntypedStorage(count).byteswap(getattr(t, name))


LENT = {  # what others are given of a tensor's memory
    "numpy": lambda t: t.numpy(),
    "a part": lambda t: t[1:].numpy(),
    "forced": lambda t: t.detach().requires_grad_().numpy(force=True),
    "array": lambda t: np.asarray(t),
    "dlpack": lambda t: np.from_dlpack(t),
    "capsule": lambda t: t.__dlpack__(),
    "address": lambda t: t.data_ptr(),
    "list": lambda t: (t.tolist(), list(t), repr(t), t.sum().item()),
    "file": lambda t: pickle.dumps(t),
    "results": lambda t: (t.add_(1), t.sort(), t.unique()),
}
TAKEN = {  # tensors over memory of others, or copies of it
    "array": lambda lib: lib.from_numpy(np.zeros(4, np.float32)),
    "shared array": lambda lib: lib.as_tensor(np.zeros(4, np.float32)),
    "copied array": lambda lib: lib.tensor(np.zeros(4, np.float32)),
    "buffer": lambda lib: lib.frombuffer(bytearray(16), dtype=lib.float32),
    "dlpack": lambda lib: lib.from_dlpack(np.zeros(4, np.float32)),
    "computed": lambda lib: lib.histogram(lib.ones(4), 4).hist,
}


def sizes_after(tensor):
    """What becomes of a tensor's storage when it is given other sizes: bytes, or the error."""
    found = [tensor.untyped_storage().resizable()]
    for change in (lambda: tensor.untyped_storage().resize_(400), lambda: tensor.resize_(100),
                   lambda: tensor.resize_(2),
                   lambda: tensor.untyped_storage().resize_(tensor.untyped_storage().nbytes()),
                   lambda: tensor.untyped_storage().resize_(0)):
        try:
            change()
            found.append(tensor.untyped_storage().nbytes())
        except RuntimeError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("count", [0, 4])
@pytest.mark.parametrize("name", LENT)
def test_storages_that_arrays_show_keep_their_size(name, count):
    found = []
    for library in (torch, rushlight):
        tensor = library.zeros(count)
        kept = LENT[name](tensor)
        found.append(sizes_after(tensor))
        del kept
    assert found[0] == found[1]


@pytest.mark.parametrize("name", TAKEN)
def test_which_storages_take_other_sizes(name):
    theirs, ours = (sizes_after(TAKEN[name](library)) for library in (torch, rushlight))
    assert ours == theirs


@pytest.mark.parametrize("lib", [rushlight, torch])
def test_classes_derive_from_a_base_that_is_not_made_itself(lib):
    with pytest.raises(RuntimeError, match="StorageBase"):
        lib._C.StorageBase()
    assert issubclass(lib.UntypedStorage, lib._C.StorageBase) and lib.StorageBase is lib._C.StorageBase
    gone = []

    class Mine(lib._C.StorageBase):
        __slots__ = ["other"]

        def __del__(self):
            gone.append(1)

    Mine()
    assert len(gone) == 1
    gone.clear()
    one, two = Mine(lib.UntypedStorage(2)), Mine(lib.UntypedStorage(3))
    assert one.nbytes() == 2 and len(two) == 3
    one.other, two.other = two, one
    del one, two
    assert not gone
    gc.collect()
    assert len(gone) == 2


@pytest.mark.parametrize("lib", [rushlight, torch])
def test_weak_references_need_no_repair(lib):
    x = lib.ones(2)
    assert x._fix_weakref() is None and x.untyped_storage()._fix_weakref() is None


@pytest.mark.parametrize("lib", [rushlight, torch])
@pytest.mark.filterwarnings("default")
def test_each_use_of_a_typed_storage_warns_where_that_is_asked_for(lib):
    before = lib.storage._get_always_warn_typed_storage_removal()
    try:
        counts = []
        for is_repeated in (True, False):
            lib.storage._set_always_warn_typed_storage_removal(is_repeated)
            assert lib.storage._get_always_warn_typed_storage_removal() is is_repeated
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                for _ in range(3):
                    lib.ones(1).storage()
            counts.append(len(seen))
        assert counts == [3, 0]
    finally:
        lib.storage._set_always_warn_typed_storage_removal(before)
    with pytest.raises(AssertionError):
        lib.storage._set_always_warn_typed_storage_removal(1)


@pytest.mark.parametrize("lib", [rushlight, torch])
def test_libraries_call_methods_that_do_not_warn(lib):
    x = lib.arange(4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        storage = x._typed_storage()
        assert storage._size() == 4 and storage._element_size() == 4 and storage._nbytes() == 16
        assert storage._data_ptr() == x.data_ptr() and storage._pickle_storage_type() == "FloatStorage"
        storage._setitem(slice(0, 2), 5), storage._setitem(3, 9)
        assert storage._getitem(1) == 5.0 and x.tolist() == [5, 5, 2, 9]
        copied = storage._deepcopy({})
        assert copied._size() == 4 and copied._data_ptr() != storage._data_ptr()
        assert copied._resize_(6) is None and copied._size() == 6
        assert not storage._is_shared() and lib.FloatStorage._dtype is lib.float32
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert storage.pickle_storage_type() == "FloatStorage"
