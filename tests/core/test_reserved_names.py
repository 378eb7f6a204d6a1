"""Private members of objects that users subclass have the prefix ``_rush_``, so that they meet no name of users."""
from __future__ import annotations

import copy
import importlib
import inspect
import io
import os
import re

import pytest
import torch

import rushlight as rl

PREFIX = "_rush_"
FAMILIES = "nn", "nn.parallel", "optim", "optim.lr_scheduler"


def members_of(kind) -> set:
    """The names that PyTorch's class has or sets: also those that only its methods mention."""
    methods = (inspect.unwrap(getattr(kind, name)) for name in dir(kind))
    functions = (getattr(one, "__func__", one) for one in methods)
    source = "".join(inspect.getsource(one) for one in functions if inspect.isfunction(one)
                     and os.path.isfile(one.__code__.co_filename))
    return set(dir(kind)) | set(re.findall(r"\w+", source))


def beyond(kind, ours) -> set:
    return {name for name in dir(ours) if not name.startswith("__")} - members_of(kind)


def pairs(family):
    """PyTorch's classes of a module, and ours of the same names."""
    here, there = importlib.import_module(f"rushlight.{family}"), importlib.import_module(f"torch.{family}")
    for name, kind in vars(there).items():
        ours = getattr(here, name, None)
        if isinstance(kind, type) and isinstance(ours, type) and not issubclass(kind, torch.Tensor):
            yield kind, ours


@pytest.mark.parametrize("family", FAMILIES)
def test_members_beyond_pytorchs_have_the_prefix(family):
    found = {f"{ours.__name__}.{name}" for kind, ours in pairs(family) for name in beyond(kind, ours)
             if not name.startswith(PREFIX) and name != "_opt_called"}  # PyTorch's schedulers set that one
    assert not found


def test_private_members_of_tensors_have_the_prefix():
    x = rl.nn.Parameter(rl.ones(2))
    (x * 2).sum().backward()
    theirs = dir(torch.Tensor) + dir(torch.nn.Parameter)
    found = {name for name in [*dir(x), *vars(x)] if re.match("_[a-z]", name)} - set(theirs)
    # PyTorch's own: an operator without the underscore's method, beside it as a function
    assert {name for name in found if not name.startswith(PREFIX)} <= {"_int_mm"}


def taken_names(kind, ours) -> list:
    """What ours is called without the prefix, with and without an underscore, where PyTorch has no such member."""
    bare = {name.removeprefix(PREFIX) for name in dir(ours) if name.startswith(PREFIX)}
    return sorted({form for name in bare for form in (f"_{name}", name)} - set(dir(kind)) - members_of(kind))


class Tagged(rl.Tensor):
    pass


class Layer(rl.nn.Linear):
    pass


class Descent(rl.optim.SGD):
    pass


def put(thing, names):
    for name in names:
        setattr(thing, name, {"of": "the user"})
    return thing


def check(thing, names):
    assert all(getattr(thing, name) == {"of": "the user"} for name in names)


TENSOR, MODULE = taken_names(torch.Tensor, rl.Tensor), taken_names(torch.nn.Linear, rl.nn.Linear)
OPTIMIZER = taken_names(torch.optim.SGD, rl.optim.SGD)


def test_there_are_names_to_try():
    assert {"_meta", "_storage", "_grad_node", "meta"} <= set(TENSOR) | {"meta"}
    assert {"_call_with_hooks", "_cast"} <= set(MODULE) and {"counters", "update_all"} <= set(OPTIMIZER)


@pytest.mark.parametrize("compiled", (False, True))
def test_a_subclass_of_tensor_may_have_any_of_them(compiled):
    x = put(rl.arange(6.0).reshape(2, 3).as_subclass(Tagged).requires_grad_(), TENSOR)
    x.register_hook(lambda gradient: gradient * 2)

    def f(x):
        return (x[0] * x[1]).sin().sum()

    (rl.compile(f) if compiled else f)(x).backward()
    y = rl.arange(6.0).reshape(2, 3).requires_grad_()
    f(y).backward()
    assert rl.equal(x.grad.as_subclass(rl.Tensor), y.grad * 2) and x.shape == (2, 3)
    for other in copy.deepcopy(x), reloaded(x):
        check(other, TENSOR)
        assert rl.equal(other.detach().as_subclass(rl.Tensor), y.detach())
    x.detach().add_(1).view(3, 2).t().contiguous()


def reloaded(value):
    file = io.BytesIO()
    rl.save(value, file)
    file.seek(0)
    return rl.load(file, weights_only=False)


@pytest.mark.parametrize("compiled", (False, True))
def test_a_subclass_of_module_may_have_any_of_them(compiled):
    rl.manual_seed(0)
    m = put(Layer(3, 2), MODULE)
    put(m.weight, set(TENSOR) - {"names"})
    m.register_forward_hook(lambda module, args, result: result + 1)
    x = rl.ones(1, 3)
    (rl.compile(m) if compiled else m)(x).sum().backward()
    assert m.weight.grad.tolist() == [[1.0] * 3] * 2
    fresh = Layer(3, 2)
    fresh.load_state_dict(m.state_dict())
    for other in copy.deepcopy(m), m.double().float():
        check(other, MODULE)
        assert rl.equal(other(x), fresh(x) + 1)


@pytest.mark.parametrize("compiled", (False, True))
def test_a_subclass_of_optimizer_may_have_any_of_them(compiled):
    p, q = (rl.nn.Parameter(rl.ones(3)) for _ in range(2))
    optimizer, plain = put(Descent([p], 0.1, momentum=0.9), OPTIMIZER), rl.optim.SGD([q], 0.1, momentum=0.9)
    step = rl.compile(optimizer.step) if compiled else optimizer.step
    for _ in range(3):
        p.grad, q.grad = rl.arange(3.0), rl.arange(3.0)
        step()
        plain.step()
        optimizer.load_state_dict(optimizer.state_dict())
    assert rl.equal(p, q)
    check(optimizer, OPTIMIZER)
