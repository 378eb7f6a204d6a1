"""Operators of torch.ops.quantized_decomposed against PyTorch's, called and compiled."""
import importlib

import numpy as np
import pytest

import rushlight

from .judge import torch

importlib.import_module("torch.ao.quantization.fx._decomposed")
pytestmark = [pytest.mark.processor, pytest.mark.filterwarnings("ignore")]
R = np.random.default_rng(0)
X = (R.standard_normal((4, 6, 16)) * 3).astype(np.float32)
W = R.standard_normal((8, 32)).astype(np.float32)
BYTES = R.integers(0, 256, (4, 6, 16)).astype(np.uint8)
SIGNED = R.integers(-128, 128, (4, 6, 16)).astype(np.int8)
GROUPS = R.integers(-8, 8, (8, 32)).astype(np.int8)
SCALES = (R.random(6) * 0.1 + 0.01).astype(np.float32)
ZEROS = R.integers(-5, 5, 6)
ROWS, ROW_ZEROS = R.random((4, 6, 1)) * 0.1 + 0.01, R.integers(-9, 9, (4, 6, 1))
FINE = (R.random((8, 2)) * 0.1 + 0.05).astype(np.float32)
CASES = {
    "quantize_per_tensor.default": [(X, 0.03, 7, 0, 255, "uint8"), (X, 0.05, -3, -128, 127, "int8"),
                                    (X, 0.5, 0, -3, 4, "int32")],
    "quantize_per_tensor.tensor": [(X, np.array([0.03]), np.array([7]), 0, 255, "uint8")],
    "quantize_per_tensor.tensor2": [(X, np.float32([0.03]), np.array([7]), np.array(0), np.array(255), "uint8")],
    "dequantize_per_tensor.default": [(BYTES, 0.03, 7, 0, 255, "uint8"), (SIGNED, 0.03, 0, -128, 127, "int8")],
    "dequantize_per_tensor.tensor": [(BYTES, np.float32([0.03]), np.array([7]), 0, 255, "uint8")],
    "quantize_per_channel.default": [(X, SCALES, ZEROS, 1, -128, 127, "int8")],
    "dequantize_per_channel.default": [(SIGNED, SCALES, ZEROS, 1, -128, 127, "int8"),
                                       (SIGNED, SCALES, None, -2, -128, 127, "int8")],
    "choose_qparams.tensor": [(X, 0, 255, 1e-5, "uint8"), (X * 0, -128, 127, 1e-5, "int8"),
                              (abs(X), -128, 127, 1e-5, "int8")],
    "choose_qparams_symmetric.tensor": [(X, -127, 127, 1e-5, "int8"), (X, 0, 255, 1e-5, "uint8")],
    "choose_qparams_per_token.default": [(X, "int8")],
    "choose_qparams_per_token_asymmetric.default": [(X, "int8"), (abs(X), "int8")],
    "quantize_per_token.default": [(X, ROWS, ROW_ZEROS, -128, 127, "int8")],
    "dequantize_per_token.default": [(SIGNED, ROWS, ROW_ZEROS, -128, 127, "int8", "float32")],
    "quantize_per_channel_group.default": [(W, FINE, FINE * 0, -8, 7, "int8", 16)],
    "dequantize_per_channel_group.default": [(GROUPS, FINE, FINE * 0, -8, 7, "int8", 16, "float32"),
                                             (GROUPS, FINE, None, -8, 7, "int8", 16, "float32")],
    "fake_quant_per_channel.default": [(X, SCALES, ZEROS, 1, -50, 50)],
    "convert_element_type.no_fuse": [(X, "float16")],
}


def given(t, args):
    return [t.tensor(a) if isinstance(a, np.ndarray) else getattr(t, a) if isinstance(a, str) else a for a in args]


