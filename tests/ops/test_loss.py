"""Losses of operands whose shapes or dtypes differ, and of infinite logits, beside PyTorch's."""
import itertools
import math

import pytest

import rushlight as rl
import rushlight.nn.functional as F


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_a_forgotten_dimension_is_told(loss):
    with pytest.warns(UserWarning, match="target size"):
        spread = loss(rl.ones(2, 1), rl.zeros(2), reduction="none")
    assert spread.shape == (2, 2)


def test_equal_shapes_warn_of_nothing(recwarn):
    F.mse_loss(rl.ones(2, 1), rl.zeros(2, 1))
    assert not recwarn.list


FLOATS = ("float32", "float64", "bfloat16")
DTYPES = [*itertools.product(FLOATS, FLOATS, ["float32"]),  # of input, target and weight
          *(("float32", "float32", dtype) for dtype in ("float64", "bfloat16", "int64", "bool"))]
BINARY = {
    "probabilities": lambda t, x, y, w: t.nn.functional.binary_cross_entropy(x, y, w, reduction="none"),
    "logits": lambda t, x, y, w: t.nn.functional.binary_cross_entropy_with_logits(x, y, w, reduction="none"),
    "logits, weighted positives": lambda t, x, y, w: t.nn.functional.binary_cross_entropy_with_logits(
        x, y, reduction="none", pos_weight=w),
    "margin": lambda t, x, y, w: t.nn.functional.soft_margin_loss(x, y, reduction="none"),
}


def outcome(call, lib, dtypes):
    """(dtype, values, gradient of the input) of a loss, or the class of the error that it raises."""
    rows = ([1, 0, 1, 0], [1, 1, 0, 0], [3, 1, 0, 2])
    x, y, w = (lib.tensor(row, dtype=getattr(lib, dtype)) for row, dtype in zip(rows, dtypes))
    if x.is_floating_point():
        x = (x * 0.5 + 0.25).requires_grad_()
    try:
        loss = call(lib, x, y, w)
        loss.float().sum().backward()
    except RuntimeError as error:
        assert "operands differ" not in str(error)
        return NotImplementedError if isinstance(error, NotImplementedError) else RuntimeError
    return str(loss.dtype).split(".")[-1], loss.float().tolist(), x.grad.float().tolist()


@pytest.mark.parametrize("name", BINARY)
def test_binary_losses_of_mixed_dtypes(name):
    torch = pytest.importorskip("torch")
    for dtypes in DTYPES:
        ours, theirs = (outcome(BINARY[name], lib, dtypes) for lib in (rl, torch))
        if theirs is RuntimeError:
            assert ours is theirs, dtypes
            continue
        assert ours[0] == theirs[0], dtypes
        for mine, wanted in zip(ours[1:], theirs[1:]):
            assert mine == pytest.approx(wanted, rel=2e-2 if "bfloat16" in dtypes else 1e-5), dtypes


@pytest.mark.parametrize("target", [0.0, 0.5, 1.0])
def test_the_loss_of_infinite_logits(target):
    """The limit; NaN where 0 meets infinity, as in PyTorch."""
    x = rl.tensor([math.inf, -math.inf, 1e30, -1e30], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, rl.full((4,), target), reduction="none")
    slopes, = rl.autograd.grad(loss.sum(), x)
    high, low = (1 - target) * math.inf, target * math.inf
    assert loss.tolist() == pytest.approx([high, low, (1 - target) * 1e30, target * 1e30], nan_ok=True)
    assert slopes.tolist() == pytest.approx([1 - target, -target] * 2)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_weighted_losses(name, reduction):
    torch = pytest.importorskip("torch")
    found = []
    for lib in (rl, torch):
        x, y, w = lib.tensor([1.0, 4.0, -2.0]), lib.tensor([0.5, 1.0, 1.0]), lib.tensor([1.0, 0.0, 4.0])
        loss = getattr(lib.nn.functional, name)
        found.append(loss(x, y, reduction=reduction, weight=w).tolist())
        with pytest.raises(ValueError, match="same size"):
            loss(x, y, reduction=reduction, weight=w[:1])
    assert found[0] == pytest.approx(found[1])


def test_class_weights_of_another_dtype_are_refused():
    torch = pytest.importorskip("torch")
    for lib, dtype in itertools.product((rl, torch), ("float64", "int64")):
        for loss in (lib.nn.functional.cross_entropy, lib.nn.functional.nll_loss):
            with pytest.raises(RuntimeError, match="expected scalar type Float but found (Double|Long)"):
                loss(lib.zeros(2, 3), lib.tensor([0, 2]), weight=lib.ones(3, dtype=getattr(lib, dtype)))


@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((3, 4), (1, 4)), ((1, 4), (3, 4)), ((3, 1), (3, 4)),
                                    ((3, 4), (2, 3, 4)), ((4,), (4,)), ((4,), ()), ((), ()), ((), (4,))])
def test_multilabel_soft_margin_loss_of_other_shapes(shapes):
    """Targets may broadcast; the mean divides by the classes of the input."""
    torch = pytest.importorskip("torch")

    def outcome(lib, reduction):
        given = [lib.arange(float(math.prod(shape))).reshape(shape) / 3 for shape in shapes]
        try:
            loss = lib.nn.functional.multilabel_soft_margin_loss(*given, reduction=reduction)
        except IndexError:
            return "IndexError"
        return tuple(loss.shape), loss.reshape(-1).tolist()

    for reduction in ("none", "mean", "sum"):
        ours, theirs = outcome(rl, reduction), outcome(torch, reduction)
        assert ours[0] == theirs[0]
        assert ours[1] == pytest.approx(theirs[1]) or ours == theirs == "IndexError"
