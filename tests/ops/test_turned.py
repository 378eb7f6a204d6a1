"""Tensors with the conj or neg bit: every operator of PyTorch's database gives for them the result that it gives for a
copy.

Programs run by their NumPy reference implementation: these tests are about what is read and written, not the kernels.
"""
import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's database wants it

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import rushlight as rl  # noqa: E402

from .database import by_meaning, elements, function, ours, title  # noqa: E402, F401
from .test_database import RANDOM  # noqa: E402

pytestmark = pytest.mark.sampled  # all cases with `-m long`

MOST, LOOKED_AT = 120, 2  # elements of a sample; samples of an entry, spread over all that it has
UNDRAWN = RANDOM | {"randint_like", "randn", "rand", "dropout"}
REFUSED = {"view_as_real"}  # whose numbers are not in memory


def turned(value):
    """The same elements, conjugated or negated in memory."""
    if isinstance(value, rl.Tensor):
        plain = value.detach()
        made = plain.conj_physical().conj() if plain.is_complex() else rl._neg_view(
            -plain) if plain.is_floating_point() else plain
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {k: turned(v) for k, v in value.items()}
    return type(value)(map(turned, value)) if type(value) in (list, tuple) else value


def tensors(value):
    if isinstance(value, rl.Tensor):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [t for v in inner for t in tensors(v)]


def numbers(value):
    """A tensor's elements as an array, None for none."""
    if value is None:
        return None
    value = (value if value.layout is rl.strided else value.to_dense()).detach()
    return (value.resolve_conj().resolve_neg().float().numpy() if value.dtype is rl.bfloat16
            else value.resolve_conj().resolve_neg().numpy())


def outcome(call, args, kwargs):
    """The results of a call, then the gradients of its tensors."""
    results = tensors(call(*args, **kwargs))
    wanted = [t for t in tensors([args, kwargs]) if t.requires_grad]
    carrying = [r for r in results if r.requires_grad]
    weights = [rl.full(tuple(r.shape), 1 + 0.5j if r.is_complex() else 1.0, dtype=r.dtype) for r in carrying]
    found = rl.autograd.grad(carrying, wanted, weights, allow_unused=True) if carrying and wanted else ()
    return [*map(numbers, results), *map(numbers, found)]


def samples(info, dtype):
    torch.manual_seed(0)
    graded = info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")
    try:
        found = [s for s in itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=graded), 40)
                 if elements((s.input, s.args, s.kwargs)) <= MOST]
    except Exception:  # noqa: BLE001 - an entry without samples of this dtype
        return
    for sample in found[::max(1, len(found) // LOOKED_AT)][:LOOKED_AT]:
        try:
            yield lambda: (ours([sample.input, *sample.args]), ours(sample.kwargs))
        except NotImplementedError:
            continue


def check(info, dtype):
    for sample in samples(info, dtype):
        try:
            args, kwargs = sample()
            expected = outcome(function(info.name), args, kwargs)
        except Exception:  # noqa: BLE001 - a sample without a counterpart, or that is refused
            continue
        args, kwargs = sample()
        found = outcome(function(info.name), turned(args), turned(kwargs))
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


ENTRIES = [info for info in op_db if function(info.name) is not None and info.name not in UNDRAWN
           and "dropout" not in info.name and info.name not in REFUSED]


@pytest.mark.parametrize("info", [info for info in ENTRIES if torch.complex128 in info.dtypes], ids=title)
def test_conjugated(info):
    check(info, torch.complex128)


if __name__ == "__main__":  # real ones, too
    from rushlight._src.core.settings import settings
    with settings.set(kernels=False, store=False):
        for entry in ENTRIES:
            for dtype in (torch.float64, torch.complex128):
                if dtype in entry.dtypes:
                    check(entry, dtype)
