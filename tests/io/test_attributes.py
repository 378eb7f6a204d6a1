"""What files keep besides a tensor's numbers: its class, its attributes, storages as such; and what they cannot."""
import io

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


class Own(rl.Tensor):
    pass


class Theirs(torch.Tensor):
    pass


class Around(rl.Tensor):
    """A tensor that answers operators by another one."""

    @staticmethod
    def __new__(cls, inner):
        return rl.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*(a.inner if isinstance(a, cls) else a for a in args), **(kwargs or {}))


class Slotted(rl.Tensor):
    __slots__ = ("inner",)


class Spelled(rl.Tensor):
    """A tensor that says itself how it is pickled."""

    def __reduce_ex__(self, protocol):
        return spelled, (self.tolist(),)


def spelled(numbers):
    return rl.tensor(numbers).as_subclass(Spelled)


def kept(obj, t=rl, by=None, **options):
    file = io.BytesIO()
    (by or t).save(obj, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("writer, reader", [(rl, rl), (rl, torch), (torch, rl)])
@pytest.mark.parametrize("make", [lambda t: t.ones(2), lambda t: t.nn.Parameter(t.ones(2)),
                                  lambda t: t.ones(2).to_sparse()], ids=["tensor", "parameter", "sparse"])
@pytest.mark.parametrize("safe", [True, False])
def test_attributes_of_tensors(writer, reader, make, safe):
    x = make(writer)
    x.foo, x.numbers = "foo", [3.14, 2]
    found = reader.load(kept({"x": x}, writer), weights_only=safe)["x"]
    assert found.foo == "foo" and found.numbers == [3.14, 2] and type(found) is type(
        make(reader)) and found.to_dense().tolist() == [1, 1]


def test_hooks_are_no_attributes():
    x = rl.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(print)
    x.foo = 1
    assert vars(rl.load(kept(x))) == {"foo": 1}


@pytest.mark.parametrize("old", [False, True])
def test_classes_of_ones_own(old):
    x = rl.arange(3.0).as_subclass(Own)
    x.foo = 1
    file = kept([x, Spelled([1.0, 2.0])], _use_new_zipfile_serialization=not old)
    found, spelt = rl.load(file, weights_only=False)
    assert type(found) is Own and found.foo == 1 and found.tolist() == [0, 1, 2] and type(
        spelt) is Spelled and spelt.tolist() == [1, 2]
    file.seek(0)
    with pytest.raises(Exception, match="Own was not an allowed global"):
        rl.load(file)
    file.seek(0)
    with rl.serialization.safe_globals([Own, spelled]):
        assert type(rl.load(file)[0]) is Own


def test_classes_that_answer_operators():
    x = Around(rl.ones(2))
    with rl.serialization.safe_globals([Around]):
        found = rl.load(kept(x))
    assert type(found) is Around and found.inner.tolist() == [1, 1]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("writer, reader", [(rl, rl), (rl, torch), (torch, rl)])
def test_storages(writer, reader, old):
    x = writer.arange(4.0)
    storage, found = reader.load(kept([x.storage(), x], writer, _use_new_zipfile_serialization=not old))
    assert storage.dtype is reader.float32 and storage.tolist() == found.tolist() == [0, 1, 2, 3]
    found[0] = 9
    assert storage[0] == 9
    taken = reader.empty(0).set_(storage, 1, (2,), (2,))
    assert taken.tolist() == [1, 3] and taken.set_(storage).tolist() == [9, 1, 2, 3]


def test_slots():
    x = rl.ones(2).as_subclass(Slotted)
    x.inner, x.foo = rl.zeros(3), 2
    with rl.serialization.safe_globals([Slotted]):
        found = rl.load(kept(x))
    assert found.inner.tolist() == [0, 0, 0] and found.foo == 2


def test_archives_begin_as_such():
    file = kept(rl.ones(1))
    assert rl.serialization._is_zipfile(file) and file.tell() == 0 and not rl.serialization._is_zipfile(
        io.BytesIO(b"PK"))


def test_parts_of_layouts_by_the_class_of_tensors():
    x = rl.eye(2).to_sparse_csc()
    assert rl.Tensor.ccol_indices(x).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="ccol_indices expected sparse"):
        rl.Tensor.ccol_indices(rl.eye(2))


def test_storages_that_do_not_fit():
    x = rl.arange(4.0)
    with pytest.raises(RuntimeError, match="out of bounds"):
        rl.empty(0).set_(x.untyped_storage(), 2, (3,))
    with pytest.raises(RuntimeError, match="Could not set tensor"):
        rl.empty(0).set_(rl.ones(2, dtype=rl.int64))


@pytest.mark.parametrize("t", [rl, torch], ids=["rushlight", "torch"])
def test_one_memory_has_one_dtype(t):
    z = t.ones(2, dtype=t.complex64)
    for pair in ([z, z.imag], [z.storage(), z.imag], [t.ones(2).view(t.int32), t.ones(1)]):
        if pair[0].dtype is t.int32:
            t.save(pair, io.BytesIO())
            continue
        with pytest.raises(RuntimeError, match="view the same data as different types"):
            t.save(pair, io.BytesIO())
    with pytest.raises(AttributeError):
        t.save("text", t.ones(2))


def test_files_without_sums():
    torch.serialization.set_crc32_options(False)
    try:
        file = kept(torch.arange(5), by=torch)
    finally:
        torch.serialization.set_crc32_options(True)
    assert rl.load(file).tolist() == [0, 1, 2, 3, 4]
