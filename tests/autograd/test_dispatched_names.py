"""What a dispatch class or mode sees: PyTorch's operators, with PyTorch's arguments, and the values and gradients that
plain tensors have."""
import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode

F = nn.functional


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((str(func).removeprefix("aten."), *(a for a in args if not isinstance(a, torch.Tensor))))
        return func(*args, **(kwargs or {}))


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype,
                                                   requires_grad=inner.requires_grad)
        made.inner = inner.detach()
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = pytree.tree_map_only(cls, lambda x: x.inner, (list(args), kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, cls, func(*args, **kwargs))


def seen(function, *args):
    with Names() as mode:
        function(*args)
    return mode.seen


X = torch.arange(12.0).reshape(3, 4)
FAR = 2 ** 63 - 1


@pytest.mark.parametrize("function,wanted", [
    (lambda x: x[0, 1:], [("select.int", 0, 0), ("slice.Tensor", 0, 1, FAR)]),
    (lambda x: x[:, None, ::2], [("unsqueeze.default", 1), ("slice.Tensor", 2, 0, FAR, 2)]),
    (lambda x: x[...], [("alias.default",)]),
    (lambda x: x.chunk(2, 1), [("split.Tensor", 2, 1)]),
    (lambda x: x.narrow(1, 1, 2), [("slice.Tensor", 1, 1, 3)]),
    (lambda x: x.t().reshape(12), [("t.default",), ("clone.default",), ("_unsafe_view.default", [12])]),
    (lambda x: x.flatten(), [("view.default", [12])]),
    (lambda x: x.softmax(-1), [("_softmax.default", -1, False)]),
    (lambda x: F.layer_norm(x, (4,)), [("native_layer_norm.default", [4], None, None, 1e-5)]),
    (lambda x: x.var(unbiased=False), [("var.correction",)]),
    (lambda x: F.interpolate(x[None], scale_factor=2), [("unsqueeze.default", 0),
                                                        ("upsample_nearest1d.default", [8], 2.0)]),
    (lambda x: torch.special.gammaln(x + 1), [("add.Tensor", 1), ("lgamma.default",)]),
    (lambda x: torch.empty(2), [("empty.memory_format", [2])]),
    (lambda x: x @ x.mT, [("transpose.int", -2, -1), ("mm.default",)]),
    (lambda x: 2 ** x, [("pow.Scalar", 2)]),
])
def test_a_mode_sees_pytorchs_operators(function, wanted):
    assert seen(function, X) == wanted


def test_a_layer_is_seen_as_its_products():
    names = [name for name, *_ in seen(lambda x: F.linear(x, torch.ones(2, 4), torch.ones(2)), X)]
    assert names == ["ones.default", "ones.default", "t.default", "addmm.default"]


def test_constants_are_lifted():
    assert seen(lambda: torch.tensor([1.0, 2.0])) == [("lift_fresh.default",)]
    assert [n for n, *_ in seen(lambda x: x[[0, 1]], X)] == ["lift_fresh.default", "index.Tensor"]


@pytest.mark.parametrize("function", [
    lambda x: x[0, 1:], lambda x: x[torch.tensor([2, 0])] * 2, lambda x: x.softmax(-1), lambda x: x.chunk(2, 1)[1],
    lambda x: F.pad(x[None], (1, 2), "circular"), lambda x: torch.tensordot(x, x.t(), 1),
    lambda x: F.cross_entropy(x, torch.tensor([0, 1, 3])), lambda x: F.layer_norm(x, (4,)) * x,
    lambda x: x.var(1, unbiased=False), lambda x: torch.lerp(x, x * 2, 0.3), lambda x: torch.logit(x / 20 + 0.1),
    lambda x: F.kl_div(x, x.detach() + 1), lambda x: x.masked_select(x > 3), lambda x: x.max(1)[0],
    lambda x: torch.diagonal_scatter(x, torch.ones(3)) * x, lambda x: x.kthvalue(2)[0],
    lambda x: F.interpolate(x[None], size=7, mode="linear"), lambda x: torch.trapz(x),
    lambda x: torch.linalg.det(x[:, :3] + 5 * torch.eye(3)), lambda x: torch.fft.rfft(x).abs(),
], ids=range(20))
def test_values_and_gradients_are_those_of_plain_tensors(function):
    plain, wrapped = X.clone().requires_grad_(), Wrapped(X.clone().requires_grad_())
    wanted, got = function(plain), function(wrapped)
    np.testing.assert_allclose(got.inner.numpy(), wanted.detach().numpy(), rtol=1e-5)
    (wanted ** 2).sum().backward()
    (got ** 2).sum().backward()
    assert wrapped.grad.dtype is plain.grad.dtype
    np.testing.assert_allclose(wrapped.grad.inner.numpy(), plain.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_errors_of_factorisations_are_those_of_plain_tensors():
    singular = torch.zeros(2, 2)
    for function in (torch.linalg.inv, torch.linalg.cholesky):
        with pytest.raises(torch.linalg.LinAlgError), Names():
            function(singular)


@pytest.mark.long
def test_most_entries_of_the_database_show_what_pytorch_shows():
    pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    from .dispatched import counted
    agree, total, _ = counted()
    assert agree >= 530 and total == 673
