"""Recurrent layers, attention and transformers beside PyTorch's: outputs, states and gradients for their options,
errors, loading."""
import numpy as np
import pytest
import torch

import rushlight

pytestmark = pytest.mark.sampled  # all cases with `-m long`

RNG = np.random.default_rng(11)


def twins(build):
    """The same module in both frameworks, with the same state; and the names of its state."""
    ours, theirs = build(rushlight), build(torch)
    assert list(ours.state_dict()) == list(theirs.state_dict()) and repr(ours) == repr(theirs)
    ours.load_state_dict({k: rushlight.from_numpy(v.numpy().copy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def flat(value):
    return [v for part in value for v in flat(part)] if isinstance(value, (tuple, list)) else [value]


def compared(build, call, *arrays):
    """What ``call(framework, module, *tensors)`` gives, and the gradients of its sum, in both."""
    found = []
    for framework, module in zip((rushlight, torch), twins(build)):
        tensors = [framework.from_numpy(a.copy()) for a in arrays]
        tensors[0].requires_grad_()
        results = [r for r in flat(call(framework, module, *tensors)) if r is not None]
        sum(r.sum() * (k + 1) for k, r in enumerate(results)).backward()
        found.append([r.detach().numpy() for r in results] + [tensors[0].grad.numpy()]
                     + [p.grad.numpy() for p in module.parameters() if p.grad is not None])
    assert len(found[0]) == len(found[1])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def values(*shape):
    return RNG.normal(size=shape).astype("float32")


@pytest.mark.parametrize("kind, options", [
    ("RNN", {}), ("RNN", {"nonlinearity": "relu", "num_layers": 2, "batch_first": True}),
    ("GRU", {"bidirectional": True, "num_layers": 2}), ("GRU", {"bias": False}),
    ("GRU", {"num_layers": 2, "dropout": 1.0}), ("LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    ("LSTM", {"proj_size": 2, "bidirectional": True})])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_recurrent_layers(kind, options, given, single):
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    x = values(5, 3) if single else values(5, 2, 3) if not options.get("batch_first") else values(2, 5, 3)
    batch = () if single else (2,)
    h, c = values(count, *batch, options.get("proj_size", 4)), values(count, *batch, 4)

    def call(framework, module, x, h, c):
        return module(x, ((h, c) if kind == "LSTM" else h) if given else None)
    compared(lambda f: getattr(f.nn, kind)(3, 4, **options), call, x, h, c)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("steps, batch", [(1, 3), (35, 2), (64, 1), (3, 0)])
def test_any_number_of_steps(kind, steps, batch):
    compared(lambda f: getattr(f.nn, kind)(3, 4), lambda f, module, x: module(x), values(steps, batch, 3))


def test_steps_are_few_programs():
    layer, x = rushlight.nn.GRU(3, 4), rushlight.zeros(70, 2, 3)
    with rushlight.profiler.profile() as seen:
        layer(x)
    calls = {event.key: event.count for event in seen.key_averages()}
    assert calls["aten::_recurrent_steps"] == 4, calls  # 32, 32, 4 and 2


def test_second_derivatives_of_recurrent_layers():
    found = []
    for framework, module in zip((rushlight, torch), twins(lambda f: f.nn.GRU(3, 4))):
        x = framework.from_numpy(np.linspace(-1, 1, 18, dtype=np.float32).reshape(3, 2, 3)).requires_grad_()
        grad, = framework.autograd.grad(module(x)[0].square().sum(), x, create_graph=True)
        found.append(framework.autograd.grad(grad.square().sum(), x)[0].numpy())
    np.testing.assert_allclose(*found, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_no_steps_are_refused(compiled):
    layer = rushlight.nn.LSTM(3, 4)
    for call, x in ((rushlight.compile(layer) if compiled else layer, rushlight.zeros(0, 2, 3)),
                    (torch.nn.LSTM(3, 4), torch.zeros(0, 2, 3))):
        with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0 in RNN"):
            call(x)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_packed_sequences(kind):
    def call(framework, module, x, h, c):
        packed = framework.nn.utils.rnn.pack_padded_sequence(x, [2, 5, 3], enforce_sorted=False)
        out, state = module(packed, (h, c) if kind == "LSTM" else h)
        return framework.nn.utils.rnn.pad_packed_sequence(out)[0], state
    compared(lambda f: getattr(f.nn, kind)(3, 4, bidirectional=True), call, values(5, 3, 3), values(2, 3, 4),
             values(2, 3, 4))


def test_wrong_sequences():
    for framework in (rushlight, torch):
        layer = framework.nn.GRU(3, 4)
        for x, h, error in ((framework.zeros(1, 1, 1, 3), None, ValueError),
                            (framework.zeros(5, 2, 4), None, RuntimeError),
                            (framework.zeros(5, 2, 3), framework.zeros(1, 3, 4), RuntimeError)):
            with pytest.raises(error):
                layer(x, h)


MASK, PADDING = np.triu(np.ones((4, 5), dtype=bool), 2), np.array([[False] * 5, [False, False, False, True, True]])


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bias": False}, {"add_bias_kv": True},
                                     {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True},
                                     {"kdim": 3, "vdim": 5}])
@pytest.mark.parametrize("weights", [False, True, "each head"])
@pytest.mark.parametrize("masked", ["", "mask", "padding", "both"])
def test_multihead_attention(options, weights, masked):
    first = bool(options.get("batch_first"))
    shapes = [(4, 2, 6), (5, 2, options.get("kdim", 6)), (5, 2, options.get("vdim", 6))]
    arrays = [values(*((b, n, e) if first else (n, b, e))) for n, b, e in shapes]

    def call(framework, module, q, k, v):
        return module(q, k, v, framework.from_numpy(PADDING) if masked in ("padding", "both") else None, bool(weights),
                      framework.from_numpy(MASK) if masked in ("mask", "both") else None, weights is True)
    compared(lambda f: f.nn.MultiheadAttention(6, 2, **options), call, *arrays)


@pytest.mark.parametrize("weights", [False, True])
def test_attention_of_single_samples(weights):
    compared(lambda f: f.nn.MultiheadAttention(6, 2),
             lambda f, m, q, k, v: m(q, k, v, f.from_numpy(PADDING[1]), weights), values(4, 6), values(5, 6),
             values(5, 6))
    for framework in (rushlight, torch):
        with pytest.raises(RuntimeError):
            framework.nn.MultiheadAttention(6, 2)(*[framework.zeros(2, 1, 6)] * 3, is_causal=True)


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu", "batch_first": True},
                                     {"bias": False}])
def test_transformers(options):
    def build(framework):
        framework.manual_seed(0)
        return framework.nn.Transformer(6, 2, 2, 1, 8, dropout=0.0, **options)

    def call(framework, module, source, target):
        mask = framework.nn.Transformer.generate_square_subsequent_mask(3)
        return module(source, target, tgt_mask=mask, src_key_padding_mask=framework.from_numpy(PADDING[:, :3].copy()))
    compared(build, call, values(*((2, 3, 6) if options.get("batch_first") else (3, 2, 6))),
             values(*((2, 3, 6) if options.get("batch_first") else (3, 2, 6))))


def test_blocks_of_a_transformer_layer_may_be_replaced():
    class Layer(rushlight.nn.TransformerEncoderLayer):
        def _ff_block(self, x):
            return x * 0

        def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
            return x * 0

    x = rushlight.randn(3, 2, 6)
    layer = Layer(6, 2, 8, norm_first=True, batch_first=True).requires_grad_(False)
    assert rushlight.equal(layer(x), x) and rushlight.equal(layer.eval()(x), x)
    with pytest.raises(RuntimeError, match="relu/gelu"):
        rushlight.nn.TransformerEncoderLayer(6, 2, activation="tanh")


def test_what_does_not_fit_when_loading():
    for framework in (rushlight, torch):
        layer = framework.nn.Sequential(framework.nn.Linear(2, 3), framework.nn.BatchNorm1d(3))
        state = layer.state_dict()
        state["0.weight"], state["other"], state["0.more.deep"] = framework.zeros(2, 2), framework.zeros(
            1), framework.zeros(1)
        del state["1.running_mean"]
        with pytest.raises(RuntimeError) as told:
            layer.load_state_dict(state)
        for text in ("size mismatch for 0.weight", "1.running_mean", "other", "0.more.deep"):
            assert text in str(told.value)
        good = {**layer.state_dict(), "0.bias": framework.nn.Parameter(framework.ones(3)), "other": framework.zeros(1)}
        missing, unexpected = layer.load_state_dict(good, strict=False, assign=True)
        assert missing == [] and unexpected == ["other"] and layer[0].bias is good["0.bias"]


@pytest.mark.parametrize("sort", [False, True])
def test_packed_sequences_compiled(sort):
    from rushlight.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
    rushlight.manual_seed(0)
    network = rushlight.nn.GRU(4, 5, batch_first=True)

    def f(x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=sort)
        out, last = network(packed)
        out, lengths = pad_packed_sequence(out, batch_first=True, padding_value=-1.0)
        return out, last, lengths

    compiled = rushlight.compile(f, fullgraph=True)
    for lengths, longest in (([3, 2, 2], 4), ([2, 1, 1], 3)):
        lengths = rushlight.tensor(sorted(lengths, reverse=True) if sort else lengths)
        x = rushlight.randn(3, longest, 4)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        wanted, got = f(a, lengths), compiled(b, lengths)
        for one, other in zip(wanted, got):
            assert one.shape == other.shape and rushlight.allclose(one, other, atol=1e-5)
        (wanted[0].sum() + wanted[1].sum()).backward(), (got[0].sum() + got[1].sum()).backward()
        assert rushlight.allclose(a.grad, b.grad, atol=1e-5)
    assert compiled.owner.stats.segments <= 2
    for wrong, text in (([3, 1, 0], "greater than 0"), ([9, 2, 1], "at most")) + ((([1, 2, 3], "sorted"),) if sort
                                                                                  else ()):
        for run in (f, compiled):
            with pytest.raises(RuntimeError, match=text):
                run(x.detach(), rushlight.tensor(wrong))
