"""Attention over sequences that are split: results and gradients are those of one process."""
from __future__ import annotations

import datetime

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._src.core.settings import settings
from rushlight.distributed import threads
from rushlight.distributed.tensor import init_device_mesh
from rushlight.distributed.tensor.experimental import _attention, context_parallel

PATIENCE = datetime.timedelta(minutes=10)


def given(dtype, ranks):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, 8 * ranks, 16, generator=generator, dtype=dtype) for _ in range(4)]


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("causal, balanced, ranks, method", ((True, True, 2, "allgather"), (False, True, 3, "alltoall"),
                                                             (True, False, 3, "alltoall"),
                                                             (True, True, 4, "alltoall")))
def test_results_and_gradients(causal, balanced, ranks, method, kernels, monkeypatch):
    monkeypatch.setattr(_attention.Settings, "enable_load_balance", balanced)
    monkeypatch.setattr(_attention.Settings, "rotate_method", method)
    q, k, v, cotangent = given(torch.float32, ranks)
    whole = [x.clone().requires_grad_() for x in (q, k, v)]
    expected = F.scaled_dot_product_attention(*whole, is_causal=causal)
    expected.backward(cotangent)

    def member(rank):
        mesh = init_device_mesh("cpu", (ranks,))
        shares = [x.clone() for x in (q, k, v, cotangent)]
        before = [x.clone() for x in shares]
        with context_parallel(mesh, buffers=shares, buffer_seq_dims=[2] * 4, no_restore_buffers={shares[3]}):
            assert shares[0].shape[2] == 8
            own = [x.detach().clone().requires_grad_() for x in shares[:3]]
            out = F.scaled_dot_product_attention(*own, is_causal=causal)
            out.backward(shares[3])
        assert all(map(torch.equal, shares[:3], before[:3])) and shares[3].shape[2] == 8
        return _attention.context_parallel_unshard(mesh, [out, *(x.grad for x in own)], [2] * 4)
    with settings.set(kernels=kernels, store=False):
        every = threads.run(ranks, member, timeout=PATIENCE)
    for found in every:
        for a, b in zip(found, (expected, *(x.grad for x in whole))):
            torch.testing.assert_close(a, b.detach(), rtol=1e-4, atol=1e-5)


def test_what_is_refused():
    def member(rank):
        mesh, x = init_device_mesh("cpu", (2,)), torch.ones(1, 1, 6, 4)
        with pytest.raises(ValueError, match="pieces"):
            with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
                pass
        with pytest.raises(ValueError, match="same number"):
            with context_parallel(mesh, buffers=[x]):
                pass
        with context_parallel(mesh), pytest.raises(NotImplementedError, match="dropout"):
            F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
        with pytest.raises(NotImplementedError):
            _attention.set_rotate_method("nothing")
    threads.run(2, member, timeout=PATIENCE)
