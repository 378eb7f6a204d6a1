"""Former orders of arguments give what PyTorch gives, with its warning."""
import warnings

import numpy as np
import pytest

import rushlight as rl

judge = pytest.importorskip("torch")

ROW, SQUARE, BATCH = (2,), (2, 2), (3, 2, 2)
CALLS = {
    "add": [(ROW, 2, ROW), (ROW, 2, 3)], "sub": [(ROW, 2, ROW)], "addcmul": [(ROW, 3, ROW, ROW)],
    "addcdiv": [(ROW, 0.5, ROW, ROW)],
    "addmm": [(2, SQUARE, 3, SQUARE, SQUARE), (2, SQUARE, SQUARE, SQUARE)], "addmv": [(2, ROW, 3, SQUARE, ROW)],
    "addr": [(2, SQUARE, 3, ROW, ROW)],
    "addbmm": [(2, SQUARE, 3, BATCH, BATCH)], "baddbmm": [(2, BATCH, BATCH, BATCH)],
}


def drawn(library, shapes):
    """Tensors of these shapes, the same for both libraries; numbers as they are."""
    draw = np.random.default_rng(0)
    return [library.tensor(draw.uniform(1, 2, s).astype("float32")) if isinstance(s, tuple) else s for s in shapes]


def compared(ours, theirs):
    with pytest.warns(UserWarning, match="deprecated"):
        got = ours()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of the first one in a process
        np.testing.assert_allclose(got.numpy(), theirs().numpy(), rtol=1e-5)


@pytest.mark.parametrize("name, shapes", [(name, shapes) for name, each in CALLS.items() for shapes in each])
def test_functions_methods_and_writes(name, shapes):
    mine, wanted = drawn(rl, shapes), drawn(judge, shapes)
    compared(lambda: getattr(rl, name)(*mine), lambda: getattr(judge, name)(*wanted))
    if not isinstance(shapes[0], tuple):  # a method's tensor stands before the factors
        mine[:2], wanted[:2] = mine[1::-1], wanted[1::-1]
    for form in (name, name + "_"):
        compared(lambda: getattr(mine[0].clone(), form)(*mine[1:]),
                 lambda: getattr(wanted[0].clone(), form)(*wanted[1:]))
    compared(lambda: rl.compile(lambda *args: getattr(args[0], name)(*args[1:]))(*mine),
             lambda: getattr(wanted[0], name)(*wanted[1:]))


def test_other_orders_are_refused():
    x = rl.ones(2, 2)
    for call in (lambda: rl.addmm(x, x, x, x), lambda: rl.addmm(2, x, x), lambda: rl.addcmul(x, 2, 3, x)):
        with pytest.raises(TypeError):
            call()
    assert rl.addmm(x, x, x, alpha=rl.tensor(2.0)).tolist() == [[5.0, 5.0], [5.0, 5.0]]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", ["bool", "int64", "complex64", "uint8"])
def test_softmax_without_elements(name, dtype):
    """Nothing is computed, so that no dtype is refused; with elements the dtype is."""
    for shape in ((0, 3), (3, 0), (0,), (2, 3)):
        found = []
        for library in (rl, judge):
            try:
                y = getattr(library, name)(library.zeros(shape, dtype=getattr(library, dtype)), 0)
                found.append((tuple(y.shape), str(y.dtype).split(".")[-1]))
            except RuntimeError as error:
                found.append(type(error).__name__)
        assert found[0] == found[1] or dtype == "complex64"
