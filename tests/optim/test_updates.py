"""Steps of optimizers beside torch's, and that each is one kernel in place."""
import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

CASES = [("AdamW", {}), ("AdamW", {"amsgrad": True, "maximize": True}), ("Adam", {"weight_decay": 0.1}), ("Adam", {"amsgrad": True}),
         ("SGD", {}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
         ("SGD", {"momentum": 0.9, "dampening": 0.5, "maximize": True})]


def trained(t, name, options, dtype="float32"):
    """Parameters after three steps."""
    rng = np.random.default_rng(0)
    parameters = [t.tensor(rng.standard_normal(shape).astype(np.float32)).to(getattr(t, dtype)).requires_grad_() for shape in ((5, 7), (3,), ())]
    optimizer = getattr(t.optim, name)(parameters, lr=0.1, **options)
    for _ in range(3):
        for p in parameters:
            p.grad = t.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32)).to(p.dtype)
        optimizer.step()
    return [p.detach().float().numpy() for p in parameters]


@pytest.mark.parametrize("name,options", CASES)
def test_steps_are_torchs(name, options):
    for ours, theirs in zip(trained(rl, name, options), trained(torch, name, options)):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)


def test_halves_round_once():
    for ours, theirs in zip(trained(rl, "AdamW", {}, "bfloat16"), trained(torch, "AdamW", {}, "bfloat16")):
        np.testing.assert_allclose(ours, theirs, rtol=0.05, atol=0.02)


def test_a_step_writes_all_state_and_says_so():
    from rushlight.ops.updates import adam_step

    p, g, m, v = (rl.full((4,), x) for x in (1.0, 2.0, 0.0, 0.0))
    with rl.no_grad():
        result = adam_step(p, g, m, v, None, 1.0, 0.0, 0.1, 0.999, 0.001, 1.0, 1e-8, -0.1, None)
    assert result is p and [x._version for x in (p, g, m, v)] == [1, 0, 1, 1]
    np.testing.assert_allclose(m.tolist(), [0.2] * 4, rtol=1e-6)
    np.testing.assert_allclose(v.tolist(), [0.004] * 4, rtol=1e-6)


def test_a_step_is_one_kernel():
    from rushlight.ops.updates import adam_step

    adam_step.plans.clear()
    trained(rl, "AdamW", {"amsgrad": True})
    assert {plan.code_owner.block[0] for plan in adam_step.plans.values()} == {1}  # steps of their programs


def test_a_recorded_step_is_part_of_the_history():
    from rushlight.ops.updates import sgd_step

    leaf, g = rl.ones(3, requires_grad=True), rl.full((3,), 2.0).requires_grad_()
    p = sgd_step(leaf * 1, g, rl.zeros(3), -0.1, 0.0, 0.9, 1.0, False, False)
    p.sum().backward()
    assert leaf.grad.tolist() == [1.0] * 3
    np.testing.assert_allclose(g.grad.tolist(), [-0.1] * 3, rtol=1e-6)
