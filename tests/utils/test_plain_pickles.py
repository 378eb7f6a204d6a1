"""Pickles of others give plain values and arrays, and run nothing."""
from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from rushlight._src.plain_pickles import load_plain
from rushlight.utils.data.datapipes.utils.decoder import basichandlers

VALUES = [None, 3, 2.5, "text", b"\xff\0", [1, (2, {"a": {3}})], frozenset({1}), 2j, bytearray(b"x")]
ARRAYS = [np.arange(6, dtype=np.uint8).reshape(2, 3), np.asfortranarray(np.ones((2, 3))), np.zeros((0, 2), np.float32),
          np.array(["a", "bc"]), np.array(3 + 1j), np.arange(3, dtype=">i4")]


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_plain_values_and_arrays_return(protocol):
    assert load_plain(pickle.dumps(VALUES, protocol)) == VALUES
    found = load_plain(pickle.dumps(ARRAYS, protocol))
    for one, array in zip(found, ARRAYS, strict=True):
        assert one.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        assert one.shape == array.shape and np.array_equal(one, array)


def test_arrays_of_python_2_return():
    text = (b"(dp1\nS'data'\np2\ncnumpy.core.multiarray\n_reconstruct\np3\n(cnumpy\nndarray\np4\n(I0\ntS'b'\ntRp5\n"
            b"(I1\n(I3\ntcnumpy\ndtype\np6\n(S'u1'\nI0\nI1\ntRp7\n(I3\nS'|'\nNNNI-1\nI-1\nI0\ntbI00\nS'a\\xffc'\ntbs.")
    assert load_plain(text, "latin1")["data"].tolist() == [97, 255, 99]


class Made:
    def __init__(self, *made):
        self.made = made

    def __reduce__(self):
        return self.made


@pytest.mark.parametrize("value", [Made(os.getcwd, ()), Made(eval, ("1",)), np.array([object()]),
                                   np.zeros(2, [("a", int)]), os.getcwd, ValueError("x"), np.float32(1)])
def test_other_pickles_are_refused(value):
    data = pickle.dumps(value) if not isinstance(value, np.ndarray) or value.dtype != object else \
        pickle.dumps(np.array([None]))
    with pytest.raises(pickle.UnpicklingError):
        load_plain(data)
    with pytest.raises(pickle.UnpicklingError):
        basichandlers("pickle", data)


@pytest.mark.parametrize("old, new", [(b"K\x06", b"K\x7f"), (b"u1", b"O8"), (b"u1", b"i8")])
def test_arrays_without_their_bytes_are_refused(old, new):
    data = pickle.dumps(np.arange(6, dtype=np.uint8), 2)
    assert old in data
    with pytest.raises(pickle.UnpicklingError):
        load_plain(data.replace(old, new))


def test_damaged_pickles_are_refused():
    for data in (b"", b"garbage", pickle.dumps(VALUES)[:-5]):
        with pytest.raises(pickle.UnpicklingError):
            load_plain(data)
