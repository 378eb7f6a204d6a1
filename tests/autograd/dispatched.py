"""What a recording mode sees of each entry of PyTorch's database, beside PyTorch: ``python -m tests.autograd.dispatched
[ENTRIES]`` prints the sequences that differ, and how many entries agree."""
from __future__ import annotations

import itertools
import sys
import warnings

import torch

from ..drawing import without_other_devices, without_test_cases

without_test_cases(), without_other_devices()

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode as Theirs  # noqa: E402

from rushlight._src.core.settings import settings  # noqa: E402
from rushlight.utils._python_dispatch import TorchDispatchMode as Ours  # noqa: E402

from ..ops.database import elements, function, ours, title  # noqa: E402

MOST, SAMPLES = 4000, 4  # elements of a sample; samples of an entry
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.float64)


def seen(base, run, args, kwargs):
    """The names that a mode sees of a call; the last one is an error where it fails."""
    names = []

    class Names(base):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    try:
        with Names():
            run(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - told as what was seen
        names.append(f"{type(error).__name__}: {str(error)[:100]}")
        return names, False
    return names, True


def samples(info):
    """Some samples of an entry: ours and PyTorch's arguments."""
    kind = next((d for d in DTYPES if d in info.supported_dtypes("cpu")), None)
    if kind is None or function(info.name) is None:
        return
    torch.manual_seed(0)
    found = [s for s in itertools.islice(info.sample_inputs("cpu", kind), 40)
             if elements((s.input, s.args, s.kwargs)) <= MOST]
    for sample in found[::max(1, len(found) // 3)][:SAMPLES]:
        try:
            yield ours([sample.input, *sample.args]), ours(sample.kwargs), [sample.input, *sample.args], sample.kwargs
        except NotImplementedError:
            continue


def compared(info):
    """[(PyTorch's names, ours)] of the samples of an entry."""
    rows = []
    for args, kwargs, their_args, their_kwargs in samples(info):
        wanted, ran = seen(Theirs, info.op, their_args, their_kwargs)
        if ran:
            rows.append((wanted, seen(Ours, function(info.name), args, kwargs)[0]))
    return rows


def counted(names=()):
    """(entries that agree, entries, {entry: a pair that differs})."""
    agree, total, differing = 0, 0, {}
    with settings.set(kernels=False, store=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in op_db:
            rows = compared(info) if not names or title(info) in names else []
            total += bool(rows)
            other = next((row for row in rows if row[0] != row[1]), None)
            agree += bool(rows) and other is None
            if other is not None:
                differing[title(info)] = other
    return agree, total, differing


if __name__ == "__main__":
    agree, total, differing = counted(sys.argv[1:])
    for name, (wanted, got) in differing.items():
        print(name, "\n    PyTorch:", *wanted, "\n    here:   ", *got)
    print(f"{agree} of {total} entries show what PyTorch shows")
