"""Training steps compiled as a whole: backward passes, optimizers, gradients; beside the same uncompiled."""
import copy
import warnings

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def batch(k):
    torch.manual_seed(k)
    return torch.randn(5, 8), torch.randint(0, 4, (5,))


def both(make, times=4, segments=1, backend="rushlight", between=lambda optimizer: None):
    """Runs ``make(model) -> (step, optimizer)`` plainly and compiled; the Stats of the capture."""
    results = []
    for compiled in (False, True):
        model = network()
        step, optimizer = make(model)
        run = torch.compile(step, backend=backend) if compiled else step
        values = []
        for k in range(times):
            torch.manual_seed(100 + k)
            out = run(*batch(k))
            values.append(out.detach().tolist() if isinstance(out, torch.Tensor) else out)
            between(optimizer)
        gradients = [None if p.grad is None else p.grad.tolist() for p in model.parameters()]
        counts = [{k: v.tolist() for k, v in s.items() if isinstance(v, torch.Tensor)}
                  for s in optimizer.state.values()]
        results.append((values, [p.detach().tolist() for p in model.parameters()], gradients, counts))
    plain, got = results
    for a, b in zip(plain, got):
        assert close(a, b), (a, b)
    stats = run.owner.stats
    if segments:
        assert stats.segments == segments and not stats.breaks, [str(b) for b in stats.breaks]
    return stats


def close(a, b):
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    return a == b or abs(a - b) <= 1e-5 + 1e-4 * abs(a)


OPTIMIZERS = [("SGD", {}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("Adam", {"amsgrad": True}),
              ("AdamW", {"maximize": True}), ("Adamax", {}), ("NAdam", {}),
              ("RAdam", {"betas": (0.5, 0.6)}), ("Adagrad", {}), ("Adadelta", {}),
              ("RMSprop", {"centered": True, "momentum": 0.9}), ("Rprop", {}), ("ASGD", {}),
              ("Adafactor", {})]


@pytest.mark.parametrize("name,options", OPTIMIZERS)
def test_a_whole_step_is_one_program_and_rates_may_change(name, options):
    def make(model):
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01, **options)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss
        return step, optimizer

    def between(optimizer):
        for group in optimizer.param_groups:
            group["lr"] *= 0.5

    stats = both(make, between=between)
    assert len(stats.graphs) == 1


def stepping(backward, optimizer="SGD"):
    """For ``both``: a step of an optimizer after ``backward(model, x, y)``, whose result is the step's."""
    def make(model):
        made = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01)

        def step(x, y):
            out = backward(model, x, y)
            made.step()
            made.zero_grad()
            return out
        return step, made
    return make


