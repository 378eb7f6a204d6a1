"""Layers whose parameters are of another dtype than their input: what PyTorch refuses, and what it takes."""
import pytest
import torch as judge

import rushlight as torch

BOTH = (judge, torch)


def full(t, *shape, dtype="float64"):
    return t.ones(shape, dtype=getattr(t, dtype))


CALLS = {
    "linear": lambda t, f, a, b: f.linear(full(t, 2, 3, dtype=a), full(t, 4, 3, dtype=a), full(t, 4, dtype=b)),
    "linear of three": lambda t, f, a, b: f.linear(full(t, 1, 2, 3, dtype=a), full(t, 4, 3, dtype=a),
                                                   full(t, 4, dtype=b)),
    "layer_norm": lambda t, f, a, b: f.layer_norm(full(t, 2, 3, dtype=a), (3,), *[full(t, 3, dtype=b)] * 2),
    "group_norm": lambda t, f, a, b: f.group_norm(full(t, 2, 4, dtype=a), 2, *[full(t, 4, dtype=b)] * 2),
    "batch_norm": lambda t, f, a, b: f.batch_norm(full(t, 2, 3, dtype=a), *[full(t, 3, dtype=b)] * 4),
    "batch_norm training": lambda t, f, a, b: f.batch_norm(full(t, 2, 3, dtype=a), None, None,
                                                           *[full(t, 3, dtype=b)] * 2, training=True),
    "prelu": lambda t, f, a, b: f.prelu(full(t, 2, 3, dtype=a), full(t, 3, dtype=b)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float32", "float64"), ("float64", "float64"),
                                    ("bfloat16", "bfloat16")])
def test_dtypes(call, dtypes):
    def outcome(t):
        try:
            return str(call(t, t.nn.functional, *dtypes).dtype)
        except RuntimeError:
            return "refused"
    assert outcome(torch) == outcome(judge)


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "batch_norm"])
def test_halves_with_parameters_of_float32(name):
    for t in BOTH:
        assert CALLS[name](t, t.nn.functional, "bfloat16", "float32").dtype is t.bfloat16


@pytest.mark.parametrize("which", ["weight", "bias", "both", "none"])
@pytest.mark.parametrize("dtypes", [("float16", "float32"), ("bfloat16", "bfloat16"), ("float32", "bfloat16"),
                                    ("float16", "bfloat16"), ("float64", "float16"), ("float64", "float32")])
def test_statistics_have_the_dtype_of_the_parameters(which, dtypes):
    def outcome(t):
        given = full(t, 3, dtype=dtypes[1])
        weight, bias = (given if which in (name, "both") else None for name in ("weight", "bias"))
        try:
            found = t.native_layer_norm(t.arange(6.0).reshape(2, 3).to(getattr(t, dtypes[0])), (3,), weight, bias, 1e-5)
        except RuntimeError as error:
            return str(error).splitlines()[0].partition(", but got")[0].rstrip(".")
        return [str(x.dtype) for x in found]
    assert outcome(torch) == outcome(judge)
