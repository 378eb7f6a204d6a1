"""The lists of functions that masked tensors take, beside PyTorch's, and what compares masked tensors."""
import importlib

import pytest
import torch as judge

import rushlight as torch


@pytest.mark.parametrize("kind", ["unary", "binary"])
def test_the_lists_are_pytorchs(kind):
    ours, theirs = (importlib.import_module(f"{t.__name__}.masked.maskedtensor.{kind}") for t in (torch, judge))
    for name in (f"{kind.upper()}_NAMES", f"INPLACE_{kind.upper()}_NAMES"):
        assert sorted(getattr(ours, name)) == sorted(getattr(theirs, name))
    for name in (f"NATIVE_{kind.upper()}_FNS", f"NATIVE_INPLACE_{kind.upper()}_FNS"):
        assert sorted(map(str, getattr(ours, name))) == sorted(map(str, getattr(theirs, name)))


def test_what_matches():
    for t in (judge, torch):
        core = importlib.import_module(f"{t.__name__}.masked.maskedtensor.core")
        a, b = t.tensor([1.0, 2.0]), t.tensor([1.0, 2.0 + 1e-6])
        mask, other = t.tensor([True, False]), t.tensor([True, True])
        masked = t.masked.masked_tensor
        assert not core._tensors_match(a, b) and core._tensors_match(a, b, exact=False)
        assert not core._tensors_match(a, b[:1]) and core._tensors_match(a.to_sparse(), a.to_sparse())
        assert core._masks_match(masked(a, mask), masked(b, mask)) and core._masks_match(masked(a, mask), a)
        assert not core._masks_match(masked(a, mask), masked(a, other))
        with pytest.raises(ValueError, match="MaskedTensor"):
            core._tensors_match(masked(a, mask), a)
        with pytest.raises(ValueError, match="same layout"):
            core._tensors_match(a, a.to_sparse())
