"""Bits moved by any number of places, negative ones and as many as there are included."""
import operator

import pytest

import rushlight

torch = pytest.importorskip("torch")

PLACES = (0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 100, -1, -9)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("shift", [operator.lshift, operator.rshift])
def test_as_many_places_as_wanted(shift, dtype):
    def given(package, values):
        return package.tensor([value % 128 if dtype == "uint8" else value for value in values],
                              dtype=getattr(package, dtype))

    numbers, compiled = (0, 1, -1, 5, -7, 100, -100), rushlight.compile(lambda x, y: shift(x, y))
    for places in PLACES:
        wanted = shift(given(torch, numbers), given(torch, [places] * 7)).tolist()
        x, y = given(rushlight, numbers), given(rushlight, [places] * 7)
        assert shift(x, y).tolist() == wanted and compiled(x, y).tolist() == wanted, places
        if places >= 0:
            assert shift(x, places).tolist() == shift(given(torch, numbers), places).tolist(), places
