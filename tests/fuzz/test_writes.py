"""A sample of the programs that write through views; ``python -m tests.fuzz.writes`` runs them all."""
import random

import pytest

import rushlight as rl

from .writes import INPUTS, grid, random_case, run

torch = pytest.importorskip("torch")


def test_a_sample_of_writes_and_results():
    found, count = run(torch, rl, random.Random(5).sample(list(grid()), 40))
    assert not found and count == 40


def test_random_programs_of_several_writes():
    rng = random.Random(11)
    found, count = run(torch, rl, [random_case(rng) for _ in range(20)])
    assert not found and count == 20


@pytest.mark.parametrize("text, result, inputs", [
    ("a.diagonal().neg_()", "a.transpose(0, -1)", "cube"), ("a.diagonal().mul_(2)", "(a * 1, a[1:])", "3d"),
    ("a[0].mul_(2)", "a * 1", "expanded"), ("pass", "(a[1:], a + 1)", "offset"),
    ("a.unfold(0, 2, 1)[0].mul_(2)", "a", "2d")])
def test_programs_that_parted(text, result, inputs):
    for history in (False, True):
        found, _ = run(torch, rl, [((), (text, result, INPUTS[inputs], "float32", history))])
        assert not found
