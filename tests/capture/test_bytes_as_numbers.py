"""``view(dtype)`` in compiled functions: the bytes as other numbers, which are read, written, returned and computed
with, beside PyTorch."""
import numpy as np
import pytest
import torch

import rushlight


def read(lib, a):
    return a.view(lib.int32) + 1


def read_all_sizes(lib, a):
    return a.view(lib.uint8) + a.view(lib.uint8), a.view(lib.float64) * 1, a.view(lib.int16).sum()


def computed_first(lib, a):
    return ((a + 1).view(lib.int32) & -65536).view(lib.float32) * 2


def returned(lib, a):
    return a.view(lib.int64)


def returned_with_more(lib, a):
    return a.view(lib.int16), a + 1


def a_part(lib, a):
    return a[:, 2:6].view(lib.float64) * 1, a.t().view(lib.int32) + 1


def writes(lib, a):
    a = a + 0
    v = a.view(lib.int32)
    v.add_(1)
    return a * 1


def writes_into_an_argument(lib, a):
    v = a.view(lib.int16)
    v[1].zero_()
    return a * 2


def writes_into_larger_items(lib, a):
    v = a.view(lib.int64)
    v[1:2].zero_()
    return a * 2, v + 0


def writes_into_bytes(lib, a):
    v = a.view(lib.uint8)
    v[:, 1::4] = 7
    return a * 2


PROGRAMS = (read, read_all_sizes, computed_first, returned, returned_with_more, a_part, writes, writes_into_an_argument,
            writes_into_larger_items, writes_into_bytes)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_in_a_graph(program):
    given, seen = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32), []
    for lib in (torch, rushlight):
        a = lib.tensor(given.copy())
        call = (lambda a: program(torch, a)) if lib is torch else rushlight.compile(lambda a: program(rushlight, a),
                                                                                    fullgraph=True)
        results = call(a)
        results = results if isinstance(results, tuple) else (results,)
        seen.append([(str(r.dtype), r.numpy().tobytes(), list(r.shape)) for r in (*results, a)])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(dtype):
    given = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    ours, theirs = (lib.tensor(given).to(getattr(lib, dtype)) for lib in (rushlight, torch))
    seen = rushlight.compile(lambda a: ((a + 1).view(rushlight.int16) * 2, a.view(rushlight.int64)),
                             fullgraph=True)(ours)
    wanted = (theirs + 1).view(torch.int16) * 2, theirs.view(torch.int64)
    assert all(a.tolist() == b.tolist() for a, b in zip(seen, wanted))
    with pytest.raises(RuntimeError, match="divisible"):
        rushlight.compile(lambda a: a[:, 1:4].view(rushlight.int64), fullgraph=True)(ours)
