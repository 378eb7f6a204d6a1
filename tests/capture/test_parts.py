"""The machine's parts: each says which others it uses, and what it answers for."""
import ast
import functools
import inspect
import textwrap

import pytest

from rushlight._src.capture.emit import BUILT
from rushlight._src.capture.endings import ENDINGS
from rushlight._src.capture.machine import PARTS, Machine
from rushlight._src.capture.parts import (ATTRIBUTES, BREAKS, CALLED, INSTRUCTIONS, METHODS, OBJECTS_CALLED,
                                          VALUES_CALLED, OfClass, Part, Table)

NAMES = {part.part for part in PARTS}


def attributes_of(cls, receiver) -> dict:
    """Attribute of ``self`` (or of ``self.machine``) that a class reads or sets -> the names that are asked of it."""
    found: dict = {}
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls)))):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == receiver:
            found.setdefault(node.attr, set())
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and ast.unparse(
                node.value.value) == receiver:
            found.setdefault(node.value.attr, set()).add(node.attr)
    return found


@functools.cache
def given_by(cls) -> set:
    """What objects of a class have: methods, and attributes that its methods set."""
    targets = {node.attr for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls))))
               if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(
                   node.value) == "self"}
    return targets | set(dir(cls))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.part)
def test_a_part_uses_what_it_says(part):
    used = attributes_of(part, "self")
    assert set(part.needs) == used.keys() & NAMES
    known = {each.part: given_by(each) for each in PARTS} | {"machine": given_by(Machine) | NAMES}
    for name, asked in used.items():
        assert name in given_by(part) | set(part.needs) | {"machine"}, name
        if name in known and name not in given_by(part):
            assert asked <= known[name], asked - known[name]


@pytest.mark.parametrize("table", [ATTRIBUTES, BREAKS, CALLED, INSTRUCTIONS, METHODS, OBJECTS_CALLED, VALUES_CALLED],
                         ids=lambda table: table.what)
def test_what_is_registered_belongs_to_a_part(table):
    parts = {part.part: part for part in PARTS}
    assert table.entries
    for key, (part, method, _) in table.entries.items():
        assert callable(getattr(parts[part], method)), key


@pytest.mark.parametrize("table", [BUILT, ENDINGS], ids=lambda table: table.what)
def test_what_writes_segments_is_registered(table):
    assert table.entries


def test_two_parts_that_answer_for_the_same_are_refused():
    table = Table("a call of")

    class First(Part, part="first"):
        @table.by(len)
        def length(self):
            return 1

    with pytest.raises(KeyError, match="two components handle a call of"):
        class Second(Part, part="second"):
            @table.by(len)
            def size(self):
                return 2

    class Owner:
        first = First(None)

    assert table.find(Owner, len)() == 1
    assert table.find(Owner, abs) is None


def test_the_nearest_base_of_a_class_answers():
    table = Table("a value of class")

    class First(Part, part="first"):
        @table.by(int)
        def whole(self):
            return "whole"

        @table.by(bool)
        def truth(self):
            return "truth"

    class Owner:
        first = First(None)

    found = OfClass(table, Owner)
    assert found[bool]() == "truth" and found[type("Own", (int,), {})]() == "whole" and found[str] is None
