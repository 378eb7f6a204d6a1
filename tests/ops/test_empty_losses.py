"""Losses, unpooling and reductions of tensors that lack elements: values, gradients and errors as PyTorch has them."""
import itertools

import pytest
import torch

import rushlight

SHAPES = [((0, 3), (0,)), ((2, 0), (2,)), ((0, 0), (0,)), ((0,), ()), ((2, 0, 2, 2), (2, 2, 2))]


def outcome(library, function, shape):
    """Values and gradients, as strings that compare NaN, or the built-in type of the error."""
    x = library.zeros(shape, requires_grad=True)
    try:
        y = function(library, x)
        y.sum().backward()
    except (IndexError, RuntimeError, ValueError) as error:
        return next(kind for kind in (IndexError, ValueError, RuntimeError) if isinstance(error, kind))
    return str((y + 0.0).tolist()), tuple(y.shape), tuple(x.grad.shape)  # + 0.0: zeros have no sign


def same(function, shape):
    assert outcome(rushlight, function, shape) == outcome(torch, function, shape)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape, classes", SHAPES)
def test_losses_of_no_classes(shape, classes, reduction):
    count = shape[1 if len(shape) > 1 else 0]
    for name, ignored, weighted, smoothing in itertools.product(
            ("cross_entropy", "nll_loss"), (-100, 0), (False, True), (0.0, 0.1)):
        if smoothing and name == "nll_loss":
            continue

        def loss(library, x):
            options = {"label_smoothing": smoothing} if smoothing else {}
            return getattr(library.nn.functional, name)(
                x, library.zeros(classes, dtype=library.int64), library.ones(count) if weighted else None,
                reduction=reduction, ignore_index=ignored, **options)
        same(loss, shape)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0), (2, 0, 3)])
def test_probabilities_of_no_classes(shape, reduction, smoothing):
    same(lambda library, x: library.nn.functional.cross_entropy(
        x, library.zeros(shape), reduction=reduction, label_smoothing=smoothing), shape)


@pytest.mark.parametrize("shape, classes", [((2, 0), (2,)), ((0,), ()), ((0, 3, 2), (0, 2)), ((2, 3, 0), (2, 0)),
                                            ((2, 0, 3), (2, 3))])
def test_margin_losses_refuse_scores_of_no_classes(shape, classes):
    same(lambda library, x: library.nn.functional.multi_margin_loss(
        x, library.zeros(classes, dtype=library.int64)), shape)
    same(lambda library, x: library.nn.functional.multilabel_margin_loss(
        x, library.zeros(shape, dtype=library.int64)), shape)


@pytest.mark.parametrize("rank, shape", [(1, (0, 3, 4)), (1, (3, 0)), (1, (0, 4)), (1, (2, 0, 4)), (2, (0, 3, 4, 4)),
                                         (2, (2, 0, 4, 4)), (2, (0, 4, 4)), (2, (2, 3, 0, 4)), (3, (1, 0, 2, 2, 2)),
                                         (3, (0, 2, 2, 2))])
def test_unpooling_of_nothing(rank, shape):
    same(lambda library, x: getattr(library.nn.functional, f"max_unpool{rank}d")(
        x, library.zeros(shape, dtype=library.int64), 2), shape)


@pytest.mark.parametrize("name, dtype", [("nanmean", "int32"), ("nanmean", "bool"), ("nansum", "complex64"),
                                         ("nansum", "int32"), ("nanmean", "float32")])
@pytest.mark.parametrize("shape", [(0,), (2, 3)])
def test_dtypes_of_reductions_that_skip_nan(name, dtype, shape):
    found = []
    for library in (torch, rushlight):
        try:
            found.append(str(getattr(library, name)(library.zeros(shape, dtype=getattr(library, dtype))).tolist()))
        except RuntimeError:
            found.append(RuntimeError)
    assert found[0] == found[1]
