"""Exported programs: their graphs and signatures, running, checking inputs, varying sizes, saving."""
import dataclasses
import io

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.export import Dim, export, load, save
from rushlight.export.graph_signature import InputKind


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("shift", torch.ones(3))
        self.register_buffer("hidden", torch.ones(3), persistent=False)
        self.outside = torch.full((3,), 2.0)

    def forward(self, x, more, flag=True):
        y = self.linear(x) * self.shift + self.outside * self.hidden + more["y"]
        if flag:
            y = y.relu()
        return {"y": y.reshape(-1, x.shape[0]), "n": 3, "x": x}


@pytest.fixture
def case():
    model = Model()
    return model, (torch.randn(5, 4), {"y": torch.randn(3)})


def test_signature_and_state(case):
    model, args = case
    program = export(model, args)
    signature = program.graph_signature
    assert signature.parameters == ("linear.weight", "linear.bias") and signature.buffers == ("shift", "hidden")
    assert signature.non_persistent_buffers == {"hidden"} and len(
        signature.lifted_tensor_constants) == 1 and signature.user_inputs == ("x", "more_y")
    assert set(program.state_dict) == {"linear.weight", "linear.bias",
                                       "shift"} and dict(program.named_parameters())[
                                           "linear.weight"] is model.linear.weight
    assert [s.kind for s in signature.input_specs] == [InputKind.PARAMETER] * 2 + [InputKind.BUFFER] * 2 + [
        InputKind.CONSTANT_TENSOR] + [InputKind.USER_INPUT] * 2
    program.graph.lint()
    assert "p_linear_weight: PARAMETER target='linear.weight'" in str(program)


def test_it_runs_also_decomposed_and_loaded(case):
    model, args = case
    program = export(model, args)
    wanted = model(*args)
    buffer = io.BytesIO()
    save(program, buffer)
    buffer.seek(0)
    for one in (program, program.run_decompositions(), load(buffer),
                program.run_decompositions({torch.ops.aten.relu.default: lambda x: x.clamp(min=0)})):
        found = one.module()(*args)
        assert torch.allclose(found["y"], wanted["y"]) and found["n"] == 3 and torch.equal(found["x"], args[0])
    core = program.run_decompositions().graph
    assert all(torch.Tag.core in n.target.tags for n in core.nodes if n.op == "call_function")


def test_gradients_reach_the_state(case):
    model, args = case
    export(model, args).module()(*args)["y"].sum().backward()
    assert model.linear.weight.grad is not None


def test_inputs_are_checked(case):
    model, (x, more) = case
    module = export(model, (x, more)).module()
    with pytest.raises(RuntimeError, match="exported for 5"):
        module(x[:2], more)
    with pytest.raises(RuntimeError, match="torch.float32"):
        module(x.double(), more)
    with pytest.raises(ValueError, match="nested as"):
        module(x, x)
    with pytest.raises(TypeError, match="more"):
        module(x)
    with pytest.raises(NotImplementedError):
        module.train()
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        export(model, (x, more))(x, more)


@pytest.mark.parametrize("shapes", [{"x": {0: Dim("batch", max=8)}, "more": {"y": None}},
                                    ((Dim("batch", max=8), None), {"y": None})])
def test_sizes_vary(case, shapes):
    model, (x, more) = case
    module = export(model, (x, more), dynamic_shapes=shapes).module()
    assert torch.allclose(module(x[:2], more)["y"], model(x[:2], more)["y"])
    with pytest.raises(RuntimeError, match="allows 0 to 8"):
        module(torch.ones(9, 4), more)


def test_equal_names_are_equal_sizes():
    class Sum(nn.Module):
        def forward(self, a, b):
            return a + b

    batch = Dim("batch")
    module = export(Sum(), (torch.ones(3), torch.ones(3)), dynamic_shapes={"a": {0: batch}, "b": {0: batch}}).module()
    assert module(torch.ones(4), torch.ones(4)).tolist() == [2.0] * 4
    with pytest.raises(RuntimeError, match="'batch' differ"):
        module(torch.ones(4), torch.ones(1))


