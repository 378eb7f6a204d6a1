"""complex32 beside PyTorch: bits, casts, views, promotion, arithmetic, gradients."""
import numpy as np
import pytest
import torch as judge

import rushlight as torch

VALUES = [1 + 2j, 3 - 4j, -0.125 + 7j, 60000.0, 1e-7j, 0j]
OTHERS = ("float16", "bfloat16", "float32", "float64", "int64", "bool", "complex64", "complex128")


def both(f):
    """Results of a function of either package and its tensor, as dtypes and values."""
    found = []
    for t in (judge, torch):
        value = f(t, t.tensor(VALUES, dtype=t.complex32))
        if not isinstance(value, t.Tensor):
            found.append((type(value), value))
            continue
        wide = value.detach().resolve_conj()
        wide = wide.to(t.complex64) if wide.dtype is t.complex32 else wide.float() if wide.is_floating_point() else wide
        found.append((str(value.dtype), tuple(value.shape), value.stride(), wide.numpy()))
    return found


SAME = [lambda t, x: x, lambda t, x: x[1], lambda t, x: x + x, lambda t, x: x - 1, lambda t, x: x[:3] * x[1:4],
        lambda t, x: x * 2.5, lambda t, x: x + 1j, lambda t, x: -x, lambda t, x: x.abs(), lambda t, x: x.conj(),
        lambda t, x: x.real, lambda t, x: x.imag, lambda t, x: t.view_as_real(x), lambda t, x: x.view(t.float16),
        lambda t, x: x.view(t.int32), lambda t, x: x.half(), lambda t, x: x.to(t.float32), lambda t, x: x == x[0],
        lambda t, x: t.view_as_complex(t.arange(6).reshape(3, 2).half()), lambda t, x: x.sgn(),
        lambda t, x: t.complex(t.ones(2).half(), t.arange(2).half()), lambda t, x: t.arange(4).chalf(),
        lambda t, x: t.cat([x, x]), lambda t, x: t.zeros(2, dtype=t.chalf),
        lambda t, x: t.full((2,), 1j, dtype=t.chalf),
        lambda t, x: x.to(t.complex64), lambda t, x: x.to(t.complex128).chalf(), lambda t, x: t.ones(2).half() * 1j,
        lambda t, x: t.ones(2).bfloat16() * 1j, lambda t, x: x.isfinite(), lambda t, x: x.masked_fill(x == 0, 2),
        lambda t, x: x[:2].index_select(0, t.tensor([1, 0])), lambda t, x: x.reshape(2, 3).mH, lambda t, x: x.tolist(),
        lambda t, x: x[0].item(), lambda t, x: x.any(), lambda t, x: x.clone().add_(1), lambda t, x: x.type(),
        lambda t, x: t.zeros(6).copy_(x), lambda t, x: x.untyped_storage().nbytes(), lambda t, x: repr(x[:2]),
        *(lambda t, x, name=name: x[:2] + t.ones(2).to(getattr(t, name)) for name in OTHERS),
        *(lambda t, x, name=name: str(t.promote_types(t.complex32, getattr(t, name))) for name in OTHERS)]


@pytest.mark.parametrize("number", range(len(SAME)))
def test_as_pytorch_has_it(number):
    theirs, ours = both(SAME[number])
    assert ours[:-1] == theirs[:-1]
    np.testing.assert_array_equal(ours[-1], theirs[-1])


def test_what_it_says_of_itself():
    for t in (judge, torch):
        assert t.complex32.itemsize == 4 and t.complex32.is_complex and t.chalf is t.complex32
        assert t.complex32.to_real() is t.float16 and t.float16.to_complex() is t.complex32
        assert t.finfo(t.complex32).max == 65504 and t.tensor([1j], dtype=t.chalf).element_size() == 4
        with pytest.raises(TypeError, match="ComplexHalf"):
            t.tensor([1j], dtype=t.chalf).numpy()


def test_what_pytorch_refuses_is_computed_wide_and_rounded():
    x = torch.tensor(VALUES[:3], dtype=torch.complex32)
    for f in (torch.exp, torch.sqrt, torch.sum, torch.reciprocal, lambda v: v / v.conj(), lambda v: v @ v):
        assert torch.equal(f(x), f(x.to(torch.complex64)).to(torch.complex32))


def test_gradients():
    found = []
    for t in (judge, torch):
        x = t.tensor(VALUES[:2], dtype=t.complex32, requires_grad=True)
        (x * x).real.sum().backward()
        found.append((str(x.grad.dtype), x.grad.tolist()))
    assert found[0] == found[1]


def test_compiled():
    x = torch.tensor(VALUES[:3], dtype=torch.complex32)
    f = lambda x: (x * 2 + x.conj()).abs()  # noqa: E731
    assert torch.equal(torch.compile(f)(x), f(x))
