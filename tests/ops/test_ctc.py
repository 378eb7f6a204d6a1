"""The CTC loss against torch and against the sum over all alignments."""
import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from .judge import arrays, same  # noqa: E402

TARGETS = np.array([[1, 1, 2], [3, 0, 0], [4, 4, 4]])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [True, False])
def test_batches(reduction, zero_infinity):
    scores, = arrays((12, 3, 5))
    lengths = [12, 8, 12 if not zero_infinity else 4]  # the last sample cannot emit its targets in 4 steps
    same(lambda lib, x, t: lib.nn.functional.ctc_loss(x.log_softmax(2), t, lengths, [3, 1, 3], reduction=reduction,
                                                      zero_infinity=zero_infinity), scores, TARGETS)


def test_concatenated_targets_and_single_samples():
    scores, = arrays((12, 3, 5))
    same(lambda lib, x, t: lib.nn.functional.ctc_loss(x.log_softmax(2), t, [12, 12, 9], [2, 1, 3], blank=4), scores,
         np.array([1, 2, 3, 1, 1, 2]))
    same(lambda lib, x, t: lib.nn.functional.ctc_loss(x[:, 0].log_softmax(1), t, lib.tensor(10), lib.tensor(2)), scores,
         np.array([1, 2]))


def test_against_every_alignment():
    logp = rushlight.randn(5, 1, 3).log_softmax(2)
    p = logp.exp().tolist()
    total = 0.0
    for path in itertools.product(range(3), repeat=5):
        merged = [k for k, _ in itertools.groupby(path) if k]
        if merged == [1, 2]:
            total += np.prod([p[t][0][k] for t, k in enumerate(path)])
    loss = rushlight.nn.CTCLoss(reduction="sum")(logp, rushlight.tensor([[1, 2]]), [5], [2])
    assert abs(float(loss) + np.log(total)) < 1e-5


@pytest.mark.parametrize("how", [dict(blank=7), dict(input_lengths=[13, 1, 1]), dict(target_lengths=[4, 1, 1]),
                                 dict(input_lengths=[1, 1])])
def test_arguments_refused(how):
    arguments = dict(input_lengths=[12, 12, 12], target_lengths=[3, 3, 3], blank=0) | how
    for lib in (torch, rushlight):
        with pytest.raises(RuntimeError):
            lib.nn.functional.ctc_loss(lib.zeros(12, 3, 5), lib.tensor(TARGETS), **arguments)


@pytest.mark.parametrize("lengths, targets", [([6, 6], [2, 2]), ([6, 4], [3, 0]), ([5, 6], [1, 2])])
def test_second_derivatives(lengths, targets):
    rows = rushlight.tensor([[1, 1, 2], [3, 1, 2]])

    def loss(x, weight):
        return (rushlight.nn.functional.ctc_loss(x.log_softmax(2), rows, lengths, targets, reduction="none")
                * weight).sum()

    x, weight = rushlight.randn(6, 2, 4, dtype=rushlight.float64,
                                requires_grad=True), rushlight.tensor([0.7, 1.3], dtype=rushlight.float64,
                                                                      requires_grad=True)
    assert rushlight.autograd.gradcheck(loss, (x, weight)) and rushlight.autograd.gradgradcheck(loss, (x, weight))
