"""Blocks and switches of the calling thread in compiled functions, and what is left uncompiled."""
from __future__ import annotations

import pytest

import rushlight as torch


def refused(x):
    with torch.autograd.graph.disable_saved_tensors_hooks("refused here"):
        return x * 2


def refused_over_a_break(x):
    with torch.autograd.graph.disable_saved_tensors_hooks("refused here"):
        y = x * 2
        torch._dynamo.graph_break()
        try:
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                y = y * 3
        except RuntimeError as error:
            return y, str(error)
    return y, ""


def switched(x):
    torch._C._set_grad_enabled(False)
    y = x * 2
    torch._C._set_grad_enabled(True)
    return y.requires_grad, (x * 3).requires_grad


def described(value):
    if isinstance(value, tuple):
        return [described(v) for v in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("function, whole", [(refused, True), (refused_over_a_break, False), (switched, True)],
                         ids=["refused", "refused over a break", "switched"])
def test_blocks_of_the_thread(function, whole, recwarn):
    compiled = torch.compile(function, fullgraph=whole)
    for _ in range(2):
        wanted, found = function(torch.ones(2, requires_grad=True)), compiled(torch.ones(2, requires_grad=True))
        assert described(wanted) == described(found)
    assert not [w for w in recwarn if "uncompiled" in str(w.message)]


def test_backward_of_a_function_is_compiled_by_itself():
    graphs = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.compile(backend=lambda module, inputs: graphs.append(module) or module, fullgraph=True)
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * x * 2 if ctx.needs_input_grad[0] else None

    for start in (3.0, 4.0):
        x = torch.full((2,), start, requires_grad=True)
        Square.apply(x).sum().backward()
        assert x.grad.tolist() == [2 * start] * 2
    assert len(graphs) == 1


def counting():
    graphs = []
    return graphs, lambda module, inputs: graphs.append(module) or module


def layer():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.inner(x).relu()

    return Layer


def test_calls_of_instances_of_a_class_are_compiled():
    graphs, backend = counting()
    model = torch.compile(layer(), backend=backend)()
    for _ in range(2):
        model(torch.ones(2))
    assert len(graphs) == 1


@pytest.mark.parametrize("made", [lambda: torch.compiler.disable(layer())(), lambda: torch.compiler.disable(layer()())],
                         ids=["class", "instance"])
def test_disabled_modules_run_with_their_hooks(made):
    graphs, backend = counting()
    model = made()
    model.register_forward_pre_hook(lambda module, args: (args[0].sigmoid(),))
    compiled = torch.compile(lambda x: model(x.sin()) + 1, backend=backend)
    x = torch.ones(2)
    assert compiled(x).tolist() == (model(x.sin()) + 1).tolist()
    assert len(graphs) == 2 and not any("sigmoid" in graph.code for graph in graphs)


def test_everything_is_left_as_it_is(monkeypatch):
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    assert torch.compile(refused) is refused
