"""Padding with what lies at the border, and what flows back, as PyTorch has them."""

import numpy as np
import pytest
import torch

import rushlight

CASES = [((2, 3, 7), (2, 1)), ((3, 10), (9, 9)), ((2, 3, 5, 6), (1, 2, 3, 4)), ((2, 3, 5, 6), (0, 2, 0, 0)),
         ((2, 3, 5, 6), (1, 0, -2, 1)), ((1, 1, 1, 1), (0, 0, 1, -2)), ((2, 1, 3), (-3, 0)), ((2, 1, 3), (-4, 0)),
         ((2, 3, 0, 6), (1, 2, 0, 0)), ((2, 3, 0, 6), (1, 2, 1, 0)), ((2, 1, 1), (2, -3)), ((2, 1, 3), (4, -7)),
         ((2, 0, 3), (1, 1)), ((1, 2, 3, 4, 5), (1, 2, 2, 1, 0, 1)), ((2, 3, 5, 6), (-1, -2, -1, 3))]


CUT = [((2, 1, size), (low, high)) for size in (1, 3) for low in range(-size - 1, size + 2)
       for high in range(-size - low - 2, 3) if low < 0 or high < 0]


@pytest.mark.parametrize("shape, pad, mode", [
    *((*case, mode) for case in CASES for mode in ("reflect", "replicate", "circular")),
    *((*case, mode) for case in CUT for mode in ("reflect", "replicate"))])  # a circular border of less is not defined
def test_borders(shape, pad, mode):
    array = np.random.default_rng(0).standard_normal(shape)
    found = []
    for library in (torch, rushlight):
        x = library.from_numpy(array).requires_grad_()
        try:
            out = library.nn.functional.pad(x, pad, mode)
        except RuntimeError as error:
            found.append(RuntimeError)
            continue
        out.backward(library.from_numpy(np.cos(np.arange(out.numel())).reshape(tuple(out.shape))))
        found.append((out.detach().numpy(), x.grad.numpy()))
    if RuntimeError in found:
        assert found[0] is found[1]
        return
    for theirs, ours in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
