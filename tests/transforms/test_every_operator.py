"""Every operator on its own samples: mapped, pushed forward, and both with gradients, against loops and against the
reverse mode."""
import numpy as np
import pytest

import rushlight as rl
from rushlight import func
from rushlight._src.core.op import OPS
from tests.ops.test_samples import SAMPLED, arguments, flat

pytestmark = pytest.mark.sampled  # all cases with `-m long`

BATCH = 3
NOT_MAPPED = {}  # operator: why
POSITIVE = {"special.entr"}  # elsewhere its derivative is not a number


def places(values):
    """Paths of the floating arrays among arguments."""
    for k, value in enumerate(values):
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            yield (k,)
        elif isinstance(value, list):
            yield from ((k, *rest) for rest in places(value))


def at(values, path):
    return at(values[path[0]], path[1:]) if path else values


def filled(values, given):
    """The arguments with tensors at the given paths, the other arrays as tensors too."""
    def visit(value, path):
        if path in given:
            return given[path]
        if isinstance(value, np.ndarray):
            return rl.tensor(value)
        return [visit(v, (*path, k)) for k, v in enumerate(value)] if isinstance(value, list) else value

    return [visit(v, (k,)) for k, v in enumerate(values)]


def prepared(name, index):
    sample = OPS[name].traits["samples"][index]
    values = arguments(name, sample)
    if name in POSITIVE:
        values[0] = np.abs(values[0])
    paths = list(places(values))
    if not paths:
        pytest.skip("no floating argument")
    return sample, values, paths


def caller(name, sample, values, paths):
    """The operator as a function of the tensors at ``paths``, returning a tuple of tensors."""
    def call(*tensors):
        return tuple(flat([OPS[name](*filled(values, dict(zip(paths, tensors))), **sample.kwargs)]))
    return call


def smooth(results):
    return [r for r in results if r.is_floating_point()]


def nudged(x, seed):
    """Another example near x, so that it stays where the operator is defined."""
    return x * (1 + 0.05 * np.random.default_rng(seed).uniform(-1, 1, x.shape))


def same(got, wanted):
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        assert a.dtype is b.dtype and tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name,index", SAMPLED, ids=[f"{n}-{k}" for n, k in SAMPLED])
def test_vmap_is_a_loop(name, index):
    if name in NOT_MAPPED:
        pytest.skip(NOT_MAPPED[name])
    sample, values, paths = prepared(name, index)
    call = caller(name, sample, values, paths)
    plain = [rl.tensor(at(values, p)) for p in paths]
    stacked = [rl.tensor(np.stack([nudged(at(values, p), 7 * k + j) for k in range(BATCH)]))
               for j, p in enumerate(paths)]
    for mapped in [tuple(paths), *((p,) for p in paths if len(paths) > 1)]:
        dims = tuple(0 if p in mapped else None for p in paths)
        given = [s if p in mapped else x for p, s, x in zip(paths, stacked, plain)]
        got = func.vmap(call, in_dims=dims)(*given)
        each = [call(*(g[k] if d == 0 else g for g, d in zip(given, dims))) for k in range(BATCH)]
        same(got, [rl.stack(r) for r in zip(*each)])


@pytest.mark.parametrize("name,index", SAMPLED, ids=[f"{n}-{k}" for n, k in SAMPLED])
def test_forward_is_the_transpose_of_reverse(name, index):
    sample, values, paths = prepared(name, index)
    call = caller(name, sample, values, paths)
    floats = lambda *tensors: tuple(smooth(call(*tensors)))
    primals = [rl.tensor(at(values, p)) for p in paths]
    if not floats(*primals):
        pytest.skip("no floating result")
    try:
        outputs, pull = func.vjp(floats, *primals)
    except NotImplementedError:
        pytest.skip("no derivative")
    generator = np.random.default_rng(1)
    tangents = [rl.tensor(generator.standard_normal(p.shape)) for p in primals]
    cotangents = [rl.tensor(generator.standard_normal(tuple(o.shape))) for o in outputs]
    try:
        got, pushed = func.jvp(floats, tuple(primals), tuple(tangents))
    except NotImplementedError as error:
        assert "backward" in str(error)  # a backward of a library, which has no derivative
        pytest.skip("no second derivative")
    same(got, outputs)
    pulled = pull(tuple(cotangents))
    forward = sum(float((c * t).sum()) for c, t in zip(cotangents, pushed))
    reverse = sum(float((g * t).sum()) for g, t in zip(pulled, tangents))
    np.testing.assert_allclose(forward, reverse, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name,index", SAMPLED, ids=[f"{n}-{k}" for n, k in SAMPLED])
def test_gradients_of_examples(name, index):
    if name in NOT_MAPPED:
        pytest.skip(NOT_MAPPED[name])
    sample, values, paths = prepared(name, index)
    call = caller(name, sample, values, paths)

    def loss(*tensors):
        return sum((r * r).sum() for r in smooth(call(*tensors)))

    if not smooth(call(*(rl.tensor(at(values, p)) for p in paths))):
        pytest.skip("no floating result")
    gradient = func.grad(loss, argnums=tuple(range(len(paths))))
    stacked = [rl.tensor(np.stack([nudged(at(values, p), 7 * k + j) for k in range(BATCH)]))
               for j, p in enumerate(paths)]
    try:
        each = [gradient(*(s[k] for s in stacked)) for k in range(BATCH)]
    except NotImplementedError:
        pytest.skip("no derivative")
    same(func.vmap(gradient)(*stacked), [rl.stack(r) for r in zip(*each)])
