"""The table of hooks: every object that the hot path's state holds is named there, is set, and by one file."""
import ast
import inspect
import pathlib

import pytest

import rushlight as torch
from rushlight._src.core.native import hooks, objects, state

ROOT = pathlib.Path(torch.__file__).parent


def trees(word: str):
    """(path, syntax tree) of the package's files that have a word in them."""
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        if word in text:
            yield path, ast.parse(text)


def fields() -> dict:
    """Field of the class State -> its type, as it is written."""
    tree = ast.parse(pathlib.Path(objects.__file__).read_text())
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "State")
    return {node.target.id: ast.unparse(node.annotation) for node in found.body if isinstance(node, ast.AnnAssign)}


def test_the_table_names_all_that_is_no_number():
    assert hooks.HOOKS.keys() == {name for name, kind in fields().items() if kind != "i64"}


def test_all_are_set_after_import():
    assert [name for name in hooks.HOOKS if getattr(state, name) is None] == []


@pytest.mark.parametrize("name", [name for name, hook in hooks.HOOKS.items() if hook.takes])
def test_a_hook_takes_what_the_table_says(name):
    assert [*inspect.signature(getattr(state, name)).parameters] == hooks.HOOKS[name].takes.split(", ")


def test_each_is_set_by_the_file_that_the_table_names():
    found = {}
    for path, tree in trees("connect("):
        if path.parent.name == "native" and path.name == "hooks.py":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "connect" and node.keywords and node.args:
                assert ast.literal_eval(node.args[0]) == path.relative_to(ROOT).as_posix()
                for keyword in node.keywords:
                    assert keyword.arg not in found, f"{keyword.arg} is set by {found[keyword.arg]} and {path}"
                    found[keyword.arg] = path.relative_to(ROOT).as_posix()
    assert found == {name: hook.setter for name, hook in hooks.HOOKS.items()}


def test_no_file_sets_a_hook_past_the_table():
    wrong = []
    for path, tree in trees("state."):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(
                    node.value) == "state" and node.attr in hooks.HOOKS:
                wrong.append(f"{path}:{node.lineno}: state.{node.attr}")
    assert not wrong, "\n".join(wrong)


def test_another_file_is_refused():
    with pytest.raises(TypeError, match="which is for _src/eager/casts.py"):
        hooks.connect("_src/eager/plan.py", cast=len)
    with pytest.raises(TypeError, match="a second time"):
        hooks.connect("_src/eager/casts.py", cast=len)
    with pytest.raises(TypeError, match="no hook"):
        hooks.connect("_src/eager/casts.py", casts=len)
