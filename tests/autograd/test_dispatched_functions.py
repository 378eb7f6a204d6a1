"""Derivatives by functions of tensors whose class answers every operator: each tensor that the class sees is one that
it made."""
import numpy as np
import pytest
import torch

import rushlight


def wrapper(lib):
    tree_map = lib.utils._pytree.tree_map

    class Wrapper(lib.Tensor):
        @staticmethod
        def __new__(cls, elem):
            made = lib.Tensor._make_wrapper_subclass(cls, elem.size(), strides=elem.stride(), dtype=elem.dtype,
                                                     device=elem.device, requires_grad=elem.requires_grad)
            made.elem = elem.detach() if elem.requires_grad else elem
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            given = tree_map(lambda e: e.elem if isinstance(e, cls) else e, (args, kwargs or {}))
            return tree_map(lambda e: cls(e) if isinstance(e, lib.Tensor) else e, func(*given[0], **given[1]))

    return Wrapper


PROGRAMS = {
    "hvp": lambda lib, f, x, v: lib.autograd.functional.hvp(f, x, v)[1],
    "vhp": lambda lib, f, x, v: lib.autograd.functional.vhp(f, x, v)[1],
    "hessian": lambda lib, f, x, v: lib.autograd.functional.hessian(f, x),
    "jacobian": lambda lib, f, x, v: lib.autograd.functional.jacobian(f, x),
    "hessian of a batch": lambda lib, f, x, v: lib.autograd.functional.hessian(f, x, vectorize=True),
    "jacobian of a batch": lambda lib, f, x, v: lib.autograd.functional.jacobian(lambda a: a.exp() * a, x,
                                                                                 vectorize=True),
    "vmap": lambda lib, f, x, v: lib.func.vmap(lambda a: lib.stack([a.exp(), a * a]))(x),
    "grad": lambda lib, f, x, v: lib.func.grad(f)(x),
    "vjp": lambda lib, f, x, v: lib.autograd.functional.vjp(f, x)[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch(name):
    seen = []
    for lib in (torch, rushlight):
        made = wrapper(lib)
        x, v = made(lib.tensor([0.5, 1.0, 2.0, 3.0])), lib.ones(4)
        result = PROGRAMS[name](lib, lambda a: 3 * a.narrow(0, 0, 3).exp().sum(), x, made(v))
        seen.append(getattr(result, "elem", result).tolist())  # what answered for the class, or what it gave away
    assert seen[0] == pytest.approx(seen[1], rel=1e-5) if not isinstance(seen[0][0], list) else all(
        a == pytest.approx(b, rel=1e-5) for a, b in zip(*seen))


@pytest.mark.parametrize("operator", ["mT", "mH", "adjoint", "H"])
def test_vectors_are_not_transposed(operator):
    for lib in (torch, rushlight):
        for x in (lib.ones(2), lib.ones(2, dtype=lib.complex64)):
            with pytest.raises(RuntimeError, match="only supported on matrices"):
                turned = getattr(x, operator)
                turned() if callable(turned) else turned
        nothing = getattr(lib.tensor(2.0), operator)
        assert (nothing() if callable(nothing) else nothing).shape == ()


def test_other_bytes_have_no_gradient():
    for lib in (torch, rushlight):
        x = lib.ones(4, requires_grad=True)
        assert not any(x.view(dtype).requires_grad for dtype in (lib.int32, lib.float16, lib.float64))


def written(lib, x):
    y = x * 2
    y.cos_()
    y.pow_(3)
    y.mul_(x.sin())
    y.squeeze_(0)
    return y.exp_().sum()


def test_gradients_of_writes_read_what_was_there_before():
    seen = []
    for lib in (torch, rushlight):
        class Inside(lib.Tensor):
            @staticmethod
            def __new__(cls, x, requires_grad=False):
                return lib.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, requires_grad=requires_grad)

            def __init__(self, x, requires_grad=False):
                self.x = x

            @classmethod
            def __torch_dispatch__(cls, func, types, args, kwargs=None):
                given, named = lib.utils._pytree.tree_map_only(cls, lambda t: t.x, (args, kwargs or {}))
                result = func(*given, **named)
                writes = func._schema.name.endswith("_")
                return args[0] if writes else lib.utils._pytree.tree_map_only(lib.Tensor, cls, result)

        x = lib.tensor([[0.5, 1.0, 2.0]])
        plain, inside = x.clone().requires_grad_(), Inside(x, True)
        for value in (plain, inside):
            written(lib, value).backward()
        assert lib.allclose(inside.grad.x, plain.grad)
        seen.append(plain.grad.tolist())
    np.testing.assert_allclose(*seen, rtol=1e-5)
