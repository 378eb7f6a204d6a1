"""Tensors from other libraries' memory."""
import copy
import ctypes
import warnings
import weakref

import numpy as np
import pytest
import torch

import rushlight as rl


def test_asarray_shares_or_copies_as_asked():
    numbers = np.zeros(3)
    assert rl.asarray(numbers).data_ptr() == numbers.ctypes.data
    assert rl.asarray(numbers, copy=True).data_ptr() != numbers.ctypes.data
    with pytest.raises(ValueError, match="can't alias"):
        rl.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="can't alias"):
        rl.asarray(numbers, dtype=rl.int32, copy=False)
    x = rl.ones(2, requires_grad=True)
    assert rl.asarray(x) is x and not rl.asarray(x, requires_grad=False).requires_grad
    assert rl.asarray([1.0], requires_grad=True).requires_grad


def test_capsules_are_taken():
    x = rl.ones(2, 2)
    seen = rl.utils.dlpack.from_dlpack(rl.utils.dlpack.to_dlpack(x))
    seen[0, 0] = 5
    assert x[0, 0] == 5


@pytest.mark.parametrize("text", ["[np.ones(2), np.ones(2)]", "[np.float64(1), 2]", "[np.int32(1)]", "[np.int32(1), 2]",
                                  "[np.float16(1), np.float32(2)]", "[1, np.ones(())]",
                                  "[[np.ones(2)], [np.zeros(2)]]", "[t.tensor(1.0, dtype=t.float64)]",
                                  "[t.tensor([1], dtype=t.int32)]", "[t.ones(2), t.ones(2)]", "[True, 1]",
                                  "[np.bool_(True)]", "[np.array(['a'])]", "[[], []]", "[1, 2.5, 1j]", "[np.ones(0)]"])
@pytest.mark.filterwarnings("ignore")
def test_entries_of_lists_decide_the_dtype(text):
    torch = pytest.importorskip("torch")

    def made(t):
        try:
            x = t.tensor(eval(text, {"np": np, "t": t}))  # noqa: S307 - the strings above
        except Exception as error:  # noqa: BLE001 - its type is compared
            return type(error).__name__
        return str(x.dtype), tuple(x.shape), x.tolist()

    assert made(rl) == made(torch)


def test_arrays_beside_operators():
    x = rl.ones(2)
    assert (x * np.ones(2)).dtype is rl.float64 and (x + np.arange(2)).tolist() == [1, 2]
    assert (x == np.array([1.0, 2.0])).tolist() == [True, False]
    assert type(np.sin(x)) is rl.Tensor and type(np.add(x, 1)) is rl.Tensor


def test_bytes_of_a_tensor():
    assert bytes(rl.arange(3, dtype=rl.uint8)) == b"\x00\x01\x02"


@pytest.mark.parametrize("t", [torch, rl], ids=["torch", "rushlight"])
def test_copies_share_memory_as_what_they_copy(t):
    """But those of Parameters, which have memory of their own."""
    import copy

    x = t.zeros(2, 2)
    made = copy.deepcopy({"whole": x, "row": x[1], "parameter": t.nn.Parameter(x)})
    made["whole"][1, 0] = 7
    assert made["row"].tolist() == [7, 0] and made["parameter"][1, 0] == 0 and x.sum() == 0


def test_copies_of_views_with_gaps():
    import copy

    gaps = rl.from_numpy(np.arange(12.0).reshape(3, 4)[:, ::2])
    assert copy.deepcopy(gaps).tolist() == gaps.tolist()
    assert copy.deepcopy(rl.ones(3).expand(2, 3)).tolist() == [[1, 1, 1]] * 2


LISTS = {"number": 1.5, "whole number": 2, "truth": True, "complex": 1 + 2j, "complex without imaginary part": 1 + 0j}


@pytest.mark.parametrize("dtype", ["None", "bool", "uint8", "int64", "float16", "float32", "complex64"])
@pytest.mark.parametrize("inside", ["{}", "[{}]", "[t.tensor({})]", "[[t.tensor([{}])], [1]]",
                                    "[t.tensor([{0}, {0}])]", "[1.5, t.tensor({})]", "[1j, {}]"])
def test_what_lists_of_numbers_and_tensors_become(inside, dtype):
    """Nothing of a number is lost but what PyTorch drops; errors are of its types."""
    for value in LISTS.values():
        text, found = f"t.tensor({inside.format(value)}, dtype=getattr(t, {dtype!r}, None))", []
        for t in (torch, rl):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    made = eval(text, {"t": t})
                found.append((made.tolist(), str(made.dtype).rpartition(".")[2]))
            except Exception as error:
                found.append(type(error))
        assert found[0] == found[1], text


def test_bfloat16_goes_by_dlpack():
    x = rl.arange(6).bfloat16().reshape(2, 3).t()
    for seen in (rl.from_dlpack(x), rl.asarray(rl.utils.dlpack.to_dlpack(x)), torch.from_dlpack(x)):
        assert seen.stride() == (1, 3) and seen.data_ptr() == x.data_ptr() and str(seen.dtype) == "torch.bfloat16"
        seen[0, 0] += 1
    assert x[0, 0] == 3
    theirs = torch.ones(2, 2, dtype=torch.bfloat16)
    ours = rl.from_dlpack(theirs)
    ours[0, 1] = 4
    assert theirs[0, 1] == 4 and ours.dtype is rl.bfloat16
    del theirs
    assert ours.sum() == 7
    fixed = np.ones(2)
    fixed.flags.writeable = False
    assert rl.from_dlpack(fixed).tolist() == [1.0, 1.0]


