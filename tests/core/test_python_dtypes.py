"""Python's types where a dtype is wanted."""
import pytest
import torch as judge

import rushlight as torch

CALLS = {
    "zeros": lambda t, x: t.zeros(2, dtype=bool), "tensor": lambda t, x: t.tensor([1], dtype=float), "as_tensor": lambda t, x: t.as_tensor([1], dtype=int), "to": lambda t, x: x.to(bool),
    "to_dtype": lambda t, x: x.to(dtype=int), "ones": lambda t, x: t.tril(t.ones((3, 3), dtype=bool)), "sum": lambda t, x: x.sum(dtype=float), "full": lambda t, x: t.full((2,), 1, dtype=bool),
    "empty": lambda t, x: t.empty(2, dtype=complex), "new_zeros": lambda t, x: x.new_zeros(2, dtype=bool), "arange": lambda t, x: t.arange(3, dtype=float), "like": lambda t, x: t.zeros_like(x, dtype=bool),
    "softmax": lambda t, x: x.softmax(0, dtype=float), "rand": lambda t, x: t.rand(2, dtype=float), "eye": lambda t, x: t.eye(2, dtype=bool), "linspace": lambda t, x: t.linspace(0, 1, 3, dtype=float)}


@pytest.mark.parametrize("name", CALLS)
def test_python_type_is_a_dtype(name):
    assert str(CALLS[name](torch, torch.ones(2)).dtype) == str(CALLS[name](judge, judge.ones(2)).dtype)


def test_in_compiled_code():
    found = torch.compile(lambda x: torch.ones_like(x, dtype=bool) & x.to(bool), fullgraph=True)(torch.tensor([0.0, 2.0]))
    assert found.tolist() == [False, True]


def test_other_types_are_errors():
    for make in (lambda: torch.zeros(2, dtype=str), lambda: torch.ones(2).to(str), lambda: torch.tensor([1], dtype=str)):
        with pytest.raises(TypeError):
            make()
