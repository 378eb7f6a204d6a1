"""The fast path of transformer encoders: the results of the slow one, and of torch's."""
import logging

import numpy as np
import pytest
import torch

import rushlight
from rushlight.backends import mha
from rushlight.nn.modules import encoding

SIZE, HEADS = 32, 4
PADDING = np.arange(9)[None] >= np.array([9, 4, 6])[:, None]


def models(**how):
    """The same encoder layer of torch and of ours, in inference."""
    torch.manual_seed(0)
    theirs = torch.nn.TransformerEncoderLayer(SIZE, HEADS, 48, batch_first=True, **how).eval()
    ours = rushlight.nn.TransformerEncoderLayer(SIZE, HEADS, 48, batch_first=True, **how).eval()
    ours.load_state_dict({name: rushlight.from_numpy(value.numpy()) for name, value in theirs.state_dict().items()})
    return ours, theirs


def given(library, seed=0):
    return library.from_numpy(np.random.default_rng(seed).standard_normal((3, 9, SIZE)).astype(np.float32))


def masks(library):
    causal = np.triu(np.ones((9, 9), bool), 1)
    numbers = np.where(causal, -np.inf, 0).astype(np.float32)
    return {"nothing": {}, "padding": {"src_key_padding_mask": library.from_numpy(PADDING)},
            "mask": {"src_mask": library.from_numpy(causal)},
            "numbers": {"src_mask": library.from_numpy(numbers)},
            "both": {"src_mask": library.from_numpy(causal), "src_key_padding_mask": library.from_numpy(PADDING)}}


@pytest.mark.parametrize("mask", masks(rushlight))
@pytest.mark.parametrize("how", [{}, {"norm_first": True}, {"activation": "gelu"}, {"bias": False}], ids=str)
def test_a_layer_computes_what_torch_does(how, mask):
    ours, theirs = models(**how)
    assert encoding.obstacle(ours.requires_grad_(False), given(rushlight),
                             *(masks(rushlight)[mask].get(name) for name in ("src_mask", "src_key_padding_mask"))) == (
        "there is more than one mask" if mask == "both" else None)
    with torch.no_grad():
        expected = theirs(given(torch), **masks(torch)[mask]).numpy()
    kept = ~PADDING if "padding" in mask or mask == "both" else np.ones_like(PADDING)
    np.testing.assert_allclose(ours(given(rushlight), **masks(rushlight)[mask]).numpy()[kept], expected[kept],
                               rtol=1e-4, atol=1e-5)


def test_padding_is_left_out_and_is_zero_afterwards():
    ours, _ = models()
    encoder = rushlight.nn.TransformerEncoder(ours, 3).requires_grad_(False).eval()
    mask = rushlight.from_numpy(PADDING)
    packed = encoder(given(rushlight), src_key_padding_mask=mask).numpy()
    encoder.enable_nested_tensor = False
    whole = encoder(given(rushlight), src_key_padding_mask=mask).numpy()
    mha.set_fastpath_enabled(False)
    try:
        slow = encoder(given(rushlight), src_key_padding_mask=mask).numpy()
    finally:
        mha.set_fastpath_enabled(True)
    assert not packed[PADDING].any() and slow[PADDING].all()
    for fast in (packed, whole):
        np.testing.assert_allclose(fast[~PADDING], slow[~PADDING], rtol=1e-4, atol=1e-5)


def test_examples_that_are_all_padding():
    ours, _ = models()
    encoder = rushlight.nn.TransformerEncoder(ours, 2).requires_grad_(False).eval()
    mask = PADDING.copy()
    mask[1] = True
    out = encoder(given(rushlight), src_key_padding_mask=rushlight.from_numpy(mask)).numpy()
    assert np.isfinite(out).all() and not out[1].any()


def test_nested_tensors_go_through_layers():
    ours, _ = models()
    examples = [rushlight.randn(n, SIZE) for n in (3, 8, 1)]
    x = rushlight.nested.nested_tensor(examples, layout=rushlight.jagged)
    with rushlight.no_grad():
        fast = ours(x)
        alone = [ours(one[None])[0] for one in examples]
    slow = ours(x)  # gradients are recorded
    assert slow.requires_grad and not fast.requires_grad
    for a, b, c in zip(fast, slow, alone):
        np.testing.assert_allclose(a.numpy(), c.numpy(), atol=1e-5)
        np.testing.assert_allclose(b.detach().numpy(), c.numpy(), atol=1e-5)
    slow.sum().backward()
    assert all(p.grad is not None for p in ours.parameters())


@pytest.mark.parametrize("change, reason", [
    (lambda m: m.train(), "training"), (lambda m: m.linear1.register_forward_hook(lambda *a: None), "hooks"),
    (lambda m: m.double(), "float64"),
    (lambda m: setattr(m, "activation", rushlight.nn.functional.silu), "another kind"),
    (lambda m: m.requires_grad_(True), "gradients")])
def test_what_keeps_a_layer_from_the_fast_path(change, reason):
    ours, _ = models()
    ours.requires_grad_(False)
    change(ours)
    x = given(rushlight).to(ours.linear1.weight.dtype)
    assert reason in encoding.obstacle(ours, x, None, None)
    assert ours(x).shape == x.shape


def test_hooks_see_what_they_are_for():
    ours, _ = models()
    seen = []
    ours.linear2.register_forward_hook(lambda *arguments: seen.append(1))
    with rushlight.no_grad():
        rushlight.nn.TransformerEncoder(ours, 2).eval()(given(rushlight),
                                                        src_key_padding_mask=rushlight.from_numpy(PADDING))
    assert len(seen) == 2
    handle = rushlight.nn.modules.module.register_module_forward_hook(lambda module, *arguments: seen.append(
        type(module).__name__))
    try:
        models()[0].requires_grad_(False)(given(rushlight))
    finally:
        handle.remove()
    assert {"Linear", "LayerNorm", "MultiheadAttention"} <= set(seen[2:])


def test_a_layer_of_ones_own_keeps_its_blocks():
    class Halved(rushlight.nn.TransformerEncoderLayer):
        def _ff_block(self, x):
            return super()._ff_block(x) * 0.5

    ours, layer = models()[0].requires_grad_(False), Halved(SIZE, HEADS, 48,
                                                            batch_first=True).requires_grad_(False).eval()
    layer.load_state_dict(ours.state_dict())
    assert not np.allclose(layer(given(rushlight)).numpy(), ours(given(rushlight)).numpy())


def test_the_log_says_why_padding_stays(caplog):
    ours, _ = models()
    encoder = rushlight.nn.TransformerEncoder(ours, 1).eval()
    with caplog.at_level(logging.DEBUG, "rushlight.kernels"):
        encoder(given(rushlight), src_key_padding_mask=rushlight.from_numpy(PADDING))
    assert "padding stays: gradients are recorded" in caplog.text


def test_attention_modules_take_nested_tensors():
    attention = rushlight.nn.MultiheadAttention(SIZE, HEADS, batch_first=True)
    examples, others = [rushlight.randn(n, SIZE) for n in (3, 6)], [rushlight.randn(n, SIZE) for n in (5, 2)]
    q, kv = (rushlight.nested.nested_tensor(x, layout=rushlight.jagged) for x in (examples, others))
    out, weights = attention(q, kv, kv, need_weights=False)
    assert weights is None
    for got, a, b in zip(out, examples, others):
        np.testing.assert_allclose(got.detach().numpy(), attention(a, b, b, need_weights=False)[0].detach().numpy(),
                                   atol=1e-5)
    with pytest.raises(AssertionError, match="nested"):
        attention(q, kv, kv)
