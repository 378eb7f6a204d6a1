"""FlexAttention and the choice of kernels, beside torch and beside the formula."""
import numpy as np
import pytest
import torch

import rushlight
import rushlight.nn.functional as F
from rushlight.nn.attention import SDPBackend, sdpa_kernel
from rushlight.nn.attention import flex_attention as flex
from torch.nn.attention import flex_attention as judge

B, H, L = 2, 4, 200
FORMULA = {"kernel_options": {"BACKEND": "FORMULA"}}


def alibi(lib):
    return lambda score, b, h, q, k: score - (q - k).abs() * 2.0 ** -(h + 1.0)


def soft_cap(lib):
    return lambda score, b, h, q, k: lib.tanh(score / 5) * 5


def relative(lib):
    return lambda score, b, h, q, k: score + (q - k) * 0.01


def scored_window(lib):
    return lambda score, b, h, q, k: lib.where((q - k).abs() <= 7, score, -float("inf"))


def causal(lib):
    return lambda b, h, q, k: q >= k


def sliding_window(lib):
    return lambda b, h, q, k: (q >= k) & (q - k < 40)


def prefix(lib):
    return lambda b, h, q, k: (k < 33) | (q >= k)


def documents(lib):
    of = lib.tensor(np.repeat(np.arange(5), L // 5))
    return lambda b, h, q, k: of[q] == of[k]


SCORES = [None, alibi, soft_cap, relative, scored_window]
MASKS = [None, causal, sliding_window, prefix, documents]


def operands(lengths=(L, L), heads=(H, H), size=16, dtype="float32"):
    rng = np.random.default_rng(0)
    shapes = [(B, heads[0], lengths[0], size), (B, heads[1], lengths[1], size), (B, heads[1], lengths[1], size)]
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def ours(arrays, dtype="float32"):
    return [rushlight.from_numpy(a).to(getattr(rushlight, dtype)).requires_grad_() for a in arrays]


def mask_of(module, lib, mask, lengths=(L, L)):
    return mask and module.create_block_mask(mask(lib), None, None, *lengths, device="cpu")


def with_gradients(tensors, run):
    """The result and the gradients of its sum of squares, as arrays."""
    out = run(*tensors)
    (out.float() ** 2).sum().backward()
    return [x.detach().float().numpy() for x in (out, *(t.grad for t in tensors))]


@pytest.mark.parametrize("mask", MASKS, ids=lambda f: getattr(f, "__name__", "-"))
@pytest.mark.parametrize("score", SCORES, ids=lambda f: getattr(f, "__name__", "-"))
def test_result_is_that_of_torch_and_gradients_are_those_of_the_formula(score, mask):
    arrays = operands()
    wanted = judge.flex_attention(*map(torch.from_numpy, arrays), score and score(torch), mask_of(judge, torch, mask))
    score_mod, block_mask = score and score(rushlight), mask_of(flex, rushlight, mask)
    found = with_gradients(ours(arrays), lambda *x: flex.flex_attention(*x, score_mod, block_mask))
    by_formula = with_gradients(ours(arrays), lambda *x: flex.flex_attention(*x, score_mod, block_mask, **FORMULA))
    np.testing.assert_allclose(found[0], wanted.numpy(), atol=2e-5, rtol=2e-5)
    for a, b in zip(found, by_formula):
        np.testing.assert_allclose(a, b, atol=2e-5 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("dtype, most", [("float32", 2e-5), ("bfloat16", 3e-2), ("float16", 4e-3)])
def test_shared_heads_other_lengths_and_halves(dtype, most):
    arrays = operands((70, 150), (4, 2), 24)
    bias = rushlight.randn(4, 300)
    score = lambda s, b, h, q, k: s + bias[h, q - k + 150]
    mask = flex.create_block_mask(lambda b, h, q, k: (k + b) % 3 != 0, B, None, 70, 150, BLOCK_SIZE=32)
    run = lambda *x, **how: flex.flex_attention(*x, score, mask, enable_gqa=True, **how)
    found = with_gradients(ours(arrays, dtype), run)
    wanted = with_gradients(ours(arrays), lambda *x: run(*x, **FORMULA))
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(a, b, atol=most * max(1, np.abs(b).max()))


def test_tensors_that_score_mod_reads_get_gradients():
    arrays, bias = operands((20, 20)), np.random.default_rng(1).standard_normal((H, 20)).astype(np.float32)
    found, wanted = rushlight.from_numpy(bias).requires_grad_(), torch.from_numpy(bias).requires_grad_()
    flex.flex_attention(*ours(arrays), lambda s, b, h, q, k: s * found[h, k]).sum().backward()
    weights = (torch.from_numpy(arrays[0]) @ torch.from_numpy(arrays[1]).mT / 4 * wanted[:, None]).softmax(-1)
    (weights @ torch.from_numpy(arrays[2])).sum().backward()
    np.testing.assert_allclose(found.grad.numpy(), wanted.grad.numpy(), atol=1e-4)


def test_rows_that_may_look_nowhere_are_zero():
    mask = flex.create_block_mask(lambda b, h, q, k: q > 150, None, None, L, L)
    out, lse = flex.flex_attention(*(x.detach() for x in ours(operands())), block_mask=mask, return_lse=True)
    assert float(out[:, :, :151].abs().max()) == 0 and float(out[:, :, 151:].abs().min()) > 0
    assert lse.shape == (B, H, L)


def test_logarithms_of_totals_and_their_gradients():
    arrays = operands((30, 30))
    run = lambda lib, module, x: module.flex_attention(*x, return_lse=True)
    found, wanted = ours(arrays), [torch.from_numpy(a).requires_grad_() for a in arrays]
    out, lse = run(rushlight, flex, found)
    expected = (wanted[0] @ wanted[1].mT / 4).logsumexp(-1)
    lse.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(lse.detach().numpy(), expected.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(found[0].grad.numpy(), wanted[0].grad.numpy(), atol=1e-5)
    out, aux = flex.flex_attention(*(x.detach() for x in found), return_aux=flex.AuxRequest(lse=True, max_scores=True))
    np.testing.assert_allclose(aux.lse.numpy(), expected.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(aux.max_scores.numpy(), (wanted[0] @ wanted[1].mT / 4).amax(-1).detach().numpy(),
                               atol=1e-5)


def test_a_position_out_of_range_is_an_error():
    short = rushlight.zeros(10)
    with pytest.raises(IndexError):
        flex.flex_attention(*ours(operands()), lambda s, b, h, q, k: s + short[k])


@pytest.mark.parametrize("mask", MASKS[1:], ids=lambda f: f.__name__)
def test_block_masks_are_those_of_torch(mask):
    found, wanted = mask_of(flex, rushlight, mask, (L, L)), mask_of(judge, torch, mask, (L, L))
    for name in flex.BlockMask.TENSORS:
        a, b = getattr(found, name).numpy(), getattr(wanted, name).numpy()
        assert a.shape == b.shape and a.dtype == b.dtype, name
        if name.endswith("num_blocks"):
            np.testing.assert_array_equal(a, b, err_msg=name)
    np.testing.assert_array_equal(found.to_dense().numpy(), wanted.to_dense().numpy())
    assert found.shape == wanted.shape and found.sparsity() == pytest.approx(wanted.sparsity())
    np.testing.assert_array_equal(flex.create_mask(mask(rushlight), 1, 1, L, L).numpy(),
                                  judge.create_mask(mask(torch), 1, 1, L, L, device="cpu").numpy())


def test_pictures_of_masks():
    mask = flex.create_block_mask(causal(rushlight), None, None, 384, 384)
    assert mask.to_string() == "(0, 0)\n░░\n██░░\n████░░"
    assert "sparsity=33.33%" in str(mask)
    assert mask[:, :, 1].shape == (1, 1, 128, 384)


def test_combined_masks():
    both = flex.and_masks(causal(rushlight), sliding_window(rushlight))
    either = flex.or_masks(causal(rushlight), lambda b, h, q, k: k == 5)
    at = np.arange(L)[:, None], np.arange(L)
    np.testing.assert_array_equal(flex.create_mask(both, 1, 1, L, L).numpy()[0, 0],
                                  (at[0] >= at[1]) & (at[0] - at[1] < 40))
    np.testing.assert_array_equal(flex.create_mask(either, 1, 1, L, L).numpy()[0, 0], (at[0] >= at[1]) | (at[1] == 5))


@pytest.mark.parametrize("error, text, call", [
    (ValueError, "same dtype", lambda q, k, v: flex.flex_attention(q.double(), k, v)),
    (ValueError, "enable_gqa", lambda q, k, v: flex.flex_attention(q, k[:, :2], v[:, :2])),
    (ValueError, "block_mask was created for",
     lambda q, k, v: flex.flex_attention(q, k, v, block_mask=flex.create_block_mask(causal(rushlight), None, None, 64,
                                                                                    64))),
    (RuntimeError, "one value for one score",
     lambda q, k, v: flex.flex_attention(q, k, v, lambda s, b, h, i, j: rushlight.ones(3) * s)),
    (TypeError, "not known", lambda q, k, v: flex.flex_attention(q, k, v, lambda s, b, h, i, j: s if i > j else -s)),
])
def test_errors(error, text, call):
    with pytest.raises(error, match=text):
        call(*ours(operands()))


def test_kernels_are_chosen_by_input_and_by_the_user():
    q, k, v = (x.detach() for x in ours(operands()))
    plain = F.scaled_dot_product_attention(q, k, v)
    with sdpa_kernel(SDPBackend.MATH):
        np.testing.assert_allclose(F.scaled_dot_product_attention(q, k, v).numpy(), plain.numpy(), atol=1e-5)
    q, k, v = (x.double() for x in (q, k, v))
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), pytest.raises(RuntimeError, match="No available kernel.*float64"):
        F.scaled_dot_product_attention(q, k, v)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        assert F.scaled_dot_product_attention(q, k, v).shape == q.shape
    with pytest.raises(AssertionError):
        sdpa_kernel("math").__enter__()


def test_compiled_with_functions_and_masks_that_change():
    bias = rushlight.randn(H, 400)
    graphs = []

    def counted(module, inputs):
        graphs.append(module)
        return module.forward

    @rushlight.compile(fullgraph=True, backend=counted)
    def run(q, k, v, mask, strength):
        def score(s, b, h, i, j):
            return s * strength + bias[h, i - j + 200]
        return flex.flex_attention(q * 1.5, k, v, score, mask)

    def plain(q, k, v, mask, strength):
        return flex.flex_attention(q * 1.5, k, v, lambda s, b, h, i, j: s * strength + bias[h, i - j + 200], mask)

    arrays, strength = operands(), rushlight.tensor(0.5)
    for make in (causal, prefix, causal):
        mask = mask_of(flex, rushlight, make)
        found, wanted = (with_gradients(ours(arrays), lambda *x: f(*x, mask, strength)) for f in (run, plain))
        for a, b in zip(found, wanted):
            np.testing.assert_allclose(a, b, atol=1e-4)
    bias.mul_(2)
    strength.fill_(0.25)
    found, wanted = (f(*(x.detach() for x in ours(arrays)), mask, strength) for f in (run, plain))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=1e-4)
    assert len(graphs) <= 4


def test_the_function_itself_compiled():
    q, k, v = (x.detach() for x in ours(operands()))
    mask, score = mask_of(flex, rushlight, causal), soft_cap(rushlight)
    found = rushlight.compile(flex.flex_attention)(q, k, v, score, block_mask=mask)
    np.testing.assert_allclose(found.numpy(), flex.flex_attention(q, k, v, score, mask).numpy(), atol=1e-5)


def filled(t, *shape, k=0.1):
    return (t.arange(int(np.prod(shape)), dtype=t.float32).reshape(shape) * k).cos()


def network(t, *args, **options):
    """Attention with the same weights in both libraries."""
    made = t.nn.MultiheadAttention(*args, **options)
    for j, p in enumerate(made.parameters()):
        p.data = (t.arange(p.numel(), dtype=t.float32).reshape(tuple(p.shape)) * 0.37 + j).sin() * 0.3
    return made


FORMS = {
    "weights of heads": lambda t: network(t, 8, 2, batch_first=True)(filled(t, 2, 3, 8), filled(t, 2, 4, 8),
                                                                     filled(t, 2, 4, 8, k=0.2),
                                                                     average_attn_weights=False),
    "other sizes": lambda t: network(t, 8, 2, kdim=5, vdim=6)(filled(t, 3, 2, 8), filled(t, 4, 2, 5),
                                                              filled(t, 4, 2, 6)),
    "bias_k": lambda t: network(t, 8, 2, add_bias_kv=True)(filled(t, 3, 2, 8), filled(t, 4, 2, 8), filled(t, 4, 2, 8),
                                                           attn_mask=t.zeros(3, 4)),
    "zero attention": lambda t: network(t, 8, 2, add_zero_attn=True)(filled(t, 3, 2, 8), filled(t, 4, 2, 8),
                                                                     filled(t, 4, 2, 8), need_weights=False),
    "one example": lambda t: network(t, 8, 2)(filled(t, 3, 8), filled(t, 4, 8), filled(t, 4, 8),
                                              key_padding_mask=t.tensor([False, True, False, True])),
    "two masks": lambda t: network(t, 8, 2)(filled(t, 3, 2, 8), filled(t, 4, 2, 8), filled(t, 4, 2, 8),
                                            key_padding_mask=t.zeros(2, 4), attn_mask=filled(t, 4, 3, 4)),
    "causal": lambda t: network(t, 8, 2)(*[filled(t, 3, 2, 8)] * 3, attn_mask=t.full((3, 3), -t.inf).triu(1),
                                         is_causal=True, need_weights=False),
    "function": lambda t: t.nn.functional.multi_head_attention_forward(
        filled(t, 3, 2, 8), filled(t, 4, 2, 8), filled(t, 4, 2, 8), 8, 2, filled(t, 24, 8), None, None, None, False,
        0.0, filled(t, 8, 8), filled(t, 8), training=False, need_weights=True),
    "static keys": lambda t: t.nn.functional.multi_head_attention_forward(
        filled(t, 3, 2, 8), filled(t, 4, 2, 8), filled(t, 4, 2, 8), 8, 2, filled(t, 24, 8), None, None, None, False,
        0.0, filled(t, 8, 8), filled(t, 8), training=False,
        static_k=filled(t, 4, 5, 4), static_v=filled(t, 4, 5, 4)),
    "mask and causal": lambda t: [t.nn.functional.scaled_dot_product_attention(*[filled(t, 1, 2, 4, 8)] * 3,
                                                                               attn_mask=mask, is_causal=True)
                                  for mask in (filled(t, 4, 4), filled(t, 4, 4) > -0.5)],
    "no keys": lambda t: [t.nn.functional.scaled_dot_product_attention(t.ones(1, 1, n, 4), *[t.ones(1, 1, m, 4)] * 2)
                          for n, m in ((2, 0), (0, 2))],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore")
def test_forms_as_in_torch(form):
    theirs, ours = (FORMS[form](t) for t in (torch, rushlight))
    for a, b in zip(theirs, ours):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("error, use", [
    (AssertionError, lambda t, m, x: m(x, x, x, key_padding_mask=t.zeros(2, 3, dtype=t.int64))),
    (AssertionError, lambda t, m, x: m(x[..., :7], x, x)),
    (AssertionError, lambda t, m, x: m(x, x, x[:2])), (AssertionError, lambda t, m, x: m(x, x[0], x[0])),
    (RuntimeError, lambda t, m, x: m(x, x, x, attn_mask=t.zeros(4, 3))),
    (AssertionError, lambda t, m, x: m(x, x, x, attn_mask=t.zeros(3))),
    (RuntimeError, lambda t, m, x: m(x, x, x, is_causal=True)),
    (RuntimeError,
     lambda t, m, x: t.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=t.zeros(2, 2, dtype=t.int64))),
    (RuntimeError, lambda t, m, x: t.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=1.5))])
def test_what_does_not_fit(error, use):
    for t in (torch, rushlight):
        with pytest.raises(error):
            use(t, t.nn.MultiheadAttention(8, 2), t.ones(3, 2, 8))
