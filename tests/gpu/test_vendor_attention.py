"""Attention by the stand-in for cuDNN: results and gradients are the processor's."""
import ctypes

import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.settings import settings
from rushlight._src.devices.triton.vendor.graphs import (DATA_TYPE, Descriptor, DnnError, Handle, OF_MATMUL, OF_TENSOR,
                                                         WHOLE)
from rushlight.nn.attention import SDPBackend, sdpa_kernel

from .stub_dnn import EXECUTED
from .vendors import with_attention

attention = rl.nn.functional.scaled_dot_product_attention


@pytest.fixture
def dnn(by_the_interpreter, planned_anew, monkeypatch, tmp_path):
    """cuDNN, which computes all attention that it can."""
    provider, library, found = with_attention(monkeypatch, tmp_path)
    with settings.set(vendor="always", cache=str(tmp_path)):
        yield found
    assert library.failure is None, library.failure


def values(where, shapes, dtype, **how):
    """The result and the gradients, as float32 on the processor."""
    rl.manual_seed(0)
    operands = [rl.randn(*shape).to(dtype) for shape in shapes]
    mask = how.pop("attn_mask", None)
    given = [x.to(where).requires_grad_() for x in operands]
    out = attention(*given, attn_mask=None if mask is None else mask.to(where), **how)
    (out.float() * rl.arange(float(out.numel())).reshape(out.shape).cos().to(where)).sum().backward()
    return [x.detach().float().cpu().numpy() for x in (out, *(one.grad for one in given))]


def compared(shapes, dtype=rl.bfloat16, tolerance=2e-2, **how):
    for found, wanted in zip(values("cuda", shapes, dtype, **how), values("cpu", shapes, dtype, **how), strict=True):
        assert np.abs(found - wanted).max() <= tolerance * max(np.abs(wanted).max(), 1)


CASES = {"plain": ([(2, 3, 5, 16)] * 3, {}), "causal": ([(1, 2, 9, 16)] * 3, {"is_causal": True}),
         "shared": ([(2, 4, 6, 16), (2, 2, 7, 16), (2, 2, 7, 16)], {"enable_gqa": True}),
         "sizes": ([(1, 2, 5, 16), (1, 2, 7, 16), (1, 2, 7, 24)], {"scale": 0.3})}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
def test_attention(dnn, name, dtype):
    shapes, how = CASES[name]
    compared(shapes, dtype, **how)
    assert dnn[EXECUTED] == 2


def test_a_mask_where_the_library_is_asked_for(dnn):
    shapes = [(2, 2, 5, 16), (2, 2, 7, 16), (2, 2, 7, 16)]
    mask = rl.randn(2, 1, 5, 7).to(rl.bfloat16)
    compared(shapes, attn_mask=mask)
    assert not dnn[EXECUTED]  # a row of it might be forbidden, for which the library gives NaN
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        found = values("cuda", shapes, rl.bfloat16, attn_mask=mask)
    for one, wanted in zip(found, values("cpu", shapes, rl.bfloat16, attn_mask=mask)):
        assert np.abs(one - wanted).max() <= 2e-2 * max(np.abs(wanted).max(), 1)
    assert dnn[EXECUTED] == 2


def test_the_kernel_that_is_asked_for(dnn):
    with settings.set(vendor="auto"):
        shapes = [(1, 2, 11, 16)] * 3
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            values("cuda", shapes, rl.bfloat16)
        assert dnn[EXECUTED] == 2
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            values("cuda", shapes, rl.bfloat16)
        values("cuda", [(1, 2, 12, 16)] * 3, rl.bfloat16)  # small: it would save nothing
        assert dnn[EXECUTED] == 2
        for dtype, how in ((rl.float32, {}), (rl.bfloat16, {"dropout_p": 0.5})):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), pytest.raises(RuntimeError, match="No available kernel"):
                values("cuda", shapes, dtype, **how)


