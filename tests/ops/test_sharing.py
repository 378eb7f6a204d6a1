"""Results that share memory with arguments: for every entry of PyTorch's database the same ones, at the same place, with and without recording.

Programs run by their NumPy meaning: what is tested is what a result is, not what it holds.
"""
import itertools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's database wants it

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import rushlight as rl  # noqa: E402

from .database import by_meaning, elements, function, ours, title  # noqa: E402, F401
from .test_database import NOT_HERE, RANDOM  # noqa: E402

MOST, LOOKED_AT = 200, 6  # elements of a sample; samples of an entry, spread over all that it has
OTHERWISE = {  # where a result shares memory in one of the two only
}


def given(info, dtype):
    """Some samples of an entry: (positional arguments, keywords) as PyTorch's."""
    torch.manual_seed(0)
    try:
        found = list(itertools.islice(info.sample_inputs("cpu", dtype), 60))
    except Exception:  # noqa: BLE001 - an entry without samples of this dtype
        return []
    found = [s for s in found if elements((s.input, s.args, s.kwargs)) <= MOST]
    step = max(1, len(found) // LOOKED_AT)
    return [([s.input, *s.args], s.kwargs) for s in found[::step]]


def tensors(package, value):
    if isinstance(value, package.Tensor):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [t for v in inner for t in tensors(package, v)]


def places(package, arguments, results):
    """For each result: which argument it shows, how far behind its first element, its strides; None for results of their own."""
    found = []
    for result in tensors(package, results):
        if not result.numel() or result.layout is not package.strided:
            found.append("empty")
            continue
        shown = next((k for k, a in enumerate(arguments) if a.layout is package.strided and a.numel() and a.untyped_storage().data_ptr() == result.untyped_storage().data_ptr()), None)
        strides = tuple(s for s, n in zip(result.stride(), result.shape) if n > 1)
        found.append(None if shown is None else (shown, result.data_ptr() - arguments[shown].data_ptr(), strides, result is arguments[shown]))
    return found


def called(package, call, args, kwargs, mode):
    arguments = tensors(package, [args, kwargs])
    with mode(package):
        results = call(*args, **kwargs)
    return places(package, arguments, results)


MODES = {"recorded": lambda p: p.enable_grad(), "unrecorded": lambda p: p.no_grad(), "inference": lambda p: p.inference_mode()}


def parted(info, dtype, mode):
    """How the results of an entry share memory otherwise than PyTorch's."""
    call, found = function(info.name), []
    for args, kwargs in given(info, dtype):
        try:
            mine, named = ours(args), ours(kwargs)
        except NotImplementedError:
            continue
        try:
            expected = called(torch, info.op, args, kwargs, MODES[mode])
        except Exception:  # noqa: BLE001 - PyTorch refuses its own sample
            continue
        got = called(rl, call, mine, named, MODES[mode])
        if expected != got:
            found.append((args, kwargs, expected, got))
    return found


ENTRIES = [info for info in op_db if function(info.name) is not None and title(info) not in NOT_HERE and info.name not in RANDOM]


@pytest.mark.parametrize("info", ENTRIES, ids=title)
def test_results_that_share_memory(info):
    for dtype in (torch.float32, torch.complex64):
        if dtype in info.supported_dtypes("cpu"):
            found = parted(info, dtype, "recorded")
            assert not found or title(info) in OTHERWISE, found[0]
            if any(isinstance(place, tuple) for args, kwargs in given(info, dtype)[:1] for place in called(torch, info.op, args, kwargs, MODES["recorded"])):
                assert not parted(info, dtype, "unrecorded") + parted(info, dtype, "inference") or title(info) in OTHERWISE
