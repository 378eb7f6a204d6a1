"""Dynamic sizes without a name, by bounds or by further examples; names of nested inputs; signatures in words."""
import io

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402


def both(run):
    """What a function of a library gives, ours and PyTorch's."""
    return run(rl), run(torch)


def double(t):
    class Double(t.nn.Module):
        def forward(self, x, y):
            return x + y

    return Double()


@pytest.mark.parametrize("hint", ["AUTO", "DYNAMIC"])
def test_hints_have_bounds(hint):
    def run(t):
        dim = getattr(t.export.Dim, hint)(min=3, max=8)
        program = t.export.export(double(t), (t.ones(5, 2), t.ones(5, 2)), dynamic_shapes=({0: dim}, {0: dim}))
        module, found = program.module(), []
        for size in (3, 8):
            found.append(tuple(module(t.ones(size, 2), t.ones(size, 2)).shape))
        for size in (9, 2):
            with pytest.raises((AssertionError, RuntimeError)):
                module(t.ones(size, 2), t.ones(size, 2))
        return found, {str(one) for one in program.range_constraints.values()}

    ours, theirs = both(run)
    assert ours == theirs == ([(3, 2), (8, 2)], {"VR[3, 8]"})


def test_what_hints_refuse():
    for t in (rl, torch):
        for bounds in ({"min": 4, "max": 2}, {"min": -1}):
            with pytest.raises(AssertionError):
                t.export.Dim.DYNAMIC(**bounds)
    assert rl.export.Dim.AUTO == rl.export.Dim.AUTO() and rl.export.Dim.AUTO(min=2) != rl.export.Dim.AUTO


def test_files_and_packages_keep_the_bounds_of_hints():
    hint = rl.export.Dim.DYNAMIC(min=2, max=8)
    program = rl.export.export(double(rl), (rl.ones(5, 2), rl.ones(5, 2)), dynamic_shapes=({0: hint}, {0: hint}))
    file = io.BytesIO()
    rl.export.save(program, file)
    loaded = rl.export.load(io.BytesIO(file.getvalue()))
    assert loaded.range_constraints == program.range_constraints
    module = loaded.module()
    module(rl.ones(8, 2), rl.ones(8, 2))
    package = rl._inductor.aoti_load_package(rl._inductor.aoti_compile_and_package(loaded))
    assert package(rl.ones(8, 2), rl.ones(8, 2)).shape == (8, 2)
    for run, kind in ((module, RuntimeError), (package, ValueError)):
        with pytest.raises(kind):
            run(rl.ones(9, 2), rl.ones(9, 2))


def test_further_examples_say_what_varies():
    def run(t):
        more = t.export.AdditionalInputs()
        more.add((t.ones(7, 2), t.ones(7, 2)))
        more.add((t.ones(3, 2), t.ones(3, 2)))
        program = t.export.export(double(t), (t.ones(5, 2), t.ones(5, 2)), dynamic_shapes=more)
        return tuple(program.module()(t.ones(9, 2), t.ones(9, 2)).shape), len(program.range_constraints) > 0

    ours, theirs = both(run)
    assert ours == theirs == ((9, 2), True)


def test_further_examples_that_do_not_fit():
    class Fixed(rl.nn.Module):
        def forward(self, x, k):
            return x.reshape(5, -1) * k

    more = rl.export.AdditionalInputs()
    more.add((rl.ones(7, 2), 3.0))
    with pytest.raises(ValueError, match="another value"):
        rl.export.export(Fixed(), (rl.ones(5, 2), 2.0), dynamic_shapes=more)
    more = rl.export.AdditionalInputs()
    more.add((rl.ones(7), 2))
    with pytest.raises(ValueError, match="ranks"):
        rl.export.export(Fixed(), (rl.ones(5, 2), 2), dynamic_shapes=more)
    with pytest.raises(TypeError):
        more.add([rl.ones(1)])


def nested(t):
    class Nested(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = t.nn.Linear(2, 2)
            self.register_buffer("shift", t.ones(2))
            self.register_buffer("other", t.ones(2), persistent=False)

        def forward(self, inputs, *rest, scale):
            a, b = inputs["A b"]
            return {"y": self.linear(a + b + inputs["c"]) + self.shift + self.other + rest[0][0] * scale["k"]}

    return Nested()


def test_inputs_are_named_by_their_places():
    def run(t):
        x = t.ones(3, 2)
        program = t.export.export(nested(t), ({"A b": [x, x + 1], "c": x}, (x,)), {"scale": {"k": x}})
        return program.graph_signature.user_inputs, str(program.graph_signature)

    (ours, our_text), (theirs, their_text) = both(run)
    assert ours == theirs
    assert our_text.split("# outputs")[0] == their_text.split("# outputs")[0]
    assert our_text.startswith("\n# inputs\n") and our_text.endswith(": USER_OUTPUT\n")
