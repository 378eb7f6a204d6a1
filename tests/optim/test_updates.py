"""Steps of optimizers beside torch's, and that each is one kernel in place."""
import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

CASES = [("AdamW", {}), ("AdamW", {"amsgrad": True, "maximize": True}), ("Adam", {"weight_decay": 0.1}),
         ("Adam", {"amsgrad": True}),
         ("SGD", {}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
         ("SGD", {"momentum": 0.9, "dampening": 0.5, "maximize": True}), ("AdamW", {"foreach": True}),
         ("AdamW", {"fused": True}),
         ("Adamax", {"weight_decay": 0.1}), ("NAdam", {}),
         ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}), ("RAdam", {"betas": (0.5, 0.6)}),
         ("RAdam", {"weight_decay": 0.1}), ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5}),
         ("Adadelta", {"weight_decay": 0.1}),
         ("RMSprop", {"centered": True, "momentum": 0.9}), ("RMSprop", {"weight_decay": 0.1, "maximize": True}),
         ("Rprop", {}),
         ("ASGD", {"t0": 1, "lambd": 0.1}), ("ASGD", {"weight_decay": 0.1}), ("Adafactor", {"weight_decay": 0.1})]
MATRICES = [("Muon", {}), ("Muon", {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"})]


def trained(t, name, options, dtype="float32", shapes=((5, 7), (3,), ()), lr=0.1, steps=3):
    """Parameters after some steps."""
    rng = np.random.default_rng(0)
    parameters = [t.tensor(rng.standard_normal(shape).astype(np.float32)).to(getattr(t, dtype)).requires_grad_()
                  for shape in shapes]
    optimizer = getattr(t.optim, name)(parameters, lr=t.tensor(lr) if name != "Muon" and lr == 0.25 else lr, **options)
    for _ in range(steps):
        for p in parameters:
            p.grad = t.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32)).to(p.dtype)
        optimizer.step()
    return [p.detach().float().numpy() for p in parameters]


@pytest.mark.parametrize("name,options", CASES)
def test_steps_are_torchs(name, options):
    for ours, theirs in zip(trained(rl, name, options), trained(torch, name, options)):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name,options", MATRICES)
def test_steps_of_matrices_are_torchs(name, options):
    for ours, theirs in zip(trained(rl, name, options, shapes=((5, 7), (6, 3))),
                            trained(torch, name, options, shapes=((5, 7), (6, 3)))):
        np.testing.assert_allclose(ours, theirs, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "NAdam", "Adagrad"])
def test_a_rate_may_be_a_tensor(name):
    for ours, theirs in zip(trained(rl, name, {}, lr=0.25), trained(torch, name, {}, lr=0.25)):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop",
                                  "ASGD"])
def test_complex_parameters_are_pairs(name):
    def run(t):
        p = t.tensor([1 + 2j, -3j]).requires_grad_()
        optimizer = getattr(t.optim, name)([p], lr=0.1)
        for k in range(3):
            p.grad = t.tensor([0.5 - 1j * k, 2 + 1j])
            optimizer.step()
        return t.view_as_real(p.detach()).numpy()
    np.testing.assert_allclose(run(rl), run(torch), rtol=1e-5)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD"])
