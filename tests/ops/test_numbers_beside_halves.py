"""Comparisons and remainders of half precision with numbers: a number is rounded to it first, as torch does, however it
is given."""
import itertools

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

pytestmark = pytest.mark.processor

NUMBERS = 3.7, 0.1, 2.3, 1.3, -0.37, 5, 7.1, 0.3  # more than those for which plans hold the number itself
CALLS = {
    "eq": lambda t, x, a: x == a, "ne": lambda t, x, a: a != x, "gt": lambda t, x, a: x > a,
    "le": lambda t, x, a: a <= x, "lt": lambda t, x, a: x.lt(a), "ge": lambda t, x, a: x.ge(a),
    "remainder": lambda t, x, a: x % a, "remainder of a number": lambda t, x, a: a % x,
    "fmod": lambda t, x, a: t.fmod(x, a), "floor_divide": lambda t, x, a: x // a,
    "floor_divide of a number": lambda t, x, a: a // x, "in place": lambda t, x, a: x.clone().remainder_(a)}


def outcome(t, call, dtype, number, made):
    x = t.arange(1, 300, dtype=t.float32).mul(0.037).to(getattr(t, dtype))
    x[:9] = t.tensor([0.1, 3.7, 2.3, 7.1, 0.3, 5.0, 1.3, -0.37, 3.7])
    return call(t, x, made(t, number)).tolist()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_numbers_are_rounded(name, dtype):
    for number, made in itertools.product(NUMBERS, [lambda t, a: a, lambda t, a: t.tensor(a)]):
        found, wanted = (outcome(t, CALLS[name], dtype, number, made) for t in (rushlight, torch))
        assert found == wanted, number
