"""Layers between dequantize and quantize run on integers once parameters are frozen, and give equal results."""
import numpy as np
import pytest

import rushlight as torch
from rushlight._src.capture import freezing

pytestmark = pytest.mark.processor

D = torch.ops.quantized_decomposed
F = torch.nn.functional
U8, I8 = (0, 255, torch.uint8), (-128, 127, torch.int8)
R = np.random.default_rng(0)


def noise(*shape):
    return torch.tensor(R.standard_normal(shape).astype(np.float32))


def rounded(x, scale=0.05, zero=100, kind=U8):
    return D.dequantize_per_tensor.default(D.quantize_per_tensor.default(x, scale, zero, *kind), scale, zero, *kind)


class Layer(torch.nn.Module):
    """A layer as quantization after export writes it: ``run(x, weight, bias)`` between dequantize and quantize."""

    def __init__(self, run, weight, channels=True, bias=True, kind=U8, zero=100):
        super().__init__()
        self.run, self.kind, self.zero, self.channels = run, kind, zero, channels
        self.register_buffer("weight", torch.tensor(R.integers(-128, 128, weight).astype(np.int8)))
        self.register_buffer("scales", torch.tensor((R.random(weight[0]) * 0.01 + 0.001).astype(np.float32)))
        self.register_buffer("zeros", torch.zeros(weight[0], dtype=torch.int64))
        self.bias = torch.nn.Parameter(noise(weight[0])) if bias else None

    def forward(self, x):
        w = D.dequantize_per_channel.default(self.weight, self.scales, self.zeros, 0, *I8) if self.channels else \
            D.dequantize_per_tensor.default(self.weight, 0.01, 0, *I8)
        y = torch.relu(self.run(rounded(x, 0.05, self.zero, self.kind), w, self.bias))
        return D.quantize_per_tensor.default(y, 0.05, 3, *U8), y


CASES = {
    "linear": (lambda: Layer(F.linear, (48, 64)), (3, 5, 64), "_decomposed_linear"),
    "linear of one row": (lambda: Layer(F.linear, (48, 64), bias=False), (1, 64), "_decomposed_linear"),
    "linear of one scale": (lambda: Layer(F.linear, (33, 20), channels=False, kind=I8, zero=-7), (7, 20),
                            "_decomposed_linear"),
    "linear around 0": (lambda: Layer(F.linear, (33, 20), kind=I8, zero=0), (7, 20), "_decomposed_linear"),
    "conv2d": (lambda: Layer(lambda x, w, b: F.conv2d(x, w, b, 2, 1), (16, 8, 3, 3)), (2, 8, 9, 9),
               "_decomposed_convolution"),
    "conv2d that is viewed": (lambda: Layer(lambda x, w, b: F.conv2d(x, w, b).view(2, -1), (16, 8, 3, 3)), (2, 8, 9, 9),
                              "_decomposed_convolution"),
    "conv2d of groups": (lambda: Layer(lambda x, w, b: F.conv2d(x, w, b, 1, 1, 1, 8), (8, 1, 3, 3)), (2, 8, 9, 9),
                         "_decomposed_convolution"),
    "conv1d": (lambda: Layer(lambda x, w, b: F.conv1d(x, w, b, dilation=2), (16, 8, 3), kind=I8, zero=5), (2, 8, 19),
               "_decomposed_convolution"),
}


def frozen(model, inputs, monkeypatch):
    """(results of the frozen program, the operators that it runs)."""
    seen, fold = [], freezing.fold

    def watched(graph, known):
        found = fold(graph, known)
        seen.extend(n.op.name for n in found[0].nodes)
        return found

    monkeypatch.setattr(freezing, "fold", watched)
    with torch.no_grad():
        return torch.compile(model, options={"freezing": True})(*inputs), seen


def agree(found, expected):
    assert np.abs(found[0].numpy().astype(int) - expected[0].numpy().astype(int)).max() <= 1
    assert (found[0] != expected[0]).float().mean() < 0.01
    np.testing.assert_allclose(found[1].numpy(), expected[1].numpy(), rtol=1e-4, atol=1e-4)
    assert tuple(found[1].stride()) == tuple(expected[1].stride())


@pytest.mark.parametrize("name", CASES)
def test_layers_run_on_whole_numbers(name, monkeypatch):
    make, shape, operator = CASES[name]
    model, x = make().eval(), noise(*shape)
    with torch.no_grad():
        expected = model(x)
    found, seen = frozen(model, (x,), monkeypatch)
    assert operator in seen and not any("dequantize" in n for n in seen)
    agree(found, expected)


