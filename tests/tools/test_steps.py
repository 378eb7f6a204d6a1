"""Times of the steps of programs."""
import rushlight as torch
from rushlight._src.core.native import memory
from rushlight.tools.steps import measured


def test_steps_of_a_compiled_function_are_timed_and_compute_the_same():
    f = torch.compile(lambda x, y: (x @ y).relu().sum(1))
    x = torch.randn(16, 16)
    expected = f(x, x)
    runner = memory.program_runner()
    with measured() as table:
        for _ in range(3):
            found = f(x, x)
    assert torch.equal(found, expected) and memory.program_runner() == runner
    rows = table.rows()
    assert rows and all(row.calls == 3 and row.seconds > 0 for row in rows)
    assert any("matmul" in row.label for row in rows)
    assert str(table).count("\n") == len(rows)
