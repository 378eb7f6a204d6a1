"""Operators that compare elements refuse complex ones, alone and in compiled functions."""
import pytest

import rushlight as rl

CALLS = {
    "sort": lambda t, x: t.sort(x), "argsort": lambda t, x: x.argsort(), "msort": lambda t, x: t.msort(x),
    "topk": lambda t, x: x.topk(1), "kthvalue": lambda t, x: x.kthvalue(1), "median": lambda t, x: x.median(),
    "nanmedian": lambda t, x: x.nanmedian(0), "max": lambda t, x: x.max(), "amin": lambda t, x: x.amin(0),
    "aminmax": lambda t, x: x.aminmax(), "searchsorted": lambda t, x: t.searchsorted(x, x),
    "floor": lambda t, x: x.floor(), "trunc_": lambda t, x: x.clone().trunc_(), "round": lambda t, x: x.round(),
    "frac": lambda t, x: x.frac(), "signbit": lambda t, x: x.signbit(), "logit": lambda t, x: x.logit(),
    "xlogy": lambda t, x: t.xlogy(x, x), "heaviside": lambda t, x: t.heaviside(x, x),
    "isposinf": lambda t, x: t.isposinf(x), "isneginf": lambda t, x: t.isneginf(x)}


@pytest.mark.parametrize("name", CALLS)
def test_complex_numbers_are_not_compared(name):
    torch = pytest.importorskip("torch")
    for t in (rl, torch):
        x = t.tensor([1 + 2j, 3 - 1j])
        with pytest.raises(RuntimeError, match="(?i)not (yet )?(supported|implemented|support)"):
            CALLS[name](t, x)
        CALLS[name](t, x.abs())


def test_compiled_functions_refuse_too():
    with pytest.raises(Exception, match="sort is not supported for complex inputs"):
        rl.compile(lambda x: x.sort()[0] + 1)(rl.tensor([1j, 2j]))
