"""Random programs do the same compiled as plain; see ``programs`` for longer runs."""
import pytest

from . import programs


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(50, 200, 50))])
def test_random_programs(first):
    for seed in range(first, first + 50):
        report = programs.check(seed)
        assert report is None, report


@pytest.mark.parametrize("first, count", [(2000, 3), pytest.param(2003, 9, marks=pytest.mark.long)])
def test_random_programs_in_kernels(first, count):
    for seed in range(first, first + count):
        report = programs.check(seed, "rushlight")
        assert report is None, report


def test_differences_are_found_and_made_smaller(monkeypatch):
    program = programs.START + ["a = x * 2", programs.Block(("if n > -1:", ["b = a + 1", "out.append(wrong)"])),
                                "return a"]
    monkeypatch.setattr(programs, "difference", lambda source, seed, backend, calls=4: "differs" if "wrong" in source
                        else None)
    assert programs.source_of(programs.shrunk(program, 0, "eager")).split("\n")[1].strip() == "out.append(wrong)"
