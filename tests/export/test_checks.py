"""What a program asserts of its tensors holds in what is exported of it.

PYTEST_DONT_REWRITE: the assert below is the program's own.
"""
import copy
import io
import pickle

import pytest
import torch as judge

import rushlight as torch


class Positive(torch.nn.Module):
    def forward(self, x):
        assert x.sum() > 0, "the sum is not positive"
        return x + 1


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("loaded", [False, True])
def test_asserts_of_tensors_stay(strict, loaded):
    program = torch.export.export(Positive(), (torch.ones(3),), strict=strict)
    if loaded:
        file = io.BytesIO()
        torch.export.save(program, file)
        program = torch.export.load(io.BytesIO(file.getvalue()))
    assert program.module()(torch.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="the sum is not positive"):
        program.module()(-torch.ones(3))


def test_what_is_called_for_what_it_does_is_no_dead_code():
    def backend(module, inputs):
        module.graph.eliminate_dead_code()
        module.recompile()
        return module
    f = torch.compile(Positive(), backend=backend)
    assert f(torch.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(AssertionError, match="the sum is not positive"):
        f(-torch.ones(3))


class Twice(torch.nn.Module):
    def forward(self, x, y):
        assert x.sum() > 0, "x is not positive"
        z = torch.nn.functional.softplus(x) + y
        assert (z < 100).all(), "z is large"
        return z, x


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("loaded", [False, True])
def test_checks_stay_where_a_program_is_written_in_primitives(varying, loaded):
    shapes = {"x": {0: torch.export.Dim("n")}, "y": {0: torch.export.Dim("n")}} if varying else None
    ones = torch.ones(3)
    program = torch.export.export(Twice(), (ones, torch.ones(3)), dynamic_shapes=shapes).run_decompositions()
    if loaded:
        file = io.BytesIO()
        torch.export.save(program, file)
        program = torch.export.load(io.BytesIO(file.getvalue()))
    run = program.module()
    for found, expected in zip(run(ones, ones), Twice()(ones, ones)):
        torch.testing.assert_close(found, expected)
    assert len(run(ones, ones)) == 2 and not any("softplus" in str(node.target) for node in program.graph.nodes)
    with pytest.raises(RuntimeError, match="x is not positive"):
        run(-ones, ones)
    with pytest.raises(RuntimeError, match="z is large"):
        run(ones, 1000 * ones)
    assert len(program.run_decompositions().module()(ones, ones)) == 2


@pytest.mark.parametrize("varying", [False, True])
def test_checks_stay_in_packages(varying, tmp_path):
    shapes = {"x": {0: torch.export.Dim("n", max=9)}, "y": {0: torch.export.Dim("n", max=9)}} if varying else None
    ones = torch.ones(3)
    program = torch.export.export(Twice(), (ones, torch.ones(3)), dynamic_shapes=shapes)
    torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    run = torch._inductor.aoti_load_package(tmp_path / "model.pt2")
    for count in (3, 1, 9) if varying else (3,):
        ones = torch.ones(count)
        for found, expected in zip(run(ones, ones), Twice()(ones, ones), strict=True):
            torch.testing.assert_close(found, expected)
        for given, message in (((-ones, ones), "x is not positive"), ((ones, 1000 * ones), "z is large"),
                               ((-ones, 1000 * ones), "x is not positive")):
            with pytest.raises(RuntimeError, match=message):
                run(*given)
    assert run.library.rl_error(-(1 << 20) - 1) == b"z is large"


class Deciding(torch.nn.Module):
    def forward(self, x):
        return x + x.sum().item()


def test_elements_are_read_in_packages(tmp_path):
    program = torch.export.export(Deciding(), (torch.ones(3, dtype=torch.int64),))
    torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    run = torch._inductor.aoti_load_package(tmp_path / "model.pt2")
    for x in (torch.ones(3, dtype=torch.int64), torch.tensor([5, -7, 1]), torch.tensor([0, 0, 0])):
        assert run(x).tolist() == Deciding()(x).tolist()


def checking(library):
    class Checking(library.nn.Module):
        def forward(self, x):
            library._assert_async(x.sum() > 0)
            library.ops.aten._assert_async.msg(x.sum() < 100, "too large")
            assert (x != 7).all(), "seven"
            return x + 1
    return Checking()


BAD = [([-1.0, 0.0], "Expected Tensor with single nonzero value, but got zero"), ([99.0, 2.0], "too large"),
       ([7.0, 1.0], "seven")]


def test_assertions_of_tensors_fit_one_graph():
    f = torch.compile(checking(torch), fullgraph=True)
    assert f(torch.ones(2)).tolist() == [2, 2]
    for values, message in BAD:
        with pytest.raises(AssertionError if message == "seven" else RuntimeError, match=message):
            f(torch.tensor(values))
        with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
            torch._assert_async(torch.tensor(values))


def test_assertions_of_tensors_are_operators_of_exported_programs():
    judge = pytest.importorskip("torch")
    programs = [library.export.export(checking(library), (library.ones(2),), strict=True) for library in (torch, judge)]
    mine, theirs = ([(str(node.target), node.args[1:]) for node in program.graph.nodes if "_assert" in str(node.target)]
                    for program in programs)
    assert mine == theirs
    file = io.BytesIO()
    torch.export.save(programs[0], file)
    read = judge.export.load(io.BytesIO(file.getvalue())).module()
    for values, message in BAD:
        for run, library in ((read, judge), (programs[0].module(), torch),
                             (programs[0].run_decompositions().module(), torch)):
            assert run(library.ones(2)).tolist() == [2, 2]
            with pytest.raises(RuntimeError, match=message):
                run(library.tensor(values))


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        y = self.linear(x)
        n = (y > 0).sum().item()
        torch._check(n >= 0)
        return y * self.seen, n, y.new_zeros(n)


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))],
                         ids=["deepcopy", "pickle"])
