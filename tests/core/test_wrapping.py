"""Subclasses that hold a tensor and answer operators (``_make_wrapper_subclass``): nothing ever shows the memory that
they do not have."""
import copy

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


def wrapper(lib):
    """A class of tensors that hold another one in a slot, and pass every operator on to it."""
    class Wrapped(lib.Tensor):
        __slots__ = ["elem"]

        @staticmethod
        def __new__(cls, elem, requires_grad=False):
            made = lib.Tensor._make_wrapper_subclass(cls, elem.size(), strides=elem.stride(), dtype=elem.dtype,
                                                     device=elem.device, requires_grad=requires_grad)
            made.elem = elem.detach() if requires_grad else elem
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            inside = lib.utils._pytree.tree_map(lambda e: e.elem if isinstance(e, cls) else e, (args, kwargs or {}))
            return lib.utils._pytree.tree_map(lambda e: cls(e) if isinstance(e, lib.Tensor) else e,
                                              func(*inside[0], **inside[1]))

    return Wrapped


def grid(lib):
    return lib.arange(1.0, 5.0, dtype=lib.float64).reshape(2, 2)


def shown(value):
    """What a result is: the class of each tensor, and the elements of what it holds."""
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    if hasattr(value, "elem"):
        return "wrapped", value.elem.tolist()
    return value.tolist() if hasattr(value, "tolist") else value


def squared(x):
    return (x * x * x).sum()


PROGRAMS = {
    "number": lambda lib, W: (lambda x: (x.item(), float(x), bool(x), int(x)))(W(lib.ones((), dtype=lib.float64) * 3)),
    "number of one within another": lambda lib, W: W(W(lib.ones((), dtype=lib.float64) * 3)).item(),
    "list": lambda lib, W: W(grid(lib)).tolist(), "array": lambda lib, W: W(grid(lib)).numpy(),
    "data": lambda lib, W: W(grid(lib)).data, "copy": lambda lib, W: copy.copy(W(grid(lib))),
    "deep copy": lambda lib, W: copy.deepcopy(W(grid(lib))), "element": lambda lib, W: W(grid(lib))[0, 1].item(),
    "in place": lambda lib, W: W(grid(lib)).add_(1),
    "views": lambda lib, W: [W(grid(lib)).view(4), W(grid(lib)).t(), W(grid(lib)).detach(), list(W(grid(lib)))],
    "gradient": lambda lib, W: lib.func.grad(squared)(W(grid(lib))),
    "vmap": lambda lib, W: lib.vmap(lambda v: v * 2)(W(grid(lib))),
    "copied from": lambda lib, W: (lambda y: (y.copy_(W(grid(lib))), y)[1])(lib.zeros(2, 2, dtype=lib.float64)),
    "hessian": lambda lib, W: lib.autograd.functional.hessian(squared, W(grid(lib))),
    "hessian at once": lambda lib, W: lib.autograd.functional.hessian(squared, W(grid(lib)), vectorize=True),
    "checked": lambda lib, W: lib.autograd.gradcheck(lambda x: (x * x).sum(0), (W(grid(lib), requires_grad=True),)),
    "compared": lambda lib, W: [lib.allclose(W(grid(lib)), W(grid(lib))), lib.equal(W(grid(lib)), W(grid(lib)))],
    "checked twice": lambda lib, W: lib.autograd.gradcheck(
        lambda x: lib.autograd.functional.jacobian(lambda y: (y * y).sum(0), x, create_graph=True),
        (W(grid(lib), requires_grad=True),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch(name):
    try:
        wanted = shown(PROGRAMS[name](torch, wrapper(torch)))
    except RuntimeError:
        with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
            PROGRAMS[name](rushlight, wrapper(rushlight))
    else:
        assert shown(PROGRAMS[name](rushlight, wrapper(rushlight))) == wanted


def test_memory_that_is_not_there_is_not_read():
    with rushlight._C.DisableTorchFunctionSubclass():
        for read in (rushlight.Tensor.tolist, rushlight.Tensor.numpy):
            with pytest.raises(RuntimeError, match="memory of its own"):
                read(wrapper(rushlight)(grid(rushlight)))


@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("around", ["called", "mapped", "compiled"])
def test_an_instance_has_room_for_all_elements(around, offset):
    """However its class is left, nothing is read beside its memory."""
    kept = []

    class Wide(rushlight.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return rushlight.Tensor._make_wrapper_subclass(cls, (1 << 22,), storage_offset=offset)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            return function(*(a.inner if isinstance(a, Wide) else a for a in args), **kwargs or {})

    def run(x):
        kept.append(Wide(rushlight.zeros(2)))
        return x + 1
    {"called": lambda f: f, "mapped": rushlight.vmap, "compiled": rushlight.compile}[around](run)(rushlight.ones(3))
    instance, = kept
    assert instance.untyped_storage().nbytes() >= 4 * (offset + instance.numel())
    assert instance.as_subclass(rushlight.Tensor).isfinite().numel() == 1 << 22
