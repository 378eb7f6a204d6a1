"""Losses of models in parallel are those of one process, to 1e-5 over 50 steps, with dropout and without, compiled and
not: random numbers of each part of a batch begin where those of one process do."""
import pytest

from tests.distributed import parity

WORLDS = [(name, way) for name in ("gpt", "resnet") for way in parity.RANKS]
SHORT = [case for case in parity.CASES if case.startswith("gpt.") and ".drop." in case]


def check(cases, steps):
    found = parity.launched(cases, steps)
    assert list(found) == cases
    for case in cases:
        assert len(found[case]) == steps and parity.difference(case, found[case]) < 1e-5, case


@pytest.mark.parametrize("count", [2, 4])
def test_some_losses_are_those_of_one_process(count):
    check([case for case in SHORT if parity.RANKS[case.split(".")[1]] == count and case.endswith("eager")], 6)


@pytest.mark.long
@pytest.mark.parametrize("name, way", WORLDS)
def test_losses_are_those_of_one_process(name, way):
    check([case for case in parity.CASES if case.startswith(f"{name}.{way}.")], parity.STEPS)
