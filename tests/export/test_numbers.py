"""Ints that vary as inputs, and comparisons of sizes as results: called, refused, saved, decomposed as in PyTorch."""
import io
import random

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
from rushlight._src.capture.errors import UserError  # noqa: E402

PROGRAMS = {  # name: (function of x, n and the library, n that is exported, calls, calls that are refused)
    "operand": (lambda x, n, t: (x * n + n, n + 1, n * 2 - 3), 4, [4, 7, 1, 0, -3], []),
    "slice": (lambda x, n, t: (x[:n] * 2, x.shape[0] + n), 4, [4, 2, 6], [7, -1]),
    "branch": (lambda x, n, t: x + 1 if n > 3 else x - 1, 4, [4, 9], [3]),
    "rows": (lambda x, n, t: x.reshape(n, -1), 3, [3, 2], [5]),
    "unused": (lambda x, n, t: x * 2, 3, [3, 8], []),
    "comparisons": (lambda x, n, t: (x + 1, n > 3, n == 2, n <= x.shape[0]), 3, [3, 2, 5, 8], []),
    "filled": (lambda x, n, t: t.full((n,), 2.0).sum() + x.sum(), 4, [4, 3], []),
    "quotient": (lambda x, n, t: (x.repeat(n // 2), n % 3), 6, [6, 5, 9], []),
    "equal to a size": (lambda x, n, t: x + t.ones(n), 6, [6], [5]),
}


def exported(t, function, n, hint, size=6):
    class Call(t.nn.Module):
        def forward(self, x, n):
            return function(x, n, t)

    shapes = {"x": {0: t.export.Dim.DYNAMIC}, "n": hint(t.export.Dim)}
    return t.export.export(Call(), (t.arange(float(size)), n), dynamic_shapes=shapes)


def called(t, module, n, size=6):
    """The results of a call as lists and numbers."""
    results = module(t.arange(float(size)), n)
    return [r.tolist() if isinstance(r, t.Tensor) else r
            for r in (results if isinstance(results, tuple) else (results,))]


def reloaded(t, program):
    file = io.BytesIO()
    t.export.save(program, file)
    return t.export.load(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("name", PROGRAMS)
def test_ints_vary_as_in_pytorch(name):
    function, n, calls, refused = PROGRAMS[name]
    theirs = exported(torch, function, n, lambda Dim: Dim.DYNAMIC).module()
    wanted = [called(torch, theirs, k) for k in calls]
    for hint in (lambda Dim: Dim.DYNAMIC, lambda Dim: Dim.AUTO):
        program = exported(rl, function, n, hint)
        kinds = [type(spec.arg).__name__ for spec in program.graph_signature.input_specs]
        assert kinds == ["TensorArgument", "SymIntArgument"]
        for one in (program, reloaded(rl, program), program.run_decompositions()):
            module = one.module()
            assert [called(rl, module, k) for k in calls] == wanted
            for k in refused:
                for call, t in ((module, rl), (theirs, torch)):
                    with pytest.raises(AssertionError, match="Guard failed"):
                        called(t, call, k)


def test_sums_and_products_of_ints_hold_for_all():
    """Expressions of ints and sizes, drawn, and calls that were not exported for."""
    draw = random.Random(3)
    for _ in range(4):
        a, b, c = (draw.randint(-4, 4) for _ in range(3))
        program = exported(rl, lambda x, n, t: (x * (a * n + b), n * n - c, n + x.shape[0] < c, n != b, not n >= a),
                           draw.randint(-3, 9), lambda Dim: Dim.DYNAMIC)
        again = reloaded(rl, program).module()
        for n in (draw.randint(-9, 9), 0, 1):
            x = torch.arange(4.0)
            wanted = [(x * (a * n + b)).tolist(), n * n - c, n + 4 < c, n != b, not n >= a]
            assert called(rl, program.module(), n, 4) == called(rl, again, n, 4) == wanted
            assert all(type(r) is type(w) for r, w in zip(called(rl, again, n, 4), wanted))


def test_kinds_of_results_are_in_the_signature():
    def kinds(t):
        program = exported(t, PROGRAMS["comparisons"][0], 3, lambda Dim: Dim.DYNAMIC)
        return [[type(spec.arg).__name__ for spec in specs] for specs in (
            program.graph_signature.input_specs, program.graph_signature.output_specs)]

    assert kinds(rl) == kinds(torch)


def test_hints_of_ints_have_bounds():
    def run(t):
        program = exported(t, PROGRAMS["operand"][0], 4, lambda Dim: Dim.DYNAMIC(min=3, max=8))
        for module in (program.module(), *([reloaded(t, program).module()] if t is rl else [])):
            for k in (3, 8):
                called(t, module, k)
            for k in (2, 9):
                with pytest.raises(AssertionError, match="Guard failed: n [<>]= [38]"):
                    called(t, module, k)
        return {str(bounds) for bounds in program.range_constraints.values()}

    assert run(rl) == run(torch)


def test_ints_that_the_program_fixes():
    def ones(x, n, t):
        return x[:4] + t.ones(n)

    for t, kind in ((rl, UserError), (torch, torch._dynamo.exc.UserError)):
        with pytest.raises(kind, match=r"You marked L\['n'\] as dynamic but your code specialized it to be a constant"):
            t.export.export(fixed(t, ones), (t.arange(6.0), 4), dynamic_shapes={"x": None, "n": t.export.Dim.DYNAMIC})
        program = t.export.export(fixed(t, ones), (t.arange(6.0), 4),
                                  dynamic_shapes={"x": None, "n": t.export.Dim.AUTO})
        with pytest.raises(AssertionError, match="Guard failed: n == 4"):
            program.module()(t.arange(6.0), 3)
        with pytest.raises(ValueError, match="Unable to specify input integers as dynamic through named Dims"):
            t.export.export(fixed(t, ones), (t.arange(6.0), 4), dynamic_shapes={"x": None, "n": t.export.Dim("n")})
        for value in (2.5, "a"):
            with pytest.raises(kind, match="Cannot associate shape"):
                t.export.export(fixed(t, ones), (t.arange(6.0), value),
                                dynamic_shapes={"x": None, "n": t.export.Dim.DYNAMIC})


def fixed(t, function):
    class Fixed(t.nn.Module):
        def forward(self, x, n):
            return function(x, n, t)

    return Fixed()


def test_nested_ints_and_further_examples():
    def run(t):
        class Nested(t.nn.Module):
            def forward(self, x, rest, *, scale):
                return x * rest[0] + scale["k"], rest[1] - scale["k"]

        more = t.export.AdditionalInputs()
        more.add((t.ones(3), [5, 7]), {"scale": {"k": 3}})
        program = t.export.export(Nested(), (t.ones(3), [2, 7]), {"scale": {"k": 4}}, dynamic_shapes=more)
        results = program.module()(t.ones(3), [9, 7], scale={"k": -2})
        with pytest.raises(AssertionError):
            program.module()(t.ones(3), [9, 8], scale={"k": -2})
        return results[0].tolist(), results[1]

    assert run(rl) == run(torch) == ([7.0] * 3, 9)


def test_files_of_either_library_have_ints_that_vary():
    def crossed(source, target):
        program, file = exported(source, PROGRAMS["operand"][0], 4, lambda Dim: Dim.DYNAMIC(min=2, max=8)), io.BytesIO()
        source.export.save(program, file)
        module = target.export.load(io.BytesIO(file.getvalue())).module()
        with pytest.raises(AssertionError):
            called(target, module, 9)
        return [called(target, module, k) for k in (4, 7)]

    assert crossed(rl, rl) == crossed(torch, rl) == crossed(torch, torch)


def test_packages_take_ints_that_vary():
    program = exported(rl, PROGRAMS["slice"][0], 4, lambda Dim: Dim.DYNAMIC)
    with pytest.warns(UserWarning, match="runs in Python only"):
        package = rl._inductor.aoti_load_package(rl._inductor.aoti_compile_and_package(program))
    for n in (4, 2):
        assert called(rl, package, n) == called(rl, program.module(), n)


# --- numbers that are read from tensors -------------------------------------------------------------------------------
def read_numbers(n, x, t):
    k, y = n.item(), x[x > 0]
    return (k * 2, k, [k + x.shape[0], {"a": k - 1}], k // 2, -k, k % 3, 3 - k, k > 3, y.shape[0] * 3,
            y.shape[0] + k, min(k, 5), max(k, x.shape[0]), k ** 2, y, 2, True, 0)


def reading(t, function, *args, **options):
    class Read(t.nn.Module):
        def forward(self, *args):
            return function(*args, t)

    return t.export.export(Read(), args, **options)



@pytest.mark.parametrize("way", ["called", "decomposed", "saved"])
def test_arithmetic_on_numbers_that_tensors_have_is_computed_in_each_call(way):
    program = reading(rl, read_numbers, rl.tensor(2), rl.tensor([1., -1., 2.]))
    if way == "decomposed":
        program = program.run_decompositions()
    if way == "saved":
        file = io.BytesIO()
        rl.export.save(program, file)
        program = rl.export.load(io.BytesIO(file.getvalue()))
    for n, x in ((7, [1., 1., 1.]), (2, [-1., -1., 4.]), (0, [3., -1., 2.])):
        mine = program.module()(rl.tensor(n), rl.tensor(x))
        its = read_numbers(torch.tensor(n), torch.tensor(x), torch)
        assert str(mine) == str(its)


def test_constants_equal_to_a_number_that_was_read_stay_constants():
    module = reading(rl, lambda n, b, t: (n.item(), 2, b.item(), True, 2.0, n.float().item()), rl.tensor(2),
                     rl.tensor(True)).module()
    assert module(rl.tensor(5), rl.tensor(False)) == (5, 2, False, True, 2.0, 5.0)


@pytest.mark.parametrize("function", [lambda n, t: str(n.item()), lambda n, t: (n, [f"{n.item()} of {n.item()}"])])
def test_other_results_that_depend_on_such_numbers_are_refused(function):
    with pytest.raises(UserError, match="depends on a number that is read from a tensor"):
        reading(rl, function, rl.tensor(2))


def test_rounded_sizes_are_computed():
    def function(x, t):
        return x * round(x.shape[0] / 2) + x.shape[0] / 3

    dim = rl.export.Dim
    module = reading(rl, function, rl.ones(4), dynamic_shapes={"args": ({0: dim.DYNAMIC},)}).module()
    for n in (4, 5, 7, 9):
        assert module(rl.ones(n)).tolist() == function(torch.ones(n), torch).tolist()
