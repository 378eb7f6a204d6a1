"""Every schedule beside torch's: rates and momenta over many steps, through a saved and loaded state."""
import inspect
import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

CASES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda k: 0.9**k, lambda k: 1 / (k + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda k: 0.95),
    "StepLR": lambda s, o: s.StepLR(o, 3), "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5]),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.3, 4),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.8, 5), "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 6, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, 4, mode="triangular2"),
    "CyclicLR exp": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=20),
    "OneCycleLR three": lambda s, o: s.OneCycleLR(o, [0.5, 0.2], epochs=4, steps_per_epoch=5, three_phase=True,
                                                  anneal_strategy="linear"),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.8)], [4]),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.8)],
                                                        optimizer=o)}


def optimizer_of(t):
    groups = [{"params": [t.ones(1, requires_grad=True)]}, {"params": [t.ones(1, requires_grad=True)], "lr": 0.5}]
    return t.optim.SGD(groups, lr=0.1, momentum=0.9)


def course(t, make, again=False):
    optimizer = optimizer_of(t)
    schedule, out = make(t.optim.lr_scheduler, optimizer), []
    for k in range(14):
        optimizer.step()
        schedule.step()
        out.append([[g["lr"], g["momentum"]] for g in optimizer.param_groups])
        if again and k == 6:
            state, settings = schedule.state_dict(), optimizer.state_dict()
            optimizer = optimizer_of(t)
            schedule = make(t.optim.lr_scheduler, optimizer)
            optimizer.load_state_dict(settings)
            schedule.load_state_dict(state)
    return out, schedule.get_last_lr()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_courses_are_torchs(name, again):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = course(rl, CASES[name], again), course(torch, CASES[name], again)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"mode": "max", "threshold_mode": "abs", "threshold": 0.5},
                                     {"cooldown": 1, "min_lr": [0.05, 0.3]}])
def test_plateaus(options):
    def run(t):
        optimizer = optimizer_of(t)
        schedule = t.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, **options)
        out = []
        for value in (3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0.5):
            schedule.step(value)
            out.append([g["lr"] for g in optimizer.param_groups])
        return out
    assert run(rl) == run(torch)


def test_every_schedule_is_there_with_the_same_parameters():
    theirs = {n: v for n, v in vars(torch.optim.lr_scheduler).items() if inspect.isclass(v)
              and issubclass(v, torch.optim.lr_scheduler.LRScheduler) and not n.startswith("_")}
    for name, cls in theirs.items():
        ours = getattr(rl.optim.lr_scheduler, name)
        assert [p for p in inspect.signature(ours.__init__).parameters] == [p for p in inspect.signature(cls.__init__)
                                                                            .parameters], name
