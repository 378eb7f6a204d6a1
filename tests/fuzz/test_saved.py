"""Tensors written between the forward and the backward pass, over PyTorch's operator database: gradients are those of
the values at the time of the call, or the backward pass raises, which it may in eager mode if PyTorch's does."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's database wants it

from .saved import ENTRIES, MODES, differences, title  # noqa: E402

pytestmark = pytest.mark.sampled  # all cases with `-m long`

MANY, FEW = 6, 1  # samples of an entry in eager mode, and in each other one


@pytest.mark.parametrize("info", ENTRIES, ids=title)
def test_writes_in_eager_mode(info):
    for dtype in ("float64", "bfloat16"):
        assert not differences(info, dtype, MANY)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "eager"])
@pytest.mark.parametrize("info", ENTRIES[::7], ids=title)
def test_writes_in_other_modes(info, mode):
    assert not differences(info, most=FEW, mode=mode)
