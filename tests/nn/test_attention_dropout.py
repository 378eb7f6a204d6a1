"""Dropout within attention: the kernel's weights, forward and backward, are those of the formula with the same
factors."""
import math

import numpy as np
import pytest

import rushlight
import rushlight.nn.functional as F
from rushlight._src.core.op import OPS
from rushlight._src.core.settings import settings
from rushlight._src.eager import plan
from rushlight.nn.attention import SDPBackend, sdpa_kernel
from rushlight._src.ops.dropping import blocks_drawn, factors_numpy, level_of
from rushlight._src.ops.random import draw

TOLERANCE = {"float32": 3e-6, "bfloat16": 4e-2, "float16": 6e-3}
CASES = {"plain": (2, 3, 3, 70, 70, 24, {}), "long": (1, 2, 2, 130, 420, 16, {}),
         "causal": (1, 2, 2, 200, 200, 40, {"is_causal": True}),
         "shared heads": (2, 4, 2, 33, 50, 16, {"enable_gqa": True}), "one query": (2, 2, 2, 1, 300, 8, {}),
         "bool mask": (2, 2, 2, 60, 90, 16, {"attn_mask": "bool"}),
         "added mask": (2, 2, 2, 60, 90, 16, {"attn_mask": "float"})}


def operands(case, dtype):
    n, heads, shared, rows, columns, size, how = CASES[case]
    rng = np.random.default_rng(0)
    made = [rushlight.from_numpy(rng.standard_normal(shape).astype(np.float32)).to(getattr(rushlight, dtype))
            .requires_grad_()
            for shape in ((n, heads, rows, size), (n, shared, columns, size), (n, shared, columns, size))]
    how = dict(how)
    if "attn_mask" in how:
        mask = rushlight.from_numpy(rng.standard_normal((n, 1, rows, columns)).astype(np.float32))
        mask[0, 0, 0] = -math.inf
        how["attn_mask"] = mask > -0.5 if how["attn_mask"] == "bool" else mask.to(getattr(rushlight, dtype))
    return made, how


def formula(q, k, v, p, seed, place, attn_mask=None, is_causal=False, enable_gqa=False):
    """The same in float32 with scores in memory."""
    q, k, v = (x.detach().float().requires_grad_() for x in (q, k, v))
    sharing = q.size(1) // k.size(1)
    keys, values = (x.repeat_interleave(sharing, 1) for x in (k, v))
    scores = q @ keys.mT / math.sqrt(q.size(-1))
    if is_causal:
        scores = scores.masked_fill(rushlight.ones(q.size(2), k.size(2)).tril() == 0, -math.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype is rushlight.bool else (
            scores + attn_mask.float()).masked_fill(
            attn_mask == -math.inf, -math.inf)
    factors = rushlight.from_numpy(factors_numpy(tuple(q.shape[:3]), k.size(2), seed, place, level_of(p)))
    return (q, k, v), (rushlight.softmax(scores, -1).nan_to_num(0.0) * factors) @ values


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", CASES)
def test_result_and_gradients_are_those_of_the_formula(case, dtype):
    (q, k, v), how = operands(case, dtype)
    rushlight.manual_seed(3)
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, **how)
    rushlight.manual_seed(3)
    seed, place = draw(None, 4 * blocks_drawn(q.size(0) * q.size(1), q.size(2), k.size(2)))
    wide, expected = formula(q, k, v, 0.3, seed, place, **how)
    cotangent = rushlight.from_numpy(np.random.default_rng(1).standard_normal(tuple(out.shape)).astype(np.float32))
    got = [out, *rushlight.autograd.grad(out, (q, k, v), cotangent.to(out.dtype))]
    for a, b in zip(got, [expected, *rushlight.autograd.grad(expected, wide, cotangent)]):
        assert float((a.float() - b).abs().max()) <= TOLERANCE[dtype] * max(float(b.abs().max()), 1.0)


def test_numpy_drops_the_same():
    (q, k, v), _ = operands("long", "float32")
    results = []
    for kernels in (True, False):
        with settings.set(kernels=kernels):
            rushlight.manual_seed(0)
            # strides of their own: a plan of their own
            x = q if kernels else q.detach().clone().transpose(2, 3).contiguous().transpose(2, 3)
            results.append(F.scaled_dot_product_attention(x, k, v, dropout_p=0.5).detach().numpy())
    np.testing.assert_allclose(*results, atol=2e-6)


