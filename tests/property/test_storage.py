"""Views, ``as_strided`` among them, and writes through them: compiled, in eager mode and in PyTorch alike."""
import pytest

import rushlight as rl

from .aliasing import near
from .storage import INPUTS, draw, facts

torch = pytest.importorskip("torch")

PARTS = "layouts", "results", "storage", "gradient"
BATCH = 25


def check(seed, backend):
    """Compares the runs of one function; AssertionError with the seed where they part."""
    name, tracked = list(INPUTS)[seed % len(INPUTS)], seed // len(INPUTS) % 3 == 0
    function, restrided = draw(seed, INPUTS[name](torch.zeros(48)))
    theirs, eager = (facts(package, name, function, tracked=tracked) for package in (torch, rl))
    assert (theirs[0] == "RuntimeError") == (eager[0] == "RuntimeError"), (seed, theirs, eager)
    if eager[0] == "RuntimeError":  # a compiled function knows versions of its arguments alone
        return
    compiled = facts(rl, name, function, lambda f: rl.compile(f, backend=backend), tracked)
    for part, a, b, c in zip(PARTS, theirs, eager, compiled):
        same = near if part != "layouts" else lambda a, b: a == b
        # gradients of elements between those of an argument depend on how PyTorch got to it, compiled or not
        assert same(b, c) or restrided and part == "gradient" and same(
            c, compiled_by_pytorch(name, function, tracked)), (seed, name, "compiled", part, b, c)
        assert restrided and part == "gradient" or same(a, b), (seed, name, "eager", part, a, b)


def compiled_by_pytorch(name, function, tracked):
    """Return the gradient of a function of an input that PyTorch compiles."""
    torch._dynamo.reset()
    return facts(torch, name, function, lambda f: torch.compile(f, backend="aot_eager"), tracked)[-1]


def batches(count):
    return [pytest.param(start, marks=[pytest.mark.long] if start >= 300 else []) for start in range(0, count, BATCH)]


@pytest.mark.parametrize("start", batches(1500))
def test_functions_of_views_and_writes(start):
    rl._dynamo.reset()
    for seed in range(start, start + BATCH):
        check(seed, "aot_eager")


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 300, BATCH))
def test_functions_of_views_and_writes_as_kernels(start):
    rl._dynamo.reset()
    for seed in range(start, start + BATCH):
        check(seed, "rushlight")


def test_a_view_that_changes_its_shape_in_place_stays_a_view():
    """Its own views were taken for what it is a view of."""
    def function(x):
        view = x[1:]
        inner = view[0]
        view.unsqueeze_(0)
        return inner.as_strided((2,), (3,), 3) * 1, view.as_strided((2,), (1,)) * 1

    x = rl.arange(12.0).view(4, 3)
    assert [t.tolist() for t in rl.compile(function)(x)] == [t.tolist() for t in function(x)] == [[3, 6], [3, 4]]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "rushlight"])
@pytest.mark.parametrize("write", [lambda x: x.t().select(0, 0).copy_(x[:, 1]), lambda x: x.t()[1:].mul_(2),
                                   lambda x: x.as_strided((2, 3), (3, 4), 6)[:, ::2].neg_()])
@pytest.mark.parametrize("look", [lambda x: x, lambda x: x.t(), lambda x: x.as_strided((2, 3), (3, 4), 6) * 2])
def test_results_written_through_views_keep_their_strides(backend, write, look):
    """The primitives of a program, called one by one, gave results the strides that the write had."""
    def function(x):
        value = x * 2 + 1
        write(value)
        return look(value), value

    x = rl.arange(6.0, requires_grad=True).view(1, 6).expand(4, 6)
    expected, found = function(x), rl.compile(function, backend=backend)(x)
    assert [t.stride() for t in found] == [t.stride() for t in expected]
    assert [t.tolist() for t in found] == [t.tolist() for t in expected]
