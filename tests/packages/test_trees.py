"""Drawn trees of arguments and results keep their nesting in packages, also of programs that were read from files."""
import pytest

import rushlight as torch
from tests.export.trees import Case, assert_same, load_again, load_package


@pytest.mark.parametrize("seed", range(100, 108))
def test_drawn_trees_go_through_packages(seed, tmp_path):
    case = Case(seed)
    program = torch.export.export(case.module, case.args, case.kwargs)
    for k, one in enumerate((program, load_again(program))):
        loaded = load_package(one, tmp_path / f"{k}.pt2")
        for args, kwargs in case.calls():
            assert_same(loaded(*args, **kwargs), case.module(*args, **kwargs))
