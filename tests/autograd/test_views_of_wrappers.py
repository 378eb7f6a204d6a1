"""Views of users' own classes of tensors that answer operators: histories and versions are those of PyTorch."""
from __future__ import annotations

import pytest
import torch
import torch.utils._pytree as their_pytree

import rushlight as rl
import rushlight.utils._pytree as our_pytree

SIDES = {"PyTorch": (torch, their_pytree), "Rushlight": (rl, our_pytree)}


def wrapper_of(lib, pytree):
    """A class of ``lib`` whose instances wrap a tensor and answer operators by it."""

    class Wrapper(lib.Tensor):
        @staticmethod
        def __new__(cls, elem):
            return lib.Tensor._make_wrapper_subclass(cls, elem.size(), strides=elem.stride(), dtype=elem.dtype,
                                                     requires_grad=elem.requires_grad)

        def __init__(self, elem):
            self.elem = elem.detach()

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            opened = pytree.tree_map(lambda v: v.elem if isinstance(v, cls) else v, (args, kwargs or {}))
            result = func(*opened[0], **opened[1])
            if "_(" in f"{func.__name__.split('.')[0]}(":  # an operator that writes returns its target
                return args[0]
            return pytree.tree_map(lambda v: cls(v) if isinstance(v, lib.Tensor) else v, result)

    return Wrapper


VIEWS = {
    "view": lambda y: y.view(12), "t": lambda y: y.t(), "slice": lambda y: y[1:3], "row": lambda y: y[2],
    "columns": lambda y: y[:, 1:], "unsqueeze": lambda y: y.unsqueeze(0), "chain": lambda y: y.t()[1].view(2, 2),
    "diagonal": lambda y: y.diagonal(), "unbind": lambda y: y.unbind(0)[1],
    "detach": lambda y: y.detach(), "narrow": lambda y: y.narrow(1, 0, 2), "data": lambda y: y.data,
}
WRITES = {
    "mul_": lambda v: v.mul_(3), "zero_": lambda v: v.zero_(), "add_": lambda v: v.add_(2), "exp_": lambda v: v.exp_(),
    "pow_": lambda v: v.pow_(2), "copy_": lambda v: v.copy_(v.detach().clone() * 2),
}


def history(lib, pytree, view, write, through, mode):
    """Facts about a write: what is a view of what, versions, values and the gradient, or the error."""
    x = lib.arange(1.0, 13.0).reshape(4, 3)
    x = wrapper_of(lib, pytree)(x.requires_grad_())
    y = x * 1.5
    try:
        with lib.set_grad_enabled(mode != "view without recording"):
            v = VIEWS[view](y)
        u = y.view(3, 4)
        with lib.set_grad_enabled(mode != "write without recording"):
            WRITES[write]({"view": v, "base": y, "other": u}[through])
        facts = [v._is_view(), v._base is y, v._version, y._version, u._version, v.requires_grad, y.requires_grad]
        ((v * v).sum() + (y * y).sum() * 2 + u.sin().sum()).backward()
    except RuntimeError as error:
        return str(error)
    return [*facts, *(getattr(t, "elem", t).tolist() for t in (v, y, u, x.grad))]


@pytest.mark.parametrize("through", ("view", "base", "other"))
@pytest.mark.parametrize("mode", ("recorded", "view without recording", "write without recording"))
@pytest.mark.parametrize("view", VIEWS)
def test_histories_are_those_of_pytorch(view, mode, through):
    for write in WRITES:
        wanted, found = (history(*side, view, write, through, mode) for side in SIDES.values())
        if isinstance(wanted, str):
            assert isinstance(found, str), (write, found, wanted)
        else:
            assert isinstance(found, list) and found[:7] == wanted[:7], (write, found, wanted)
            for a, b in zip(found[7:], wanted[7:]):
                assert rl.allclose(rl.tensor(a), rl.tensor(b), rtol=1e-5), (write, a, b)
