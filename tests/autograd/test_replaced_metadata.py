"""Operators in place that replace the metadata of a tensor: its history, version and gradients, as in PyTorch."""
import itertools

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
    "data of float16": lambda p, t: setattr(t, "data", p.arange(12).reshape(2, 3, 2)[..., 1].half()),
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
    """False for what PyTorch decides by how ``data`` was made, and for ``detach_`` in inference mode."""
    if operator.startswith("data"):
        return not (mode == "inference" and use is replace_again)
    return (operator, mode) != ("detach_", "inference")


@pytest.mark.parametrize("operator", OPERATORS)
def test_histories_after_operators_that_replace_metadata(operator):
    wrong = [(kind, mode, use.__name__, theirs, own) for kind in KINDS for mode in MODES for use in USES
             if is_compared(operator, kind, mode, use)
             and (own := outcome(rushlight, operator, kind, mode, use))
             != (theirs := outcome(judge, operator, kind, mode, use))]
    assert not wrong


DTYPES = [("float32", "float64"), ("float64", "float32"), ("complex64", "complex128"), ("complex128", "complex64")]
PARTS = {"rows": lambda y: y[:2], "columns": lambda y: y[:, 1:], "transposed": lambda y: y.t(), "row": lambda y: y[1]}
REPLACED = {"view": lambda p, view, base, other: setattr(view, "data", other),
            "strided": lambda p, view, base, other: setattr(view, "data", p.stack([other, other], -1)[..., 0]),
            "larger": lambda p, view, base, other: setattr(view, "data", p.stack([other, other, other])),
            "base": lambda p, view, base, other: setattr(base, "data", p.ones(2, 3, dtype=other.dtype)),
            "both": lambda p, view, base, other: (setattr(base, "data", p.ones(2, 3, dtype=other.dtype)),
                                                  setattr(view, "data", other))}
NEXT = {"view": lambda view, base, factor: view, "base": lambda view, base, factor: base,
        "written again": lambda view, base, factor: view.add_(factor),
        "base written": lambda view, base, factor: (base.mul_(2), view)[1]}


def numbered(p, count, dtype):
    return p.arange(1, 1 + count).to(dtype)


def gradients(p, dtypes, wants, part, replaced, later):
    """The gradients of a tensor, and of the factor by which a view of its double is multiplied once the memory of the
    view or of the base is of another dtype."""
    first, second = (getattr(p, name) for name in dtypes)
    x = numbered(p, 6, first).reshape(2, 3).clone().requires_grad_()
    base = x * 2 if wants else x.detach() * 2
    view, factor = PARTS[part](base), p.full((), 3, dtype=second, requires_grad=True)
    try:
        REPLACED[replaced](p, view, base, numbered(p, view.numel(), second).reshape(view.shape))
        view.mul_(factor)
        found = NEXT[later](view, base, factor)
        (found * numbered(p, found.numel(), found.dtype).reshape(found.shape)).real.sum().backward()
    except RuntimeError:
        return "RuntimeError"
    return str(found.dtype).split(".")[1], found.grad_fn is None, listed(x.grad), listed(factor.grad)


@pytest.mark.parametrize("dtypes", DTYPES)
def test_views_written_after_memory_of_another_dtype_came(dtypes):
    cases = [(dtypes, *case) for case in itertools.product((True, False), PARTS, REPLACED, NEXT)]
    wrong = [(case, theirs, own) for case in cases
             if (own := gradients(rushlight, *case)) != (theirs := gradients(judge, *case))]
    assert not wrong
