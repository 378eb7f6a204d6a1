"""Reductions under a mask against torch."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from .judge import arrays, same  # noqa: E402

MASK = np.array([[True, False, True, True], [True, True, False, True], [False, True, True, False]])


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "var", "std", "norm", "logsumexp"])
def test_reductions(name):
    x, = arrays((3, 4))
    for dim in (None, 1, (0, 1), ()):
        same(lambda lib, x, m: getattr(lib.masked, name)(x, dim=dim, mask=m) if dim is not None or name != "logsumexp"
             else x, x, MASK)
    same(lambda lib, x, m: getattr(lib.masked, name)(x, dim=0, keepdim=True, mask=m), x, MASK)


@pytest.mark.parametrize("name", ["sum", "amax", "mean", "norm", "logsumexp", "normalize"])
def test_one_compiled_function_of_many_dimensions(name):
    """A dimension that varies is a number that the program is told: 0 names the first, not all."""
    x, = map(rushlight.from_numpy, arrays((3, 4)))
    mask, first = rushlight.from_numpy(MASK), (2.0,) if name in ("norm", "normalize") else ()
    of = getattr(rushlight.masked, name)
    compiled = rushlight.compile(lambda x, dim: of(x, *first, dim, mask=mask))
    for dim in (1, 0, -1, -2, 0):
        assert rushlight.equal(compiled(x, dim), of(x, *first, dim, mask=mask))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin", "cumsum", "cumprod"])
def test_along_a_dimension(name):
    same(lambda lib, x, m: lib.nan_to_num(getattr(lib.masked, name)(x, 1, mask=m), neginf=0.0), arrays((3, 4))[0], MASK)


def test_positions_median_and_normalize():
    x, = arrays((3, 4))
    same(lambda lib, x, m: [lib.masked.argmax(x, 1, mask=m), lib.masked.argmin(x, 0, mask=m)], x, MASK, gradients=False)
    same(lambda lib, x, m: lib.masked.median(x, 1, mask=m), x, MASK)
    same(lambda lib, x, m: lib.masked.normalize(x, 2.0, 1, mask=m), x, MASK)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_whole_numbers_keep_their_dtype(dtype):
    x, none = np.array([[1, 0, 5], [2, 7, 1]], dtype), np.array([[True, False, True], [False, False, False]])
    same(lambda lib, x, m: [getattr(lib.masked, name)(x, 1, mask=m) for name in ("cumsum", "cumprod", "logsumexp")], x,
         none)
    same(lambda lib, x, m: [getattr(lib.masked, name)(x, 1, mask=m) for name in ("sum", "prod", "amax")], x, none)


def test_a_mask_of_numbers_is_refused():
    with pytest.raises(TypeError, match="tensor of bools"):
        rushlight.masked.sum(rushlight.ones(3), mask=rushlight.ones(3))


@pytest.mark.parametrize("dim", [0, (0,), [1], (), -1])
@pytest.mark.filterwarnings("ignore:.*frobenius_norm")
def test_a_norm_over_the_first_dimension(dim):
    same(lambda lib, x: lib.frobenius_norm(x, dim), arrays((3, 4))[0])
