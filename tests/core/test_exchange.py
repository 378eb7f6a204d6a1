"""Tensors from other libraries' memory."""
import numpy as np
import pytest

import rushlight as rl


def test_asarray_shares_or_copies_as_asked():
    numbers = np.zeros(3)
    assert rl.asarray(numbers).data_ptr() == numbers.ctypes.data
    assert rl.asarray(numbers, copy=True).data_ptr() != numbers.ctypes.data
    with pytest.raises(ValueError, match="can't alias"):
        rl.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="can't alias"):
        rl.asarray(numbers, dtype=rl.int32, copy=False)
    x = rl.ones(2, requires_grad=True)
    assert rl.asarray(x) is x and not rl.asarray(x, requires_grad=False).requires_grad
    assert rl.asarray([1.0], requires_grad=True).requires_grad


def test_capsules_are_taken():
    x = rl.ones(2, 2)
    seen = rl.utils.dlpack.from_dlpack(rl.utils.dlpack.to_dlpack(x))
    seen[0, 0] = 5
    assert x[0, 0] == 5
