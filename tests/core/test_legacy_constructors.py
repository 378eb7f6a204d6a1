"""Constructors of older programs (``torch.FloatTensor``, ``x.new``) tell sizes from data as PyTorch does."""
import array

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


class Index:
    def __index__(self):
        return 2


SIZES = {
    "nothing": lambda t: (), "an int": lambda t: (3,), "ints": lambda t: (2, 3), "zero": lambda t: (0,),
    "negative": lambda t: (-1,), "int64 of NumPy": lambda t: (np.int64(3),),
    "integers of NumPy": lambda t: (np.int32(2), np.int64(3)), "0-d array": lambda t: (np.array(3),),
    "__index__": lambda t: (Index(),), "Size": lambda t: (t.Size([2, 3]),), "empty Size": lambda t: (t.Size([]),),
    "size()": lambda t: (t.ones(2, 2).size(),), "tensors": lambda t: (t.tensor(3), t.tensor(2)),
    "int and tensor": lambda t: (3, t.tensor(2)), "Size and int": lambda t: (t.Size([2]), 3),
    "int and float": lambda t: (2, 2.5), "large": lambda t: (2 ** 70,)}
DATA = {
    "bool": lambda t: (True,), "float": lambda t: (2.5,), "float of NumPy": lambda t: (np.float64(2),),
    "bool of NumPy": lambda t: (np.bool_(1),), "list": lambda t: ([1, 2],), "nested": lambda t: ([[1, 2], [3, 4]],),
    "floats": lambda t: ([1.5, 2.5],), "bools": lambda t: ([True, False],), "tuple": lambda t: ((2, 3),),
    "empty list": lambda t: ([],), "empty tuple": lambda t: ((),), "array": lambda t: (np.ones((2, 2)),),
    "range": lambda t: (range(3),), "array of Python": lambda t: (array.array("i", [1, 2]),),
    "tensor": lambda t: (t.ones(2),), "tensor of integers": lambda t: (t.ones(2, dtype=t.int64),),
    "0-d tensor": lambda t: (t.tensor(3),), "list of tensors": lambda t: ([t.tensor(3), t.tensor(4)],),
    "lists": lambda t: ([1], [2]), "dict": lambda t: ({1: 2},), "set": lambda t: ({1, 2},),
    "generator": lambda t: (iter([1]),), "string": lambda t: ("ab",), "bytes": lambda t: (b"ab",),
    "None": lambda t: (None,), "complex": lambda t: (1j,)}
CONSTRUCTORS = {
    **{name: lambda t, name=name: getattr(t, name) for name in (
        "Tensor", "BoolTensor", "ByteTensor", "LongTensor", "HalfTensor", "FloatTensor", "DoubleTensor")},
    "new of float32": lambda t: t.ones(1).new, "new of int64": lambda t: t.ones(1, dtype=t.int64).new}


def made(library, constructor, arguments, has_values):
    """Shape, dtype and values of what is constructed; None for a refusal."""
    given = arguments(library)
    try:
        result = CONSTRUCTORS[constructor](library)(*given)
    except (TypeError, RuntimeError):
        return None
    return tuple(result.shape), str(result.dtype).split(".")[-1], result.tolist() if has_values else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("constructor", CONSTRUCTORS)
@pytest.mark.parametrize("kind", [*SIZES, *DATA])
def test_sizes_and_data(kind, constructor):
    arguments, has_values = {**SIZES, **DATA}[kind], kind in DATA
    assert made(rl, constructor, arguments, has_values) == made(torch, constructor, arguments, has_values)
