"""``copy_`` takes a Python number as it takes a tensor of it."""
import pytest
import torch as judge

import rushlight


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("number", [0, 7, -1, 300, 2.7, -0.5, float("inf"), True, False])
def test_numbers(dtype, number):
    if number in (-1, float("inf"), -0.5) and dtype in ("uint8", "int64"):
        return  # what conversions leave undefined
    found, wanted = (library.ones(2, 3, dtype=getattr(library, dtype)).copy_(number) for library in (rushlight, judge))
    assert found.tolist() == wanted.tolist()


def test_views_gradients_and_compiled_functions():
    def f(x):
        y = x * 2
        y[0].copy_(3.0)
        return y.sum(), y

    for run in (f, rushlight.compile(f, fullgraph=True)):
        x = rushlight.ones(2, 2, requires_grad=True)
        total, y = run(x)
        total.backward()
        assert y.tolist() == [[3, 3], [2, 2]] and x.grad.tolist() == [[0, 0], [2, 2]]
