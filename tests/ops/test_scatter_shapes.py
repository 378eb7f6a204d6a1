"""scatter and gather of tensors of every combination of small shapes, without dimensions and empty ones too, beside
torch."""
import itertools

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

SHAPES = (), (1,), (0,), (3,), (2, 2), (0, 3), (2, 0)


def outcome(t, call, shape, indexed, given):
    x, index, source = t.full(shape, 5.0), t.zeros(indexed, dtype=t.int64), t.ones(given)
    try:
        found = call(t, x, index, source)
    except (RuntimeError, IndexError):
        return "refused"
    return tuple(found.shape), found.tolist()


@pytest.mark.parametrize("call", [
    lambda t, x, index, source: t.scatter(x, 0, index, source),
    lambda t, x, index, source: x.scatter_add_(0, index, source),
    lambda t, x, index, source: x.scatter_(0, index, 2.0),
    lambda t, x, index, source: t.scatter_reduce(x, -1, index, source, "mean", include_self=False),
    lambda t, x, index, source: t.gather(x, -1, index)], ids=["scatter", "add", "number", "reduce", "gather"])
def test_every_combination_of_shapes(call):
    for shapes in itertools.product(SHAPES, repeat=3):
        assert outcome(rushlight, call, *shapes) == outcome(torch, call, *shapes), shapes


def test_an_empty_index_gives_gradients():
    x, source = rushlight.ones(2, 2, requires_grad=True), rushlight.ones(3, requires_grad=True)
    index = rushlight.zeros(0, dtype=rushlight.int64)
    x.scatter(0, index, source).sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1]] and source.grad.tolist() == [0, 0, 0]