def test_programs_are_copied(varying, decomposed, copied):
    model, x = Counting(), torch.randn(5, 3)
    program = torch.export.export(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("n")}} if varying else None)
    if decomposed:
        program = program.run_decompositions()
    for made in (copied(program).module(), copied(program.module())):
        for found, expected in zip(made(x), program.module()(x), strict=True):
            torch.testing.assert_close(found, expected)
        program.state_dict["seen"].zero_()
    assert copied(program.graph_module).code == program.graph_module.code


def test_signatures_tell_results_from_writes():
    program = torch.export.export(Counting(), (torch.ones(5, 3),)).run_decompositions()
    signature, results = program.graph_signature, program.graph.output_node().args[0]
    assert list(signature.buffers_to_mutate.values()) == ["seen"] and len(results) == 4
    assert signature.user_outputs == tuple(node.name for node in results[1:])
    assert signature.user_inputs_to_mutate == signature.parameters_to_mutate == {}
    assert signature.backward_signature is None


JOINED = {"both": (lambda n: (n >= 2) & (n < 10), (2, 9), (1, 10)),
          "either": (lambda n: (n == 3) | (n > 7), (3, 8), (0, 7)),
          "nested": (lambda n: (n >= 2) & ((n < 4) | (n > 5)), (3, 6), (1, 5))}


@pytest.mark.parametrize("library", [torch, judge])
@pytest.mark.parametrize("name", JOINED)
def test_conditions_are_joined(name, library):
    condition, right, wrong = JOINED[name]

    class Sized(library.nn.Module):
        def forward(self, x):
            n = x.item()
            library._check(n >= 0)
            library._check(condition(n))
            return library.ones(n)

    program = library.export.export(Sized(), (library.tensor(right[0]),))
    file = io.BytesIO()
    library.export.save(program, file)
    for run in (program.module(), library.export.load(io.BytesIO(file.getvalue())).module()):
        for n in right:
            assert run(library.tensor(n)).shape == (n,)
        for n in wrong:
            with pytest.raises(RuntimeError, match="Runtime assertion failed"):
                run(library.tensor(n))


def test_checks_are_spelled_as_written():
    class Sized(torch.nn.Module):
        def forward(self, x):
            n = x.item()
            torch._check(n >= 2)
            torch._check((n != 5) | (n > 7))
            return torch.ones(n)

    text = str(torch.export.export(Sized(), (torch.tensor(3),)).graph)
    assert "expression u0 >= 2 on" in text and "expression (u0 != 5) | (u0 > 7) on" in text
