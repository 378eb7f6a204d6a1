"""Schedulers whose rates are tensors, follow one another, or meet new groups, beside PyTorch's."""
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
KINDS = {
    "LambdaLR": dict(lr_lambda=lambda e: 0.9**e), "MultiplicativeLR": dict(lr_lambda=lambda e: 0.95),
    "StepLR": dict(step_size=2), "MultiStepLR": dict(milestones=[1, 3]),
    "ConstantLR": {}, "LinearLR": {}, "ExponentialLR": dict(gamma=0.9), "PolynomialLR": {},
    "CosineAnnealingLR": dict(T_max=10), "CosineAnnealingWarmRestarts": dict(T_0=3),
    "OneCycleLR": dict(max_lr=0.5, total_steps=8),
    "CyclicLR": dict(base_lr=0.1, max_lr=[0.5], base_momentum=[0.7], step_size_up=3),
}


def optimizer(t, lr=0.1):
    return t.optim.SGD([t.nn.Parameter(t.ones(2))], lr=lr, momentum=0.9)


def rates(t, kind, tensor):
    lr = t.tensor(0.1) if tensor else 0.1
    steps = optimizer(t, lr)
    schedule = getattr(t.optim.lr_scheduler, kind)(steps, **KINDS[kind])
    seen = []
    for _ in range(6):
        steps.step()
        schedule.step()
        group = steps.param_groups[0]
        seen += [float(group["lr"]), float(group["initial_lr"]), float(schedule.get_last_lr()[0]),
                 float(group["momentum"]), float(schedule.base_lrs[0])]
    return seen, (steps.param_groups[0]["lr"] is lr) == tensor


@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rates_that_are_tensors(kind, tensor):
    (ours, same), (theirs, known) = rates(rl, kind, tensor), rates(torch, kind, tensor)
    assert ours == pytest.approx(theirs, rel=1e-5) and same == known


def test_one_schedule_after_another():
    def program(t):
        steps = optimizer(t)
        first = t.optim.lr_scheduler.CosineAnnealingLR(steps, T_max=4)
        second = t.optim.lr_scheduler.CyclicLR(steps, base_lr=0.1, max_lr=0.3, step_size_up=1, step_size_down=3)
        seen = []
        for k in range(12):
            steps.step()
            (first if k <= 4 else second).step()
            seen.append(steps.param_groups[0]["lr"])
        return seen
    assert program(rl) == pytest.approx(program(torch))


def test_chained_schedules_in_a_sequence():
    def program(t):
        s, steps = t.optim.lr_scheduler, optimizer(t)
        chained = s.ChainedScheduler([s.LinearLR(steps, total_iters=3), s.StepLR(steps, 2)])
        schedule = s.SequentialLR(steps, [chained, s.ExponentialLR(steps, 0.9)], [4])
        seen = []
        for _ in range(8):
            steps.step()
            schedule.step()
            seen.append(steps.param_groups[0]["lr"])
        return seen
    assert program(rl) == pytest.approx(program(torch))


@pytest.mark.parametrize("low", [1e-5, [1e-5]])
def test_a_plateau_with_new_groups(low):
    def program(t):
        steps = optimizer(t)
        schedule = t.optim.lr_scheduler.ReduceLROnPlateau(steps, patience=0, min_lr=low)
        steps.add_param_group({"params": [t.nn.Parameter(t.ones(1))], "lr": 0.05})
        for metric in (1.0, 2.0, 3.0):
            schedule.step(metric)
        return [group["lr"] for group in steps.param_groups]
    if isinstance(low, list):
        for t in (rl, torch):
            with pytest.raises(RuntimeError, match="The number of param groups in the"):
                program(t)
    else:
        assert program(rl) == pytest.approx(program(torch))


def test_the_state_of_a_function_that_scales():
    class Scale:
        def __init__(self, x):
            self.x = x

        def __call__(self, _):
            return self.x

    def program(t):
        made = [t.optim.lr_scheduler.CyclicLR(optimizer(t), 1, 5, scale_fn=Scale(x)) for x in (0.5, 0.25)]
        state = made[0].state_dict()
        made[1].load_state_dict(dict(state))
        return made[1].scale_fn(1), state["_scale_fn_custom"], "_scale_fn_ref" in state
    assert program(rl) == program(torch)


def test_a_step_that_was_replaced_is_told_of():
    steps = optimizer(rl)
    schedule = rl.optim.lr_scheduler.StepLR(steps, 1)
    first = steps.step
    steps.step = lambda: first()
    steps.step()
    with pytest.warns(UserWarning, match="has been overridden"):
        schedule.step()


def course(t, make):
    """The rates from the constructor of a resumed schedule on; the type of its error where it has one."""
    steps, seen = optimizer(t, 0.5), []
    steps.param_groups[0].update({"initial_lr": 0.7, "max_lr": 0.5, "min_lr": 0.1, "max_momentum": 0.9,
                                  "base_momentum": 0.8})
    try:
        schedule = make(t.optim.lr_scheduler, steps)
        for _ in range(8):
            seen.append(float(schedule.get_last_lr()[0]))
            steps.step()
            schedule.step()
    except (KeyError, ValueError) as error:
        return [type(error).__name__]
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("last", [-1, 0, 1, 2, 3, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_resumed_schedules(kind, last):
    found, wanted = (course(t, lambda s, o: getattr(s, kind)(o, last_epoch=last, **KINDS[kind])) for t in (rl, torch))
    assert found == pytest.approx(wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("last", [-1, 0, 1, 2, 5, 9])
@pytest.mark.parametrize("names, milestones", [
    (("ConstantLR", "ExponentialLR"), [3]), (("LinearLR", "ExponentialLR", "CosineAnnealingLR"), [2, 5]),
    (("StepLR", "CosineAnnealingLR"), [2]), (("PolynomialLR", "MultiplicativeLR"), [4]),
    (("ExponentialLR", "LinearLR", "StepLR"), [1, 2])])
def test_resumed_sequences(names, milestones, last):
    def make(schedules, steps):
        return schedules.SequentialLR(steps, [getattr(schedules, name)(steps, **KINDS[name]) for name in names],
                                      milestones, last_epoch=last)
    found, wanted = course(rl, make), course(torch, make)
    assert found == pytest.approx(wanted)
