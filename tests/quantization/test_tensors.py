"""Quantized tensors against PyTorch's: numbers, what is asked of them, files, and operators that have a form for
them."""
import copy
import io
import pickle
import warnings

import numpy as np
import pytest

import rushlight
from rushlight._src.core.op import OPS

from .judge import distance, torch, units

pytestmark = [pytest.mark.processor, pytest.mark.filterwarnings("ignore")]
rng = np.random.default_rng(0)
X = (rng.standard_normal((2, 8, 9, 9)) * 3).astype(np.float32)


@pytest.fixture(autouse=True)
def numbers_of_others():
    """What the rules for quantized tensors need to know of a number stays a run-time value for all other tensors."""
    def structure():
        return {name: set(op.caches["experience"].structure) for name, op in OPS.items()
                if "experience" in op.caches and "quantized" in op.rules}
    before = structure()
    yield
    assert not {name: found for name, found in structure().items() if found - before.get(name, set())}



def quantized(t, x=X, scale=0.05, zero_point=60, dtype="quint8"):
    return t.quantize_per_tensor(t.tensor(x), scale, zero_point, getattr(t, dtype))


@pytest.mark.parametrize("dtype", ["quint8", "qint8", "qint32"])
@pytest.mark.parametrize("scale, zero_point", [(0.05, 0), (0.1, 3), (1e-3, 17), (1.0, 3)])
def test_numbers(dtype, scale, zero_point):
    x = np.concatenate([X.ravel(), scale * (np.arange(64) / 2), [0.0, -0.0]]).astype(np.float32)
    largest, share = units(lambda t: quantized(t, x, scale, zero_point, dtype))
    assert largest <= 1 and share < 0.01  # PyTorch does not round between the product and the sum
    assert largest or distance(lambda t: quantized(t, x, scale, zero_point, dtype).dequantize()) == 0


def test_what_is_too_large_is_cut_off():
    x = np.array([1e10, -1e10, np.inf, -np.inf], np.float32)
    for dtype in ("quint8", "qint8"):
        assert units(lambda t: quantized(t, x, 0.1, 3, dtype)) == (0, 0)
    assert quantized(rushlight, x, 0.1, 3, "qint32").int_repr().tolist() == [2**31 - 1, -2**31] * 2


@pytest.mark.parametrize("zero_points", [[0, 1, 2, 3], [0.0, 1.5, 2.0, 3.25]])
@pytest.mark.parametrize("axis", [0, 1])
def test_channels(zero_points, axis):
    x = X[0, :4, :4]
    program = lambda t: t.quantize_per_channel(t.tensor(x), t.tensor([0.1, 0.2, 0.3, 0.4]), t.tensor(zero_points), axis,
                                               t.quint8)
    ours, theirs = program(rushlight), program(torch)
    assert ours.int_repr().tolist() == theirs.int_repr().tolist() and repr(ours.qscheme()) == repr(theirs.qscheme())
    assert distance(lambda t: program(t).dequantize()) == 0 and ours.q_per_channel_axis() == axis
    for name in ("q_per_channel_scales", "q_per_channel_zero_points"):
        assert repr(getattr(ours, name)()) == repr(getattr(theirs, name)())
    assert repr(ours) == repr(theirs)


SAME = {
    "relu": lambda t, x: t.relu(x), "relu_": lambda t, x: x.clone().relu_(),
    "relu6": lambda t, x: t.nn.functional.relu6(x), "clamp": lambda t, x: t.clamp(x, -1, 1),
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x),
    "max_pool2d": lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1),
    "ceil_mode": lambda t, x: t.nn.functional.max_pool2d(x, 2, 2, ceil_mode=True),
    "max_pool1d": lambda t, x: t.nn.functional.max_pool1d(x[0], 3),
    "avg_pool2d": lambda t, x: t.nn.functional.avg_pool2d(x, 3, 2, 1),
    "adaptive": lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, (4, 3)),
    "mean": lambda t, x: x.mean((2, 3)), "sigmoid": lambda t, x: t.sigmoid(x), "tanh": lambda t, x: t.tanh(x),
    "hardsigmoid": lambda t, x: t.nn.functional.hardsigmoid(x),
    "nearest": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2), "cat": lambda t, x: t.cat([x, x], 1),
    "reshape": lambda t, x: x.reshape(2, -1),
    "permute": lambda t, x: x.permute(0, 2, 3, 1), "index": lambda t, x: x[0, 1:3],
    "flatten": lambda t, x: t.flatten(x, 1), "clone": lambda t, x: x.clone(),
    "channels_last": lambda t, x: x.contiguous(memory_format=t.channels_last), "sort": lambda t, x: t.sort(x)[0],
    "max": lambda t, x: x.max(),
    "topk": lambda t, x: x.topk(3)[0], "copy_": lambda t, x: x.clone().copy_(x.dequantize() * 2),
    "chunk": lambda t, x: t.chunk(x, 2, 1)[1],
    "stack": lambda t, x: t.stack([x, x]), "squeeze": lambda t, x: x.unsqueeze(0).squeeze(),
    "index_select": lambda t, x: t.index_select(x, 1, t.tensor([0, 2])),
    "dropout": lambda t, x: t.nn.functional.dropout(x, 0.5, False),
    "transpose": lambda t, x: x.transpose(1, 2).contiguous(), "deepcopy": lambda t, x: copy.deepcopy(x)}