def test_random_numbers_are_drawn_anew():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), torch.ones(5, 4)
    module = export(model, (x,)).module()
    torch.manual_seed(0)
    wanted = model(x), model(x)
    torch.manual_seed(0)
    assert torch.equal(module(x), wanted[0]) and torch.equal(module(x), wanted[1])


def test_buffers_are_updated():
    model, x = nn.BatchNorm1d(4), torch.randn(5, 4)
    program = export(model, (x,))
    before = model.running_mean.clone()
    other = nn.BatchNorm1d(4)
    other.load_state_dict(model.state_dict())
    assert torch.allclose(program.module()(x), other(x)) and torch.allclose(model.running_mean,
                                                                            other.running_mean) and not torch.equal(
                                                                                before, model.running_mean)


def test_refusals():
    class Branch(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(Exception, match="RB002"):
        export(Branch(), (torch.ones(2),))
    with pytest.raises(ValueError, match="nn.Module"):
        export(lambda x: x, (torch.ones(2),))
    with pytest.raises(torch._dynamo.exc.UserError, match="tuple"):
        export(nn.Linear(1, 1), torch.ones(1))
    with pytest.raises(torch._dynamo.exc.UserError, match="here they are \\['z'\\]"):
        export(nn.Linear(1, 1), (torch.ones(1),), dynamic_shapes={"z": None})
    with pytest.raises(TypeError, match="ExportedProgram"):
        save(nn.Linear(1, 1), io.BytesIO())


def test_decompositions_of_programs_whose_sizes_vary():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU(), torch.nn.LayerNorm(3))
    program = export(model, (torch.randn(5, 4),), dynamic_shapes=({0: Dim("batch", min=2)},))
    primitive = program.run_decompositions()
    assert {getattr(n.target, "namespace", "python") for n in primitive.graph.nodes
            if n.op == "call_function"} <= {"aten", "python"}
    for count in (5, 2, 9):
        x = torch.randn(count, 4)
        assert torch.allclose(primitive.module()(x), model(x), atol=1e-6)


def test_decompositions_that_compute_with_sizes():
    class Mean(torch.nn.Module):
        def forward(self, x):
            return x.sum(0) / x.shape[0]

    program = export(Mean(), (torch.randn(5, 4),), dynamic_shapes=({0: Dim("batch", min=2)},))
    made = program.run_decompositions().module()
    for count in (5, 2, 9):
        torch.testing.assert_close(made(torch.ones(count, 4)), torch.ones(4))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("last", torch.zeros(2))

    def forward(self, x):
        self.count.add_(1)
        self.last = x * 2
        x.mul_(3)
        return x + self.count


def test_export_changes_nothing():
    model, x = Counting(), torch.ones(2)
    last = model.last
    program = export(model, (x,))
    assert model.count.item() == 0 and model.last is last and torch.equal(x, torch.ones(2))
    run = program.module()
    assert torch.equal(run(torch.ones(2)), torch.full((2,), 4.0)) and torch.equal(run(torch.ones(2)),
                                                                                  torch.full((2,), 5.0))


