"""Compiled FlexAttention with dynamic sizes gives what it gives uncompiled."""
import pytest

import rushlight as torch
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention

BIAS = torch.randn(128)
SIZES = [(2, 2, 32), (1, 2, 48), (3, 4, 40)]


def causal(s, b, h, q, kv):
    return torch.where(q >= kv, s, -float("inf"))


def relative(s, b, h, q, kv):
    return s + (q - kv) * 0.1


def biased(s, b, h, q, kv):
    return s + BIAS[kv]


@pytest.mark.parametrize("score_mod, dynamic, masked", [
    (None, None, True), (causal, True, False), (relative, True, True), (biased, None, False)])
def test_sizes_that_vary(score_mod, dynamic, masked):
    compiled = torch.compile(flex_attention, dynamic=dynamic)
    for batch, heads, length in SIZES:
        q, k, v = (torch.randn(batch, heads, length, 16, requires_grad=True) for _ in range(3))
        mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, length, length,
                                 BLOCK_SIZE=16) if masked else None
        found = compiled(q, k, v, score_mod=score_mod, block_mask=mask)
        wanted = flex_attention(q, k, v, score_mod=score_mod, block_mask=mask)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
        for a, b in zip(torch.autograd.grad(found.sum(), (q, k, v)), torch.autograd.grad(wanted.sum(), (q, k, v))):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
