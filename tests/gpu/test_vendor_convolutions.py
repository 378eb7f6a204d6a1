"""Convolutions by the stand-in for cuDNN: results and gradients are the processor's."""
import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.settings import settings
from rushlight._src.devices.triton.vendor.packs import DNN
from rushlight._src.devices.triton.runner import LIBRARY

from .stub_dnn import EXECUTED, FINALIZED, RANK
from .vendors import with_attention

F = rl.nn.functional


@pytest.fixture
def dnn(by_the_interpreter, planned_anew, monkeypatch, tmp_path):
    """cuDNN, which computes all convolutions that it can."""
    provider, library, found = with_attention(monkeypatch, tmp_path)
    found.provider = provider
    with settings.set(vendor="always", cache=str(tmp_path)):
        yield found
    assert library.failure is None, library.failure


def values(f, where, shapes, dtype, last=False):
    """The result and the gradients, as float32 on the processor."""
    rl.manual_seed(0)
    given = [rl.randn(*shape).to(dtype) for shape in shapes]
    if last:
        given[:2] = [x.contiguous(memory_format=rl.channels_last) for x in given[:2]]
    given = [x.to(where).requires_grad_() for x in given]
    out = f(*given)
    (out.float() * rl.arange(float(out.numel())).reshape(out.shape).cos().to(where)).sum().backward()
    return [x.detach().float().cpu().numpy() for x in (out, *(one.grad for one in given))]


def compared(f, shapes, dtype=rl.float32, tolerance=1e-5, **how):
    for found, wanted in zip(values(f, "cuda", shapes, dtype, **how), values(f, "cpu", shapes, dtype, **how),
                             strict=True):
        assert np.abs(found - wanted).max() <= tolerance * max(np.abs(wanted).max(), 1)


CASES = {
    "plain": (lambda x, w: F.conv2d(x, w), [(2, 3, 7, 6), (4, 3, 3, 2)]),
    "one dimension": (lambda x, w: F.conv1d(x, w, padding=1, stride=2), [(2, 3, 9), (4, 3, 3)]),
    "three dimensions": (lambda x, w: F.conv3d(x, w, padding=(0, 1, 0)), [(1, 2, 3, 4, 5), (3, 2, 2, 3, 2)]),
    "spaced": (lambda x, w: F.conv2d(x, w, stride=2, padding=2, dilation=(1, 2)), [(2, 3, 7, 8), (4, 3, 3, 3)]),
    "groups": (lambda x, w: F.conv2d(x, w, groups=2, padding=1), [(2, 4, 5, 6), (6, 2, 3, 3)]),
    "bias": (lambda x, w, b: F.conv2d(x, w, b), [(2, 3, 5, 6), (4, 3, 3, 3), (4,)]),
    "turned": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2), [(2, 3, 4, 5), (3, 4, 3, 3), (4,)]),
    "epilogue": (lambda x, w, b: F.conv2d(x, w, b).relu(), [(2, 3, 5, 6), (4, 3, 3, 3), (4,)])}


@pytest.mark.parametrize("name", CASES)
def test_convolutions(dnn, name):
    f, shapes = CASES[name]
    compared(f, shapes)
    assert dnn[EXECUTED] == 3


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16, rl.float64])
def test_dtypes(dnn, dtype):
    compared(*CASES["bias"], dtype, 3e-2 if dtype.itemsize == 2 else 1e-6)
    assert dnn[EXECUTED] == 3


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16])
def test_channels_last(dnn, dtype):
    compared(*CASES["bias"], dtype, 3e-2 if dtype.itemsize == 2 else 1e-5, last=True)
    assert dnn[EXECUTED] >= 2


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16])
@pytest.mark.parametrize("tail", [F.relu, F.gelu, lambda y: y * y.sigmoid() + 1])
def test_epilogues_that_the_library_does_not_compute(dnn, dtype, tail):
    """A launch of ours computes them, of results that are rounded as the operands are."""
    f = rl.compile(lambda x, w, b: tail(F.conv2d(x, w, b)))
    compared(f, CASES["bias"][1], dtype, 3e-2 if dtype.itemsize == 2 else 1e-5)
    assert dnn[EXECUTED] >= 3


def test_engines_that_may_be_taken(dnn):
    """The first rounds float32 to tf32, and has no fixed order."""
    f, shapes = CASES["plain"]
    for change, rank in ((None, 0), ("allow_tf32", 1), ("deterministic", 1)):
        cudnn = rl.backends.cudnn
        before = getattr(cudnn, change) if change else None
        try:
            if change:
                setattr(cudnn, change, not before)
            compared(f, shapes)
            assert dnn[RANK] == rank
        finally:
            if change:
                setattr(cudnn, change, before)
    with rl.backends.cudnn.flags(enabled=False):
        count = dnn[EXECUTED]
        compared(f, shapes)
        assert dnn[EXECUTED] == count


def test_addresses_that_are_less_aligned(dnn):
    held, w = rl.randn(1 + 2 * 3 * 5 * 8), rl.randn(4, 3, 3, 3)
    for first, count in ((0, 1), (1, 1)):
        x = held[first:first + 240].reshape(2, 3, 5, 8)
        found = F.conv2d(held.to("cuda")[first:first + 240].reshape(2, 3, 5, 8), w.to("cuda"))
        np.testing.assert_allclose(found.cpu().numpy(), F.conv2d(x, w).numpy(), atol=1e-5)
        assert dnn[EXECUTED] == count


def test_calls_go_by_the_hot_path(dnn):
    """A plan is made once; each call makes a variant pack and frees it, and the program is ready for machine code."""
    x, w = rl.randn(2, 3, 5, 6, device="cuda"), rl.randn(4, 3, 3, 3, device="cuda")
    F.conv2d(x, w)
    before = dnn[EXECUTED], dnn[FINALIZED]
    programs = list(dnn.provider.board(0).programs.values())
    assert any(program.ready for program in programs)
    for _ in range(3):
        F.conv2d(x, w)
    assert (dnn[EXECUTED], dnn[FINALIZED]) == (before[0] + 3, before[1] + 3)
    stream = rl.cuda.Stream()
    with rl.cuda.stream(stream):
        y = F.conv2d(x, w)
    stream.synchronize()
    np.testing.assert_allclose(y.cpu().numpy(), F.conv2d(x.cpu(), w.cpu()).numpy(), atol=1e-5)


def test_graphs(dnn):
    x, w = rl.randn(2, 3, 5, 6, device="cuda"), rl.randn(4, 3, 3, 3, device="cuda")
    F.conv2d(x, w)
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        y = F.conv2d(x, w)
    for _ in range(2):
        x.copy_(rl.randn(2, 3, 5, 6))
        graph.replay()
        np.testing.assert_allclose(y.cpu().numpy(), F.conv2d(x.cpu(), w.cpu()).numpy(), atol=1e-5)


def test_a_call_that_the_library_refuses(dnn):
    board = dnn.provider.board(0)
    rl.zeros(1, device="cuda")
    board.libraries.dnn(board)
    with pytest.raises(RuntimeError, match="cuDNN refused a call: .*3000"):
        board.failed(LIBRARY + DNN + 3000)
