"""What programs assume of sizes: calls are checked by it, and it must follow from what is said of the sizes."""
import io
import math

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
from rushlight._src.capture.errors import UserError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
PROGRAMS = {  # name: (function, sizes that are exported, sizes that are refused)
    "branch": (lambda x: x.sin() if x.shape[0] > 5 else x.cos(), [8], [4]),
    "other branch": (lambda x: x.sin() if x.shape[0] > 5 else x.cos(), [4], [6]),
    "even": (lambda x: x.sin() if x.shape[0] % 2 == 0 else x.cos(), [8], [5]),
    "parts": (lambda x: x.reshape(2, -1), [8], [5]),
    "equal": (lambda x, y: x + y, [8, 8], [4, 1]),
    "related": (lambda x, y: x + y[1:], [8, 9], [8, 8])}


def made(library, name):
    class Module(library.nn.Module):
        if name in ("equal", "related"):
            def forward(self, x, y):
                return PROGRAMS[name][0](x, y)
        else:
            def forward(self, x):
                return PROGRAMS[name][0](x)

    return Module()


def exported(library, name, dims):
    sizes = PROGRAMS[name][1]
    given = tuple(library.ones(n, 3) for n in sizes)
    return library.export.export(made(library, name), given,
                                 dynamic_shapes=tuple({0: dim} for dim in dims[:len(sizes)]))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("library", [rl, torch], ids=["ours", "theirs"])
def test_calls_with_sizes_that_the_program_is_not_for_are_refused(name, library):
    auto = library.export.Dim.AUTO
    program = exported(library, name, [auto, auto])
    run = program.module()
    for factor in (1, 3):
        given = [library.ones(n * factor, 3) for n in PROGRAMS[name][1]]
        if factor == 1 or name not in ("related", "other branch"):
            assert library.allclose(run(*given), PROGRAMS[name][0](*given))
    with pytest.raises(AssertionError, match="Guard failed"):
        run(*(library.ones(n, 3) for n in PROGRAMS[name][2]))


@pytest.mark.parametrize("name,said", [
    ("branch", "b = Dim('b', min=6)"), ("other branch", "b = Dim('b', max=5)"), ("equal", "c = b"),
    ("related", "c = b + 1"), ("even", "Not all values of b"), ("parts", "Not all values of b")])
def test_what_does_not_follow_is_told_with_what_would_mend_it(name, said):
    dims = [rl.export.Dim("b"), rl.export.Dim("c")]
    with pytest.raises(UserError, match="Constraints violated") as found:
        exported(rl, name, dims)
    assert said in str(found.value)
    if "=" in said:
        with pytest.raises(Exception, match="Constraints violated") as judged:
            exported(torch, name, [torch.export.Dim("b"), torch.export.Dim("c")])
        assert said in str(judged.value)


def test_what_follows_is_taken():
    dim = rl.export.Dim
    b = dim("b")
    for name, dims in (("branch", [dim("b", min=6)]), ("other branch", [dim("b", max=5)]), ("equal", [b, b]),
                       ("related", [b, b + 1]), ("even", [2 * b]), ("parts", [2 * b])):
        program = exported(rl, name, dims)
        given = [rl.ones(n, 3) for n in PROGRAMS[name][1]]
        assert rl.allclose(program.module()(*given), PROGRAMS[name][0](*given))


def test_a_size_with_one_value_is_told():
    class Module(rl.nn.Module):
        def forward(self, x):
            return x + rl.ones(8, 3)

    with pytest.raises(UserError, match="specialized it to be a constant \\(8\\)") as found:
        rl.export.export(Module(), (rl.ones(8, 3),), dynamic_shapes=({0: rl.export.Dim("b")},))
    assert "b = 8" in str(found.value)


def test_sizes_that_must_be_equal_are_one_in_what_is_decomposed():
    program = exported(rl, "equal", [rl.export.Dim.AUTO] * 2).run_decompositions()
    assert rl.allclose(program.module()(rl.ones(5, 3), rl.ones(5, 3)), rl.full((5, 3), 2.0))


def test_ranges_follow_from_conditions():
    program = exported(rl, "branch", [rl.export.Dim.AUTO])
    found, = program.range_constraints.values()
    assert (found.lower, found.upper) == (6, None)


class Decides(rl.nn.Module):
    def __init__(self, condition):
        super().__init__()
        self.condition = condition

    def forward(self, x):
        return x * 2 if self.condition(x.shape[0]) else x + 5


DECISIONS = (lambda s: s != 6, lambda s: not s != 7, lambda s: s / 3 > 2.5, lambda s: s ** 2 > 40,
             lambda s: math.sqrt(s) > 2.5, lambda s: max(s, 4) == 4, lambda s: min(s, 5) != 5, lambda s: s % 2 == 1,
             lambda s: s // 2 != 3, lambda s: (s != 6) == (s > 5), lambda s: bool(s - 7), lambda s: 1.5 * s < 10,
             lambda s: math.log(s) > 1.8, lambda s: s & 1, lambda s: 3 < s < 9 and s != 5, lambda s: abs(s - 5) > 1,
             lambda s: round(s / 2) == 4, lambda s: int(s * 0.5) == 3, lambda s: math.ceil(s / 3) == 3)


@pytest.mark.parametrize("number", range(len(DECISIONS)))
def test_every_decision_by_a_size_is_a_condition(number):
    """A program raises for each size for which the module computes otherwise, also when it was saved."""
    module = Decides(DECISIONS[number])
    program = rl.export.export(module, (rl.ones(7, 2),), dynamic_shapes={"x": {0: rl.export.Dim.AUTO}})
    file = io.BytesIO()
    rl.export.save(program, file)
    file.seek(0)
    for exported in (program.module(), rl.export.load(file).module()):
        taken = []
        for size in range(2, 12):
            x = rl.ones(size, 2)
            try:
                result = exported(x)
            except AssertionError as error:
                assert "Guard failed" in str(error)
                continue
            assert rl.equal(result, module(x)), size
            taken.append(size)
        assert 7 in taken


def test_decisions_by_other_functions_are_refused():
    module = Decides(lambda s: math.lgamma(s) > 6)
    with pytest.raises(UserError, match="cannot be checked when it is called"):
        rl.export.export(module, (rl.ones(7, 2),), dynamic_shapes={"x": {0: rl.export.Dim.AUTO}})
    fixed = rl.export.export(module, (rl.ones(7, 2),))
    assert rl.equal(fixed.module()(rl.ones(7, 2)), module(rl.ones(7, 2)))
