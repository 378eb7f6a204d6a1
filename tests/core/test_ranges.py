"""Numbers that an integer tensor cannot hold are refused, as by torch; integers below 0 wrap around in unsigned
dtypes."""
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

NAN, INF = float("nan"), float("inf")
CALLS = {
    "tensor": lambda lib, value, dtype: lib.tensor(value, dtype=dtype),
    "tensor of a list": lambda lib, value, dtype: lib.tensor([1, value], dtype=dtype),
    "full": lambda lib, value, dtype: lib.full((2,), value, dtype=dtype),
    "full_like": lambda lib, value, dtype: lib.full_like(lib.zeros(2), value, dtype=dtype),
    "new_full": lambda lib, value, dtype: lib.zeros(2, dtype=dtype).new_full((), value),
    "assigned": lambda lib, value, dtype: lib.zeros(2, dtype=dtype).__setitem__(0, value),
    "pad": lambda lib, value, dtype: lib.nn.functional.pad(lib.ones(2, dtype=dtype), (1, 1), value=value),
}


@pytest.mark.parametrize("dtype, value", [("uint8", 300), ("uint8", -256), ("uint8", -1.5), ("int8", 127.5),
                                          ("int32", INF), ("int32", NAN), ("int64", 1e20),
                                          ("int64", -INF), ("int16", -40000)])
@pytest.mark.parametrize("name", CALLS)
def test_refused(name, dtype, value):
    for library in (torch, rushlight):
        with pytest.raises(RuntimeError, match="without overflow"):
            CALLS[name](library, value, getattr(library, dtype))


@pytest.mark.parametrize("dtype, value", [("uint8", 255), ("uint8", -1), ("uint8", -255), ("int8", -128),
                                          ("int32", 2.7), ("int64", -2 ** 63), ("bool", 7), ("float16", 1e5)])
@pytest.mark.parametrize("name", ["tensor", "tensor of a list"])
def test_held(name, dtype, value):
    ours, theirs = (CALLS[name](library, value, getattr(library, dtype)) for library in (rushlight, torch))
    assert ours.tolist() == theirs.tolist()


def test_limits_of_operators():
    for library in (torch, rushlight):
        x = library.ones(2, dtype=library.uint8)
        with pytest.raises(RuntimeError, match="without overflow"):
            x.clamp(max=300)
        with pytest.raises(RuntimeError, match="without overflow"):
            library.where(x > 0, x, 300)
        assert (x + 300).tolist() == [45, 45] and (x < 300).all()
