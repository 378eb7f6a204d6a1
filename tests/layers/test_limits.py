"""Limits of processes that tests wait for only bound a hang: a busy machine takes many times as long as an idle one."""
from __future__ import annotations

import ast
import pathlib

TESTS = pathlib.Path(__file__).resolve().parents[1]
LEAST = 600  # seconds
WAITS = "run", "check_call", "check_output", "communicate"


def short(source: str) -> list:
    """Lines of calls that wait for a process for less than ``LEAST`` seconds."""
    return [node.lineno for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WAITS
            for given in node.keywords if given.arg == "timeout" and isinstance(given.value, ast.Constant)
            and given.value.value is not None and given.value.value < LEAST]


def test_no_limit_is_short():
    sources = {path.relative_to(TESTS): path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")}
    waiting = {path: source for path, source in sources.items() if "timeout=" in source}
    assert len(waiting) > 50
    assert not [f"{path}:{line}" for path, source in waiting.items() for line in short(source)]


def test_short_limits_are_seen():
    calls = "run(1)", "subprocess.run(a, timeout=60)", "p.communicate(timeout=600)", "p.communicate(timeout=LIMIT)"
    assert short("\n".join(calls)) == [2]
