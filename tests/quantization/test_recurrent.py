"""Recurrent layers of prepared weights against PyTorch."""
import io

import numpy as np
import pytest

import rushlight

from .judge import BOTH, torch

pytestmark = pytest.mark.filterwarnings("ignore")
NETWORKS = {"plain": {}, "deep": {"num_layers": 3, "dropout": 0.5, "batch_first": True},
            "both ways": {"num_layers": 2, "bidirectional": True}}
CELLS = {"LSTMCell": {}, "GRUCell": {}, "RNNCell": {}, "RNNCell relu": {"nonlinearity": "relu"}}
DTYPES = "qint8", "float16"


def pair(kind, **options):
    """Quantized forms of one float layer, here and there."""
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(getattr(torch.nn, kind)(6, 8, **options))
    ours = rushlight.nn.Sequential(getattr(rushlight.nn, kind)(6, 8, **options))
    ours.load_state_dict({k: rushlight.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def quantized(t, model, dtype):
    return t.ao.quantization.quantize_dynamic(model, dtype=getattr(t, dtype))[0]


def numbers(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def flat(value):
    if hasattr(value, "detach"):
        return [value.detach().numpy()]
    return [one for part in value if part is not None for one in flat(part)]


def agree(a, b):
    """Results agree to rounding."""
    a, b = flat(a), flat(b)
    assert [x.shape for x in a] == [x.shape for x in b]
    for x, y in zip(a, b):
        np.testing.assert_allclose(x, y, atol=2e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", NETWORKS)
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_networks_agree(kind, options, dtype):
    options, found = NETWORKS[options], []
    for t, model in zip(BOTH, pair(kind, **options)):
        made, layers = quantized(t, model, dtype), options.get("num_layers", 1) * (1 + ("bidirectional" in options))
        state = [t.tensor(numbers(layers, 5, 8)) for _ in range(1 + (kind == "LSTM"))]
        x = t.tensor(numbers(7, 5, 6) if "batch_first" not in options else numbers(5, 7, 6))
        found.append((made(x), made(x, tuple(state) if kind == "LSTM" else state[0])))
        assert repr(made) == f"DynamicQuantized{kind}{str(model[0])[len(kind):]}"
    agree(*found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_packed_sequences_agree(kind, dtype):
    """What is not there has no part in extremes, wherever a direction begins."""
    found = []
    for t, model in zip(BOTH, pair(kind, num_layers=2, bidirectional=True)):
        made, pack = quantized(t, model, dtype), t.nn.utils.rnn.pack_sequence
        packed = pack([t.tensor(numbers(length, 6)) for length in (2, 7, 5)], enforce_sorted=False)
        h = t.tensor(numbers(4, 3, 8)) * 3
        out, state = made(packed, (h, h) if kind == "LSTM" else h)
        found.append((out.data, state))
    agree(*found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CELLS)
def test_cells_agree(name, dtype):
    found, kind = [], name.split()[0]
    for t, model in zip(BOTH, pair(kind, **CELLS[name])):
        made, x, h = quantized(t, model, dtype), t.tensor(numbers(3, 6)), t.tensor(numbers(3, 8))
        found.append((made(x), made(x, (h, h) if kind == "LSTMCell" else h)))
        with pytest.raises(RuntimeError, match="inconsistent input_size"):
            made(x[:, :5])
        with pytest.raises(RuntimeError, match="doesn't match hidden"):
            made(x[:2], (h, h) if kind == "LSTMCell" else h)
    agree(*found)


def crossed(source, target, value):
    file = io.BytesIO()
    source.save(value, file)
    file.seek(0)
    return target.load(file, weights_only=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "LSTMCell", "RNNCell", "Linear"])
def test_state_dicts_cross(kind, dtype):
    ours, theirs = (quantized(t, model, dtype) for t, model in zip(BOTH, pair(kind)))
    fresh, other = (quantized(t, t.nn.Sequential(getattr(t.nn, kind)(6, 8)), dtype) for t in BOTH)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    fresh.load_state_dict(crossed(torch, rushlight, theirs.state_dict()))
    other.load_state_dict(crossed(rushlight, torch, ours.state_dict()))
    x = numbers(4, 6) if kind.endswith(("Cell", "Linear")) else numbers(4, 3, 6)
    agree(fresh(rushlight.tensor(x)), theirs(torch.tensor(x)))
    agree(ours(rushlight.tensor(x)), other(torch.tensor(x)))
    again = crossed(rushlight, rushlight, ours)  # the whole module
    agree(again(rushlight.tensor(x)), theirs(torch.tensor(x)))
    if hasattr(ours, "get_weight"):
        for part in ("get_weight", "get_bias"):
            a, b = getattr(ours, part)(), getattr(theirs, part)()
            assert list(a) == list(b)
            agree([v.dequantize() if v.is_quantized else v for v in a.values()],
                  [v.dequantize() if v.is_quantized else v for v in b.values()])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRUCell"])
def test_compiled_in_one_graph(kind, dtype):
    made = quantized(rushlight, pair(kind)[0], dtype)
    x = rushlight.tensor(numbers(4, 6) if kind.endswith("Cell") else numbers(40, 3, 6))
    with rushlight.no_grad():
        agree(rushlight.compile(made, fullgraph=True)(x), made(x))


def test_operators_agree():
    """torch.ops.quantized has the cells, and prepared weights say what they hold."""
    found = []
    for t in BOTH:
        ops, weight = t.ops.quantized, t.tensor(numbers(32, 8))
        packed = ops.linear_prepack(t.quantize_per_tensor(weight, 0.03, 0, t.qint8), t.tensor(numbers(32)))
        half = ops.linear_prepack_fp16(weight, None)
        x, h = t.tensor(numbers(3, 8)), t.tensor(numbers(1, 3, 8))[0]
        cell = ops.make_quantized_cell_params_dynamic(packed, packed, t.tensor(numbers(32)), t.tensor(numbers(32)),
                                                      True)
        state, name = cell.__getstate__()
        assert name == "__torch__.torch.classes.rnn.CellParamsBase" and state[0] == "quantized_dynamic"
        found.append((ops.quantized_lstm_cell_dynamic(x, [h, h], packed, packed, None, None) if t is rushlight else
                      ops.quantized_lstm_cell_dynamic(x, [h, h], packed, packed, x, x), ops.linear_unpack_fp16(half)[0],
                      ops.linear_dynamic_fp16(x, half), ops.linear_relu_dynamic_fp16(x, half), state[1],
                      state[4][0].__getstate__()[0][0].dequantize()))
    agree(*found)


def test_bad_inputs_are_refused():
    made = quantized(rushlight, pair("LSTM")[0], "qint8")
    for shape, text in (((4, 6), "input must have 3 dimensions, got 2"), ((4, 2, 5), "Expected 6, got 5")):
        with pytest.raises(RuntimeError, match=text):
            made(rushlight.zeros(shape))
    with pytest.raises(RuntimeError, match="Expected hidden size"):
        made(rushlight.zeros(4, 2, 6), (rushlight.zeros(1, 3, 8),) * 2)
    nn = rushlight.nn
    with pytest.raises(NotImplementedError, match="projections"):
        rushlight.ao.quantization.quantize_dynamic(nn.Sequential(nn.LSTM(3, 4, proj_size=2)))
    with pytest.raises(AssertionError, match="bias must be True"):
        rushlight.ao.quantization.quantize_dynamic(nn.Sequential(nn.GRU(3, 4, bias=False)))
    with pytest.raises(ValueError, match="default settings"):
        rushlight.ao.quantization.quantize_dynamic(nn.Sequential(nn.GRU(3, 4)), dtype=rushlight.qint32)