TIES = {"leaky_relu": lambda t, x: t.nn.functional.leaky_relu(x, 0.1),
        "bilinear": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")}


@pytest.mark.parametrize("name", SAME)
def test_operators(name):
    assert units(lambda t: SAME[name](t, quantized(t))) == (0, 0)


@pytest.mark.parametrize("name", TIES)
def test_operators_that_round_otherwise(name):
    largest, share = units(lambda t: TIES[name](t, quantized(t)))
    assert largest <= 1 and share < 0.02


REFUSED = {"add": lambda t, x: x + x, "sum": lambda t, x: x.sum(), "to": lambda t, x: x.to(t.float32),
           "numpy": lambda t, x: x.numpy(),
           "zeros_like": lambda t, x: t.zeros_like(x), "where": lambda t, x: t.where(x == x, x, x),
           "mul": lambda t, x: x * 2}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused(name):
    with pytest.raises((NotImplementedError, RuntimeError, TypeError)):
        REFUSED[name](rushlight, quantized(rushlight))
    with pytest.raises((NotImplementedError, RuntimeError, TypeError)):
        REFUSED[name](torch, quantized(torch))


@pytest.mark.parametrize("kind", ["quint8", "qint8"])
@pytest.mark.parametrize("call", [
    lambda t, x: t.nn.functional.hardsigmoid(x, inplace=True), lambda t, x: t.nn.functional.hardsigmoid(x, True),
    lambda t, x: t._C._nn.hardsigmoid_(x), lambda t, x: t.nn.Hardsigmoid(inplace=True)(x),
    lambda t, x: t.nn.functional.relu(x, inplace=True), lambda t, x: t.nn.functional.relu6(x, inplace=True),
    lambda t, x: t.nn.functional.hardtanh(x, -1.0, 0.5, inplace=True),
    lambda t, x: t.nn.functional.leaky_relu(x, 0.1, inplace=True), lambda t, x: t.relu_(x)])
def test_activations_in_place_change_the_input(call, kind):
    told = []
    for t in (rushlight, torch):
        x = t.quantize_per_tensor(t.linspace(-4, 4, 12).reshape(3, 4), 0.05, -3 if kind == "qint8" else 100,
                                  getattr(t, kind))
        view = x[1]  # the same memory: it keeps its own scale
        assert call(t, x) is x
        told.append([(one.int_repr().tolist(), one.q_scale(), one.q_zero_point()) for one in (x, view)])
    assert told[0] == told[1]


def test_files_of_either_are_read_by_the_other():
    def made(t):
        return [quantized(t), t.quantize_per_channel(t.tensor(X[0, :2, 0]), t.tensor([0.1, 0.2]), t.tensor([0, 1]), 0,
                                                     t.qint8), t.quint8, t.per_tensor_affine]

    ours, theirs = made(rushlight), made(torch)
    for written, by, read_by, wanted in ((ours, rushlight, torch, theirs), (theirs, torch, rushlight, ours),
                                         (ours, rushlight, rushlight, ours)):
        file = io.BytesIO()
        by.save(written, file)
        file.seek(0)
        found = read_by.load(file)
        assert repr(found) == repr(wanted)
    assert rushlight.equal(pickle.loads(pickle.dumps(ours[1])), ours[1])


@pytest.mark.parametrize("call, error", [
    (lambda t, x: t.quantize_per_tensor(x, 0.1, 300, t.quint8), RuntimeError),
    (lambda t, x: t.quantize_per_tensor(x.double(), 0.1, 3, t.quint8), RuntimeError),
    (lambda t, x: t.quantize_per_tensor(x, 0.1, 3, t.uint8), RuntimeError),
    (lambda t, x: x.q_scale(), NotImplementedError), (lambda t, x: x.int_repr(), NotImplementedError),
    (lambda t, x: quantized(t).q_per_channel_axis(), RuntimeError)])
def test_errors(call, error):
    for t in (rushlight, torch):
        with pytest.raises(error):
            call(t, t.ones(3))


def test_compiled_as_one_graph():
    def program(x):
        q = rushlight.relu(rushlight.quantize_per_tensor(x, 0.1, 3, rushlight.quint8))
        return rushlight.nn.functional.max_pool2d(q, 2).reshape(-1).dequantize() * q.q_scale()

    x = rushlight.tensor(X)
    assert rushlight.equal(rushlight.compile(program, fullgraph=True)(x), program(x))


def test_tensors_of_another_scale_are_another_case():
    compiled = rushlight.compile(lambda q: q.dequantize())
    for scale in (0.1, 0.2):
        q = quantized(rushlight, scale=scale)
        assert rushlight.equal(compiled(q), q.dequantize())


def test_dynamic():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in (X, X - 20, X + 20, X * 1e-7, X * 0):
            assert units(lambda t: t.quantize_per_tensor_dynamic(t.tensor(x), t.quint8, True)) == (0, 0)


def test_writes_one_after_another_under_compile():
    from rushlight.nn import functional as F

    def call(x):
        q = F.hardsigmoid(rushlight.quantize_per_tensor(x, 0.1, 0, rushlight.quint8), inplace=True)
        return F.hardtanh(F.relu(q, inplace=True), 0.1, 0.9, inplace=True)

    x = rushlight.linspace(-3, 3, 6).reshape(2, 3)
    assert rushlight.equal(rushlight.compile(call)(x).int_repr(), call(x).int_repr())
