"""What compiled code leaves outside is what eager code leaves: attributes of tensors, refusals, who answers."""
import operator

import numpy as np
import pytest

import rushlight as rl


class Box:
    """Something to hang a tensor on."""


BOX, KEPT = Box(), None


def through_object(x):
    y = x + 1
    y.scale = 7
    BOX.v = y
    return x


def through_global(x):
    global KEPT
    y = x + 1
    y.scale = 7
    KEPT = y
    return x * 1


def through_tensor(x):
    y, z = x + 1, x * 2
    y.scale = 7
    z.ref = y
    BOX.v = z
    return x * 1


@pytest.mark.parametrize("function,found", [
    (through_object, lambda: BOX.v), (through_global, lambda: KEPT), (through_tensor, lambda: BOX.v.ref)])
def test_attributes_of_tensors_that_later_statements_keep(function, found):
    rl.compile(function)(rl.ones(3))
    assert found().scale == 7 and found().tolist() == [2.0] * 3


@pytest.mark.parametrize("dtype,factor,error,text", [
    (rl.uint8, 300, RuntimeError, "without overflow"), (rl.int8, -200, RuntimeError, "without overflow"),
    (rl.int32, float("nan"), TypeError, "only integer tensors")])
def test_numbers_that_a_dtype_cannot_hold_are_refused(dtype, factor, error, text):
    def function(x):
        return rl.tensor([x[0] * factor, 1], dtype=dtype)

    for call in (function, rl.compile(function)):
        with pytest.raises(error, match=text):
            call(rl.ones(2, dtype=rl.int64))


def test_integers_that_vary_are_refused_where_a_dtype_cannot_hold_them():
    def function(x, n):
        return rl.tensor([n, 1], dtype=rl.uint8) + x

    compiled = rl.compile(function, dynamic=True)
    assert compiled(rl.zeros(2), 5).tolist() == [5, 1]
    with pytest.raises(RuntimeError, match="without overflow"):
        compiled(rl.zeros(2), 300)


def test_integers_are_still_in_the_graph():
    function = rl.compile(lambda x: rl.tensor([x[0], x[1], 3], dtype=rl.int64), fullgraph=True)
    assert function(rl.tensor([1, 2], dtype=rl.int32)).tolist() == [1, 2, 3]


@pytest.mark.parametrize("indices", [[[1.0], [0.0], [0.0]], [[True], [False], [True]]])
def test_indices_along_an_axis_are_integers(indices):
    with pytest.raises(IndexError):
        rl.compile(lambda a: np.take_along_axis(a, np.array(indices), 1))(np.ones((3, 4)))


class Noting(rl.Tensor):
    """Notes which functions it is asked for, with what."""

    asked = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Noting.asked.append((func.__name__, [type(a).__name__ for a in args]))
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt"])
def test_subclasses_right_of_numbers_are_asked_as_in_eager_mode(name):
    def function(x):
        return getattr(operator, name)(2, x)

    asked = []
    for call in (function, rl.compile(function)):
        x = rl.ones(2).as_subclass(Noting)
        Noting.asked.clear()
        call(x)
        asked.append(list(Noting.asked))
    assert asked[0] == asked[1]
