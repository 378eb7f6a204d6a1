"""Operators in place that replace the metadata of a tensor: its history, version and gradients, as in PyTorch."""
import pytest
import torch as judge

import rushlight

OPERATORS = {
    "t_": lambda p, t: t.t_(), "transpose_": lambda p, t: t.transpose_(0, 1),
    "swapaxes_": lambda p, t: t.swapaxes_(0, 1),
    "unsqueeze_": lambda p, t: t.unsqueeze_(0), "squeeze_": lambda p, t: t.squeeze_(),
    "as_strided_": lambda p, t: t.as_strided_((2, 2), (1, 2)), "restrided": lambda p, t: t.as_strided_((2, 3), (1, 2)),
    "resize_": lambda p, t: t.resize_(3, 2), "resize_as_": lambda p, t: t.resize_as_(p.ones(3, 2)),
    "set_": lambda p, t: t.set_(p.arange(3.)), "set_ alike": lambda p, t: t.set_(p.arange(6.).reshape(2, 3)),
    "set_ recorded": lambda p, t: t.set_(p.ones(2, 3, requires_grad=True) * 2),
    "data": lambda p, t: setattr(t, "data", p.arange(3.)),
    "data alike": lambda p, t: setattr(t, "data", p.arange(6.).reshape(2, 3)),
    "data broadcast": lambda p, t: setattr(t, "data", p.arange(12.).reshape(2, 2, 3)),
    "data of float64": lambda p, t: setattr(t, "data", p.ones(2, 3, dtype=p.float64)),
    "detach_": lambda p, t: t.detach_()}
MODES = {"grad": lambda p: p.enable_grad(), "no_grad": lambda p: p.no_grad(), "inference": lambda p: p.inference_mode()}


def unrecorded(p, function):
    with p.no_grad():
        return function()


KINDS = {
    "leaf": lambda p, x: x, "result": lambda p, x: x * 2, "view": lambda p, x: (x * 2)[:2],
    "view of a view": lambda p, x: (p.cat([x, x]) * 2)[1:][:2], "view of a leaf": lambda p, x: x[:2],
    "unrecorded view": lambda p, x: (lambda y: unrecorded(p, lambda: y[:2]))(x * 2),
    "unrecorded view of a leaf": lambda p, x: unrecorded(p, lambda: x[:2]),
    "plain": lambda p, x: p.tensor([[0., 1, 2], [3, 4, 5]]), "plain view": lambda p, x: p.arange(9.).reshape(3, 3)[:2],
    "one of several": lambda p, x: (p.stack([x, x]) * 2).unbind()[1], "detached": lambda p, x: (x * 2).detach()}


def listed(value):
    return None if value is None else value.detach().tolist()


def weighted(p, t):
    return (t * (1 + p.arange(float(t.numel())).reshape(t.shape))).sum()


def look(p, t, x, part):
    return (tuple(t.shape), t.stride(), t.storage_offset(), t.requires_grad, t.is_leaf, t.grad_fn is None,
            t._base is None, t._version, part._version, listed(t))


def differentiate(p, t, x, part):
    weighted(p, t).backward()
    return listed(x.grad)


def differentiate_part(p, t, x, part):
    """A view that was made before."""
    return part.requires_grad, differentiate(p, part, x, part)


def write(p, t, x, part):
    t.mul_(3)
    return look(p, t, x, part), differentiate(p, t, x, part)


def write_unrecorded(p, t, x, part):
    unrecorded(p, lambda: t.mul_(3))
    return look(p, t, x, part), differentiate(p, t, x, part)


def write_base(p, t, x, part):
    if t._base is None:
        return None
    t._base.mul_(3)
    return look(p, t, x, part), differentiate(p, t, x, part)


def ask(p, t, x, part):
    return listed(p.autograd.grad(weighted(p, t), t)[0])


def hook(p, t, x, part):
    if t._base is not None:
        return None  # PyTorch crashes if a view has changed since its history was made
    seen = []
    t.register_hook(lambda gradient: seen.append(listed(gradient)))
    differentiate(p, t, x, part)
    return seen


def replace_again(p, t, x, part):
    t.unsqueeze_(0)
    return look(p, t, x, part), differentiate(p, t, x, part)


USES = [look, differentiate, differentiate_part, write, write_unrecorded, write_base, ask, hook, replace_again]


def kind_of(error) -> str:
    """The built-in class of an error: the frameworks derive their own."""
    return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")


def outcome(p, operator, kind, mode, use):
    """The result of a use after an operator, or the class of an error and which of the two raised it."""
    x = p.tensor([[0., 1, 2], [3, 4, 5]], requires_grad=True)
    t = KINDS[kind](p, x)
    part = t[:1]
    try:
        with MODES[mode](p):
            OPERATORS[operator](p, t)
    except Exception as error:
        return "refused", kind_of(error)
    try:
        return use(p, t, x, part)
    except Exception as error:
        return "failed", kind_of(error)


def is_compared(operator, kind, mode, use) -> bool:
    """False for what PyTorch decides by how ``data`` was made, or that this project does not follow yet: views whose
    data has another dtype or more elements than their base, and ``detach_`` in inference mode."""
    if operator.startswith("data"):
        return not (mode == "inference" and use is replace_again or "view" in kind and operator in (
            "data broadcast", "data of float64"))
    return (operator, mode) != ("detach_", "inference")


@pytest.mark.parametrize("operator", OPERATORS)
def test_histories_after_operators_that_replace_metadata(operator):
    wrong = [(kind, mode, use.__name__, theirs, own) for kind in KINDS for mode in MODES for use in USES
             if is_compared(operator, kind, mode, use)
             and (own := outcome(rushlight, operator, kind, mode, use))
             != (theirs := outcome(judge, operator, kind, mode, use))]
    assert not wrong
