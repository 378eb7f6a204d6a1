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


def masks(ranks):
    generator = torch.Generator().manual_seed(1)
    size = 8 * ranks
    band = torch.ones(size, size, dtype=torch.bool).tril().triu(-11)
    blocks = torch.zeros(2, 1, size, size)
    blocks[1, :, :, size // 2:] = -float("inf")
    large = torch.zeros(size, size).masked_fill(torch.rand(size, size, generator=generator) > 0.1, -1e9)
    return {"band": band, "numbers": torch.randn(2, 3, size, size, generator=generator), "blocks": blocks,
            "large": large, "row": torch.rand(2, 1, 1, size, generator=generator) > 0.3}


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("name", ["band", "numbers", "blocks", "large", "row"])
@pytest.mark.parametrize("ranks, method, cut", ((2, "allgather", False), (3, "alltoall", True)))
def test_masks(name, ranks, method, cut, kernels, monkeypatch):
    """Of the whole sequence, or cut as its queries are; some hide whole pieces of it."""
    monkeypatch.setattr(_attention.Settings, "rotate_method", method)
    q, k, v, cotangent = given(torch.float32, ranks)
    whole, mask = [x.double().requires_grad_() for x in (q, k, v)], masks(ranks)[name]
    expected = F.scaled_dot_product_attention(*whole, mask if name in ("band", "row") else mask.double())
    expected.backward(cotangent.double())

    def member(rank):
        mesh = init_device_mesh("cpu", (ranks,))
        shares, own_mask = [x.clone() for x in (q, k, v, cotangent)], mask.clone()
        rows = [own_mask] if cut and mask.shape[-2] > 1 else []
        with context_parallel(mesh, buffers=[*shares, *rows], buffer_seq_dims=[2] * 4 + [-2] * len(rows)):
            own = [x.detach().clone().requires_grad_() for x in shares[:3]]
            out = F.scaled_dot_product_attention(*own, own_mask)
            out.backward(shares[3])
        return _attention.context_parallel_unshard(mesh, [out, *(x.grad for x in own)], [2] * 4)
    with settings.set(kernels=kernels, store=False):
        every = threads.run(ranks, member, timeout=PATIENCE)
    for found in every:
        for a, b in zip(found, (expected, *(x.grad for x in whole))):
            torch.testing.assert_close(a, b.detach().float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("piece", [16, 10], ids=["tiles", "within_tiles"])
@pytest.mark.parametrize("causal, balanced, ranks, method", ((True, True, 2, "alltoall"),
                                                             (False, False, 3, "allgather")))
def test_dropout_leaves_the_weights_that_one_process_leaves(causal, balanced, ranks, method, piece, kernels,
                                                            monkeypatch):
    """Also where pieces begin within tiles of dropout, and for each call anew."""
    monkeypatch.setattr(_attention.Settings, "enable_load_balance", balanced)
    monkeypatch.setattr(_attention.Settings, "rotate_method", method)
    size, generator = piece * ranks * (1 + balanced), torch.Generator().manual_seed(0)
    q, k, v, cotangent = [torch.randn(2, 3, size, 16, generator=generator) for _ in range(4)]

    def passes(inputs, gradient):
        torch.manual_seed(5)
        outs = [F.scaled_dot_product_attention(*inputs, dropout_p=0.3, is_causal=causal) for _ in range(2)]
        (outs[0] * 2 - outs[1]).backward(gradient)
        return [*(out.detach() for out in outs), *(x.grad for x in inputs)]

    def member(rank):
        mesh = init_device_mesh("cpu", (ranks,))
        shares = [x.clone() for x in (q, k, v, cotangent)]
        with context_parallel(mesh, buffers=shares, buffer_seq_dims=[2] * 4):
            found = passes([x.detach().clone().requires_grad_() for x in shares[:3]], shares[3])
        return _attention.context_parallel_unshard(mesh, found, [2] * 5)
    with settings.set(kernels=kernels, store=False):
        expected = passes([x.clone().requires_grad_() for x in (q, k, v)], cotangent)
        every = threads.run(ranks, member, timeout=PATIENCE)
    assert not torch.equal(*expected[:2])
    for found in every:
        for a, b in zip(found, expected):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_queries_that_nothing_is_shown_to():
    """They get what one process gives them, and no gradient that is no number."""
    q, k, v, cotangent = given(torch.float32, 2)
    mask = torch.ones(16, 16, dtype=torch.bool)
    mask[5] = False
    whole = [x.clone().requires_grad_() for x in (q, k, v)]
    expected = F.scaled_dot_product_attention(*whole, mask)
    expected.backward(cotangent)

    def member(rank):
        mesh, shares = init_device_mesh("cpu", (2,)), [x.clone() for x in (q, k, v, cotangent)]
        with context_parallel(mesh, buffers=shares, buffer_seq_dims=[2] * 4):
            own = [x.detach().clone().requires_grad_() for x in shares[:3]]
            out = F.scaled_dot_product_attention(*own, mask)
            out.backward(shares[3])
        return _attention.context_parallel_unshard(mesh, [out, *(x.grad for x in own)], [2] * 4)
    for found in threads.run(2, member, timeout=PATIENCE):
        for a, b in zip(found, (expected, *(x.grad for x in whole))):
            torch.testing.assert_close(a, b.detach(), rtol=1e-4, atol=1e-5)


def test_buffers_stay_whole_where_one_is_refused():
    def member(rank):
        mesh, x, y = init_device_mesh("cpu", (2,)), torch.arange(8.), torch.arange(6.)
        with pytest.raises(ValueError, match="not cut"), context_parallel(mesh, buffers=[x, y], buffer_seq_dims=[0, 0]):
            pass
        return x.tolist()
    assert threads.run(2, member, timeout=PATIENCE) == [list(range(8))] * 2


def test_what_is_refused():
    def member(rank):
        mesh, x = init_device_mesh("cpu", (2,)), torch.ones(1, 1, 6, 4)
        with pytest.raises(ValueError, match="pieces"):
            with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
                pass
        with pytest.raises(ValueError, match="same number"):
            with context_parallel(mesh, buffers=[x]):
                pass
        with context_parallel(mesh), pytest.raises(RuntimeError, match="dropout probability"):
            F.scaled_dot_product_attention(x, x, x, dropout_p=1.5)
        with context_parallel(mesh), pytest.raises(ValueError, match="columns for the whole"):
            F.scaled_dot_product_attention(x, x, x, torch.ones(6, 6))
        with context_parallel(mesh), pytest.raises(RuntimeError, match="is_causal"):
            F.scaled_dot_product_attention(x, x, x, torch.ones(12, 12), is_causal=True)
        with context_parallel(mesh), pytest.raises(NotImplementedError, match="gradient"):
            F.scaled_dot_product_attention(x, x, x, torch.ones(12, 12, requires_grad=True))
        with pytest.raises(NotImplementedError):
            _attention.set_rotate_method("nothing")
    threads.run(2, member, timeout=PATIENCE)
