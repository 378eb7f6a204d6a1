"""Python's types where a dtype is wanted."""
import pytest
import torch as judge

import rushlight as torch

CALLS = {
    "zeros": lambda t, x: t.zeros(2, dtype=bool), "tensor": lambda t, x: t.tensor([1], dtype=float),
    "as_tensor": lambda t, x: t.as_tensor([1], dtype=int), "to": lambda t, x: x.to(bool),
    "to_dtype": lambda t, x: x.to(dtype=int), "ones": lambda t, x: t.tril(t.ones((3, 3), dtype=bool)),
    "sum": lambda t, x: x.sum(dtype=float), "full": lambda t, x: t.full((2,), 1, dtype=bool),
    "empty": lambda t, x: t.empty(2, dtype=complex), "new_zeros": lambda t, x: x.new_zeros(2, dtype=bool),
    "arange": lambda t, x: t.arange(3, dtype=float), "like": lambda t, x: t.zeros_like(x, dtype=bool),
    "softmax": lambda t, x: x.softmax(0, dtype=float), "rand": lambda t, x: t.rand(2, dtype=float),
    "eye": lambda t, x: t.eye(2, dtype=bool), "linspace": lambda t, x: t.linspace(0, 1, 3, dtype=float)}


@pytest.mark.parametrize("name", CALLS)
def test_python_type_is_a_dtype(name):
    assert str(CALLS[name](torch, torch.ones(2)).dtype) == str(CALLS[name](judge, judge.ones(2)).dtype)


def test_in_compiled_code():
    found = torch.compile(lambda x: torch.ones_like(x, dtype=bool) & x.to(bool),
                          fullgraph=True)(torch.tensor([0.0, 2.0]))
    assert found.tolist() == [False, True]


def test_other_types_are_errors():
    for make in (lambda: torch.zeros(2, dtype=str), lambda: torch.ones(2).to(str),
                 lambda: torch.tensor([1], dtype=str)):
        with pytest.raises(TypeError):
            make()


LIMITS = {"finfo": lambda t: t.finfo(float).eps, "iinfo": lambda t: t.iinfo(int).max,
          "promote": lambda t: str(t.promote_types(float, t.int32)),
          "promote_named": lambda t: str(t.promote_types(type1=t.int8, type2=bool)),
          "can_cast": lambda t: (t.can_cast(float, t.float32), t.can_cast(from_=float, to=int),
                                 t.can_cast(t.int8, bool))}
WRONG = (lambda t: t.finfo(int), lambda t: t.finfo(bool), lambda t: t.iinfo(float), lambda t: t.finfo("float32"),
         lambda t: t.can_cast("int", int), lambda t: t.promote_types(str, int))


@pytest.mark.parametrize("name", LIMITS)
def test_python_types_have_limits(name):
    assert LIMITS[name](torch) == LIMITS[name](judge)


@pytest.mark.parametrize("call", WRONG)
def test_limits_of_other_types_are_errors(call):
    for library in (judge, torch):
        with pytest.raises(TypeError):
            call(library)


def test_tensor_is_the_type_of_the_default_dtype():
    for library in (judge, torch):
        x = library.tensor([1, 2])
        assert x.type(library.Tensor).dtype is library.float32 and x.type("torch.DoubleTensor").dtype is library.float64
        with pytest.raises(ValueError, match="invalid type"):
            x.type("torch.OtherTensor")
        assert x._cdata == x._cdata != x.detach()._cdata