def test_a_size_that_cannot_vary():
    model = nn.Linear(4, 2)
    with pytest.raises(torch._src.capture.errors.UserError, match="needs it to be 4"):
        export(model, (torch.ones(3, 4),), dynamic_shapes=({1: Dim("width")},))
    program = export(model, (torch.ones(3, 4),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    assert program.module()(torch.ones(5, 4)).shape == (5, 2)
    with pytest.raises(AssertionError, match=r"size\(\)\[1\] == 4, but got 5"):
        program.module()(torch.ones(3, 5))


@dataclasses.dataclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor


class Sum(nn.Module):
    def forward(self, pair):
        return Pair(pair.a + pair.b, pair.a)


def test_classes_of_data_as_arguments():
    torch.export.register_dataclass(Pair)
    program = export(Sum(), (Pair(torch.ones(2), torch.ones(2)),))
    found = program.module()(Pair(torch.ones(2), torch.full((2,), 2.0)))
    assert type(found) is Pair and found.a.tolist() == [3, 3]
    with pytest.raises(AssertionError, match="Only dataclasses"):
        torch.export.register_dataclass(int)


def test_sizes_said_of_tensors():
    shapes, x = torch.export.ShapesCollection(), torch.ones(4, 3)
    shapes[x] = {0: Dim("rows", min=2, max=9)}
    program = export(nn.Linear(3, 2), (x,), dynamic_shapes=shapes)
    assert program.module()(torch.ones(7, 3)).shape == (7, 2) and program.range_constraints == {"rows": (2, 9)}
    shapes[torch.ones(1)] = {0: Dim("other")}
    with pytest.raises(ValueError, match="1 of the tensors"):
        export(nn.Linear(3, 2), (x,), dynamic_shapes=shapes)


class Asking(nn.Module):
    def forward(self, x):
        return x * 2 if torch.compiler.is_exporting() else x * 3


def test_weights_are_read_as_they_are_where_nothing_is_recorded():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    with torch.no_grad():
        program = export(model, (torch.ones(2, 1, 4, 4),))
    assert [node.target for node in program.graph.nodes if node.op == "call_function"] == [
        torch.ops.aten.conv2d.default, torch.ops.aten.batch_norm.default]


class Nesting(nn.Module):
    def forward(self, parts, *, scale):
        first, (second, third) = parts
        return {"sum": first + second * scale, "rest": [third, first]}


def test_exported_modules_are_captured_as_one_graph():
    parts = torch.ones(2, 3), [torch.full((2, 3), 2.0), torch.arange(4.0)]
    module = export(Nesting(), (parts,), {"scale": torch.tensor(3.0)}).module()
    found = torch.compile(module, fullgraph=True)(parts, scale=torch.tensor(5.0))
    assert found["sum"].tolist() == [[11.0] * 3] * 2 and found["rest"][0].tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="nested as"):
        torch.compile(module)(list(parts), scale=torch.tensor(5.0))


def test_programs_know_that_they_are_exported():
    x = torch.ones(2)
    assert export(Asking(), (x,)).module()(x).tolist() == [2, 2] and torch.compile(Asking())(x).tolist() == [3, 3]


class Made(nn.Module):
    """A module of one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


@pytest.mark.parametrize("function, x, y", [
    (lambda x, y: x[: x.shape[0] // 2] * 2 + y[0], {0: 2 * Dim("half")}, None),
    (lambda x, y: y.sum() + x.shape[0] * 3, {0: Dim("rows")}, None),
    (lambda x, y: x.tensor_split(2)[0].sum(), {0: 2 * Dim("half")}, None),
    (lambda x, y: x[:, 0] + y[1:], {0: Dim("n")}, {0: Dim("n") + 1}),
    (lambda x, y: x[1:, 0] + y[2:], {0: Dim("n", min=4) - 1}, {0: Dim("n", min=4)}),
    (lambda x, y: x.sum() + y, {0: Dim("k") * 2 + 2}, {0: Dim("k") * 2 + 3})])
def test_sizes_that_follow_from_others(function, x, y):
    module = Made(function)
    program = export(module, (torch.randn(8, 2), torch.randn(9)), dynamic_shapes={"x": x, "y": y})
    for rows in (8, 12, 20):
        args = torch.randn(rows, 2), torch.randn(rows + 1 if y else 9)
        assert torch.allclose(program.module()(*args), module(*args))
    if y:
        with pytest.raises(RuntimeError, match="differ|is not"):
            program.module()(torch.randn(8, 2), torch.randn(11))
    elif isinstance(x[0].root, Dim) and x[0].factor == 2:
        with pytest.raises(RuntimeError, match="== 2.half, but got 7"):
            program.module()(torch.randn(7, 2), torch.randn(9))


def test_dims_are_computed_with_ints():
    n = Dim("n", min=2, max=8)
    assert [(d.__name__, d.min, d.max) for d in (n, n + 1, 3 * n, 2 * n - 3)] == [("n", 2, 8), ("n + 1", 3, 9),
                                                                                  ("3*n", 6, 24), ("2*n - 3", 1, 13)]
    for wrong in (lambda: n * 0.5, lambda: n * -1, lambda: n + n):
        with pytest.raises(NotImplementedError):
            wrong()


def test_primitives_take_what_bodies_give_them():
    module, x = Made(lambda x, y: x[1:, :2].unbind(1)[0] * y.flip(0)[1:]), torch.randn(4, 3)
    program = export(module, (x, x[:, 0])).run_decompositions()
    assert torch.allclose(program.module()(x, x[:, 0]), module(x, x[:, 0]))


def test_default_decompositions():
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.softplus(x) + torch.lerp(x, x * 2, 0.3)

    x, softplus = torch.randn(5, 3), torch.ops.aten.softplus.default
    program = export(Model(), (x,))
    table = torch.export.default_decompositions()
    assert softplus in table and torch.ops.aten.mm.default not in table and table.materialize() == table.copy() == table

    def targets(table):
        made = program.run_decompositions(table)
        torch.testing.assert_close(made.module()(x), Model()(x))
        return [node.target for node in made.graph.find_nodes(op="call_function")]

    assert list(map(str, targets(table))) == list(map(str, targets(None)))
    kept = table.copy()
    assert kept.pop(softplus) is table[softplus] and kept.pop(softplus, None) is None and softplus in table
    assert softplus in targets(kept) and torch.ops.aten.lerp.Scalar not in targets(kept)
    varying = export(Model(), (x,), dynamic_shapes=({0: Dim("batch")},)).run_decompositions(table)
    torch.testing.assert_close(varying.module()(x[:2]), Model()(x[:2]))


def test_results_that_look_like_code_are_results():
    class Texts(torch.nn.Module):
        def forward(self, x):
            return x + 1, "return me"

    found, text = torch.export.export(Texts(), (torch.ones(2),)).module()(torch.ones(2))
    assert found.tolist() == [2, 2] and text == "return me"


def test_exported_programs_that_read_a_number_compile():
    from rushlight._inductor.compile_fx import compile_fx

    class Reads(torch.nn.Module):
        def forward(self, x):
            return x * x.sum().item()

    module = torch.export.export(Reads(), (torch.ones(2),)).module()
    assert compile_fx(module, [torch.ones(2)])(torch.ones(2)).tolist() == [2, 2]


class Holding(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Module()
        self.inner.table = torch.ones(3)

    def forward(self, x, x_0=None, *, scale=None):
        return x[0] + x[1] + self.inner.table + x_0 * scale


def test_constants_and_inputs_have_names_of_their_own():
    args = ([torch.ones(3), torch.ones(3)], torch.ones(3))
    program = export(Holding(), args, {"scale": torch.ones(3)})
    assert list(program.constants) == ["inner.table"] and program.graph_signature.inputs_to_lifted_tensor_constants == {
        "c_inner_table": "inner.table"}
    assert len(set(program.graph_signature.user_inputs)) == 4
    assert program.module()(*args, scale=torch.ones(3)).tolist() == [4, 4, 4]


def test_sizes_of_keywords_vary_in_order_too():
    free = {0: Dim("n")}
    program = export(Holding(), ([torch.ones(3), torch.ones(3)],), {"x_0": torch.ones(4, 1), "scale": torch.ones(4, 1)},
                     dynamic_shapes=(None, free, free))
    assert program.module()([torch.ones(3)] * 2, x_0=torch.ones(6, 1), scale=torch.ones(6, 1)).shape == (6, 3)
    sizes = [n.meta["val"].shape[0] for n in program.graph.find_nodes(op="placeholder") if n.name == "x_0_1"]
    assert all(isinstance(size, torch.SymInt) for size in sizes)


def test_dims_of_one_name_have_one_range():
    with pytest.raises(torch._dynamo.exc.UserError, match="Found different definitions"):
        export(Holding(), ([torch.ones(4, 3)] * 2, torch.ones(4, 3)), {"scale": torch.ones(4, 3)},
               dynamic_shapes=(None, {0: Dim("n", min=3)}, {0: Dim("n", max=12)}))


@pytest.mark.parametrize("shapes", [({0: Dim("b")}, {0: Dim("c")}), ({0: Dim("b")}, None, None)])
def test_shapes_are_said_of_each_input(shapes):
    with pytest.raises(torch._dynamo.exc.UserError, match="`inputs` has 1 elements, but `dynamic_shapes` has"):
        export(nn.Linear(3, 3), (torch.ones(4, 3),), dynamic_shapes=shapes)
