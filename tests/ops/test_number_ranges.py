"""Numbers that a dtype does not hold, given to every operator that puts one into a tensor or multiplies by it: refused
where PyTorch refuses, also when the operator has a plan already."""
import math

import pytest
import torch

import rushlight

F = "nn.functional"
CALLS = {
    "add": lambda T, x, v: T.add(x, x, alpha=v), "sub": lambda T, x, v: T.sub(x, x, alpha=v),
    "rsub": lambda T, x, v: T.rsub(x, x, alpha=v), "add_": lambda T, x, v: x.add_(x, alpha=v),
    "addcmul": lambda T, x, v: T.addcmul(x, x, x, value=v), "addcdiv": lambda T, x, v: T.addcdiv(x, x, x, value=v),
    "lerp": lambda T, x, v: T.lerp(x, x, v), "pow": lambda T, x, v: x.pow(v),
    "fill_": lambda T, x, v: x.fill_(v), "full": lambda T, x, v: T.full((2,), v, dtype=x.dtype),
    "full_like": lambda T, x, v: T.full_like(x, v),
    "masked_fill": lambda T, x, v: x.masked_fill(T.tensor([True, False]), v),
    "masked_fill_": lambda T, x, v: x.masked_fill_(T.tensor([True, False]), v),
    "scatter": lambda T, x, v: x.scatter(0, T.tensor([0]), v),
    "scatter_add": lambda T, x, v: x.scatter(0, T.tensor([0]), v, reduce="add"),
    "index_fill": lambda T, x, v: x.index_fill(0, T.tensor([0]), v),
    "index_add": lambda T, x, v: x.index_add(0, T.tensor([0, 1]), x, alpha=v),
    "clamp": lambda T, x, v: x.clamp(v), "clamp_max": lambda T, x, v: x.clamp(max=v),
    "where": lambda T, x, v: T.where(T.tensor([True, False]), x, v),
    "threshold": lambda T, x, v: T.nn.functional.threshold(x, v, 1),
    "threshold value": lambda T, x, v: T.nn.functional.threshold(x, 5, v),
    "leaky_relu": lambda T, x, v: T.nn.functional.leaky_relu(-x, v),
    "hardtanh": lambda T, x, v: T.nn.functional.hardtanh(x, max_val=v) if v == v and v >= -1 else None,
    "elu": lambda T, x, v: T.nn.functional.elu(-x, v), "celu": lambda T, x, v: T.nn.functional.celu(-x, v),
    "softplus": lambda T, x, v: T.nn.functional.softplus(x, v),
    "hardshrink": lambda T, x, v: T.nn.functional.hardshrink(x, v),
    "softshrink": lambda T, x, v: T.nn.functional.softshrink(x, v), "setitem": lambda T, x, v: x.__setitem__(0, v),
    "huber_loss": lambda T, x, v: T.nn.functional.huber_loss(x, x + 9, delta=v),
    "smooth_l1_loss": lambda T, x, v: T.nn.functional.smooth_l1_loss(x, x + 9, beta=v),
}
NUMBERS = {"float32": (1e300, -1e300, math.inf, math.nan, 1 << 62), "float16": (1e30, 70000, math.inf),
           "bfloat16": (1e300,), "complex64": (1e300,), "int8": (300,), "uint8": (-300, -1),
           "int32": (1 << 40, math.inf), "int64": (math.nan, 1.5, 1e30), "bool": (2, 0.5)}
BEFORE = {True: (0.5, 0.25, 0.75, 0.125), False: (1, 2)}  # of which plans are made


def outcome(T, name, dtype, value):
    """The type of the error, or the elements as text."""
    try:
        result = CALLS[name](T, T.ones(2, dtype=getattr(T, dtype)), value)
    except (RuntimeError, ValueError, TypeError) as error:
        return RuntimeError if isinstance(error, RuntimeError) else type(error)
    return repr(result.tolist()) if result is not None else None


@pytest.mark.parametrize("name", CALLS)
def test_beyond_the_dtype(name):
    for dtype, numbers in NUMBERS.items():
        for value in BEFORE[getattr(torch, dtype).is_floating_point]:
            outcome(rushlight, name, dtype, value)
        for value in numbers:
            wanted = outcome(torch, name, dtype, value)
            if wanted is RuntimeError:  # a value that PyTorch returns is compared by other tests
                assert outcome(rushlight, name, dtype, value) is RuntimeError, (dtype, value)
            elif name not in ("softplus", "hardtanh", "smooth_l1_loss"):
                assert outcome(rushlight, name, dtype, value) == wanted or dtype.startswith("complex"), (dtype, value)


WORDS = (1 << 63, (1 << 63) + 5, 0x9E3779B97F4A7C15, (1 << 64) - 1)  # no signed word holds them
OPERANDS = {"add": lambda x, v: x + v, "reflected": lambda x, v: v + x, "sub": lambda x, v: x - v,
            "mul": lambda x, v: x * v, "and": lambda x, v: x & v, "xor": lambda x, v: x ^ v, "or": lambda x, v: x | v,
            "eq": lambda x, v: x == v, "lt": lambda x, v: x < v, "floordiv": lambda x, v: x // v,
            "in place": lambda x, v: x.add_(v), "fill_": lambda x, v: x.fill_(v), "clamp": lambda x, v: x.clamp(max=v),
            "addcmul": lambda x, v: x.addcmul(x, x, value=v), "where": lambda x, v: x.where(x < 1, v),
            "pow": lambda x, v: x ** v}


def of_words(T, name, dtype, value):
    try:
        result = OPERANDS[name](T.ones(2, dtype=getattr(T, dtype)), value)
    except (RuntimeError, NotImplementedError):
        return RuntimeError
    return result.dtype.__repr__().split(".")[-1], result.tolist()


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float32", "float64"])
def test_unsigned_words(name, dtype):
    for value in (7, *WORDS, 7):
        assert of_words(rushlight, name, dtype, value) == of_words(torch, name, dtype, value), value


@pytest.mark.parametrize("dtype", ["float64", "float32", "bool", "uint64"])
def test_words_in_tensors(dtype):
    for value in WORDS[:3]:
        assert rushlight.tensor([value, 1], dtype=getattr(rushlight, dtype)).tolist() == torch.tensor(
            [value, 1], dtype=getattr(torch, dtype)).tolist()
