"""Averages of models beside torch's."""
import numpy as np
import pytest

import rushlight as rl
import rushlight.optim.swa_utils  # noqa: F401

torch = pytest.importorskip("torch")
import torch.optim.swa_utils  # noqa: E402,F401


def averaged(t, options, buffers=False):
    """An averaged model after four steps of its original."""
    made = t.nn.Sequential(t.nn.Linear(3, 2), t.nn.BatchNorm1d(2))
    rng = np.random.default_rng(0)
    with t.no_grad():
        for p in made.parameters():
            p.copy_(t.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32)))
    mean = t.optim.swa_utils.AveragedModel(made, use_buffers=buffers, **options)
    for k in range(4):
        with t.no_grad():
            for p in made.parameters():
                p.add_(k * 0.1)
            made(t.tensor(rng.standard_normal((5, 3)).astype(np.float32)))
        mean.update_parameters(made)
    return mean


KINDS = {"swa": lambda u: {}, "ema": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.7)},
         "ema one by one": lambda u: {"avg_fn": u.get_ema_avg_fn(0.7)},
         "swa one by one": lambda u: {"avg_fn": u.get_swa_avg_fn()},
         "swa lists": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn()}}


@pytest.mark.parametrize("buffers", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_averages_are_torchs(kind, buffers):
    def run(t):
        options = KINDS[kind](t.optim.swa_utils)
        if buffers:  # counters of batches are integers, of which torch averages lists only by default
            options = {} if kind != "swa one by one" else options
        return {k: v.float().numpy() for k, v in averaged(t, options, buffers).state_dict().items()}
    ours, theirs = run(rl), run(torch)
    assert list(ours) == list(theirs)
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-6)


def test_statistics_of_batches_are_computed_anew():
    def run(t):
        model = averaged(t, {})
        rng = np.random.default_rng(1)
        batches = [[t.tensor(rng.standard_normal((4, 3)).astype(np.float32)), 0] for _ in range(3)]
        model.eval()
        t.optim.swa_utils.update_bn(batches, model)
        assert not model.training and model.module[1].momentum == 0.1
        return model.module[1].running_mean.numpy(), model.module[1].running_var.numpy()
    for ours, theirs in zip(run(rl), run(torch)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{"swa_lr": 0.05},
                                     {"swa_lr": [0.3, 0.01], "anneal_epochs": 4, "anneal_strategy": "linear"},
                                     {"swa_lr": 0.2, "anneal_epochs": 0}])
def test_rates_are_torchs(options):
    def run(t):
        groups = [{"params": [t.ones(1, requires_grad=True)]}, {"params": [t.ones(1, requires_grad=True)], "lr": 0.5}]
        optimizer = t.optim.SGD(groups, lr=0.1)
        first = t.optim.lr_scheduler.StepLR(optimizer, 2)
        out = []
        for _ in range(3):
            optimizer.step()
            first.step()
        second = t.optim.swa_utils.SWALR(optimizer, **options)
        for _ in range(8):
            optimizer.step()
            second.step()
            out.append([g["lr"] for g in optimizer.param_groups])
        return out
    np.testing.assert_allclose(run(rl), run(torch), rtol=1e-6)


def test_bad_settings_are_refused():
    for t in (rl, torch):
        u = t.optim.swa_utils
        model = t.nn.Linear(1, 1)
        with pytest.raises(AssertionError):
            u.AveragedModel(model, avg_fn=u.get_swa_avg_fn(), multi_avg_fn=u.get_swa_multi_avg_fn())
        with pytest.raises(ValueError):
            u.get_ema_multi_avg_fn(2.0)
        for options in ({"anneal_strategy": "fast"}, {"anneal_epochs": -1}, {"swa_lr": [1, 2]}):
            with pytest.raises(ValueError):
                u.SWALR(t.optim.SGD(model.parameters(), lr=0.1), **{"swa_lr": 0.1, **options})
