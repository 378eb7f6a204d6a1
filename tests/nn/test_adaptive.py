"""The adaptive softmax and fractional pooling as modules, against torch."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


def pair():
    theirs, ours = (lib.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=True)
                    for lib in (torch, rushlight))
    ours.load_state_dict({k: rushlight.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return theirs, ours


def test_adaptive_softmax():
    theirs, ours = pair()
    assert repr(theirs) == repr(ours)
    x, t = np.random.default_rng(0).standard_normal((9, 8)).astype(np.float32), np.array([0, 3, 4, 9, 10, 19, 2, 5, 11])
    wanted, got = theirs(torch.tensor(x), torch.tensor(t)), ours(rushlight.tensor(x), rushlight.tensor(t))
    wanted.loss.backward(), got.loss.backward()
    np.testing.assert_allclose(got.output.detach().numpy(), wanted.output.detach().numpy(), rtol=1e-5, atol=1e-6)
    for a, b in zip(ours.parameters(), theirs.parameters()):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(ours.log_prob(rushlight.tensor(x)).detach().numpy(),
                               theirs.log_prob(torch.tensor(x)).detach().numpy(), rtol=1e-5, atol=1e-5)
    assert ours.predict(rushlight.tensor(x)).tolist() == theirs.predict(torch.tensor(x)).tolist()
    assert ours(rushlight.tensor(x[0]), rushlight.tensor(5)).output.dim() == 0


@pytest.mark.parametrize("cutoffs", [[], [4, 4], [5, 3], [0, 3], [20]])
def test_cutoffs_are_checked(cutoffs):
    for lib in (torch, rushlight):
        with pytest.raises(ValueError):
            lib.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)


def test_targets_are_checked():
    _, ours = pair()
    with pytest.raises(RuntimeError, match="range"):
        ours(rushlight.ones(1, 8), rushlight.tensor([20]))
    with pytest.raises(RuntimeError, match="batch dimension"):
        ours(rushlight.ones(2, 8), rushlight.tensor([1]))


def test_fractional_pooling():
    assert tuple(rushlight.nn.FractionalMaxPool2d(3, output_ratio=0.5)(rushlight.randn(1, 2, 9, 9))
                 .shape) == (1, 2, 4, 4)
    assert tuple(rushlight.nn.FractionalMaxPool3d(2, output_size=3)(rushlight.randn(1, 2, 6, 6, 6))
                 .shape) == (1, 2, 3, 3, 3)
    with pytest.raises(ValueError, match="exactly one"):
        rushlight.nn.FractionalMaxPool2d(3)


def test_lazy_instance_norm():
    for shape in ((2, 4, 9), (4, 9)):
        ours = rushlight.nn.LazyInstanceNorm1d()
        ours(rushlight.randn(shape))
        assert type(ours) is rushlight.nn.InstanceNorm1d and ours.num_features == 4


def test_activations_written_into_their_input():
    for name in ("leaky_relu_", "elu_", "celu_", "selu_", "hardtanh_"):
        x = rushlight.tensor([-2.0, 0.5])
        wanted = getattr(rushlight.nn.functional, name[:-1])(x)
        assert getattr(rushlight.nn.functional, name)(x) is x and rushlight.equal(x, wanted)
