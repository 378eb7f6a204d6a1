"""What a program asserts of its tensors holds in what is exported of it.

PYTEST_DONT_REWRITE: the assert below is the program's own.
"""
import io

import pytest

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
    with pytest.raises(AssertionError, match="the sum is not positive"):
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
    with pytest.raises(AssertionError, match="x is not positive"):
        run(-ones, ones)
    with pytest.raises(AssertionError, match="z is large"):
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
            with pytest.raises(AssertionError, match=message):
                run(*given)
    assert run.library.rl_error(-(1 << 20) - 1) == b"z is large"


class Deciding(torch.nn.Module):
    def forward(self, x):
        return x + x.sum().item()


def test_elements_that_decide_cannot_be_packaged(tmp_path):
    program = torch.export.export(Deciding(), (torch.ones(3, dtype=torch.int64),))
    with pytest.raises(RuntimeError, match="reads elements"):
        torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
