"""Long chains of operators: nothing recurses over a program, and calls grow in proportion to its length."""
import random
import sys

import pytest

import rushlight as rl

STEPS = {"unary": lambda x: x.sin(), "binary": lambda x: x * 0.999 + 0.001, "cat": lambda x: rl.cat((x[1:], x[:1])),
         "view": lambda x: x.view(2, 2).t().reshape(4), "where": lambda x: rl.where(x > 0, x * 0.5, x),
         "reduction": lambda x: x - x.mean(), "inplace": lambda x: x.clone().add_(0.25)}
MIXED = "mixed"  # steps in an order that does not repeat


def chain(kind, length):
    drawn = random.Random(length)
    cheap = [name for name in STEPS if name != "unary"]
    names = [drawn.choice(cheap) if kind == MIXED else kind for _ in range(length)]

    def function(x):
        for name in names:
            x = STEPS[name](x)
        return (x * x).sum()

    return function


def values(function, tracked):
    x = rl.tensor([0.5, -1.0, 2.0, 0.25], dtype=rl.float64, requires_grad=tracked)
    y = function(x)
    return [y.item(), *(rl.autograd.grad(y, x)[0].tolist() if tracked else ())]


@pytest.mark.parametrize("tracked, length", [
    (False, 1200), (True, 1200), pytest.param(True, 10_000, marks=pytest.mark.long)])  # the last has both directions
@pytest.mark.parametrize("kind", [*STEPS, MIXED])
def test_long_chains_compile(kind, tracked, length):
    if kind == MIXED:
        length //= 20  # every layer has kernels of its own
    rl._dynamo.reset()
    function = chain(kind, length)
    assert values(rl.compile(function), tracked) == pytest.approx(values(function, tracked), rel=1e-6, abs=1e-9)


def calls_of(function) -> int:
    """The number of calls of Python functions within a call."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", ("binary", "where", "cat"))
def test_calls_grow_in_proportion_to_length(kind):
    counts = []
    for length in (100, 200, 400):
        rl._dynamo.reset()
        compiled = rl.compile(chain(kind, length))
        counts.append(calls_of(lambda: values(compiled, True)))
    assert counts[2] - counts[1] < 3 * (counts[1] - counts[0]) + counts[0]


@pytest.mark.parametrize("length", (20_000, pytest.param(100_000, marks=pytest.mark.long)))
def test_long_graphs_of_gradients_are_walked_and_freed(length):
    x = rl.ones(4, requires_grad=True)
    y = x
    for k in range(length):
        y = y * 1.0 if k % 3 else y[0:4]
    total = y.sum()
    total.backward(retain_graph=True)
    total.backward()
    assert x.grad.tolist() == [2.0] * 4
    del y, total  # nodes are freed one after another
