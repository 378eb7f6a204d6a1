"""GradScaler beside torch's."""
import pickle

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


def unscaled(t, gradients, dtype):
    """Gradients, found_inf and the factors after the function on lists."""
    found, inverse = t.zeros(1), t.full((1,), 0.25)
    grads = [t.tensor(g).to(dtype(t)) for g in gradients]
    grads.append(grads[0].clone().expand(2, -1).clone()[:, :1])  # not dense
    t._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
    return [g.tolist() for g in grads], found.tolist()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("bad", [1.0, float("inf"), -float("inf"), float("nan")])
def test_gradients_are_unscaled_on_lists(dtype, bad):
    gradients = [[4.0, 8.0], [2.0, bad], [16.0]]
    ours, theirs = (unscaled(t, gradients, lambda t: getattr(t, dtype)) for t in (rl, torch))
    assert repr(ours) == repr(theirs) and ours[1] == [float(bad != 1.0)]


def scales(t, outcomes, scale):
    """The scale and the count after each of some steps."""
    scale, tracker, seen = t.tensor([scale]), t.zeros(1, dtype=t.int32), []
    for found in outcomes:
        t._amp_update_scale_(scale, tracker, t.tensor([found]), 2.0, 0.25, 2)
        seen.append((scale.item(), tracker.item()))
    return seen


@pytest.mark.parametrize("scale", [4.0, 3e38])  # a scale does not grow to infinity
def test_scales_follow_torchs(scale):
    outcomes = [0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0]
    assert scales(rl, outcomes, scale) == scales(torch, outcomes, scale)


def sparse_gradients(t):
    """What is found of sparse gradients of float16 and float32: elements of one position that overflow together, too"""
    seen = []
    for dtype, values in [(t.float32, [16.0, 32.0, 64.0]), (t.float32, [1.0, float("nan"), 2.0]),
                          (t.float16, [16.0, 32.0, 64.0]), (t.float16, [64000.0, 32.0, 64000.0])]:
        p = t.nn.Parameter(t.zeros(2, 3, dtype=dtype))
        p.grad = t.sparse_coo_tensor(t.tensor([[0, 1, 0], [2, 0, 2]]), t.tensor(values, dtype=dtype), (2, 3))
        found = t.amp.GradScaler("cpu")._unscale_grads_(t.optim.SGD([p], lr=1.0), t.tensor(0.25), t.zeros(()), True)
        seen.append(([v.item() for v in found.values()], p.grad.to_dense().tolist()))
    return seen


def test_sparse_gradients_are_unscaled():
    assert repr(sparse_gradients(rl)) == repr(sparse_gradients(torch))


def within_a_step(t):
    """What a scaler says of an optimizer without gradients, and pickled within a step."""
    p = t.ones(1, requires_grad=True)
    optimizer, scaler = t.optim.SGD([p], lr=0.1), t.amp.GradScaler("cpu", init_scale=4.0)
    loss, raised = p.sum(), []
    scaler.scale(loss)
    for call in (lambda: scaler.step(optimizer), lambda: pickle.dumps(scaler), scaler.update):
        with pytest.raises(AssertionError) as error:
            call()
        raised.append(str(error.value).split(" may only")[0])
    scaler = t.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    copied = pickle.loads(pickle.dumps(scaler))
    return raised, copied.state_dict(), copied.scale(t.ones(1)).tolist()


def test_states_are_checked_and_pickled():
    assert within_a_step(rl) == within_a_step(torch)


@pytest.mark.parametrize("positions", [[[0, 1, 1], [2, 0, 2]], [[0, 1, 0], [2, 0, 2]]])
def test_gradients_of_sparse_parameters_are_unscaled(positions):
    """Those of an uncoalesced parameter, too, which returns a copy of its gradient."""
    def found(t):
        p = t.sparse_coo_tensor(t.tensor(positions), t.tensor([16.0, 32.0, 64.0]), (2, 3))
        out = []
        for gradient in (p.clone(), p.coalesce()):
            for q in (p.clone(), p.coalesce(), t.zeros(2, 3)):
                optimizer = t.optim.SGD([q], lr=1.0)
                q.grad = gradient.clone()
                infinite = t.amp.GradScaler("cpu")._unscale_grads_(optimizer, t.tensor(0.25), t.tensor(0.0), False)
                out.append((q.grad.to_dense().tolist(), infinite[t.device("cpu")].item()))
        return out

    assert found(rl) == found(torch)
