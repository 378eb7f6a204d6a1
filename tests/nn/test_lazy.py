"""Modules that learn their sizes from the first input."""
import copy

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


@pytest.mark.parametrize("name,shape,arguments", [
    ("LazyConv1d", (2, 4, 9), (6, 3)), ("LazyConv2d", (2, 4, 9, 9), (6, 3)), ("LazyConv3d", (2, 4, 5, 5, 5), (6, 3)),
    ("LazyConvTranspose1d", (2, 4, 9), (6, 3)),
    ("LazyConvTranspose2d", (2, 4, 9, 9), (6, 3)), ("LazyConvTranspose3d", (1, 4, 3, 3, 3), (6, 3)),
    ("LazyLinear", (2, 4), (6,)), ("LazyBatchNorm1d", (3, 4), ()),
    ("LazyBatchNorm2d", (3, 4, 2, 2), ())])
def test_becomes_its_class(name, shape, arguments):
    theirs, ours = getattr(torch.nn, name)(*arguments), getattr(rushlight.nn, name)(*arguments)
    assert repr(theirs) == repr(ours)
    theirs(torch.ones(shape)), ours(rushlight.ones(shape))
    assert type(ours) is getattr(rushlight.nn, name[4:])
    assert repr(theirs) == repr(ours)
    assert {k: tuple(v.shape) for k, v in theirs.state_dict().items()} == {k: tuple(v.shape)
                                                                           for k, v in ours.state_dict().items()}


def test_rank_is_checked():
    with pytest.raises(RuntimeError, match="LazyConv2d"):
        rushlight.nn.LazyConv2d(3, 2)(rushlight.ones(2, 2))
    with pytest.raises(ValueError, match="groups"):
        rushlight.nn.LazyConv1d(4, 2, groups=2)(rushlight.ones(1, 3, 5))


def test_linear_cross_entropy():
    loss = rushlight.nn.LinearCrossEntropyLoss(5, 7, out_features=(2,), bias=True)
    x = rushlight.randn(3, 5, requires_grad=True)
    target = rushlight.randint(0, 7, (3, 2))
    scores = (x @ loss.linear.weight.T + loss.linear.bias).reshape(3, 7, 2)
    assert rushlight.allclose(loss(x, target), rushlight.nn.functional.cross_entropy(scores, target))


def test_parameters_without_a_shape_are_not_computed_with():
    model = rushlight.nn.LazyLinear(3)
    with pytest.raises(ValueError, match="uninitialized parameter in numel"):
        sum(p.numel() for p in model.parameters())
    with pytest.raises(ValueError, match="uninitialized parameter in add"):
        model.weight + 1
    model(rushlight.ones(2, 4))
    assert sum(p.numel() for p in model.parameters()) == 15


@pytest.mark.parametrize("lib", [rushlight, torch], ids=["rushlight", "torch"])
def test_replaced_call_sees_the_lazy_class(lib, monkeypatch):
    seen, plain = [], lib.nn.Module.__call__

    def call(self, *args):
        seen.append(type(self).__name__)
        return plain(self, *args)

    lazy = lib.nn.LazyLinear(3)
    other = copy.deepcopy(lazy)
    for module in (lazy, other):
        module.register_forward_pre_hook(lambda module, args: seen.append(f"hook of {type(module).__name__}"))
    monkeypatch.setattr(lib.nn.Module, "__call__", call)
    lazy(lib.ones(2, 4)), other(lib.ones(2, 5)), lazy(lib.ones(1, 4))
    assert seen == ["LazyLinear", "hook of Linear"] * 2 + ["Linear", "hook of Linear"]
    assert lazy.weight.shape == (3, 4) and other.weight.shape == (3, 5)