def test_second_derivatives_know_what_was_dropped():
    (q, k, v), _ = operands("plain", "float32")
    rushlight.manual_seed(3)
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
    rushlight.manual_seed(3)
    wide, expected = formula(q, k, v, 0.3, *draw(None, 4 * blocks_drawn(6, 70, 70)))
    found = []
    for result, given in ((out, (q, k, v)), (expected, wide)):
        first = rushlight.autograd.grad((result**2).sum(), given, create_graph=True)
        found.append(rushlight.autograd.grad(sum((x**2).sum() for x in first), given))
    for a, b in zip(*found):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=2e-4, rtol=1e-4)


def test_every_layer_and_every_call_drops_others_compiled_too():
    q = rushlight.randn(1, 2, 40, 16)

    def two(x):
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5), F.scaled_dot_product_attention(
            x, x, x, dropout_p=0.5)

    rushlight.manual_seed(5)
    eager = [*two(q), *two(q)]
    compiled_two = rushlight.compile(two, fullgraph=True)
    rushlight.manual_seed(5)
    compiled = [*compiled_two(q), *compiled_two(q)]
    for a, b in zip(eager, compiled):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-6)
    assert all(not np.allclose(a.numpy(), b.numpy()) for k, a in enumerate(eager) for b in eager[:k])


@pytest.mark.parametrize("p", [0.1, 0.75])
def test_as_many_are_kept_as_said(p):
    kept = factors_numpy((2, 8, 256), 256, 11, 5, level_of(p)) > 0
    assert abs(kept.mean() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / kept.size)
    for axis in (0, 1, 2, 3):  # neighbours know nothing of each other
        a, b = np.delete(kept, 0, axis) - (1 - p), np.delete(kept, -1, axis) - (1 - p)
        assert abs((a * b).mean()) < 5 * p * (1 - p) / math.sqrt(a.size)


def test_everything_dropped_and_probabilities_that_are_none():
    q = rushlight.randn(1, 1, 5, 8)
    assert not F.scaled_dot_product_attention(q, q, q, dropout_p=1.0).any()
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.scaled_dot_product_attention(q, q, q, dropout_p=1.5)


def test_scores_are_never_in_memory():
    q = rushlight.randn(1, 1, 2048, 8)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # it refuses nothing here
        out = F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
    plans = [p for p in rushlight._src.core.op.OPS["_attention"].plans.values() if p.outputs and p.outputs[0].shape
             == out.shape]
    assert plans and all(size < 2048 * 2048 for p in plans for size in p.temporaries)


def test_compiled_training_decides_backward_as_forward():
    q = rushlight.randn(1, 2, 40, 16)
    weights = [rushlight.randn(16, 16, requires_grad=True) for _ in range(3)]

    def loss(x):
        for w in weights:
            x = x + F.scaled_dot_product_attention(x @ w, x, x, dropout_p=0.4)
        return (x**2).mean()

    found = []
    for call in (loss, rushlight.compile(loss, fullgraph=True)):
        rushlight.manual_seed(9)
        found.append([g.numpy() for g in rushlight.autograd.grad(call(q), weights)])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-4)


def test_a_batch_of_examples_draws_for_each():
    q = rushlight.randn(3, 1, 20, 8)
    same = q[:1].expand(3, 1, 20, 8)
    out = rushlight.vmap(lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5), randomness="different")(same)
    assert not np.allclose(out[0].numpy(), out[1].numpy())


def test_new_probabilities_make_no_plans(monkeypatch):
    """One plan serves all probabilities, forward and backward, and gives what a plan of its own gives."""
    made, original = [], plan.make_plan
    monkeypatch.setattr(plan, "make_plan", lambda op, *rest: (made.append(op.name), original(op, *rest))[1])

    def attend(p, factor):
        rushlight.manual_seed(4)
        q, k, v = (x.detach().requires_grad_() for x in given)
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        return [x.numpy().tobytes() for x in (out.detach(), *rushlight.autograd.grad((out * factor).sum(), (q, k, v)))]

    rushlight.manual_seed(2)
    given, factor = [rushlight.randn(2, 2, 9, 8) for _ in range(3)], rushlight.randn(2, 2, 9, 8)
    probabilities = [0.1, 0.5, 0.25, 0.3, 0.4, 0.2, 0.6, 0.7, 0.8, 0.9, 0.15, 0.35, 1.0, 0.0, 1e-9, 0.45]
    with settings.set(store=False):
        found = [attend(p, factor) for p in probabilities]
        made.clear()
        attend(0.55, factor)
        assert not made
        for p, seen in zip(probabilities, found):
            OPS["_attention"].plans.clear(), OPS["_attention"].polymorphic.clear()  # with the backward operators
            assert attend(p, factor) == seen, p