def cross_entropy_backward(model, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss


def test_clipping_dropout_and_gradients_dropped_at_the_end():
    def backward(model, x, y):
        loss = cross_entropy_backward(model, F.dropout(x, 0.3), y)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        return loss.detach()
    both(stepping(backward, "AdamW"))


def test_gradients_accumulate_over_calls():
    def make(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            (loss / 2).backward()
            return loss
        return step, optimizer
    both(make, segments=2)  # without gradients before, and with


def test_two_backward_passes_and_a_retained_graph():
    def backward(model, x, y):
        out = model(x)
        F.cross_entropy(out, y).backward(retain_graph=True)
        out.square().mean().backward()
        return out
    both(stepping(backward))


def test_gradient_penalty():
    def backward(model, x, y):
        x = x.clone()
        x = x + 0 * model[0].weight.sum()
        loss = F.cross_entropy(model(x), y)
        slope, = torch.autograd.grad(loss, x, create_graph=True)
        (loss + slope.square().sum()).backward()
        return loss
    both(stepping(backward))


def test_hooks_of_leaves_run_in_the_graph():
    def apply(p):
        with torch.no_grad():
            p.sub_(p.grad, alpha=0.1)
        p.grad = None

    def make(model):
        model[0].weight.register_hook(lambda g: g * 3)
        model[3].weight.register_post_accumulate_grad_hook(apply)
        return stepping(cross_entropy_backward)(model)
    both(make)


@pytest.mark.parametrize("backend", ["eager", "rushlight"])
def test_a_step_with_a_break_in_the_middle(backend):
    def make(model):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            total = loss.item()
            optimizer.step()
            optimizer.zero_grad()
            return total
        return step, optimizer
    both(make, segments=0, backend=backend)


def test_an_optimizer_alone_does_not_compile_again_for_another_rate():
    model = network()
    reference = copy.deepcopy(model)
    ours, plain = (torch.optim.AdamW(m.parameters(), lr=0.1) for m in (model, reference))
    step = torch.compile(ours.step)
    schedules = [torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=10) for o in (ours, plain)]
    for k in range(5):
        for m in (model, reference):
            m.zero_grad()
            F.cross_entropy(m(batch(k)[0]), batch(k)[1]).backward()
        step()
        plain.step()
        for schedule in schedules:
            schedule.step()
    for a, b in zip(model.parameters(), reference.parameters()):
        assert torch.allclose(a, b, atol=1e-6)
    assert step.owner.stats.segments == 1


def test_a_used_history_is_said_to_be_so():
    model = network()

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss
    loss = torch.compile(step)(*batch(0))
    assert loss.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_results_keep_the_history_that_is_left():
    def run(compiled):
        model = network()

        def step(x, y):
            h = model[0](x)
            other = model[3].weight.square().sum()
            h.square().mean().backward()
            return h, other
        h, other = (torch.compile(step) if compiled else step)(*batch(0))
        other.backward()
        assert h.requires_grad
        return [p.grad.tolist() if p.grad is not None else None for p in model.parameters()]
    assert close(run(False), run(True))


def test_penalty_differentiated_outside():
    def run(compiled):
        model = network()

        def penalty(x):
            x = x * 1
            w = model[0].weight * 1
            out = torch.tanh(x @ w.T).sum()
            slope, = torch.autograd.grad(out, w, create_graph=True)
            return slope.square().sum()
        (torch.compile(penalty) if compiled else penalty)(batch(0)[0]).backward()
        return model[0].weight.grad.tolist()
    assert close(run(False), run(True))


def test_gradients_that_agree_have_memory_of_their_own():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)

    def step():
        (a + b).sum().backward()
    torch.compile(step)()
    a.grad.add_(1)
    assert a.grad.tolist() == [2.0] * 3 and b.grad.tolist() == [1.0] * 3


def test_new_parameters_and_loaded_state_are_noticed():
    model = network()
    optimizer = torch.optim.Adam(model[0].parameters(), lr=0.01)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss
    run = torch.compile(step)
    run(*batch(0))
    before = model[3].weight.detach().clone()
    optimizer.add_param_group({"params": list(model[3].parameters())})
    run(*batch(1))
    assert not torch.equal(before, model[3].weight)
    optimizer.load_state_dict(optimizer.state_dict())
    run(*batch(2))
    assert optimizer.state[model[0].weight]["step"].item() == 3.0


def test_gradients_lie_as_their_parameters():
    model = network()

    def step(x, y):
        F.cross_entropy(model(x), y).backward()
    torch.compile(step)(*batch(0))
    assert all(p.grad.stride() == p.stride() for p in model.parameters())


def test_gradients_filled_with_zeros_where_they_lie():
    def run(compiled):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            return loss.detach()

        step, x, places = torch.compile(step, fullgraph=True) if compiled else step, torch.randn(5, 4), []
        for _ in range(4):
            loss = step(x)
            places.append(net.weight.grad)
            assert not net.weight.grad.any()
        assert all(g is places[0] for g in places)
        return loss.item(), net.weight.detach().numpy()

    (loss, weight), (expected, other) = run(True), run(False)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(weight, other, rtol=1e-5)


def test_views_of_written_parameters_are_other_tensors():
    def views(p):
        (p * p).sum().backward()
        with torch.no_grad():
            p.add_(1)
        return p.detach(), p.view(3)

    w = nn.Parameter(torch.ones(3))
    whole = torch.compile(lambda p: views(p)[1])(w)
    assert whole is not w and w.is_leaf and whole.requires_grad
    cut, whole = torch.compile(views)(w)
    assert cut is not w and not cut.requires_grad and w.is_leaf and cut.tolist() == w.tolist()


