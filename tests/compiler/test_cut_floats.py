"""Floats clamped before they are converted to integers, and the maximum of a float and a number: NaN, zeros, halfway
cases and values beyond the range, compared with NumPy."""
import numpy as np
import pytest

import rushlight as torch

X = np.concatenate([np.random.default_rng(0).standard_normal(999) * 200,
                    [np.nan, np.inf, -np.inf, 0.0, -0.0, -0.4, 0.5, 254.6, 255.4, 127.9, -128.9, 3e9,
                     -3e9]]).astype(np.float32)


@pytest.mark.parametrize("dtype, low, high", [("uint8", 0, 255), ("int8", -128, 127), ("int8", -3, 4), ("uint8", 3, 9),
                                              ("int16", -32768, 32767), ("int32", -1000, 1000), ("int64", -9, 9)])
@pytest.mark.parametrize("turned", [False, True])
def test_floats_of_a_range(dtype, low, high, turned):
    @torch.compile
    def cut(x):
        x = x + 0.0
        x = x.clamp(max=float(high)).clamp(min=float(low)) if turned else x.clamp(float(low), float(high))
        return x.to(getattr(torch, dtype))

    known = ~np.isnan(X)
    found = cut(torch.tensor(X)).numpy()
    assert (found[known] == np.clip(X[known], low, high).astype(dtype)).all()
    assert (found[~known] == (np.iinfo(dtype).min if dtype == "int64" else 0)).all()


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, -2.0])
def test_the_larger_and_the_smaller_of_a_float_and_a_number(number):
    @torch.compile
    def both(x):
        x = x * 1.0
        return x.clamp(min=number), x.clamp(max=number)

    for found, expected in zip(both(torch.tensor(X)), (np.maximum(X, np.float32(number)),
                                                       np.minimum(X, np.float32(number)))):
        np.testing.assert_array_equal(found.numpy(), expected)
