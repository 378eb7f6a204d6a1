"""Classes with ``__torch_function__`` in compiled functions: as uncompiled."""
from __future__ import annotations

import pytest

import rushlight as torch


class Plain(torch.Tensor):
    pass


class Answering(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.sigmoid:
            return super().__torch_function__(torch.Tensor.exp, types, args, kwargs or {})
        if func == torch.Tensor.ndim.__get__:
            return 10
        return super().__torch_function__(func, types, args, kwargs or {})


class Doubling(torch.Tensor):
    factor = 3

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **(kwargs or {}))
            return out * 2 if func == torch.clone else out

    def scaled(self):
        return self * self.factor


class Holder:
    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return Holder(func(*[a.tensor if isinstance(a, Holder) else a for a in args], **(kwargs or {})))


def described(value):
    """Classes and elements, within nested containers."""
    if isinstance(value, (tuple, list)):
        return list(map(described, value))
    if isinstance(value, torch.Tensor):
        return type(value).__name__, value.as_subclass(torch.Tensor).tolist()
    return described(value.tensor) if isinstance(value, Holder) else value


def tagged(x):
    y = x * 2
    y.tag = 5
    return y, y.tag


def enabled(x):
    with torch._C.DisableTorchFunctionSubclass():
        return torch._C._is_torch_function_enabled(), x.sigmoid(), type(x) is torch.Tensor


def filled(x):
    x[0] = 5.0
    return x


PROGRAMS = {
    "add": lambda x: torch.add(x, 1), "sigmoid": lambda x: x.sigmoid(), "ndim": lambda x: (x.ndim, torch.ones(2)),
    "clone": lambda x: torch.clone(x), "operators": lambda x: 2 * x.T @ x - 1,
    "shape": lambda x: x.view(x.shape[0], -1).sum(0), "size": lambda x: x.reshape(x.size(1), x.size(0)),
    "isinstance": lambda x: (x + 1 if isinstance(x, Answering) else x - 1, type(x) is Plain),
    "in place": lambda x: x.add_(1), "items": lambda x: (x[0], x[:, 1]), "set": filled,
    "list": lambda x: torch.stack([x, torch.zeros(2, 3)]), "iterate": lambda x: [row.sum() for row in x],
    "functional": lambda x: torch.nn.functional.linear(torch.relu(x), torch.ones(4, 3)),
    "softmax": lambda x: torch.nn.functional.softmax(x, -1), "convert": lambda x: x.double().to(torch.float32),
    "numbers": lambda x: len(x) + x.numel(), "fields": lambda x: x.max(1).values, "enabled": enabled, "tag": tagged,
    "as plain": lambda x: x.as_subclass(torch.Tensor).sigmoid()}


@pytest.mark.parametrize("cls", [Plain, Answering, Doubling], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("name", PROGRAMS)
def test_subclasses_answer_in_compiled_code(name, cls):
    program, make = PROGRAMS[name], lambda: torch.arange(6.0).view(2, 3).as_subclass(cls)
    wanted = described(program(make()))
    compiled = torch.compile(program, fullgraph=True)
    assert described(compiled(make())) == wanted
    assert described(compiled(make())) == wanted


@pytest.mark.parametrize("cls", [Plain, Answering], ids=lambda cls: cls.__name__)
def test_tensors_become_instances(cls):
    for make in (lambda x: (x + 1).as_subclass(cls), lambda x: cls(x + 1)):
        compiled = torch.compile(make, fullgraph=True)
        for start in (0.0, 5.0):
            found = compiled(torch.full((2,), start))
            assert type(found) is cls and found.as_subclass(torch.Tensor).tolist() == [start + 1] * 2


def test_objects_answer():
    program = lambda w: torch.sin(torch.add(w, w, alpha=2))
    given = Holder(torch.ones(2))
    assert described(torch.compile(program, fullgraph=True)(given)) == described(program(given))


def test_own_methods_and_class_attributes():
    x = torch.ones(2).as_subclass(Doubling)
    assert described(torch.compile(lambda x: x.scaled(), fullgraph=True)(x)) == described(x.scaled())


def test_gradients_reach_a_subclass():
    for run in (lambda f: f, torch.compile):
        leaf = torch.ones(2).as_subclass(Answering).requires_grad_()
        loss = run(lambda x: (x.sigmoid() * 3).sum())(leaf)
        loss.backward()
        assert type(loss) is Answering
        torch.testing.assert_close(leaf.grad.as_subclass(torch.Tensor), 3 * torch.ones(2).exp())


def test_nobody_answers():
    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="NotImplemented"):
        torch.compile(lambda x: torch.add(x, 1))(torch.ones(2).as_subclass(Refusing))


def test_rows_of_a_subclass_are_of_it():
    assert [type(row) for row in torch.ones(2, 2).as_subclass(Answering)] == [Answering] * 2


def test_bound_methods_are_equal():
    class Two:
        def f(self):
            return 1

    def program(x, a, b):
        return x + 1, a.f == a.f, a.f == b.f, a.f != a.f

    a, b = Two(), Two()
    assert torch.compile(program, fullgraph=True)(torch.ones(1), a, b)[1:] == (True, False, False)


def test_a_part_of_a_row_of_modules_is_captured_once():
    row = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.ReLU()])
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module

    @torch.compile(backend=backend)
    def program(x):
        for layer in row[::-1]:
            x = layer(x)
        return x

    for _ in range(3):
        program(torch.ones(1, 2))
    assert len(graphs) == 1
