"""Every entry of PyTorch's operator database in other forms: elements that lie apart, results in given memory, in
place, sizes as symbols.

Programs run by their NumPy reference implementation: these tests are about how calls are planned and captured, not
the kernels.
"""
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's database wants it

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import rushlight as rl  # noqa: E402

from .database import Entry, by_meaning, function, tensors, title  # noqa: E402, F401
from .test_database import NOT_HERE, OTHERWISE, RANDOM  # noqa: E402

pytestmark = pytest.mark.sampled  # all cases with `-m long`

BY_PLACE = {**NOT_HERE, "as_strided_scatter": "it reads by memory", "view": "it refuses gaps",
            "view_as": "it refuses gaps", "view_copy": "it refuses gaps",
            "view_as_complex": "it refuses gaps"}
# vectors are as good with another sign
FREE = {"linalg.eig", "linalg.eigh", "linalg.svd", "svd", "linalg.qr", "qr", "geqrf"}


def fixed(info):
    """Whether an entry has results that are told by its arguments."""
    return torch.float64 in info.supported_dtypes(
        "cpu") and info.name not in RANDOM | FREE and "dropout" not in info.name and "rand" not in info.name


ENTRIES = [Entry(info) for info in op_db if fixed(info) and function(info.name) is not None
           and title(info) not in OTHERWISE]
each_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: title(e.info))


def prepared(entry):
    if entry.sample is None:
        pytest.skip("no small sample with a counterpart")
    args, kwargs = detached(entry.sample)
    return args, kwargs


def changed(value, change):
    """Nested values with every tensor changed."""
    if isinstance(value, rl.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {k: changed(v, change) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        made = [changed(v, change) for v in value]
        return made if isinstance(value, list) else tuple(made)
    return value


def detached(value):
    return changed(value, lambda x: x.detach().clone())


def spread(x):
    """The same elements laid down backwards, with a gap after each."""
    if not x.dim():
        return x
    wide = rl.full((*x.shape[::-1], 2), 7, dtype=x.dtype)[..., 0].permute(*range(x.dim())[::-1])
    return wide.copy_(x)


def same(got, wanted):
    got, wanted = list(tensors(got)), list(tensors(wanted))
    assert len(got) == len(wanted)
    for (_, a), (_, b) in zip(got, wanted):
        assert tuple(a.shape) == tuple(b.shape) and a.dtype is b.dtype
        np.testing.assert_allclose(numbers(a), numbers(b), rtol=1e-7, atol=1e-9)


def numbers(x):
    x = x.detach().resolve_conj()
    x = x.to(rl.complex64) if x.dtype is rl.complex32 else x  # NumPy has no such type
    return (x if x.is_complex() else x.double()).numpy()


@each_entry
def test_elements_that_lie_apart(entry):
    if entry.info.name in BY_PLACE or "empty" in entry.info.name:
        pytest.skip(BY_PLACE.get(entry.info.name, "no elements to compare"))
    args, kwargs = prepared(entry)
    wanted = entry.call(*detached(args), **detached(kwargs))
    same(entry.call(*changed(args, spread), **changed(kwargs, spread)), wanted)


# which take no out=
WITH_OUT = [e for e in ENTRIES if e.info.supports_out and "empty" not in e.info.name
            and e.info.name not in ("equal", "histogramdd")]


@pytest.mark.parametrize("entry", WITH_OUT, ids=lambda e: title(e.info))
def test_results_in_given_memory(entry):
    args, kwargs = prepared(entry)
    wanted = entry.call(*args, **kwargs)
    several = isinstance(wanted, (tuple, list))
    for make in (rl.empty_like, lambda w: rl.empty(0, dtype=w.dtype),
                 lambda w: rl.empty((*w.shape, 2), dtype=w.dtype)[..., 1]):
        out = tuple(map(make, wanted)) if several else make(wanted)
        found = entry.call(*args, **kwargs, out=out)
        same(found, wanted)
        same(out, wanted)
        assert found is out or several and all(a is b for a, b in zip(found, out))


def in_place(info):
    return info.inplace_variant is not None and hasattr(rl.Tensor, info.name + "_")


IN_PLACE = [e for e in ENTRIES if in_place(e.info)]


@pytest.mark.parametrize("entry", IN_PLACE, ids=lambda e: title(e.info))
def test_in_place(entry):
    args, kwargs = prepared(entry)
    wanted = entry.call(*args, **kwargs)
    target = args[0]
    if not isinstance(wanted, rl.Tensor) or tuple(wanted.shape) != tuple(
            target.shape) or wanted.dtype is not target.dtype:
        pytest.skip("the result does not fit its first argument")
    for place in (target.clone(), spread(target)):
        version = place._version
        assert getattr(place, entry.info.name + "_")(*args[1:], **kwargs) is place and place._version > version
        same(place, wanted)


@each_entry
def test_sizes_as_symbols(entry):
    if entry.info.name in NOT_HERE or "empty" in entry.info.name:
        pytest.skip("nothing to compare")
    args, kwargs = prepared(entry)
    wanted = entry.call(*detached(args), **detached(kwargs))
    compiled = rl.compile(lambda given: entry.call(*given, **kwargs), dynamic=True)
    same(compiled(args), wanted)
