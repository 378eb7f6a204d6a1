"""Bags of embeddings and segments against torch."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from .judge import arrays, same  # noqa: E402

INDEX = np.array([1, 2, 4, 5, 4, 3, 2, 9])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    table, = arrays((10, 3))
    same(lambda lib, w, i, o: lib.nn.functional.embedding_bag(i, w, o, mode=mode), table, INDEX, np.array([0, 3, 3, 5]))
    same(lambda lib, w, i: lib.nn.functional.embedding_bag(i.reshape(2, 4), w, mode=mode), table, INDEX)
    same(lambda lib, w, i, o: lib.nn.functional.embedding_bag(i, w, o, mode=mode, padding_idx=4,
                                                              include_last_offset=True), table, INDEX,
         np.array([0, 3, 5, 8]))


def test_weighted_bags():
    table, weights = arrays((10, 3), (8,))
    same(lambda lib, w, s, i, o: lib.nn.functional.embedding_bag(i, w, o, mode="sum", per_sample_weights=s), table,
         weights, INDEX, np.array([0, 3]))


def test_the_module():
    theirs, ours = torch.nn.EmbeddingBag(10, 3, mode="sum", padding_idx=1), rushlight.nn.EmbeddingBag(10, 3, mode="sum",
                                                                                                      padding_idx=1)
    assert repr(theirs) == repr(ours) and list(theirs.state_dict()) == list(ours.state_dict())
    assert not ours.weight[1].abs().max()
    assert tuple(ours(rushlight.tensor(INDEX), rushlight.tensor([0, 4])).shape) == (2, 3)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce):
    x, = arrays((8, 3))
    same(lambda lib, x, n: lib._segment_reduce(x, reduce, lengths=n, initial=1.0), x, np.array([3, 0, 4, 1]))
    same(lambda lib, x, n: lib._segment_reduce(x, reduce, offsets=n), x, np.array([0, 2, 5, 8]))


@pytest.mark.parametrize("call,error", [
    (lambda lib: lib.nn.functional.embedding_bag(lib.tensor([1, 2]), lib.ones(3, 2)), ValueError),
    (lambda lib: lib.nn.functional.embedding_bag(lib.tensor([1, 2]), lib.ones(3, 2), lib.tensor([1])),
     (ValueError, RuntimeError)),
    (lambda lib: lib.nn.functional.embedding_bag(lib.tensor([[1, 2]]), lib.ones(3, 2), mode="min"), ValueError)])
def test_arguments_refused(call, error):
    for lib in (torch, rushlight):
        with pytest.raises(error):
            call(lib)


@pytest.mark.parametrize("initial", [None, 0.0, 1.0])
@pytest.mark.parametrize("reduce", ["max", "min", "sum", "mean", "prod"])
def test_slopes_of_segments(reduce, initial):
    """Ties, NaN, zeros, an empty segment, and an extreme that is the initial value."""
    nan = float("nan")
    rows = [[1, nan], [2, nan], [3, 4.0], [4, 0], [3, 0], [5, 6], [0, 2], [0.5, 2]]

    def slopes(lib):
        x = lib.tensor(rows, requires_grad=True)
        found = lib.segment_reduce(x, reduce, lengths=lib.tensor([0, 2, 1, 3, 2]), axis=0, initial=initial,
                                   unsafe=True)
        found.backward(lib.arange(10.0).reshape(5, 2))
        return found.detach().numpy(), x.grad.numpy()

    for found, wanted in zip(slopes(rushlight), slopes(torch), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
