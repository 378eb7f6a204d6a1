"""Hooks that compiled functions hang on tensors from outside, and leaves that have hooks: as uncompiled."""
from __future__ import annotations

import functools

import pytest

import rushlight as torch


def leaf_hook(x, z, seen):
    x.register_hook(lambda g: g * 3)
    return x * 5


def step_hook(x, z, seen):
    z.register_hook(lambda g: g * 3)
    return z * 5 + x


def removed(x, z, seen):
    handle = x.register_hook(lambda g: g * 3)
    handle.remove()
    return z * 5


def kept(x, z, seen):
    return z * 5, x.register_hook(lambda g: g * 3)


def effects(x, z, seen):
    x.register_hook(lambda g: seen.append(g.tolist()))
    return z * 5


def accumulated(x, z, seen):
    def hook(leaf):
        leaf.grad.mul_(7)
    x.register_post_accumulate_grad_hook(hook)
    return z * 5


def closure(x, z, seen):
    factor = z.sum().detach()
    z.register_hook(lambda g: g * factor)
    return z * 5


def partial(x, z, seen):
    x.register_hook(functools.partial(lambda g, k: g + k, k=3))
    y = x * 2
    y.register_hook(lambda g: g * 2)
    return y * z


def written_later(x, z, seen):
    z.register_hook(lambda g: g * 3)
    z.mul_(2)
    return z * 5


def written_before(x, z, seen):
    z.mul_(2)
    z.register_hook(lambda g: g * 3)
    return z * 5


def backward_within(x, z, seen):
    x.register_hook(lambda g: g * 3)
    (x * 2).sum().backward()
    return z * 5


SHIFT = functools.partial(lambda g, k: g + k, k=2)


def partial_within(x, z, seen):
    y = z * 2
    y.register_hook(functools.partial(lambda g, k: g * k, k=3))
    y.register_hook(SHIFT)
    return y * x


WHOLE = [leaf_hook, step_hook, removed, kept, effects, accumulated, closure, partial, partial_within]


def results(function):
    x, seen = torch.tensor([1.0, 2.0], requires_grad=True), []
    out = function(x, x * 2, seen)
    (out[0] if isinstance(out, tuple) else out).sum().backward()
    return x.grad.tolist(), seen


@pytest.mark.parametrize("backend", ["eager", "rushlight"])
@pytest.mark.parametrize("function", [*WHOLE, written_later, written_before, backward_within],
                         ids=lambda f: f.__name__)
def test_hooks_hung_by_compiled_code(function, backend):
    compiled = torch.compile(function, backend=backend, fullgraph=function in WHOLE)
    assert results(function) == results(compiled) == results(compiled)


@pytest.mark.parametrize("backend", ["eager", "rushlight"])
def test_hooks_of_leaves_run_once(backend):
    def backward(x):
        (x * 2).sum().backward()
        return x.grad

    def gradient(x):
        return torch.autograd.grad((x * 2).sum(), [x])[0]

    for function in (backward, gradient):
        x = torch.ones(2, requires_grad=True)
        x.register_hook(lambda g: g * 3)
        assert torch.compile(function, backend=backend)(x).tolist() == [6.0, 6.0]