def test_capsules_go_while_an_exception_is_on_its_way():
    """What was on a stack goes before anybody catches what was raised."""
    x = rl.arange(6, dtype=rl.bfloat16).reshape(2, 3)[:, 1:]
    gone = weakref.ref(x._rush_storage)
    with pytest.raises(ZeroDivisionError):
        x.__dlpack__(), 1 // 0
    with pytest.raises(ZeroDivisionError):
        torch.from_dlpack(x), 1 // 0
    y = torch.from_dlpack(x)
    assert y.dtype is torch.bfloat16 and y.stride() == (3, 1) and y.tolist() == x.tolist()
    x.mul_(2)
    assert y.tolist() == [[2.0, 4.0], [8.0, 10.0]]
    del x
    assert gone() is not None
    del y
    assert gone() is None
    assert torch.from_dlpack(rl.empty(0, 3, dtype=rl.bfloat16)).shape == (0, 3)


@pytest.mark.parametrize("M", (torch, rl), ids=("torch", "rushlight"))
def test_copies_of_tensors_whose_attributes_lead_back(M):
    x = M.ones(3)
    x.others = {"me": x}
    y = copy.deepcopy(x)
    assert y is not x and y.others["me"] is not x and y.others["me"].tolist() == [1.0] * 3


LENDERS = {  # what another library sees of a tensor's memory: (what keeps it, its address)
    "numpy": lambda t: (a := t.numpy(), a.ctypes.data),
    "array": lambda t: (a := np.asarray(t), a.ctypes.data),
    "buffer": lambda t: (b := memoryview(t.numpy()), np.frombuffer(b, np.uint8).ctypes.data),
    "dlpack to numpy": lambda t: (a := np.from_dlpack(t), a.ctypes.data),
    "dlpack to torch": lambda t: (a := torch.from_dlpack(t), a.data_ptr()),
    "dlpack to a capsule": lambda t: (a := torch.from_dlpack(t.__dlpack__()), a.data_ptr()),
    "dlpack of 16 bits": lambda t: (a := torch.from_dlpack(t.view(rl.bfloat16)), a.data_ptr()),
    "a storage": lambda t: (s := t.untyped_storage(), s.data_ptr()),
    "a part of a storage": lambda t: (s := t.untyped_storage()[:], s.data_ptr()),
    "elements of a storage": lambda t: (s := t.storage(), s.data_ptr()),
}
WITHOUT_BFLOAT16 = ("numpy", "array", "buffer", "dlpack to numpy")  # those by NumPy, which has no such dtype
SHOWN = ("numpy", "array", "buffer")  # what NumPy shows keeps its size
MOVES = {  # what gives a tensor other memory, or none
    "set_": lambda t: t.set_(rl.zeros(3, dtype=t.dtype)),
    "data": lambda t: setattr(t, "data", rl.zeros(3, dtype=t.dtype)),
    "resize_": lambda t: t.resize_(5000),
    "set_ of nothing": lambda t: t.set_(),
    "free": lambda t: None,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("lender, dtype", [(name, dtype) for name in LENDERS for dtype in (rl.float32, rl.bfloat16)
                                           if dtype is rl.float32 or name not in WITHOUT_BFLOAT16])
def test_memory_that_is_lent_outlives_its_tensor(lender, move, dtype):
    t = rl.full((40,), 2.0, dtype=dtype)
    storage, where = weakref.ref(t._rush_storage), t.data_ptr()
    held = ctypes.string_at(where, t.nbytes)
    keeper, seen = LENDERS[lender](t)
    assert seen == where
    if move == "resize_" and lender in SHOWN:
        with pytest.raises(RuntimeError, match="not resizable"):
            MOVES[move](t)
    else:
        MOVES[move](t)
    del t
    others = [rl.full((40,), 7.0, dtype=dtype) for _ in range(8)]
    assert storage() is not None and ctypes.string_at(where, len(held)) == held, others
    assert move == "resize_" or not hasattr(keeper, "data_ptr") or keeper.data_ptr() == where
    del keeper
    assert storage() is None


FAR = 1 << 62  # elements: more than there are addresses for their bytes


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bfloat16", "complex128"])
@pytest.mark.parametrize("view", [lambda x: x.as_strided((1, 2), (FAR, 1), 1), lambda x: x[::FAR],
                                  lambda x: x.as_strided((2, 1), (2, FAR - 1), 3), lambda x: x[2:3:FAR - 5]])
def test_a_step_that_is_never_taken_may_be_of_any_size(view, dtype):
    mine, theirs = (view(t.arange(6).to(getattr(t, dtype))) for t in (rl, torch))
    assert mine.stride() == theirs.stride() and mine.tolist() == theirs.tolist()
    assert str(mine) == str(rl.tensor(mine.tolist(), dtype=mine.dtype))
    if dtype != "bfloat16":
        array = mine.numpy()
        assert array.tolist() == theirs.tolist() and array.ctypes.data == mine.data_ptr()
