"""Signatures of submodules that an export keeps, modules put in their place, drafts and deferred checks of sizes."""
import io

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.export import Dim, export, unflatten
from rushlight.export._swap import _swap_modules


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, more, scale=2.0):
        a, (b, c) = self.linear(x) * scale + more[0], (more[1].sin(), x.reshape(x.shape[0] * 3))
        return {"a": a, "b": (b, c)}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.last = Part(), nn.ReLU()

    def forward(self, x, y):
        first = self.part(x, [y, x * 2], scale=3.0)
        second = self.part(first["a"], (y, y))
        return self.last(first["a"]) + first["b"][0] + second["b"][0].sum() + first["b"][1].reshape(-1, 3)


def given(rows=4):
    return torch.randn(rows, 3), torch.randn(rows, 3)


KEPT = ("part", "last")
DYNAMIC = {"x": {0: Dim("n")}, "y": {0: Dim("n")}}


@pytest.mark.parametrize("dynamic", (None, DYNAMIC), ids=("fixed", "dynamic"))
@pytest.mark.parametrize("saved", (False, True), ids=("made", "saved"))
def test_kept_signatures_are_those_of_the_originals(dynamic, saved):
    net, args = Net(), given()
    program = export(net, args, dynamic_shapes=dynamic, preserve_module_call_signature=KEPT)
    known = {entry.fqn: entry.signature for entry in program.module_call_graph}
    assert known["part.linear"] is None and len(known["part"].inputs) == 4 and "part@1" in known
    if saved:
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        program = torch.export.load(file)
        assert {entry.fqn: entry.signature for entry in program.module_call_graph} == known
    made = unflatten(program)
    args = given(6) if dynamic else args
    assert torch.allclose(made(*args), net(*args))
    x, y = args
    wanted, got = net.part(x, [y, x], scale=3.0), made.part(x, [y, x], scale=3.0)
    assert torch.allclose(got["a"], wanted["a"]) and torch.equal(got["b"][0], wanted["b"][0])
    with pytest.raises(ValueError, match="nested"):
        made.part(x, y, scale=3.0)
    swapped = _swap_modules(program, {"part": net.part, "last": nn.Tanh()})
    net.last = nn.Tanh()
    assert torch.allclose(swapped(*args), net(*args))


def test_what_a_module_wrote_into_its_argument_is_what_it_gives():
    class Adding(nn.Module):
        def forward(self, x):
            x.add_(1)
            return x

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.adding = Adding()

        def forward(self, x):
            y = x * 2
            return self.adding(y) * 3 + self.adding(y)

    net, x = Twice(), torch.randn(3)
    program = export(net, (x,), preserve_module_call_signature=("adding",))
    first = program.module_call_graph[1].signature
    assert first.inputs[0].name == "mul" and first.outputs[0].name.startswith("add_")
    assert torch.allclose(unflatten(program)(x), net(x))


def test_names_of_no_submodule_and_values_of_elsewhere_are_refused():
    class Reading(nn.Module):
        def __init__(self, seen):
            super().__init__()
            self.seen = seen

        def forward(self, x):
            return x + self.seen[0]

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = []
            self.part = Reading(self.seen)

        def forward(self, x):
            self.seen[:] = [x.sin()]
            return self.part(x * 2)

    with pytest.raises(ValueError, match="no submodule"):
        export(Net(), given(), preserve_module_call_signature=("other",))
    program = export(Outer(), (torch.ones(3),), preserve_module_call_signature=("part",))
    with pytest.raises(RuntimeError, match="none of its arguments"):
        unflatten(program)
    with pytest.raises(ValueError, match="did not keep"):
        _swap_modules(export(Net(), given()), {"part": Part()})


class Halving(nn.Module):
    def forward(self, x):
        return x[:, 0].sin() if x.shape[0] > 5 else x[:, 0].cos()


def test_sizes_are_checked_at_the_call_where_that_is_preferred():
    x, shapes = torch.randn(8, 3), {"x": {0: Dim("n")}}
    with pytest.raises(torch._dynamo.exc.UserError, match="Constraints violated"):
        export(Halving(), (x,), dynamic_shapes=shapes)
    program = export(Halving(), (x,), dynamic_shapes=shapes, prefer_deferred_runtime_asserts_over_guards=True)
    assert torch.equal(program.module()(x[:6]), x[:6, 0].sin())
    with pytest.raises(RuntimeError, match="Guard failed"):
        program.module()(x[:4])


def test_a_draft_says_what_it_assumed():
    x = torch.randn(8, 3)
    program = torch.export.draft_export(Halving(), (x,), dynamic_shapes={"x": {0: Dim("n"), 1: Dim("m")}})
    assert not program._report.successful() and "x.size()[0]" in str(program._report).replace("L['x']", "x")
    with pytest.raises(RuntimeError, match="Guard failed"):
        program.module()(x[:4])
    found = torch.export.draft_export(nn.ReLU(), (x,), dynamic_shapes={"input": {0: Dim("n")}})
    assert found._report.successful() and "No issues" in str(found._report)

    class Fixed(nn.Module):
        def forward(self, x):
            return x.reshape(8, 3) * 2

    found = torch.export.draft_export(Fixed(), (x,), dynamic_shapes={"x": {0: Dim("n"), 1: Dim("m")}})
    assert len(found._report.failures) == 2 and torch.equal(found.module()(x), x * 2)
    assert found._report.failures[0].failure_type == 3 and not found.range_constraints

    class Deciding(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x

    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.export.draft_export(Deciding(), (x,))
