"""Distinct elements, searching, counting and quantiles beside torch, on the sizes and numbers at which they differ most
easily."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from .judge import same  # noqa: E402

NAN, INF = float("nan"), float("inf")


def draw(*shape, low=-5, high=6, seed=0):
    return np.random.default_rng(seed).integers(low, high, shape)


@pytest.mark.parametrize("shape", [(1,), (40,), (5, 7), (0,), (300,), ()])
@pytest.mark.parametrize("dtype", ["int64", "float32", "bool", "uint8"])
def test_distinct_elements(shape, dtype):
    x = draw(*shape, low=0)
    for how in ({}, {"return_inverse": True, "return_counts": True}):
        same(lambda lib, x: lib.unique(x.to(getattr(lib, dtype)), **how), x)
        same(lambda lib, x: lib.unique_consecutive(x.to(getattr(lib, dtype)).sort(-1)[0] if x.dim() else x, **how), x)


def test_distinct_slices():
    x = draw(9, 2, high=-3)
    same(lambda lib, x: lib.unique(x, dim=0, return_inverse=True, return_counts=True), x)
    same(lambda lib, x: lib.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True), x)


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8, 100])
@pytest.mark.parametrize("right", [False, True])
def test_searching(size, right):
    edges = np.sort(draw(size).astype(np.float32))
    x = np.concatenate([edges, edges + 0.5, [NAN, INF, -INF, 0.0]]).astype(np.float32)
    same(lambda lib, e, x: lib.searchsorted(e, x, right=right), edges, x, gradients=False)
    same(lambda lib, e, x: lib.bucketize(x.reshape(-1, 1), e, right=right, out_int32=True), edges, x, gradients=False)
    same(lambda lib, e: lib.searchsorted(e, 1.5, right=right), edges, gradients=False)


def test_searching_rows_and_unsorted_ones():
    edges, x = np.sort(draw(3, 2, 9), -1), draw(3, 2, 4)
    same(lambda lib, e, x: lib.searchsorted(e, x), edges, x)
    mixed = draw(7, seed=1)
    same(lambda lib, e, x, s: lib.searchsorted(e, x, sorter=s, side="right"), mixed, draw(4), np.argsort(mixed))


@pytest.mark.parametrize("call", [
    lambda lib: lib.searchsorted(lib.ones(3), lib.ones(2), side="middle"),
    lambda lib: lib.searchsorted(lib.ones(2, 3), lib.ones(3, 2)),
    lambda lib: lib.searchsorted(lib.ones(2, 3), 1.0), lambda lib: lib.bincount(lib.tensor([-1])),
    lambda lib: lib.bincount(lib.tensor([1]), lib.ones(2)),
    lambda lib: lib.histc(lib.tensor([1.0, NAN])), lambda lib: lib.histc(lib.ones(2), 0),
    lambda lib: lib.histc(lib.ones(2), 3, 2, 1)])
def test_refused(call):
    for lib in (torch, rushlight):
        with pytest.raises(RuntimeError):
            call(lib)


def test_occurrences():
    x = draw(200, low=0)
    same(lambda lib, x: lib.bincount(x, minlength=20), x)
    same(lambda lib, x, w: lib.bincount(x, w), x, np.linspace(0, 1, 200), gradients=False)
    same(lambda lib, x, w: lib.bincount(x, w), x, np.arange(200), gradients=False)
    same(lambda lib: lib.bincount(lib.tensor([], dtype=lib.int64), minlength=3))


@pytest.mark.parametrize("bounds", [(0, 0), (-1, 1), (0.25, 2)])
def test_histograms(bounds):
    x = np.concatenate([draw(500) / 4, [0.25, 2.0, -1.0, 1.0]]).astype(np.float32)
    same(lambda lib, x: lib.histc(x, 8, *bounds), x, gradients=False)
    same(lambda lib: lib.histc(lib.ones(3), 4))
    if bounds != (0, 0):
        same(lambda lib, x: lib.histc(x, 8, *bounds), np.append(x, [NAN, INF]).astype(np.float32), gradients=False)


def test_membership():
    x, among = draw(4, 5), draw(3, 2, seed=1)
    same(lambda lib, x, a: lib.isin(x, a), x, among)
    same(lambda lib, x, a: lib.isin(x, a, invert=True), x.astype(np.float32), among.astype(np.float32), gradients=False)
    same(lambda lib, x: (lib.isin(x, 3), lib.isin(3, x)), x)
    same(lambda lib, x: lib.isin(x, x[:0]), x)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 4), (2, 3, 4), (0, 3)])
def test_where_elements_are(shape):
    x = draw(*shape, low=0, high=2)
    same(lambda lib, x: (lib.nonzero(x), *lib.nonzero(x, as_tuple=True), x.t()[x.t() > 0] if x.dim() == 2 else x), x)


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(interpolation):
    x = np.random.default_rng(0).standard_normal((3, 8))
    unknown = np.where(x > 1, NAN, x)
    for q in (0.3, np.array([0.0, 0.5, 1.0])):
        for dim, keepdim in ((None, False), (None, True), (0, False), (1, True)):
            same(lambda lib, x, q: lib.quantile(x, q, dim, keepdim, interpolation=interpolation), x, q, rtol=1e-9)
            same(lambda lib, x, q: lib.nanquantile(x, q, dim, keepdim, interpolation=interpolation), unknown, q,
                 gradients=False)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int8", "uint8", "bool"])
def test_hashes(dtype):
    """Bits of elements combined, of those that lie in another order, too."""
    for dim, keepdim in (((), False), (0, True), ((0, -1), False), (1, False)):
        for turned in (False, True):
            found, wanted = (m.hash_tensor(turn(m, turned).to(getattr(m, dtype)), dim, keepdim=keepdim)
                             for m in (rushlight, torch))
            assert found.dtype is rushlight.uint64 and found.tolist() == wanted.tolist()


def turn(m, turned):
    x = m.arange(12).reshape(3, 4) % 7 - 2
    return x.t() if turned else x
