"""Operators whose indices wrap or clamp, on arguments in memory that faults where it is read or written out of bounds.

``python -m tests.fuzz.bounds`` runs each at sizes 0, 1 and 17, eager and compiled, with arguments that end, or begin,
at a page that nobody may touch; results are those on ordinary memory.  A fault ends the process; the last line that it
wrote names the case.
"""
from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
import warnings

import numpy as np

import rushlight as rl
from rushlight.nn import functional as F

SIZES = (0, 1, 17)
ENDS = ("end", "begin")


class GuardedArray:
    """A copy of an array that ends, or begins, at a page that faults; another such page is at the other side."""

    def __init__(self, array, at):
        page, nbytes = mmap.PAGESIZE, array.nbytes
        room = -(-max(nbytes, 1) // page) * page
        self.memory = mmap.mmap(-1, room + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        offset = page + (room - nbytes if at == "end" else 0)
        self.array = np.frombuffer(self.memory, array.dtype, array.size, offset).reshape(array.shape)
        self.array[...] = array
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        for first in (start, start + page + room):
            if protect(ctypes.c_void_p(first), page, 0):
                raise OSError(ctypes.get_errno(), "mprotect")


def plane(n):
    return (2, 2, n, n + (n > 1))


def row(n):
    return 2, 2, n


def floats(shape):
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7 - 2.5).astype("float32")


def points(shape):
    """Positions within, at and far beyond the edges of a grid, and such that are no numbers."""
    values = np.array([0, 1, -1, 1.5, -3, 1e30, -np.inf, np.nan, 0.99, -1.01], "float32")
    return values[np.arange(np.prod(shape, dtype=int)) * 7 % len(values)].reshape(shape)


def indices(n, count, low=None):
    """Valid positions among n, from its first negative one."""
    low = -n if low is None else low
    return (np.arange(count) * 5 % (n - low) + low) if n else np.zeros(0, int)


# name: (arguments for a size, as arrays; the call)
CASES = {
    **{f"pad {mode} {rank}": (lambda n, rank=rank: [floats((2, 2) + (n,) * rank)],
                              lambda x, mode=mode, rank=rank: F.pad(x, (min(x.shape[-1] - 1, 3), 1) * rank, mode))
       for mode in ("circular", "reflect", "replicate") for rank in (1, 2, 3)},
    "pad by whole circles": (lambda n: [floats(row(n))], lambda x: F.pad(x, (x.shape[-1], x.shape[-1]), "circular")),
    "pad constant": (lambda n: [floats(plane(n))], lambda x: F.pad(x, (3, 2, 1, 4))),
    "pad that cuts": (lambda n: [floats(plane(n))], lambda x: F.pad(x, (-1, 2, 3, -1))),
    "roll": (lambda n: [floats(plane(n))], lambda x: x.roll((5, -23), (2, 3)) + x.roll(3)),
    "flip": (lambda n: [floats(plane(n))], lambda x: x.flip(2, 3) + x.rot90(2, (2, 3))),
    "unfold": (lambda n: [floats(plane(n))], lambda x: F.unfold(x, 3, padding=2, dilation=2, stride=2)),
    "fold": (lambda n: [floats((1, 2 * 9, n))], lambda x: F.fold(x, (x.shape[-1], 3), 3, padding=1, stride=(1, 3))),
    "windows": (lambda n: [floats(row(n))], lambda x: x.unfold(2, min(4, x.shape[2]), 3) * 2),
    **{f"grid_sample {mode} {padding} {align}": (
        lambda n: [floats((1, 2, n, n)), points((1, max(n, 2), 3, 2))],
        lambda x, p, mode=mode, padding=padding, align=align: F.grid_sample(x, p, mode, padding, align))
       for mode in ("nearest", "bilinear", "bicubic") for padding in ("zeros", "border", "reflection")
       for align in (False, True)},
    "grid_sample 5d": (lambda n: [floats((1, 2, n, n, 2)), points((1, 3, 3, 2, 3))],
                       lambda x, p: F.grid_sample(x, p, "bilinear", "reflection", False)),
    "embedding_bag": (lambda n: [floats((n, 3)), indices(n, n, 0), np.array([0, n // 2, n // 2])],
                      lambda w, i, o: F.embedding_bag(i, w, o, mode="max") + F.embedding_bag(i, w, o)),
    "embedding": (lambda n: [floats((n, 3)), indices(n, 9, 0)], lambda w, i: F.embedding(i, w)),
    "index": (lambda n: [floats((n, n)), indices(n, 5)], lambda x, i: x[i, i] + x[:, i].sum() + x[i].sum()),
    "index_put": (lambda n: [floats((n, n)), indices(n, 5)], lambda x, i: x.index_put_((i, i), rl.ones(()), True)),
    "index_select": (lambda n: [floats((n, n)), indices(n, 5, 0)], lambda x, i: x.index_select(1, i)),
    "index_add": (lambda n: [floats((n, n)), indices(n, 5, 0), floats((len(indices(n, 5, 0)), n))],
                  lambda x, i, y: x.index_add_(0, i, y)),
    "gather": (lambda n: [floats((n, n)), np.tile(indices(n, n, 0), (n, 1))], lambda x, i: x.gather(1, i)),
    "scatter": (lambda n: [floats((n, n)), np.tile(indices(n, n, 0), (n, 1)), floats((n, n))],
                lambda x, i, y: x.scatter_(1, i, y) + x.scatter_reduce(0, i, y, "amax")),
    "take": (lambda n: [floats((n, n)), indices(n * n, 7)], lambda x, i: x.take(i)),
    "put": (lambda n: [floats((n, n)), indices(n * n, 7)], lambda x, i: x.put_(i, i.float(), True)),
    "as_strided": (lambda n: [floats((n * n,))], lambda x: x.as_strided(
        (max(x.numel() - 2, 0), min(x.numel(), 2)), (1, 1), min(x.numel(), 1)) * 2),
    "narrow of nothing": (lambda n: [floats((n, 3))], lambda x: x.narrow(0, x.shape[0], 0) + 1),
    "select": (lambda n: [floats((n, 0, 3))], lambda x: x.select(2, -1) * 2),
    "pixel_shuffle": (lambda n: [floats((1, 9, n, n))], lambda x: F.pixel_shuffle(x, 3)),
    "pixel_unshuffle": (lambda n: [floats((1, 2, n * 3, n * 3))], lambda x: F.pixel_unshuffle(x, 3)),
    "channel_shuffle": (lambda n: [floats((1, 6, n, n))], lambda x: F.channel_shuffle(x, 3)),
    **{f"interpolate {mode} to {to}": (
        lambda n: [floats((1, 2, n, n))],
        lambda x, mode=mode, to=to: F.interpolate(x, to, mode=mode, align_corners=True if mode.startswith("bi")
                                                  else None))
       for mode in ("nearest", "nearest-exact", "area", "bilinear", "bicubic") for to in (1, 5, 40)},
    "interpolate smoothly": (lambda n: [floats((1, 2, n, n))],
                             lambda x: F.interpolate(x, 3, mode="bicubic", antialias=True)),
    "max_pool2d": (lambda n: [floats(plane(n))], lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True)),
    "avg_pool2d": (lambda n: [floats(plane(n))], lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
    "adaptive pools": (lambda n: [floats(plane(n))],
                       lambda x: F.adaptive_avg_pool2d(x, (3, 5)) + F.adaptive_max_pool2d(x, (3, 5))),
    "conv2d circular": (lambda n: [floats(plane(n)), floats((3, 2, 3, 3))],
                        lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1), "circular"), w)),
    "conv2d": (lambda n: [floats(plane(n)), floats((3, 2, 3, 3))], lambda x, w: F.conv2d(x, w, padding=2, dilation=2)),
    "searchsorted": (lambda n: [np.sort(floats((n,))), points((9,))], lambda a, v: rl.searchsorted(a, v)),
    "bucketize": (lambda n: [points((9,)), np.sort(floats((n,)))], lambda v, a: rl.bucketize(v, a, right=True)),
    "tril_indices": (lambda n: [floats((n, n))], lambda x: x.tril(-2) + x.triu(20) + x.diagonal(-1).sum()),
    "cumulative": (lambda n: [floats(plane(n))], lambda x: x.cumsum(-1) + x.cummax(-2)[0] + x.flip(-1).cumprod(-1)),
    "sort": (lambda n: [floats((3, n))], lambda x: x.sort(-1)[0] + x.argsort(0)),
    "repeat_interleave": (lambda n: [floats((n, 2))], lambda x: x.repeat_interleave(3, 0)),
    "bincount": (lambda n: [indices(n, n, 0)], lambda i: rl.bincount(i, minlength=3)),
    "masked_scatter": (lambda n: [floats((n, n))], lambda x: x.masked_scatter(x > 0, x)),
}


def outcome(call, arguments):
    """A call's result as an array, and the arguments afterwards; the kind of its error."""
    try:
        result = call(*map(rl.from_numpy, arguments))
    except (RuntimeError, IndexError, ValueError) as error:
        return type(error).__name__
    return [result.numpy().copy(), *(a.copy() for a in arguments)]


def same(a, b) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and a == b
    return all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in zip(a, b))


def differences(names=CASES, sizes=SIZES, forms=("eager", "compiled"), report=lambda *_: None):
    """Cases whose results on guarded memory are not those on ordinary memory."""
    found = []
    for name, form in itertools.product(names, forms):
        make, call = CASES[name]
        for n, at in itertools.product(sizes, ENDS):
            report(name, form, n, at)
            ran = rl.compile(call) if form == "compiled" else call
            wanted = outcome(call, make(n))
            guarded = [GuardedArray(a, at) for a in make(n)]
            got = outcome(ran, [g.array for g in guarded])
            if not same(got, wanted):
                found.append((name, form, n, at, got if isinstance(got, str) else "", wanted if isinstance(wanted, str)
                              else ""))
    return found


def main():
    warnings.simplefilter("ignore")
    names = [n for n in CASES if not sys.argv[1:] or any(word in n for word in sys.argv[1].split(","))]
    forms = sys.argv[2].split(",") if sys.argv[2:] else ("eager", "compiled")
    found = differences(names, forms=forms, report=lambda *what: print(*what, file=sys.stderr, flush=True))
    print(*found, f"{len(found)} differences", sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
