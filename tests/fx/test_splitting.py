"""Modules cut into submodules compute the same, and their parts are the original ones."""
import importlib

import numpy as np
import pytest

import rushlight as torch
from rushlight.fx.passes.split_module import split_module


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.scale = torch.nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x, y):
        a = torch.relu(self.first(x))
        b = a + y
        c = self.second(b) * self.scale
        return c - a, b


def test_two_groups():
    model, names = Model(), {}
    traced = torch.fx.symbolic_trace(model)
    late = {"second", "mul", "sub"}
    cut = split_module(traced, model, lambda node: int(node.name in late), names)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for found, expected in zip(cut(x, y), model(x, y)):
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy())
    assert cut.submod_0.first.weight is model.first.weight and cut.submod_1.scale is model.scale
    assert names == {"submod_0.first": "first", "submod_1.second": "second"}
    assert [n.target for n in cut.graph.nodes if n.op == "call_module"] == ["submod_0", "submod_1"]
    cut.graph.lint()


def test_gradients_flow_through_submodules():
    model = Model()
    cut = split_module(torch.fx.symbolic_trace(model), model, lambda node: int(node.name in ("mul", "sub")))
    sum(o.sum() for o in cut(torch.ones(2, 4), torch.ones(2, 4))).backward()
    assert model.first.weight.grad is not None and model.scale.grad is not None


def test_groups_in_a_circle():
    model = Model()
    with pytest.raises(RuntimeError, match="cycle"):
        split_module(torch.fx.symbolic_trace(model), model, lambda node: int(node.name == "relu"))


def test_parts_give_tuples_where_they_are_asked_to():
    def made(library):
        class Module(library.nn.Module):
            def forward(self, x):
                return (x.sin() + 1).cos()

        module = library.fx.symbolic_trace(Module())
        for node in module.graph.nodes:
            if node.op not in ("placeholder", "output"):
                node.tag = "first" if node.name in ("sin", "add") else "second"
        split = importlib.import_module(f"{library.__name__}.fx.passes.split_utils").split_by_tags
        return split(module, ["first", "second"], return_tuple=True)

    ours, theirs = made(torch), made(pytest.importorskip("torch"))
    x = torch.ones(3)
    assert torch.allclose(ours(x), (x.sin() + 1).cos()) and isinstance(ours.first(x), tuple)
    for name in ("first", "second"):
        assert getattr(ours, name).code.split() == getattr(theirs, name).code.split()
    assert [n.op for n in ours.graph.nodes] == [n.op for n in theirs.graph.nodes]
