"""How results and limits print, beside PyTorch."""
import pytest
import torch

import rushlight as rl


def both(text):
    return [repr(eval(text, {"t": library})) for library in (rl, torch)]


@pytest.mark.parametrize("text", ["t.ones(2, 2).max(0)", "t.tensor([3.0, 1.0]).sort()", "t.aminmax(t.ones(2))", "t.frexp(t.ones(1))"])
def test_named_results_print_a_field_a_line(text):
    ours, theirs = both(text)
    assert ours == theirs


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e5m2", "float8_e4m3fn"])
def test_limits_of_floats_print_six_digits(dtype):
    ours, theirs = both(f"t.finfo(t.{dtype})")
    assert ours == theirs
