"""Control flow in exported programs: called, saved and loaded."""
import io
import operator

import pytest

import rushlight as torch


class Choice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x * self.weight, lambda x: x - self.weight, (x,))


class Loop(torch.nn.Module):
    def forward(self, x):
        return torch.while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 2), (torch.tensor(3), x))[1]


class Steps(torch.nn.Module):
    def forward(self, x):
        carried, rows = torch._higher_order_ops.scan(lambda c, a: (c + a, c * a), torch.zeros(()), x.repeat(100))
        return carried, rows[-2:]


@pytest.mark.parametrize("model", [Choice, Loop, Steps])
def test_called_saved_and_loaded(model):
    torch.manual_seed(0)
    module, x = model(), torch.tensor([1.0, -2.0, 0.5])
    program = torch.export.export(module, (x,))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for exported in (program.module(), torch.export.load(file).module()):
        for given in (x, x + 4):
            wanted, got = module(given), exported(given)
            assert torch.allclose(torch.cat([w.reshape(-1) for w in torch.utils._pytree.tree_leaves(wanted)]),
                                  torch.cat([g.reshape(-1) for g in torch.utils._pytree.tree_leaves(got)]))


class ChoiceBySize(torch.nn.Module):
    """A choice by ``x.shape[0] compare number``; the comparison is asked for by ``form``."""

    def __init__(self, compare, number, form):
        super().__init__()
        self.compare, self.number, self.form = compare, number, form
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        holds = self.compare(x.shape[0] * 2, self.number) if self.form == "twice" else self.compare(
            x.shape[0], self.number)
        if self.form == "not":
            holds = not holds
        return torch.cond(holds, lambda x: self.linear(x) * x.shape[0], lambda x: x.sin(), (x,))


@pytest.mark.parametrize("compare, form", [(operator.gt, ""), (operator.lt, "twice"), (operator.eq, ""),
                                           (operator.ne, "not"), (operator.ge, "not"), (operator.le, "")])
@pytest.mark.parametrize("size", [3, 5])
def test_sizes_that_vary_choose(compare, form, size):
    """Whichever function the example chose, each size chooses anew: called, saved, decomposed."""
    torch.manual_seed(0)
    module = ChoiceBySize(compare, 8 if form == "twice" else 4, form)
    program = torch.export.export(module, (torch.ones(size, 2),), dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}})
    assert program.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)
    assert [(r.lower, r.upper) for r in program.range_constraints.values()] == [(2, None)]
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for exported in (program, torch.export.load(file), program.run_decompositions()):
        for other in (2, 3, 4, 5, 9):
            x = torch.randn(other, 2)
            assert torch.allclose(exported.module()(x), module(x))


class SizesAskedElsewhere(torch.nn.Module):
    def forward(self, x):
        big = x.shape[0] > 4
        y = torch.cond(big, lambda x: x.cos(), lambda x: x.sin(), (x,))
        return {"y": y, "big": [big], "rest": x * 2 if x.shape[0] != 6 else x}


def test_sizes_that_python_asks_for_are_fixed():
    """A comparison that an ``if`` reads restricts the sizes, one that is returned does not."""
    module = SizesAskedElsewhere()
    program = torch.export.export(module, (torch.ones(7, 2),), dynamic_shapes={"x": {0: torch.export.Dim.AUTO}})
    for size in (3, 4, 5, 8):
        x = torch.randn(size, 2)
        found, wanted = program.module()(x), module(x)
        assert torch.equal(found["y"], wanted["y"]) and found["big"] == wanted["big"]
    with pytest.raises(AssertionError, match="Guard failed: x.size"):
        program.module()(torch.ones(6, 2))


def test_sizes_that_vary_choose_in_packages(tmp_path):
    torch.manual_seed(0)
    module = ChoiceBySize(operator.gt, 4, "")
    program = torch.export.export(module, (torch.ones(3, 2),),
                                  dynamic_shapes={"x": {0: torch.export.Dim("rows", min=2, max=9)}})
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "choice.pt2"))
    loaded = torch._inductor.aoti_load_package(path)
    for size in (2, 4, 5, 9):
        x = torch.randn(size, 2)
        assert torch.allclose(loaded(x), module(x))


def test_choices_by_sizes_are_nodes_of_programs_in_primitives():
    """Both branches stay, under a condition that is an expression."""
    given = {"x": {0: torch.export.Dim.DYNAMIC}}
    module, x = ChoiceBySize(operator.gt, 4, ""), torch.ones(3, 2)
    program = torch.export.export(module, (x,), dynamic_shapes=given)
    chosen, = (node for node in program.traced(program.given()).graph.nodes if node.op.name == "cond")
    assert [len(part.outputs) for part in chosen.op.programs] == [1, 1] and chosen.args[0].op in ("<", "logical_not")
    fixed = torch.export.export(module, (x,))
    assert fixed.traced(fixed.given()).graph.nodes
