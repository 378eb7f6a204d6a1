"""Inputs without elements: batches of nothing pass, channels and rows of nothing are refused."""
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
both = pytest.mark.parametrize("t", [rl, torch], ids=["rushlight", "torch"])


@both
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padding(t, mode, rank):
    space = (5,) * rank
    pad = t.nn.functional.pad
    assert pad(t.ones(0, 3, *space), (1,) * 2 * rank, mode).shape == (0, 3, *(7,) * rank)
    for shape in ((3, 0, *space), (0, *space)):
        with pytest.raises(RuntimeError, match=f"{rank + 1}D or {rank + 2}D"):
            pad(t.ones(shape), (1,) * 2 * rank, mode)


@both
def test_windows(t):
    unfold = t.nn.functional.unfold
    assert unfold(t.ones(0, 3, 3, 4), (2, 3)).shape == (0, 18, 4)
    for shape in ((3, 0, 3, 4), (0, 3, 4)):
        with pytest.raises(RuntimeError, match="Expected 3D or 4D"):
            unfold(t.ones(shape), (2, 3))
    with pytest.raises(RuntimeError, match="its components must be at least one"):
        unfold(t.ones(1, 2, 2, 2), (2, 3))