def test_what_the_library_does_not_do(dnn):
    """It goes to kernels of ours, without a word."""
    compared([(1, 2, 5, 12)] * 3)  # heads of 12
    compared([(1, 2, 5, 16)] * 3, rl.float32, 1e-4)
    rl.use_deterministic_algorithms(True)
    try:
        compared([(1, 2, 13, 16)] * 3)
        assert dnn[EXECUTED] == 1  # its gradient of queries is not the same each time
    finally:
        rl.use_deterministic_algorithms(False)


def test_addresses_that_are_less_aligned(dnn):
    held = rl.randn(1 + 3 * 160).to(rl.bfloat16)
    for first, count in ((0, 1), (1, 1), (0, 1)):
        q, k, v = (held[first + 160 * n:first + 160 * (n + 1)].reshape(1, 2, 5, 16) for n in range(3))
        where = held.to("cuda")
        given = [where[first + 160 * n:first + 160 * (n + 1)].reshape(1, 2, 5, 16) for n in range(3)]
        np.testing.assert_allclose(attention(*given).float().cpu().numpy(), attention(q, k, v).float().numpy(),
                                   atol=0.03)
        assert dnn[EXECUTED] == count  # what was written for addresses of any kind stays


def test_graphs(dnn):
    x = rl.randn(1, 2, 5, 16).to(rl.bfloat16).to("cuda")
    attention(x, x, x)
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        y = attention(x, x, x)
    for _ in range(2):
        x.copy_(rl.randn(1, 2, 5, 16).to(rl.bfloat16))
        graph.replay()
        wanted = attention(x.cpu(), x.cpu(), x.cpu())
        np.testing.assert_allclose(y.float().cpu().numpy(), wanted.float().numpy(), atol=0.03)


def test_what_the_stand_in_refuses(dnn):
    """The order of calls, types and counts are the library's."""
    handle = Handle(dnn.library)
    with pytest.raises(DnnError, match="Finalize"):
        Descriptor(handle, OF_TENSOR).set(906, WHOLE, 1).done()  # it has no sizes
    with pytest.raises(DnnError, match="2010"):
        Descriptor(handle, OF_MATMUL).set(1500, WHOLE, 0)
    with pytest.raises(DnnError, match="SetAttribute"):
        Descriptor(handle, OF_MATMUL).set(1500, DATA_TYPE, 0, 0)
    done = Descriptor(handle, OF_MATMUL).set(1500, DATA_TYPE, 0).done()
    with pytest.raises(DnnError, match="SetAttribute"):
        done.set(1500, DATA_TYPE, 0)
    assert ctypes.c_int64.from_address(done.place + 8).value == OF_MATMUL


def test_what_torch_says_of_it(dnn):
    cudnn, cuda = rl.backends.cudnn, rl.backends.cuda
    assert cudnn.is_available() and cudnn.version() == dnn[5]
    x = rl.ones(1, 2, 5, 16, dtype=rl.bfloat16, device="cuda")
    call = cuda.SDPAParams(x, x, x, None, 0.0, False, False)
    assert cuda.can_use_cudnn_attention(call) and cudnn.is_acceptable(x)
    assert not cuda.can_use_cudnn_attention(call._replace(dropout=0.5)) and not cudnn.is_acceptable(x.float())
    with cudnn.flags(enabled=False):
        assert not cudnn.enabled and not cuda.can_use_cudnn_attention(call)
        attention(x, x, x)
        assert dnn[EXECUTED] == 0
    with pytest.warns(UserWarning, match="float32"):
        assert not cuda.can_use_cudnn_attention(cuda.SDPAParams(*[x.float()] * 3, None, 0.0, False, False), True)
    y = rl.randn(1, 2, 5, 16).to(rl.bfloat16).to("cuda").requires_grad_()
    with cudnn.flags(enabled=True, deterministic=True):
        attention(y, y, y).float().sum().backward()
    assert dnn[EXECUTED] == 1
