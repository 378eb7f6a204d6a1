"""GradScaler beside torch's."""
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def trained(t, gradients, **options):
    """Scales and parameters over some steps with these gradients of the unscaled loss."""
    scaler = t.amp.GradScaler("cpu", init_scale=16.0, growth_interval=2, **options)
    p = t.ones(2, requires_grad=True)
    optimizer = t.optim.SGD([p], lr=0.5)
    out = []
    for g in gradients:
        optimizer.zero_grad()
        scaler.scale((p * t.tensor(g)).sum()).backward()
        scaler.unscale_(optimizer)
        norm = t.nn.utils.clip_grad_norm_([p], 10.0)
        scaler.step(optimizer)
        scaler.update()
        out.append((scaler.get_scale(), p.detach().tolist(), norm.item() if norm.item() == norm.item() else "nan"))
    return out, scaler.state_dict()


def test_scales_and_steps_are_torchs():
    gradients = [[1.0, 2.0], [0.5, 0.5], [float("inf"), 1.0], [1.0, 1.0], [float("nan"), 0.0], [1.0, 0.0], [1.0, 0.0]]
    assert trained(rl, gradients) == trained(torch, gradients)
    assert trained(rl, gradients, enabled=False) != trained(rl, gradients)


def test_the_order_of_calls_is_checked():
    for t in (rl, torch):
        p = t.ones(1, requires_grad=True)
        optimizer, scaler = t.optim.SGD([p], lr=0.1), t.amp.GradScaler("cpu")
        scaler.scale(p.sum()).backward()
        scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError, match="already been called"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        with pytest.raises(RuntimeError, match="already been called"):
            scaler.step(optimizer)
        with pytest.raises(RuntimeError, match="after step"):
            scaler.unscale_(optimizer)


def test_state_is_taken_over():
    _, state = trained(rl, [[1.0, 2.0]] * 3)
    other = rl.amp.GradScaler("cpu")
    other.load_state_dict(state)
    assert other.state_dict() == state
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})
    with pytest.warns(UserWarning, match="Disabling"):
        assert not rl.amp.GradScaler().is_enabled()
