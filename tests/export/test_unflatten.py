"""Exported programs as modules of modules: the same results and state, parts that can be replaced, and where each node
came from."""
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.export import Dim, UnflattenedModule, export, unflatten


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x, y):
        return self.linear(x) + self.shift, y * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.shared, self.unused = Block(), nn.Linear(3, 3), nn.Linear(2, 2)
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU())])
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x, more):
        a, b = self.block(x, more["k"])
        for layer in self.layers:
            a = layer(a)
        a = self.shared(self.shared(a) + self.scale)
        return {"a": a + b, "b": [b * x.shape[0], 3]}


class Twice(nn.Module):
    """A module whose second call computes something else."""

    def __init__(self):
        super().__init__()
        self.part = Choosing()

    def forward(self, x):
        return self.part(x, False) + self.part(x, True)


class Choosing(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x, turned):
        return x.flip(0) * self.weight if turned else x + self.weight


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.inner(x).sin()


def given(rows=4):
    return torch.randn(rows, 3), {"k": torch.randn(rows, 3)}


def test_results_state_and_gradients():
    net, args = Net(), given()
    made = unflatten(export(net, args))
    wanted, got = net(*args), made(*args)
    assert torch.equal(got["a"], wanted["a"]) and torch.equal(got["b"][0], wanted["b"][0]) and got["b"][1] == 3
    assert isinstance(made, UnflattenedModule) and made.state_dict().keys() == net.state_dict().keys()
    assert made.block.linear.weight is not net.block.linear.weight and made.block.linear.weight.requires_grad
    assert {name for name, _ in made.named_modules()} == {name for name, _ in net.named_modules()}
    made(*args)["a"].sum().backward()
    mine = made.shared.weight.grad.clone()
    assert net.shared.weight.grad is None
    net(*args)["a"].sum().backward()
    assert torch.allclose(net.shared.weight.grad, mine)


def test_parts_can_be_replaced():
    args = given()
    net = Net()
    made, other = unflatten(export(net, args)), nn.Linear(3, 3)
    made.shared = net.shared = other
    assert torch.equal(made(*args)["a"], net(*args)["a"])
    made.block.linear = net.block.linear = nn.Linear(3, 3)
    assert torch.equal(made(*args)["a"], net(*args)["a"])


def test_calls_that_differ_are_parts_of_their_own():
    x = torch.randn(3)
    net = Twice()
    made = unflatten(export(net, (x,)))
    assert torch.equal(made(x), net(x))
    assert {name for name, _ in made.named_children()} == {"part", "part@1"}


def test_sizes_that_vary_and_buffers():
    rows = Dim("rows")
    made = unflatten(export(Net(), given(), dynamic_shapes={"x": {0: rows}, "more": {"k": {0: rows}}}))
    assert made(*given(7))["a"].shape == (7, 3)
    net, x = Counting(), torch.randn(4, 3)
    made = unflatten(export(net, (x,)))
    assert torch.allclose(made(x), Counting()(x))
    assert made.inner.num_batches_tracked == 1 and net.inner.num_batches_tracked == 0
    with pytest.raises(RuntimeError, match="was exported for 4"):
        made(torch.randn(5, 3))
    with pytest.raises(TypeError, match="ExportedProgram"):
        unflatten(net)


def test_nodes_know_their_modules_and_lines():
    graph = export(Net(), given()).graph
    stacks = {node.name: [path for path, _ in node.meta["nn_module_stack"].values()] for node in graph.nodes
              if node.op == "call_function"}
    assert stacks["linear"] == ["", "block",
                                "block.linear"] and stacks["mul"] == ["", "block"] and stacks["relu"] == [
                                    "", "layers.1", "layers.1.1"]
    assert stacks["linear_3"] == ["", "shared"] and stacks["linear_4"] == ["", "shared@1"] and stacks["add_1"] == [""]
    first = next(node for node in graph.nodes if node.name == "linear")
    assert first.meta["nn_module_stack"]["L__self___block"][1].endswith("Block") and "linear.py" in first.meta[
        "stack_trace"]


def test_the_module_of_this_name_is_the_function():
    import rushlight.export.unflatten as module
    assert module(export(Counting(), (torch.randn(4, 3),)))(torch.randn(4, 3)).shape == (4, 3)


def test_the_function_has_the_name_of_its_module():
    import rushlight.export.unflatten  # noqa: F401
    assert callable(rushlight.export.unflatten)


def test_nodes_have_values_without_data_and_modules_their_order():
    class Pair(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x), x * x

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.kept, self.first = Pair(), Pair(), Pair()

        def forward(self, x):
            return sum(self.last(sum(self.kept(sum(self.first(x))))))

    for kept in ((), ("kept",)):
        program = torch.export.export(Both(), (torch.ones(2, 3),), preserve_module_call_signature=kept)
        made = torch.export.unflatten(program)
        assert [name for name, _ in made.named_children()] == ["last", "kept", "first"]
        seen = [node for module in made.modules() if hasattr(module, "graph") for node in module.graph.nodes
                if node.op != "output"]
        assert len(seen) > 20 and [node for node in seen if node.meta.get("val") is None] == []
        assert next(iter(made.first.graph.nodes)).meta["val"].shape == (2, 3)


class Stateful(torch.nn.Module):
    """Weights at two paths, a buffer that calls write, one that files do not have, and a plain tensor."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("scale", torch.full((2,), 3.0), persistent=False)
        self.plain = torch.ones(2)

    def forward(self, x):
        self.calls.add_(1)
        return self.second(self.first(x)) * self.scale + self.plain + self.calls


def test_unflattened_modules_have_state_of_their_own():
    x, program = torch.randn(3, 2), torch.export.export(Stateful(), (torch.randn(3, 2),))
    made, module = torch.export.unflatten(program), program.module()
    wanted = [module(x) for _ in range(2)]
    torch.testing.assert_close(made(x), wanted[0])
    assert made.first.weight is made.second.weight and made.first.weight.requires_grad
    assert set(made.state_dict()) == set(Stateful().state_dict()) == set(module.state_dict())
    with torch.no_grad():
        made.first.weight.zero_()
        made.calls.zero_()
    torch.testing.assert_close(module(x), wanted[1] + 1)
