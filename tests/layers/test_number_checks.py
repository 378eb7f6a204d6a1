"""Checks of numbers in operators' bodies ask ``has_value``: a number that is only known at run time is a Tensor, too,
so a check that ``isinstance(x, Tensor)`` guards is left out once the operator has seen a few numbers."""
import ast
import pathlib

import pytest

OPS = pathlib.Path(__file__).parents[2] / "rushlight" / "_src" / "ops"
ORDERINGS = ast.Lt, ast.LtE, ast.Gt, ast.GtE


def tensors_asked(node) -> set:
    """The expressions, as text, of which a condition asks whether they are Tensors."""
    return {ast.unparse(call.args[0]) for call in ast.walk(node)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "isinstance"
            and ast.unparse(call.args[1]) == "Tensor"}


def ordered(node) -> set:
    """The expressions, as text, that a condition puts in an order."""
    return {ast.unparse(side) for compare in ast.walk(node)
            if isinstance(compare, ast.Compare) and any(isinstance(op, ORDERINGS) for op in compare.ops)
            for side in (compare.left, *compare.comparators)}


def skipped_checks(tree) -> list:
    """The lines of conditions that compare a number only where it is no Tensor."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.BoolOp):
            found += [node.lineno] * bool(tensors_asked(node) & ordered(node))
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Call):
            found += [other.lineno for other in node.orelse if isinstance(other, ast.If)
                      and tensors_asked(node.test) & ordered(other.test)]
    return sorted(found)


def test_checks_ask_for_values():
    found = [f"{path.name}:{line}" for path in sorted(OPS.rglob("*.py"))
             for line in skipped_checks(ast.parse(path.read_text(encoding="utf-8")))]
    assert not found, f"ask has_value(x) in place of isinstance(x, Tensor): {', '.join(found)}"


@pytest.mark.parametrize("text, lines", [
    ("if not isinstance(low, Tensor) and low < least: raise error", [1]),
    ("if isinstance(p, Tensor):\n    pass\nelif not 0 <= p <= 1:\n    raise error", [3]),
    ("if has_value(low) and low < least: raise error", []),
    ("y = mul(y, a) if isinstance(a, Tensor) or a != 1 else y", [])])
def test_what_is_found(text, lines):
    assert skipped_checks(ast.parse(text)) == lines
