"""Losses as modules beside PyTorch's: signatures, values with options, gradients, errors, compiled."""
import copy
import importlib
import inspect
import pickle

import numpy as np
import pytest
import torch

import rushlight

RNG = np.random.default_rng(7)
X, Y = RNG.normal(size=(4, 3)).astype("float32"), RNG.normal(size=(4, 3)).astype("float32")
P, SIGNS = (1 / (1 + np.exp(-X))).astype("float32"), np.sign(Y).astype("float32")
CLASSES, LABELS, WEIGHT = np.array([0, 2, 1, 2]), np.array([[2, 0, -1], [1, -1, -1], [0, 1, 2],
                                                            [-1, 0, 0]]), np.array([0.5, 1.0, 2.0], dtype="float32")
LOG = (X - np.log(np.exp(X).sum(-1, keepdims=True))).astype("float32")
CASES = [
    ("L1Loss", {}, (X, Y)), ("L1Loss", {"reduction": "sum"}, (X, Y)), ("MSELoss", {"reduction": "none"}, (X, Y)),
    ("MSELoss", {"size_average": False}, (X, Y)),
    ("SmoothL1Loss", {"beta": 0.5}, (X, Y)), ("HuberLoss", {"delta": 0.5}, (X, Y)), ("SoftMarginLoss", {}, (X, SIGNS)),
    ("CrossEntropyLoss", {"weight": WEIGHT, "label_smoothing": 0.1}, (X, CLASSES)),
    ("CrossEntropyLoss", {"ignore_index": 2}, (X, CLASSES)),
    ("NLLLoss", {"weight": WEIGHT, "ignore_index": 0}, (LOG, CLASSES)), ("NLLLoss2d", {}, (LOG, CLASSES)),
    ("BCELoss", {"weight": WEIGHT}, (P, P[::-1].copy())),
    ("BCEWithLogitsLoss", {"weight": WEIGHT, "pos_weight": WEIGHT[::-1].copy()}, (X, P)),
    ("KLDivLoss", {"reduction": "batchmean"}, (LOG, P)),
    ("KLDivLoss", {"log_target": True}, (LOG, LOG[::-1].copy())), ("PoissonNLLLoss", {"full": True}, (X, np.abs(Y))),
    ("PoissonNLLLoss", {"log_input": False}, (P, np.abs(Y))),
    ("GaussianNLLLoss", {"full": True}, (X, Y, P)), ("HingeEmbeddingLoss", {"margin": 0.5}, (X, SIGNS)),
    ("CosineEmbeddingLoss", {"margin": 0.2}, (X, Y, SIGNS[:, 0].copy())),
    ("MarginRankingLoss", {"margin": 0.3}, (X, Y, SIGNS)),
    ("MultiMarginLoss", {"p": 2, "margin": 0.7, "weight": WEIGHT}, (X, CLASSES)),
    ("MultiLabelMarginLoss", {}, (X, LABELS)),
    ("MultiLabelSoftMarginLoss", {"weight": WEIGHT}, (X, (SIGNS > 0).astype("float32"))),
    ("TripletMarginLoss", {"swap": True, "p": 1.5}, (X, Y, P)),
    ("TripletMarginWithDistanceLoss", {"margin": 0.4}, (X, Y, P)),
    ("CTCLoss", {"blank": 0}, (LOG[:, None].copy(), np.array([[1, 2]]), np.array([4]), np.array([2]))),
]


def of(framework, name, options):
    return getattr(framework.nn,
                   name)(**{k: framework.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in options.items()})


@pytest.mark.parametrize("name, options, values", CASES)
@pytest.mark.filterwarnings("ignore")
def test_values_and_gradients(name, options, values):
    found = []
    for framework in (rushlight, torch):
        made = of(framework, name, options)
        first, *rest = [framework.from_numpy(v.copy()) for v in values]
        first.requires_grad_()
        loss = made(first, *rest)
        loss.sum().backward()
        found.append([loss.detach().numpy(), first.grad.numpy(), list(made.state_dict()), repr(made), made.reduction])
        again = pickle.loads(pickle.dumps(copy.deepcopy(made)))
        assert np.array_equal(again(first, *rest).detach().numpy(), loss.detach().numpy())
    ours, theirs = found
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=2e-5, atol=1e-6)
    assert ours[2:] == theirs[2:]


@pytest.mark.parametrize("name", sorted({name for name, *_ in CASES} - {"NLLLoss2d"}))
def test_signatures(name):
    ours, theirs = [list(inspect.signature(getattr(framework.nn, name)).parameters.values())
                    for framework in (rushlight, torch)]
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]


@pytest.mark.parametrize("wrong", [lambda nn: nn.MultiMarginLoss(p=3), lambda nn: nn.TripletMarginLoss(margin=0),
                                   lambda nn: nn.TripletMarginWithDistanceLoss(margin=-1.0),
                                   lambda nn: nn.CrossEntropyLoss(nothing=1), lambda nn: nn.GaussianNLLLoss(True)])
def test_wrong_options(wrong):
    for framework in (rushlight, torch):
        with pytest.raises((ValueError, TypeError)) as found:
            wrong(framework.nn)
    with pytest.raises(found.type):
        wrong(rushlight.nn)


def test_subclasses_and_names():
    class Focal(rushlight.nn.CrossEntropyLoss):
        def __init__(self, gamma, **options):
            super().__init__(reduction="none", **options)
            self.gamma = gamma

        def forward(self, input, target):
            return (super().forward(input, target) * self.gamma).mean()

    class Own(rushlight.nn.modules.loss._WeightedLoss):
        def forward(self, input, target):
            return (self.weight * (input - target) ** 2).mean()

    x, y = rushlight.from_numpy(X), rushlight.from_numpy(CLASSES)
    assert rushlight.allclose(Focal(2.0, label_smoothing=0.1)(x, y),
                              2 * rushlight.nn.CrossEntropyLoss(label_smoothing=0.1)(input=x, target=y))
    assert Own(rushlight.ones(3))(x, x).item() == 0
    assert rushlight.nn.PoissonNLLLoss()(log_input=x, target=x.exp()).isfinite()


def test_compiled_losses_are_one_graph():
    loss = rushlight.nn.CrossEntropyLoss(weight=rushlight.from_numpy(WEIGHT), label_smoothing=0.1)
    x, y = rushlight.from_numpy(X), rushlight.from_numpy(CLASSES)
    assert rushlight.allclose(rushlight.compile(lambda a, b: loss(a * 2, b), fullgraph=True)(x, y), loss(x * 2, y))


@pytest.mark.parametrize("flag", [None, True, False, 0, 1])
@pytest.mark.parametrize("reduce", [None, True, False, 0, 1])
def test_old_flags_mean_what_they_are_worth(flag, reduce):
    found = []
    for lib in (torch, rushlight):
        names, x = importlib.import_module(f"{lib.__name__}.nn._reduction"), lib.tensor([1.0, 2.0])
        loss = lib.nn.functional.mse_loss(x, x * 2, size_average=flag, reduce=reduce)
        found.append((loss.tolist(), names.legacy_get_string(flag, reduce, emit_warning=False),
                      names.legacy_get_enum(flag, reduce, emit_warning=False)))
        assert [names.get_enum(name) for name in ("none", "mean", "sum")] == [0, 1, 2]
        with pytest.raises(ValueError, match="not a valid value for reduction"):
            names.get_enum("median")
    assert found[0] == found[1]
