"""Results whose derivative is not that of how they are computed, and tangents that are written in place; PyTorch says
what is right."""
import pytest
import torch

import rushlight

LIBRARIES = torch, rushlight


def dual(lib, shape=(3,), tangent=2.0):
    t = lib.full(shape, tangent)
    return lib.autograd.forward_ad.make_dual(lib.ones(shape), t), t


WRITES = {
    "all": lambda x, lib: x.mul_(3), "part": lambda x, lib: x[0].mul_(3), "copy": lambda x, lib: x.copy_(lib.zeros(3)),
    "a dual": lambda x, lib: x.add_(dual(lib)[0]),
    "item": lambda x, lib: x.__setitem__(1, 5.0),
}


def tangents(lib, write):
    """The tangents after a write: of the tensor, of a view made before it, and the tensor that was given as the
    tangent."""
    with lib.autograd.forward_ad.dual_level():
        x, given = dual(lib)
        view = x[:2]
        write(x, lib)
        unpack = lib.autograd.forward_ad.unpack_dual
        return [t.tolist() for t in (*unpack(x), *unpack(view), given)]


@pytest.mark.parametrize("name", WRITES)
def test_writes_update_tangents(name):
    assert tangents(rushlight, WRITES[name]) == tangents(torch, WRITES[name])


def test_a_constant_written_with_a_dual_gets_a_tangent():
    def seen(lib):
        with lib.autograd.forward_ad.dual_level():
            x, whole = dual(lib)[0], lib.zeros(4)
            part = whole[1:]
            part.copy_(x)
            return [lib.autograd.forward_ad.unpack_dual(t).tangent.tolist() for t in (whole, part)]

    assert seen(rushlight) == seen(torch)


def test_the_memory_of_duals():
    with rushlight.autograd.forward_ad.dual_level():
        primal = rushlight.ones(2)
        x = rushlight.autograd.forward_ad.make_dual(primal, rushlight.zeros(2))
        before = x._version
        x.add_(1)
        assert primal.tolist() == [2, 2] and x._version > before and x.storage().data_ptr() == primal.data_ptr()


RANDOM = {"bernoulli": lambda lib, x: lib.bernoulli(x), "normal mean": lambda lib, x: lib.normal(x, 1.0),
          "normal std": lambda lib, x: lib.normal(0.0, x),
          "poisson": lambda lib, x: lib.poisson(x), "bernoulli_": lambda lib, x: x.clone().bernoulli_()}


@pytest.mark.parametrize("name", RANDOM)
def test_random_variables_have_derivatives_of_0(name):
    for lib in LIBRARIES:
        forward = lib.autograd.forward_ad
        with forward.dual_level():
            assert forward.unpack_dual(RANDOM[name](lib, forward.make_dual(lib.full((3,), 0.5),
                                                                           lib.ones(3)))).tangent.tolist() == [0, 0, 0]
        x = lib.full((3,), 0.5, requires_grad=True)
        assert lib.autograd.grad(RANDOM[name](lib, x).sum(), x)[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("options", [{}, {"return_counts": True}, {"dim": 0}])
def test_unique_refuses_gradients(name, options):
    for lib in LIBRARIES:
        found = getattr(lib, name)(lib.ones(3, requires_grad=True), **options)
        first = found[0] if isinstance(found, tuple) else found
        assert first.requires_grad and not any(t.requires_grad for t in found[1:])
        with pytest.raises(RuntimeError, match="derivative"):
            first.sum().backward()


def test_checkpoints_that_would_lose_gradients():
    for lib in LIBRARIES:
        x = lib.ones(2, requires_grad=True)
        checkpoint = lib.utils.checkpoint.checkpoint
        with pytest.raises(RuntimeError, match="is incompatible"):
            lib.autograd.grad(checkpoint(lib.exp, x, use_reentrant=True).sum(), x)
        with pytest.raises(RuntimeError, match="is incompatible"):
            checkpoint(lib.exp, x, use_reentrant=True).sum().backward(inputs=[x])
        checkpoint(lib.exp, x, use_reentrant=True).sum().backward()


@pytest.mark.parametrize("name, arguments", [("threshold", (0.5, 0.0)), ("relu", ()), ("leaky_relu", (0.1,)),
                                             ("elu", (1.0,)), ("hardtanh", (-1.0, 1.0)), ("selu", ()), ("relu6", ()),
                                             ("silu", ()),
                                             ("celu", (1.0,)), ("hardswish", ())])
def test_in_place_by_position(name, arguments):
    def seen(lib):
        x = lib.tensor([-1.0, 0.25, 2.0])
        return getattr(lib.nn.functional, name)(x, *arguments, True) is not None and x.tolist()

    assert seen(rushlight) == pytest.approx(seen(torch), rel=1e-6)