def with_closure(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss
        return optimizer.step(closure)
    return step, optimizer


def with_hooks(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    counts = {"before": 0, "after": 0}

    def count(name):
        def hook(optimizer, args, kwargs):
            counts[name] += 1
        return hook
    optimizer.register_step_pre_hook(count("before"))
    optimizer.register_step_post_hook(count("after"))

    def run(x, y):
        cross_entropy_backward(model, x, y)
        optimizer.step()
        return torch.tensor([counts["before"], counts["after"]])
    return run, optimizer


def test_closures_and_hooks_of_optimizers():
    both(with_closure)
    both(with_hooks, segments=0)


def test_settings_changed_before_a_step():
    def make(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            loss = cross_entropy_backward(model, x, y)
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
            optimizer.step()
            optimizer.zero_grad()
            return loss
        return step, optimizer
    both(make, segments=2)


def test_averages_of_weights_in_a_step():
    def make(model):
        step, optimizer = stepping(cross_entropy_backward)(model)
        average = torch.optim.swa_utils.AveragedModel(model)

        def run(x, y):
            loss = step(x, y)
            average.update_parameters(model)
            return loss.detach() + average.module[0].weight.sum()
        return run, optimizer
    both(make, segments=0)


SCHEDULES = [lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
             lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
             lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.9 ** epoch),
             lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_within_a_step(schedule):
    def make(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        made = schedule(optimizer)

        def step(x, y):
            loss = cross_entropy_backward(model, x, y)
            optimizer.step()
            made.step(*[loss.detach()] * isinstance(made, torch.optim.lr_scheduler.ReduceLROnPlateau))
            optimizer.zero_grad()
            return loss
        return step, optimizer
    both(make, times=6)


def test_a_schedule_that_is_read_afterwards():
    def make(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

        def step(x, y):
            for k in range(2):
                optimizer.zero_grad()
                loss = cross_entropy_backward(model, x, y)
                optimizer.step()
                schedule.step()
            return loss.detach() * schedule.get_last_lr()[0]
        return step, optimizer
    assert {b.code for b in both(make, segments=0).breaks} == {"RB004"}


def test_scaled_losses():
    def make(model):
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=8.0)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss
        return step, optimizer
    assert len({b.line for b in both(make, segments=0).breaks}) == 1


def test_steps_of_recurrent_networks_at_several_lengths():
    def run(compiled):
        torch.manual_seed(0)
        net, head = nn.GRU(4, 6), nn.Linear(6, 3)
        optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1, momentum=0.9)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(head(net(x)[1][0]), y)
            loss.backward()
            optimizer.step()
            return loss

        made = torch.compile(step, fullgraph=True) if compiled else step
        losses = [made(torch.randn(length, 2, 4), torch.tensor([0, 2])).item() for length in (3, 5, 2, 7, 4)]
        return losses, net.weight_hh_l0.detach().numpy(), compiled and made.owner.stats.segments

    (losses, weight, _), (found, other, segments) = run(False), run(True)
    np.testing.assert_allclose(losses, found, rtol=1e-4)
    np.testing.assert_allclose(weight, other, rtol=1e-3, atol=1e-5)
    assert segments == 2


def test_rates_that_the_step_sets_itself():
    def make(model):
        optimizer, count = torch.optim.AdamW(model.parameters(), lr=0.1), {"steps": 0}

        def step(x, y):
            count["steps"] += 1
            for group in optimizer.param_groups:
                group["lr"] = 0.1 * min(1.0, count["steps"] / 3)
                group["weight_decay"] = 0.01 * count["steps"]
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss
        return step, optimizer

    both(make, times=6, segments=2)


def test_rates_that_change_from_what_they_were_between_two_updates():
    def make(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x, y):
            for _ in range(2):
                optimizer.param_groups[0]["lr"] *= 0.9
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
            return loss + optimizer.param_groups[0]["lr"]
        return step, optimizer

    both(make, times=5, segments=2)


def test_a_setting_that_becomes_zero_is_another_program():
    def make(model):
        optimizer, decays = torch.optim.SGD(model.parameters(), lr=0.1), [0.1, 0.2, 0.0, 0.3]

        def step(x, y):
            optimizer.param_groups[0]["weight_decay"] = decays.pop(0)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss
        return step, optimizer

    both(make, times=4, segments=None)


def test_a_schedule_after_a_step_has_nothing_to_warn_of():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)

    @torch.compile
    def step(x, y):
        cross_entropy_backward(model, x, y)
        optimizer.step()
        schedule.step()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(3):
            step(*batch(k))
    assert not step.owner.stats.breaks and optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x + 1, lambda x: (x > 0).all()])
def test_absent_attributes_of_tensors(make):
    """An input and tensors that the graph makes: asked for an attribute that no tensor has, they say so."""
    def look(x):
        t = make(x)
        try:
            t.absent
        except AttributeError as error:
            return hasattr(t, "absent"), getattr(t, "absent", 3), "no attribute" in str(error), t + 1
    x = torch.ones(3)
    plain, compiled = look(x), torch.compile(look, fullgraph=True)(x)
    assert plain[:3] == compiled[:3] and plain[3].equal(compiled[3])
