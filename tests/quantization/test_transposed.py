"""Transposed convolutions of bytes: their meaning bit for bit, and PyTorch's."""
import importlib

import numpy as np
import pytest

import rushlight

from .judge import BOTH, torch, units

pytestmark = [pytest.mark.processor, pytest.mark.filterwarnings("ignore")]
rng = np.random.default_rng(3)
# rank, groups, kernel, stride, padding, output padding, dilation
SHAPES = [(1, 1, 3, 2, 1, 1, 1), (2, 1, 3, 1, 0, 0, 1), (2, 2, 4, 2, 1, 0, 1), (2, 1, 3, 2, 1, 1, 2),
          (2, 8, 3, 2, 1, 1, 1), (2, 1, 2, 3, 0, 2, 1), (2, 1, 2, 1, 2, 0, 1), (2, 1, 1, 2, 0, 0, 1),
          (3, 2, 3, 2, 1, 0, 1)]


def quantized(t, x, scale=0.05, zero_point=30):
    return t.quantize_per_tensor(t.tensor(x), scale, zero_point, t.quint8)


def packed(t, w, b, rank, groups, kernel, stride, padding, more, dilation):
    weight = t.quantize_per_tensor(t.tensor(w), 0.02, 0, t.qint8)
    sizes = [[n] * rank for n in (stride, padding, more, dilation)]
    return getattr(t.ops.quantized, f"conv_transpose{rank}d_prepack")(weight, t.tensor(b), *sizes, groups)


