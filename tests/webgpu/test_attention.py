"""Attention by the templates of WGSL: results and gradients of the processor."""
import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight._src.devices.shared.attention import Attention
from rushlight._src.devices.shared.host import HostStep
from rushlight._src.devices.webgpu.templates.attention import Attentions
from rushlight._src.ops.flash import AttentionSpec
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention

# queries [batch, heads, length, size], keys [.., heads, length, size], size of values, what else is asked
CASES = {
    "small": ((1, 2, 40, 16), (2, 40), 16, {}),
    "ragged": ((1, 1, 37, 19), (1, 70), 24, {}),
    "causal": ((1, 1, 70, 16), (1, 70), 16, {"is_causal": True}),
    "causal, few keys": ((1, 1, 70, 16), (1, 33), 16, {"is_causal": True}),
    "shared heads": ((1, 4, 20, 16), (2, 24), 16, {"enable_gqa": True, "is_causal": True}),
    "large heads": ((1, 1, 17, 160), (1, 20), 130, {}),
    "scale": ((1, 1, 8, 16), (1, 8), 16, {"scale": 0.7}),
}
MASKS = {"bool": lambda: rl.rand(40, 70) < 0.6, "float": lambda: rl.randn(1, 2, 40, 70),
         "nowhere": lambda: rl.arange(40).reshape(40, 1).ge(20) & rl.ones(40, 70, dtype=rl.bool)}


def operands(q, k, value_size, dtype=rl.float32):
    rl.manual_seed(0)
    key = (q[0], k[0], k[1])
    return [rl.randn(*shape).to(dtype) for shape in (q, (*key, q[3]), (*key, value_size))]


def moved(value, device):
    return value.to(device) if isinstance(value, rl.Tensor) else value


def found(f, given, device):
    """The results of a function of queries, keys and values, and the gradients of these."""
    given = [x.to(device).requires_grad_() for x in given]
    out = f(*given)
    rl.manual_seed(1)
    out.backward(rl.randn(*out.shape).to(out.dtype).to(device))
    return [x.detach().cpu().float().numpy() for x in (out, *(x.grad for x in given))]


def equal(f, given, tolerance):
    before = HostStep.runs.copy()
    for own, wanted in zip(found(lambda *x: f("webgpu", *x), given, "webgpu"),
                           found(lambda *x: f("cpu", *x), given, "cpu")):
        assert np.abs(own - wanted).max() <= tolerance * max(np.abs(wanted).max(), 1e-3)
    assert not any("attention" in name for name in HostStep.runs - before)


def attention(**how):
    def computed(device, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, **{name: moved(x, device) for name, x in how.items()})

    return computed


@pytest.mark.parametrize("name", CASES)
def test_float32(name):
    q, k, value_size, how = CASES[name]
    equal(attention(**how), operands(q, k, value_size), 1e-5)


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_halves(dtype):
    equal(attention(is_causal=True), operands((1, 2, 40, 16), (2, 40), 16, dtype), 2e-2)


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    rl.manual_seed(2)
    equal(attention(attn_mask=MASKS[name]()), operands((1, 2, 40, 16), (2, 70), 16), 1e-5)


def test_dropout():
    """What is dropped is what the processor drops."""
    given = operands((2, 2, 20, 16), (2, 40), 16)

    def dropped(device, q, k, v):
        rl.manual_seed(7)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=True)

    equal(dropped, given, 1e-5)


def capped(score, b, h, q_idx, kv_idx):
    return rl.tanh(score / 2) * 2 + 0.1 * (q_idx - kv_idx) * (h + 1)


def near(b, h, q_idx, kv_idx):
    return (q_idx >= kv_idx) & (q_idx - kv_idx < 20)


def ordered(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


@pytest.mark.parametrize("block", [16, (64, 32)])
@pytest.mark.parametrize("score, mask", [(capped, None), (None, near), (capped, ordered)])
def test_functions_of_scores(score, mask, block):
    def computed(device, q, k, v):
        own = mask and create_block_mask(mask, None, None, 70, 70, device=device, BLOCK_SIZE=block)
        return flex_attention(q, k, v, score, own)

    equal(computed, operands((1, 2, 70, 16), (2, 70), 16), 1e-5)


def test_tensors_that_functions_read():
    def computed(device, q, k, v):
        bias, document = rl.linspace(-1, 1, 40).to(device), (rl.arange(40) // 13).to(device)
        mask = create_block_mask(lambda b, h, i, j: document[i] == document[j], None, None, 40, 40, device=device,
                                 BLOCK_SIZE=16)
        return flex_attention(q, k, v, lambda score, b, h, i, j: score + bias[j], mask)

    equal(computed, operands((1, 1, 40, 16), (1, 40), 16), 1e-5)


def test_logarithms_of_totals():
    q, k, v = operands((1, 2, 20, 16), (2, 40), 16)
    own, wanted = (flex_attention(*(x.to(device) for x in (q, k, v)), return_lse=True)[1]
                   for device in ("webgpu", "cpu"))
    np.testing.assert_allclose(own.cpu().numpy(), wanted.numpy(), rtol=1e-5)


def test_sequences_end_to_end():
    def computed(device, q, k, v):
        parts = [rl.nested.nested_tensor([x[0, :, :7].transpose(0, 1), x[0, :, 7:].transpose(0, 1)],
                                         layout=rl.jagged).transpose(1, 2) for x in (q, k, v)]
        return F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).values()

    given = operands((1, 2, 40, 16), (2, 40), 16)
    for own, wanted in zip(*([x.detach().cpu().numpy() for x in [computed(device, *(x.to(device) for x in given))]]
                             for device in ("webgpu", "cpu"))):
        np.testing.assert_allclose(own, wanted, rtol=1e-4, atol=1e-5)


def test_what_is_refused_goes_by_its_formula():
    """Heads that no block holds."""
    q, k, v = (x.to("webgpu") for x in operands((1, 1, 4, 300), (1, 4), 16))
    own = F.scaled_dot_product_attention(q, k, v).cpu().numpy()
    np.testing.assert_allclose(own, F.scaled_dot_product_attention(q.cpu(), k.cpu(), v.cpu()).numpy(), rtol=1e-4,
                               atol=1e-5)
    with pytest.raises(RuntimeError, match="at most 256"), rl.nn.attention.sdpa_kernel(
            rl.nn.attention.SDPBackend.FLASH_ATTENTION):
        F.scaled_dot_product_attention(q, k, v)


def test_more_keys_than_a_driver_counts_are_refused():
    """Plans look at guessed sizes: launches look at those that are."""
    whole, parted = (Attentions(frozenset(("i64", "f64", *more)), 32768, 64) for more in (("loops",), ()))
    strides = (64, 64, 64, 1)
    for queries, keys in ((64, 1_000_000), (1_000_000, 64)):
        problem = Attention(1, 1, 1, queries, keys, 64, 64, *[strides] * 4, "float32", AttentionSpec(False, 0.125))
        assert whole.plan_forward(problem).steps and whole.plan_backward(problem).steps
        with pytest.raises(RuntimeError, match="takes more turns of a loop than this driver"):
            (parted.plan_forward if keys > queries else parted.plan_backward)(problem)
    small = Attention(1, 1, 1, 64, 1000, 64, 64, *[strides] * 4, "float32", AttentionSpec(False, 0.125))
    assert parted.plan_forward(small).steps and parted.plan_backward(small).steps
