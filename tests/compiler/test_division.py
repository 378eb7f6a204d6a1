"""Integers divided by 0 raise what PyTorch raises, whatever kernel divides; nothing traps."""

import pytest
import torch

import rushlight

DIVISIONS = {
    "//": lambda t, a, b: a // b, "%": lambda t, a, b: a % b, "fmod": lambda t, a, b: t.fmod(a, b),
    "trunc": lambda t, a, b: t.div(a, b, rounding_mode="trunc"),
    "floor": lambda t, a, b: t.div(a, b, rounding_mode="floor"), "in place": lambda t, a, b: a.clone().floor_divide_(b),
    "number": lambda t, a, b: 5 // b, "by number": lambda t, a, b: a // b[-1].item(),
    "by one": lambda t, a, b: a % b[-1], "column": lambda t, a, b: a[:, None] // b[None],
    "strided": lambda t, a, b: a[::2] // b.flip(0)[::2]}


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("division", DIVISIONS)
def test_division_by_zero(division, dtype):
    for size in (1, 7, 37):
        found = []
        for library in (torch, rushlight):
            a = (library.arange(size) % 100 - (0 if dtype[0] == "u" else 50)).to(getattr(library, dtype))
            b = (library.arange(size) % 50 + 1).to(a.dtype)
            zero = b.clone()
            zero[-1] = 0
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                DIVISIONS[division](library, a, zero)
            found.append(DIVISIONS[division](library, a, b).tolist())
        assert found[0] == found[1]


def test_the_least_number_over_minus_one_wraps():
    for dtype, least in (("int64", -2**63), ("int32", -2**31)):
        for size in (1, 19):
            a = rushlight.full((size,), least, dtype=getattr(rushlight, dtype))
            assert (a // -1).tolist() == (a // rushlight.full_like(a, -1)).tolist() == [least] * size
            assert (a % -1).tolist() == rushlight.fmod(a, rushlight.full_like(a, -1)).tolist() == [0] * size


def test_nothing_is_divided_by_nothing():
    assert (rushlight.empty(0, dtype=rushlight.int64) // 0).tolist() == []


def test_compiled_functions_raise_it_and_go_on():
    f = rushlight.compile(lambda a, b: (a // b + 1).sum())
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        f(rushlight.arange(100), rushlight.arange(100))
    assert f(rushlight.arange(100), rushlight.arange(100) + 1).item() == 100


def test_padding_is_not_divided():
    f = rushlight.compile(lambda a, b: rushlight.cat([a // b, b]) + rushlight.nn.functional.pad(a % b, (3, 2)).sum())
    a, b = rushlight.arange(20), rushlight.arange(1, 21)
    assert f(a, b).tolist() == (rushlight.cat([a // b, b]) + (a % b).sum()).tolist()


def test_tails_of_products_leave_divisions_to_kernels():
    f = rushlight.compile(lambda a, b, c: rushlight._int_mm(a, b) // c)
    a, b = rushlight.ones(32, 32, dtype=rushlight.int8), rushlight.ones(32, 32, dtype=rushlight.int8)
    assert f(a, b, rushlight.full((32, 32), 5, dtype=rushlight.int32)).unique().tolist() == [6]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        f(a, b, rushlight.zeros(32, 32, dtype=rushlight.int32))
