"""``docs/walk.md`` shows what the package does."""
import platform
import sys

import pytest
from llvmlite import binding

from . import walk

# what depends on more than the package
ELSEWHERE = {"bytecode": sys.version_info[:2] == (3, 11), "loop": platform.machine() == "x86_64"
             and binding.llvm_version_info[0] == 20}


@pytest.fixture(scope="module")
def page():
    return walk.PAGE.read_text()


@pytest.fixture(scope="module")
def made(page):
    return walk.made(walk.shown(page)["program"])


def test_there_are_all_pieces(page, made):
    assert list(walk.shown(page)) == list(made)


@pytest.mark.parametrize("name", walk.shown(walk.PAGE.read_text()))
def test_a_piece_is_true(page, made, name):
    if ELSEWHERE.get(name, True):
        assert walk.shown(page)[name] == made[name], "python -m tests.docs.walk writes the page anew"


def test_pieces_are_what_is_read(page, made):
    assert walk.shown(walk.rewritten(page, made)) == made
