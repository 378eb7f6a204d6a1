"""Operators that users derive from HigherOrderOperator, beside PyTorch."""
import copy
import importlib

import pytest
import torch as judge

import rushlight as torch

NAMES = iter(range(1000))


def made(t, **rules):
    """An operator of a class of its own, with a rule for each DispatchKey named that returns the key's name."""
    base = importlib.import_module(f"{t.__name__}._ops").HigherOrderOperator

    class Small(base):
        def __init__(self, name):
            super().__init__(name)

        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs)

    operator = Small(f"small_{next(NAMES)}")
    for key, result in rules.items():
        operator.py_impl(getattr(t._C.DispatchKey, key))(lambda *args, result=result, **kwargs: result)
    return operator


def outcome(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - compared
        return type(error).__name__


KEYS = ["AutogradCPU", "Autograd", "CPU", "CompositeExplicitAutograd"]


def rules_run(t):
    found = []
    for taken in range(1 << len(KEYS)):
        operator = made(t, **{key: key for k, key in enumerate(KEYS) if taken >> k & 1})
        for args in ((t.ones(2),), (t.ones(2, requires_grad=True),), (2,), (2, [t.ones(1)])):
            found.append(outcome(operator, *args))
            with t.no_grad():
                found.append(outcome(operator, *args))
        with t.inference_mode():
            found.append(outcome(operator, t.ones(2)))
    return found


def test_the_rule_of_the_key_is_run():
    assert rules_run(torch) == rules_run(judge)


@pytest.mark.parametrize("t", [judge, torch])
def test_an_operator_is_registered_by_its_name(t):
    operator = made(t, Autograd=1)
    name = operator.name()
    assert getattr(t.ops.higher_order, name) is operator and str(operator) == operator.__name__ == name
    assert operator.namespace == "higher_order" and copy.deepcopy(operator) is operator
    with pytest.raises(RuntimeError, match="Trying to override a python impl for DispatchKey.Autograd on operator"):
        operator.py_impl(t._C.DispatchKey.Autograd)(print)
    with pytest.raises(TypeError, match="abstract"):
        importlib.import_module(f"{t.__name__}._ops").HigherOrderOperator("plain")
    assert isinstance(t.ops.higher_order.cond, type(operator).__mro__[1])


def test_gradients_flow_through_a_rule():
    operator = made(torch)
    operator.py_impl(torch._C.DispatchKey.Autograd)(lambda f, x: f(x) * 3)
    x = torch.ones(2, requires_grad=True)
    operator(torch.sin, x).sum().backward()
    assert torch.allclose(x.grad, 3 * torch.ones(2).cos())
    compiled = torch.compile(lambda x: operator(torch.sin, x) + 1)
    assert torch.allclose(compiled(torch.ones(2)), torch.ones(2).sin() * 3 + 1)


@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.grad, lambda f: lambda x: torch.func.jvp(
    f, (x,), (x,))])
def test_a_call_under_a_transform_is_refused(transform):
    operator = made(torch, Autograd=torch.tensor(1.0))
    with pytest.raises(NotImplementedError, match="under vmap, grad or jvp"):
        transform(operator)(torch.ones(2))