def test_products_of_two_values(monkeypatch):
    class Straight(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("factor", torch.tensor(0.5))

        def forward(self, q, k):
            y = torch.matmul(rounded(q * self.factor, 0.03, 120), rounded(k, 0.02, -9, I8))
            return D.quantize_per_tensor.default(y, 0.1, 100, *U8), y

    inputs = noise(2, 3, 8, 16), noise(2, 3, 16, 9)
    found, seen = frozen(Straight(), inputs, monkeypatch)
    agree(found, Straight()(*inputs))
    assert "_decomposed_matmul" in seen


def chosen(x):
    """Rounded by a scale and a zero point that follow from the values."""
    scale, zero = D.choose_qparams.tensor(x, 0, 255, 1e-5, torch.uint8)
    return D.dequantize_per_tensor.tensor(D.quantize_per_tensor.tensor(x, scale, zero, *U8), scale, zero, *U8)


@pytest.mark.parametrize("shape", [(3, 5, 64), (1, 64)])
def test_linear_layers_whose_scales_are_chosen_as_they_run(shape, monkeypatch):
    class Dynamic(Layer):
        def forward(self, x):
            return (F.linear(chosen(x), D.dequantize_per_channel.default(self.weight, self.scales, self.zeros, 0, *I8),
                             self.bias),)

    model, x = Dynamic(F.linear, (48, 64)).eval(), noise(*shape)
    with torch.no_grad():
        expected = model(x)[0]
    (found,), seen = frozen(model, (x,), monkeypatch)
    assert "_decomposed_linear_dynamic" in seen and not any("dequantize" in n for n in seen)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("change", ["zeros", "wide", "axis"])
def test_what_is_no_such_layer_stays(change, monkeypatch):
    model = Layer(F.linear, (20, 20)).eval()
    if change == "zeros":
        model.zeros += 1
    elif change == "wide":
        model.run = lambda x, w, b: F.linear(x + 1, w, b)
    else:
        model.run = lambda x, w, b: F.linear(x, w.t(), b)
    x = noise(4, 20)
    with torch.no_grad():
        expected = model(x)
    found, seen = frozen(model, (x,), monkeypatch)
    assert "_decomposed_linear" not in seen
    agree(found, expected)


class Encoder(torch.nn.Module):
    """Attention and two layers of bytes; places are written into a tensor made within, as exported models write."""

    def __init__(self):
        super().__init__()
        self.words, self.query, self.out = torch.nn.Embedding(20, 32), Layer(F.linear, (32, 32)), Layer(F.linear,
                                                                                                       (32, 32))

    def forward(self, ids):
        kinds = torch.zeros(ids.shape, dtype=torch.int64)
        kinds[:, ::2].fill_(1)
        x = self.words(ids) + kinds.unsqueeze(-1)
        y = self.query(x)[1]
        y = torch.softmax(torch.matmul(y, y.transpose(1, 2)) * 0.1, -1)
        return self.out(torch.matmul(y, x))


def test_programs_that_write_into_what_they_made_are_frozen(monkeypatch):
    model, ids = Encoder().eval(), torch.tensor(R.integers(0, 20, (2, 7)))
    with torch.no_grad():
        expected = model(ids)
    found, seen = frozen(model, (ids,), monkeypatch)
    assert seen.count("_decomposed_linear") == 2 and "fill_" in seen and not any("dequantize" in n for n in seen)
    agree(found, expected)
    noise = (expected[1] - found[1]).double().square().sum() / expected[1].double().square().sum()
    assert noise < 1e-8  # 80 dB


def weight(model):
    return D.dequantize_per_channel.default(model.weight, model.scales, model.zeros, 0, *I8)


def values_that_change(model, x):
    x = rounded(x)
    x.mul_(2)
    return F.linear(x, weight(model))


def bytes_that_change(model, x):
    whole = D.quantize_per_tensor.default(x, 0.05, 100, *U8)
    x = D.dequantize_per_tensor.default(whole, 0.05, 100, *U8)
    whole.fill_(7)
    return F.linear(x, weight(model)), whole


def weights_that_change(model, x):
    found = weight(model)
    found[3:5].mul_(2)
    return F.linear(rounded(x), found)


def parameters_that_are_copied(model, x):
    bias = model.bias.detach().clone()
    bias.view(4, 12)[1].add_(x.mean())
    return F.linear(rounded(x), weight(model), bias)


def parameters_that_change(model, x):
    model.scales.mul_(0.5)
    return F.linear(rounded(x), weight(model))


def inputs_that_change(model, x):
    y = F.linear(rounded(x), weight(model))
    x[0].add_(1)
    return y


@pytest.mark.parametrize("body, whole", [(values_that_change, False), (bytes_that_change, False),
                                         (weights_that_change, False), (parameters_that_are_copied, True),
                                         (parameters_that_change, None), (inputs_that_change, None)])
def test_what_is_written_to_is_computed_anew_by_each_call(body, whole, monkeypatch):
    model, plain = Layer(F.linear, (48, 64)).eval(), Layer(F.linear, (48, 64)).eval()
    plain.load_state_dict(model.state_dict())
    one, other = noise(3, 64), noise(3, 64)
    seen = []
    monkeypatch.setattr(freezing, "fold", lambda *args, fold=freezing.fold: seen.append(fold(*args)) or seen[-1])
    fast = torch.compile(lambda x: body(model, x), options={"freezing": True})
    with torch.no_grad():
        for x in (one, other, one):
            given, same = x.clone(), x.clone()
            for found, expected in zip(*(made if isinstance(made, tuple) else (made,)
                                         for made in (fast(given), body(plain, same)))):
                np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
            assert (given == same).all() and (model.scales == plain.scales).all()
    assert len(seen) == (whole is not None)
    assert not seen or whole == any(n.op.name == "_decomposed_linear" for n in seen[0][0].nodes)


def test_norms_after_writes_stay_where_they_are(monkeypatch):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
            self.norm.running_mean += 0.5

        def forward(self, x):
            x = x * 2
            y = self.conv(x)
            x.zero_()
            return self.norm(y) + x.sum()

    model, x = Model().eval(), noise(1, 3, 6, 6)
    with torch.no_grad():
        expected = model(x)
    found, seen = frozen(model, (x,), monkeypatch)
    assert "zero_" in seen or "fill_" in seen
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
