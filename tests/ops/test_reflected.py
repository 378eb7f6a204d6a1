"""Python's operators with a number in front of a tensor: the number is not rounded to another dtype first."""
import operator

import pytest
import torch

import rushlight as rl

NAMES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "complex128"])
@pytest.mark.parametrize("number", [3.7, 1e300, 7, True, 2 + 1j], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_as_torch(name, number, dtype):
    found = []
    for lib in (rl, torch):
        x = lib.tensor([[0.7, 1.3], [2.9, 5.0]]).to(getattr(lib, dtype))
        try:
            out = getattr(operator, name)(number, x)
            found.append((str(out.dtype), torch.tensor(out.tolist(), dtype=torch.complex128)))
        except (RuntimeError, TypeError, NotImplementedError):
            found.append(None)
    if None in found:
        assert found[0] is found[1]
        return
    assert found[0][0] == found[1][0]
    places = 1e-14 if "64" in found[0][0] or "128" in found[0][0] else 1e-6
    places = 1e-6 if found[0][0] == "torch.complex64" else places
    assert torch.allclose(found[0][1], found[1][1], rtol=places, atol=0, equal_nan=True)


FOREIGN = ("add", "sub", "mul", "truediv", "floordiv", "pow", "mod", "and", "or", "xor", "lshift", "rshift", "matmul")


@pytest.mark.parametrize("symbol", FOREIGN)
@pytest.mark.parametrize("lib", [rl, torch], ids=["rushlight", "torch"])
def test_objects_of_other_classes(lib, symbol):
    """A foreign operand answers also where PyTorch would write in place; one that does not is refused."""
    answering = type("Answering", (), {f"__r{symbol}__": lambda self, other: (symbol, type(other))})
    x = lib.ones((), dtype=lib.int32)
    for write in ("", "i") if symbol != "matmul" else ("",):
        plain = f"{write}{symbol}" if write or symbol not in ("and", "or") else f"{symbol}_"
        assert getattr(operator, plain)(x, answering()) == (symbol, lib.Tensor)
        with pytest.raises(TypeError, match="unsupported operand"):
            getattr(operator, plain)(x, type("Foreign", (), {})())
    assert x.item() == 1
