"""``torch.Tensor(...)`` as older programs call it."""
import os

import numpy as np
import pytest
import torch as judge

import rushlight as torch

ARGUMENTS = {"size": lambda t: (3,), "sizes": lambda t: (2, 3), "list": lambda t: ([1, 2],),
             "nested": lambda t: (([1, 2], [3, 4]),), "Size": lambda t: (t.Size([2, 2]),),
             "tensor": lambda t: (t.tensor([1, 2]),), "array": lambda t: (np.ones(2),), "range": lambda t: (range(3),)}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_as_in_pytorch(name):
    expected, found = judge.Tensor(*ARGUMENTS[name](judge)), torch.Tensor(*ARGUMENTS[name](torch))
    assert tuple(found.shape) == tuple(expected.shape) and str(found.dtype) == str(expected.dtype)
    if "size" not in name.lower():
        assert found.tolist() == expected.tolist()


@pytest.mark.skipif(os.environ.get("RUSHLIGHT_NATIVE") == "0",
                    reason="the hot path as plain Python calls the class itself")
def test_without_arguments():
    class Plain(torch.Tensor):
        pass

    assert tuple(torch.Tensor().shape) == (0,) and tuple(Plain().shape) == (0,)


def test_memory_is_shared_with_a_tensor():
    x = torch.ones(2)
    torch.Tensor(x).zero_()
    assert x.tolist() == [0.0, 0.0]


def test_subclasses():
    class Named(torch.Tensor):
        def __init__(self, data, name="none"):
            super().__init__()
            self.name = name

        @staticmethod
        def __new__(cls, data, name="none"):
            return super().__new__(cls, data)

    class Plain(torch.Tensor):
        pass

    made = Named([1.0, 2.0], name="pair")
    assert type(made) is Named and made.name == "pair" and (made + 1).tolist() == [2.0, 3.0]
    assert type(Plain([1, 2]) + 1) is Plain and tuple(Plain(2, 3).shape) == (2, 3)


def test_errors():
    for bad in (5.0, True, None, "text"):
        with pytest.raises(TypeError):
            torch.Tensor(bad)