def test_differentiable_steps_carry_gradients(name):
    def run(t):
        leaf = t.tensor([1.0, -2.0, 3.0], requires_grad=True)
        p, g = leaf.clone(), t.tensor([0.3, 0.2, -0.1], requires_grad=True)
        p.retain_grad()
        optimizer = getattr(t.optim, name)([p], lr=0.1, differentiable=True)
        p.grad = g * 2
        optimizer.step()
        return [x.numpy() for x in t.autograd.grad((p * p).sum(), (leaf, g))]
    for ours, theirs in zip(run(rl), run(torch)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def loss_after_steps(name, options, settings):
    """A loss after two differentiable steps whose ``settings`` are numbers or tensors; parameters and gradients are
    float64."""
    p = rl.tensor([1.0, -2.0], dtype=rl.float64, requires_grad=True) * 1.0
    given = {**options, **{k: v for k, v in settings.items() if not k.startswith("beta")}}
    if "beta1" in settings:
        given["betas"] = settings["beta1"], settings["beta2"]
    optimizer = getattr(rl.optim, name)([p], differentiable=True, **given)
    for k in (1, 2):
        p.grad = rl.tensor([0.3 * k, -0.5], dtype=rl.float64)
        optimizer.step()
    return p.square().sum()


@pytest.mark.parametrize("name, options, settings", [
    ("SGD", {"momentum": 0.9}, {"lr": 0.1}), ("SGD", {"nesterov": True}, {"lr": 0.1, "momentum": 0.5}),
    ("SGD", {"maximize": True}, {"lr": 0.1, "weight_decay": 0.2}), ("Adamax", {}, {"lr": 0.1, "weight_decay": 0.2}),
    ("Adam", {"amsgrad": True}, {"lr": 0.1, "beta1": 0.5, "beta2": 0.6}), ("NAdam", {}, {"lr": 0.1}),
    ("AdamW", {}, {"lr": 0.1, "weight_decay": 0.2, "beta1": 0.5, "beta2": 0.6}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"lr": 0.1, "beta1": 0.5, "beta2": 0.9}),
    ("Adagrad", {}, {"lr": 0.1, "weight_decay": 0.2}), ("Adadelta", {}, {"lr": 0.1, "weight_decay": 0.2}),
    ("RMSprop", {"centered": True, "momentum": 0.5}, {"lr": 0.1, "weight_decay": 0.2}),
    ("ASGD", {}, {"weight_decay": 0.2})])
def test_settings_that_are_tensors_get_gradients(name, options, settings):
    given = {k: rl.tensor(v, dtype=rl.float64, requires_grad=True) for k, v in settings.items()}
    found = rl.autograd.grad(loss_after_steps(name, options, given), list(given.values()))
    for k, gradient in zip(settings, found):
        above, below = (loss_after_steps(name, options, {**settings, k: settings[k] + step}).item()
                        for step in (1e-5, -1e-5))
        np.testing.assert_allclose(gradient.item(), (above - below) / 2e-5, rtol=1e-4, atol=1e-6)


def test_a_rate_that_is_a_tensor_is_a_number_to_steps_that_are_not_differentiable():
    rate, p = rl.tensor(0.1, requires_grad=True), rl.ones(2, requires_grad=True)
    optimizer = rl.optim.SGD([p], lr=rate)
    p.grad = rl.ones(2)
    optimizer.step()
    assert p.is_leaf and p.grad_fn is None and p.tolist() == pytest.approx([0.9, 0.9])


@pytest.mark.parametrize("options,error",
                         [({"foreach": True, "fused": True}, RuntimeError),
                          ({"fused": True, "differentiable": True}, RuntimeError)])
def test_flags_that_exclude_each_other(options, error):
    for t in (rl, torch):
        with pytest.raises(error):
            t.optim.Adam([t.ones(2, requires_grad=True)], **options)


def test_halves_round_once():
    for ours, theirs in zip(trained(rl, "AdamW", {}, "bfloat16"), trained(torch, "AdamW", {}, "bfloat16")):
        np.testing.assert_allclose(ours, theirs, rtol=0.05, atol=0.02)


def test_a_step_writes_all_state_and_says_so():
    from rushlight._src.ops.updates import adam_step

    p, g, m, v = (rl.full((4,), x) for x in (1.0, 2.0, 0.0, 0.0))
    with rl.no_grad():
        result = adam_step(p, g, m, v, None, 1.0, 0.0, 0.1, 0.999, 0.001, 1.0, 1e-8, -0.1, None)
    assert result is p and [x._version for x in (p, g, m, v)] == [1, 0, 1, 1]
    np.testing.assert_allclose(m.tolist(), [0.2] * 4, rtol=1e-6)
    np.testing.assert_allclose(v.tolist(), [0.004] * 4, rtol=1e-6)


def test_a_step_is_one_kernel():
    from rushlight._src.ops.updates import adam_step

    adam_step.plans.clear()
    trained(rl, "AdamW", {"amsgrad": True})
    assert {plan.code_owner.block[0] for plan in adam_step.plans.values()} == {1}  # steps of their programs


def test_a_recorded_step_is_part_of_the_history():
    from rushlight._src.ops.updates import sgd_step

    leaf, g = rl.ones(3, requires_grad=True), rl.full((3,), 2.0).requires_grad_()
    p = sgd_step(leaf * 1, g, rl.zeros(3), -0.1, 0.0, 0.9, 1.0, False, False)
    p.sum().backward()
    assert leaf.grad.tolist() == [1.0] * 3
    np.testing.assert_allclose(g.grad.tolist(), [-0.1] * 3, rtol=1e-6)