def parts(rank, groups, kernel):
    return (rng.standard_normal((2, 8, *[5] * rank)).astype(np.float32),
            rng.standard_normal((8, 8 // groups, *[kernel] * rank)).astype(np.float32),
            rng.standard_normal(8).astype(np.float32))


@pytest.mark.parametrize("shape", SHAPES)
def test_transposed_convolutions_agree(shape):
    rank, groups, kernel = shape[:3]
    x, w, b = parts(rank, groups, kernel)

    def program(t):
        return getattr(t.ops.quantized, f"conv_transpose{rank}d")(quantized(t, x), packed(t, w, b, *shape), 0.1, 60)

    largest, share = units(program)
    assert largest <= 1 and share < 0.004


@pytest.mark.parametrize("shape", SHAPES)
def test_dynamic_ones_are_their_meaning(shape):
    """Results are floats; PyTorch rounds them to the scale of the input."""
    rank, groups, kernel, stride, padding, more, dilation = shape
    x, w, b = parts(rank, groups, kernel)
    weight, bias = packed(rushlight, w, b, *shape), rushlight.tensor(b)
    out = getattr(rushlight.ops.quantized, f"conv_transpose{rank}d_dynamic")(rushlight.tensor(x), weight, True)
    seen = rushlight.quantize_per_tensor_dynamic(rushlight.tensor(x), rushlight.quint8, True).dequantize()
    wanted = getattr(rushlight.nn.functional, f"conv_transpose{rank}d")(
        seen, weight.weight().dequantize(), bias, stride, padding, more, groups, dilation)
    assert (out - wanted).abs().max() < 2e-5


@pytest.mark.parametrize("zero_point", [0, 30])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_exact(shape, zero_point):
    """Results are those of integers, bit for bit."""
    rank, groups, kernel, stride, padding, more, dilation = shape
    x, w, b = parts(rank, groups, kernel)
    qx, weight = quantized(rushlight, x, zero_point=zero_point), packed(rushlight, w, b, *shape)
    out = getattr(rushlight.ops.quantized, f"conv_transpose{rank}d")(qx, weight, 0.1, 60)
    q = qx.int_repr().numpy().astype(np.int64) - zero_point
    whole, full = weight.weight().int_repr().numpy().astype(np.int64), [4 * stride + dilation * (kernel - 1) + 1] * rank
    sums, ins, outs = np.zeros((2, 8, *(n + more for n in full)), np.int64), 8 // groups, 8 // groups
    for g in range(groups):
        for at in np.ndindex(*[kernel] * rank):
            there = tuple(slice(a * dilation, a * dilation + 4 * stride + 1, stride) for a in at)
            tap = whole[(slice(g * ins, (g + 1) * ins), slice(None), *at)]
            sums[(slice(None), slice(g * outs, (g + 1) * outs), *there)] += np.einsum(
                "nc...,co->no...", q[:, g * ins:(g + 1) * ins], tap)
    inside = tuple(slice(padding, n - padding + more) for n in full)
    sums, line = sums[(slice(None), slice(None), *inside)], (1, -1, *[1] * rank)
    multiplier = np.float32(0.02) * np.float32(0.05) / np.float32(0.1)
    wanted = np.rint(sums.astype(np.float32) * multiplier + (b / np.float32(0.1)).reshape(line)) + 60
    assert (out.int_repr().numpy() == np.clip(wanted, 0, 255)).all()


@pytest.mark.parametrize("mode", ["eager", "fx"])
def test_models_are_converted(mode, monkeypatch):
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.ReLU(),
                                 torch.nn.ConvTranspose2d(8, 4, 4, 2, 1), torch.nn.ConvTranspose2d(4, 2, 3)).eval()
    ours = rushlight.nn.Sequential(*(getattr(rushlight.nn, type(m).__name__)(*args) for m, args in zip(
        theirs, ((3, 8, 3, 2, 1), (), (8, 4, 4, 2, 1), (4, 2, 3))))).eval()
    ours.load_state_dict({k: rushlight.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    data, found = rng.standard_normal((4, 3, 12, 12)).astype(np.float32), []
    monkeypatch.setattr(torch.backends.quantized, "engine", "fbgemm")  # x86 is wrong for these channels
    for t, model in zip(BOTH, (ours, theirs)):
        q, x = t.ao.quantization, t.tensor(data)
        if mode == "fx":
            fx = importlib.import_module(f"{t.__name__}.ao.quantization.quantize_fx")
            prepared = fx.prepare_fx(model, q.get_default_qconfig_mapping("x86"), (x,))
            prepared(x)
            made = fx.convert_fx(prepared)
        else:
            model = q.QuantWrapper(model)
            model.qconfig = q.QConfig(activation=q.default_observer, weight=q.default_weight_observer)
            made = q.quantize(model, lambda m: m(x), ())
        assert [type(m).__name__ for m in made.modules()].count("ConvTranspose2d") == 2
        found.append((made(x).detach().numpy(), model(x).detach().numpy(), made))
    (a, wanted, made), (b, _, other) = found
    power = (wanted ** 2).sum()
    assert 10 * np.log10(power / ((a - wanted) ** 2).sum()) > 28
    assert 10 * np.log10(power / ((a - b) ** 2).sum()) > 28
    assert list(made.state_dict()) == list(other.state_dict())
    with rushlight.no_grad():
        x = rushlight.tensor(data)
        assert (rushlight.compile(made, fullgraph=True)(x) - made(x)).abs().max() == 0
    fresh = next(m for m in made.modules() if type(m).__name__ == "ConvTranspose2d")
    turned = rushlight.ao.nn.quantized.ConvTranspose2d(8, 4, 4, 2, 1)
    turned.load_state_dict(fresh.state_dict())
    assert repr(turned) == repr(fresh) and (turned.weight().int_repr() == fresh.weight().int_repr()).all()


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d"])
def test_dynamic_layers(name):
    x, found = rng.standard_normal((2, 4, *[9] * int(name[-2]))).astype(np.float32), []
    for t in BOTH:
        layer = getattr(t.nn, name)(4, 6, 3, 2, 1)
        layer.qconfig = t.ao.quantization.default_dynamic_qconfig
        made = getattr(t.ao.nn.quantized.dynamic, name).from_float(layer)
        found.append((repr(made), list(made.state_dict()), tuple(made(t.tensor(x)).shape)))
    assert found[0] == found[1]
    layer = getattr(rushlight.nn, name)(4, 6, 3, 2, 1)
    layer.qconfig = rushlight.ao.quantization.default_dynamic_qconfig
    made = getattr(rushlight.ao.nn.quantized.dynamic, name).from_float(layer)
    with rushlight.no_grad():
        assert (made(rushlight.tensor(x)) - layer(rushlight.tensor(x))).abs().max() < 0.1
    with pytest.raises(ValueError, match="Input shape must be"):
        made(rushlight.ones(4, 9))


def test_a_scale_for_each_channel_is_refused():
    model = rushlight.nn.Sequential(rushlight.nn.ConvTranspose2d(2, 2, 3))
    model.qconfig = rushlight.ao.quantization.get_default_qconfig("x86")
    with pytest.raises(AssertionError, match="Per channel"):
        rushlight.ao.quantization.quantize(model, lambda m: m(rushlight.ones(1, 2, 3, 3)), ())
