"""Tensors of ever new lengths are joined without a plan for each."""
import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.op import OPS
from rushlight._src.eager import plan

torch = pytest.importorskip("torch")
DTYPES = ("float32", "float64", "float16", "bool", "int64", "complex64")


def parts(generator, count, rank, at):
    """Arrays that differ in one size."""
    sizes = generator.integers(1, 4, rank)
    return [generator.normal(size=[int(generator.integers(1, 6)) if k == at else int(s) for k, s in enumerate(sizes)])
            for _ in range(count)]


def test_any_lengths_along_any_dimension():
    generator = np.random.default_rng(0)
    for trial in range(60):
        rank = int(generator.integers(1, 5))
        at = int(generator.integers(-rank, rank))
        arrays, dtype = parts(generator, int(generator.integers(1, 6)), rank, at % rank), DTYPES[trial % len(DTYPES)]
        made = [t.cat([t.tensor(a).to(getattr(t, dtype)) for a in arrays], at) for t in (rl, torch)]
        assert made[0].tolist() == made[1].tolist() and made[0].dtype is getattr(rl, dtype)


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("shape", [(2, 1, 3, 4), (2, 3, 1, 1), (1, 1, 3, 4), (1, 2, 1, 1)])
def test_single_channels_and_pixels_lie_as_planned_ones(shape, at):
    """Row-major and channels last at once: what is joined need not be."""
    for count in (1, 2, 3):
        found = []
        for t in (rl, torch):
            x = t.arange(float(np.prod(shape))).reshape(shape).contiguous(memory_format=t.channels_last)
            x = t.empty_strided(shape, torch.empty(shape).to(memory_format=torch.channels_last).stride()).copy_(x)
            y = t.cat([x + k for k in range(count)], at)
            found.append((y.tolist(), tuple(y.stride())))
        assert found[0] == found[1]


def test_gradients_and_theirs():
    generator = np.random.default_rng(1)
    for trial in range(12):
        arrays = parts(generator, 4, 3, trial % 3)
        found = []
        for t in (rl, torch):
            xs = [t.tensor(a, requires_grad=k != 1) for k, a in enumerate(arrays)]
            y = t.cat([x * 1 if k == 2 else x for k, x in enumerate(xs)], trial % 3)
            first = t.autograd.grad((y ** 3).sum(), [xs[0], xs[2], xs[3]], create_graph=True)
            second = t.autograd.grad(sum((g * g).sum() for g in first), xs[0])
            (y * 2).sum().backward()
            found.append([*(g.detach().numpy() for g in (*first, *second)), xs[3].grad.numpy(), xs[1].grad])
        assert found[0][-1] is None
        for a, b in zip(found[0][:-1], found[1][:-1]):
            np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (1, 3, 1), (3, 1, 1), (2, 1, 3, 4), (1, 1, 1, 1)])
def test_stacks_of_any_number_and_dimension(shape):
    generator = np.random.default_rng(2)
    for at in range(-len(shape) - 1, len(shape) + 1):
        dtype, count = DTYPES[at % len(DTYPES)], int(generator.integers(1, 7))
        arrays = [generator.normal(size=shape) for _ in range(count)]
        made = [t.stack([t.tensor(a).to(getattr(t, dtype)) for a in arrays], at) for t in (rl, torch)]
        assert made[0].tolist() == made[1].tolist() and made[0].stride() == made[1].stride()
        found = []
        for t in (rl, torch):
            xs = [t.tensor(a, requires_grad=k != 1) for k, a in enumerate(arrays)]
            y = t.stack([x * 1 if k == 2 else x for k, x in enumerate(xs)], dim=at)
            first, = t.autograd.grad((y ** 3).sum(), xs[0], create_graph=True)
            second, = t.autograd.grad((first * first).sum(), xs[0])
            found.append((y.grad_fn.name(), first.tolist(), second.tolist()))
        np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)
        np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-6)
        assert found[0][0] == found[1][0]


def test_many_tensors_are_stacked_without_a_plan(monkeypatch):
    made = []
    original = plan.make_plan
    monkeypatch.setattr(plan, "make_plan", lambda op, *rest: (made.append(op.name), original(op, *rest))[1])
    x = rl.ones(90, requires_grad=True)
    for count in range(80, 90):
        rl.stack([rl.ones(2, 3)] * count)
        gradient, = rl.autograd.grad(x[:count].unbind(), x)  # stacked, too
        assert gradient.sum() == count
    assert "stack" not in made


def test_new_lengths_make_no_plans(monkeypatch):
    made = []
    original = plan.make_plan
    monkeypatch.setattr(plan, "make_plan", lambda op, *rest: (made.append(op.name), original(op, *rest))[1])
    before = len(OPS["cat"].plans)
    for k in range(1, 40):
        rl.cat([rl.empty(k, 3), rl.empty(7 * k, 3), rl.empty(1, 3)])
    assert "cat" not in made and len(OPS["cat"].plans) == before
    for _ in range(10):
        rl.cat([rl.ones(41, 3), rl.ones(2, 3)])
    assert len(OPS["cat"].plans) == before + 1


def test_other_tensors_go_another_way():
    x = rl.arange(12).reshape(3, 4)
    assert rl.cat([x.t(), x.t()], 1).tolist() == torch.cat([torch.arange(12).reshape(3, 4).t()] * 2, 1).tolist()
    assert rl.cat([rl.ones(2), rl.ones(3, dtype=rl.int64)]).dtype is rl.float32
    assert rl.cat([rl.empty(0), rl.ones(2, 2)]).shape == (2, 2)
    assert rl.vmap(lambda a: rl.cat([a, a * 2]))(rl.ones(2, 3)).shape == (2, 6)
    with pytest.raises(RuntimeError, match="[Ss]izes"):
        rl.cat([rl.ones(2, 2), rl.ones(2, 3)])
    with pytest.raises(IndexError):
        rl.cat([rl.ones(2, 2), rl.ones(2, 3)], 3)
    with pytest.raises(RuntimeError, match="equal size"):
        rl.stack([rl.ones(2, 2), rl.ones(2, 3)])
    with pytest.raises(IndexError):
        rl.stack([rl.ones(2, 2), rl.ones(2, 2)], 3)
    assert rl.stack([x.t(), x.t()]).tolist() == torch.stack([torch.arange(12).reshape(3, 4).t()] * 2).tolist()
    with rl.no_grad():
        assert not rl.cat([rl.ones(17, requires_grad=True), rl.ones(18)]).requires_grad
    with rl.inference_mode():
        assert rl.cat([rl.ones(19), rl.ones(18)]).is_inference()
