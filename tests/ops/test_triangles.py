"""Places of triangles, as PyTorch has them."""

import pytest
import torch

import rushlight


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
@pytest.mark.parametrize("row, col", [(0, 3), (3, 0), (1, 1), (3, 5), (5, 3)])
def test_triangles(name, row, col):
    for offset in (-6, -1, 0, 2, 7):
        theirs, ours = (getattr(library, name)(row, col, offset) for library in (torch, rushlight))
        assert theirs.tolist() == ours.tolist() and tuple(theirs.shape) == tuple(
            ours.shape) and theirs.stride() == ours.stride()
    assert getattr(rushlight, name)(3, 3, dtype=rushlight.int32).dtype is rushlight.int32
    with pytest.raises(RuntimeError):
        getattr(rushlight, name)(-1, 3)
