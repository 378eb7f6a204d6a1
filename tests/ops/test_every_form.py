"""Every operator on its own samples, in other forms: inputs with gaps between elements, without elements, results into
given memory, in place, sizes as symbols."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
from rushlight._src.core.op import OPS  # noqa: E402
from tests.ops.test_samples import SAMPLED, arguments, build, flat, theirs  # noqa: E402

pytestmark = pytest.mark.sampled  # all cases with `-m long`

IDS = [f"{n}-{k}" for n, k in SAMPLED]
FIRST = [(n, k) for n, k in SAMPLED if k == 0]
BY_PLACE = {"as_strided": "it sees memory, not elements", "view": "it refuses gaps"}


def spread(a):
    """The same array with its dimensions laid down backwards, and a gap after each element."""
    wide = np.full((*a.shape[::-1], 2), np.nan if a.dtype.kind == "f" else 0, a.dtype)
    seen = wide[..., 0].transpose(range(a.ndim)[::-1])
    seen[...] = a
    return rl.from_numpy(wide)[..., 0].permute(*range(a.ndim)[::-1]) if a.ndim else rl.tensor(a)


def results(name, sample, values, tensor):
    """Results of a call, and gradients of its floating inputs."""
    inputs = [build(rl, v, tensor) for v in values]
    leaves = [x for x in flat(inputs) if x.is_floating_point()]
    for x in leaves:
        x.requires_grad_()
    found = list(flat([OPS[name](*inputs, **sample.kwargs)]))
    smooth = [y for y in found if y.requires_grad]
    slopes = rl.autograd.grad([(y * y).sum() if not y.is_complex() else y.abs().square().sum() for y in smooth], leaves,
                              allow_unused=True) if smooth and leaves else []
    return found, slopes


def same(got, wanted, rtol=1e-9):
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        assert (a is None) == (b is None)
        if a is not None:
            assert tuple(a.shape) == tuple(b.shape) and a.dtype is b.dtype
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=1e-10)


@pytest.mark.parametrize("name,index", SAMPLED, ids=IDS)
def test_elements_that_lie_apart(name, index):
    if name in BY_PLACE:
        pytest.skip(BY_PLACE[name])
    sample = OPS[name].traits["samples"][index]
    values = arguments(name, sample)
    try:
        wanted = results(name, sample, values, rl.tensor)
    except NotImplementedError:
        pytest.skip("no derivative")
    for got, expected in zip(results(name, sample, values, spread), wanted):
        same(got, expected)


@pytest.mark.parametrize("name,index", FIRST, ids=[n for n, _ in FIRST])
def test_no_elements(name, index):
    sample = OPS[name].traits["samples"][index]
    values = arguments(name, sample)
    sizes = [a.shape[0] for a in each_array(values) if a.ndim]
    if theirs(name) is None or not sizes:
        pytest.skip("no such name in torch, or no dimension")
    emptied = cut(values, sizes[0])
    try:
        wanted = list(flat([theirs(name)(*[build(torch, v, torch.tensor) for v in emptied], **sample.kwargs)]))
    except Exception:  # noqa: BLE001 - what torch refuses has no meaning to compare
        pytest.skip("torch refuses")
    got = list(flat([OPS[name](*[build(rl, v, rl.tensor) for v in emptied], **sample.kwargs)]))
    assert [tuple(a.shape) for a in got] == [tuple(b.shape) for b in wanted]
    for a, b in zip(got, wanted):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().resolve_conj().numpy())


def each_array(values):
    for v in values:
        if isinstance(v, list):
            yield from each_array(v)
        elif isinstance(v, np.ndarray):
            yield v


def cut(values, size):
    """Arrays without elements in the first dimension, where it has this size."""
    return [cut(v, size) if isinstance(v, list) else v[:0] if isinstance(v, np.ndarray) and v.ndim and v.shape[0]
            == size else v for v in values]


@pytest.mark.parametrize("name,index", FIRST, ids=[n for n, _ in FIRST])
def test_into_given_memory(name, index):
    if OPS[name].traits.get("view") or OPS[name].traits.get("composite"):
        pytest.skip("views take no out=, composites their own")
    sample = OPS[name].traits["samples"][index]
    inputs = [build(rl, v, rl.tensor) for v in arguments(name, sample)]
    wanted = OPS[name](*inputs, **sample.kwargs)
    if not isinstance(wanted, rl.Tensor) or "out" in sample.kwargs:
        pytest.skip("several results")
    for out in (rl.empty_like(wanted), rl.empty((0,), dtype=wanted.dtype),
                rl.empty((*wanted.shape, 2), dtype=wanted.dtype)[..., 1]):
        assert OPS[name](*inputs, **sample.kwargs, out=out) is out
        same([out], [wanted])


IN_PLACE = [(n, k) for n, k in FIRST if n + "_" in OPS and not OPS[n].traits.get("inplace_view")]


@pytest.mark.parametrize("name,index", IN_PLACE, ids=[n for n, _ in IN_PLACE])
def test_in_place(name, index):
    sample = OPS[name].traits["samples"][index]
    inputs = [build(rl, v, rl.tensor) for v in arguments(name, sample)]
    wanted = OPS[name](*inputs, **sample.kwargs)
    if tuple(wanted.shape) != tuple(inputs[0].shape) or wanted.dtype is not inputs[0].dtype:
        pytest.skip("the result does not fit its first argument")
    target, version = inputs[0].clone(), inputs[0]._version
    assert OPS[name + "_"](target, *inputs[1:], **sample.kwargs) is target and target._version > version
    same([target], [wanted])
    apart = spread(inputs[0].numpy())
    same([OPS[name + "_"](apart, *inputs[1:], **sample.kwargs)], [wanted])


@pytest.mark.parametrize("name,index", FIRST, ids=[n for n, _ in FIRST])
def test_sizes_as_symbols(name, index):
    if name in BY_PLACE:
        pytest.skip(BY_PLACE[name])
    sample = OPS[name].traits["samples"][index]
    inputs = [build(rl, v, rl.tensor) for v in arguments(name, sample)]
    wanted = list(flat([OPS[name](*inputs, **sample.kwargs)]))
    compiled = rl.compile(lambda *values: OPS[name](*values, **sample.kwargs), dynamic=True)
    same(list(flat([compiled(*inputs)])), wanted)
