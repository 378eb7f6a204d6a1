"""Runs a program with both libraries and compares what it gives."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


def leaves(value):
    """Tensors and numbers of a nested result, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in leaves(v)]
    return [value]


def compare(program, rtol=1e-5, atol=1e-6):
    """``program(library)`` gives the same with Rushlight and with torch: values, dtypes, whether gradients are
    wanted."""
    ours, theirs = leaves(program(rushlight)), leaves(program(torch))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        if isinstance(b, torch.Tensor):
            assert isinstance(a, rushlight.Tensor)
            assert str(a.dtype) == str(b.dtype) and tuple(a.shape) == tuple(b.shape)
            assert a.requires_grad == b.requires_grad
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=atol)
        else:
            assert a == b


def same_error(program):
    """``program(library)`` raises the same type of error with both; returns our text."""
    with pytest.raises(Exception) as theirs:
        program(torch)
    with pytest.raises(Exception) as ours:
        program(rushlight)
    assert issubclass(ours.type, theirs.type), f"{ours.value!r}, but torch raised {theirs.value!r}"
    return str(ours.value)