def results(t, name, args, compiled=False):
    packet, _, overload = name.partition(".")
    run = getattr(getattr(t.ops.quantized_decomposed, packet), overload)
    found = (t.compile(lambda *a: run(*a)) if compiled else run)(*given(t, args))
    return [(str(r.dtype), r.detach().numpy()) for r in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("name", CASES)
def test_operators_agree(name):
    for args in CASES[name]:
        expected = results(torch, name, args)
        for found in (results(rushlight, name, args), results(rushlight, name, args, compiled=True)):
            assert [d for d, _ in found] == [d for d, _ in expected]
            for (_, a), (_, b) in zip(found, expected):
                assert a.shape == b.shape
                np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name, args", [
    ("dequantize_per_tensor.default", (BYTES, 0.03, 7, 0, 255, "int8")),
    ("quantize_per_tensor.default", (X, 0.03, 7, 0, 256, "uint8")),
    ("quantize_per_tensor.default", (X.astype(np.float64), 0.03, 7, 0, 255, "uint8")),
    ("quantize_per_tensor.tensor", (X, np.float32([1, 2]), np.array([7]), 0, 255, "uint8")),
    ("choose_qparams.tensor", (X[:0], 0, 255, 1e-5, "uint8")),
    ("dequantize_per_channel_group.default", (GROUPS, FINE, None, -8, 7, "int8", 5, "float32")),
])
def test_what_does_not_fit_is_refused(name, args):
    for t in (torch, rushlight):
        with pytest.raises((AssertionError, RuntimeError)):
            results(t, name, args)


def test_bounds_that_do_not_fit_are_refused_after_others():
    """A bound that has varied is a number of the program's run, and is checked all the same."""
    x, quantize = rushlight.from_numpy(X), rushlight.ops.quantized_decomposed.quantize_per_tensor
    for most in (255, 254, 200, 7):
        assert quantize(x, 0.03, 7, 0, most, rushlight.uint8).max() == most
    for least, most in ((0, 256), (-1, 255), (0, 300)):
        with pytest.raises(AssertionError, match="has the range 0 to 255"):
            quantize(x, 0.03, 7, least, most, rushlight.uint8)


def test_gradients_go_straight_through():
    found = []
    for t in (torch, rushlight):
        x, scales, zeros = given(t, (X, SCALES, ZEROS))
        x.requires_grad_()
        t.ops.quantized_decomposed.fake_quant_per_channel(x, scales, zeros, 1, -50, 50).sum().backward()
        found.append(x.grad.numpy())
    assert np.array_equal(*found)


def test_graphs_name_the_overload():
    d = rushlight.ops.quantized_decomposed

    class Model(rushlight.nn.Module):
        def forward(self, x, scale, zero):
            q = d.quantize_per_tensor.default(x, 0.1, 3, 0, 255, rushlight.uint8)
            return d.dequantize_per_tensor.tensor(q, scale, zero, 0, 255, rushlight.uint8)

    inputs = given(rushlight, (X, np.float32([0.1]), np.array([3])))
    graph = rushlight.export.export(Model(), tuple(inputs)).graph
    assert [n.target for n in graph.nodes if n.op == "call_function"] == [d.quantize_per_tensor.default,
                                                                          d.dequantize_per_tensor.tensor]


@pytest.mark.parametrize("dtypes", [("int8", "int8", "int32"), ("float32", "float32", "int32"),
                                    ("bfloat16", "bfloat16", "float32")])
def test_results_in_another_dtype(dtypes):
    found = []
    for t in (torch, rushlight):
        from_module = importlib.import_module(f"{t.__name__}._higher_order_ops.out_dtype")
        a, b = (t.tensor(np.arange(12).reshape(3, 4) * 9 + k).to(getattr(t, dtypes[k])) for k in range(2))
        out = from_module.out_dtype(t.ops.aten.mm.default, getattr(t, dtypes[2]), a, b.t())
        found.append((str(out.dtype), out.tolist()))
    assert found[0] == found[1]
