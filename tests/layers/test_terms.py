"""Prose of the package, documentation, tests, examples and benchmarks uses the terms of ``docs/glossary.md``."""
from __future__ import annotations

import pathlib
import re

import pytest

from . import prose
from .terms import TERMS

PROJECT = pathlib.Path(__file__).resolve().parents[2]
MEASURED = "rushlight", "docs", "tests", "benchmarks", "examples", "building"
PATTERNS = {term: re.compile(term.pattern) for term in TERMS}  # of text in lower case
UNLESS = {term: re.compile(term.unless) for term in TERMS if term.unless}
ANY = re.compile("|".join(f"(?:{term.pattern})" for term in TERMS))
SKIPPED = "dialect: skip-file"  # in a line of a file that quotes the words


def measured_files():
    for path in (*PROJECT.glob("*.md"), *(path for top in MEASURED for path in (PROJECT / top).rglob("*"))):
        if path.suffix in (".py", ".md") and not {"__pycache__", "api"} & set(path.parts):  # docs/api is written
            yield path


def wrong_terms(path: str, source: str):
    """(line, words, standard term) of each use of a word that the glossary replaces."""
    is_python = path.endswith(".py")
    if SKIPPED in source[:400] or not ANY.search(prose.rough(source.lower()) if is_python else source.lower()):
        return
    lines = source.split("\n")
    terms = [t for t in TERMS if not (t.only and not re.search(t.only, path) or t.skip and re.search(t.skip, path))]
    for begin, text in (prose.of_python if is_python else prose.of_markdown)(source):
        flat = re.sub(r"\s", " ", text.lower())
        for term in terms:
            for match in PATTERNS[term].finditer(flat):
                line = begin + text.count("\n", 0, match.start())
                near = flat[max(0, match.start() - 20):match.end() + 20]
                if not (term in UNLESS and UNLESS[term].search(near)) and "dialect: ok" not in lines[line - 1]:
                    yield line, match.group(), term.say


def test_prose_uses_standard_terms():
    found = [f"{path}:{line}: {words!r}; say {say}" for file in measured_files()
             for path in [file.relative_to(PROJECT).as_posix()]
             for line, words, say in wrong_terms(path, file.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("source", ['"""Whole numbers."""', "x = 1  # kept side by\n# side\n",
                                    'raise ValueError("the sizes vary")\n', 'warn(f"{x} of bfloats")\n'])
def test_wrong_terms_are_found(source):
    assert list(wrong_terms("rushlight/a.py", source))


@pytest.mark.parametrize("source", ['whole = "whole numbers"\n', '"""``whole numbers``"""',
                                    '"""A whole number of rows."""',
                                    "# whole numbers  dialect: ok\n", '"""Text.\n\n>>> "whole numbers" "bfloats"\n"""'])
def test_code_and_proper_uses_are_passed_over(source):
    assert not list(wrong_terms("rushlight/a.py", source))
