"""Packages query what a device provides; only ``devices/`` compares the names of devices."""
import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2] / "rushlight"
NAMES = {"cpu", "meta", "cuda", "mps", "xpu", "mtia", "hpu", "xla", "privateuseone"}
QUOTED = [quote + name + quote for name in NAMES for quote in "\"'"]
OWN = "_src/devices/"  # the folder that may


def names_in(node) -> set:
    """Names of devices that an operand is or holds."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    return {p.value for p in parts if isinstance(p, ast.Constant) and p.value in NAMES}


def is_question(node) -> bool:
    """Whether an operand says where something lies: ``x.device.type``, ``device_type``, ``kind``."""
    text = ast.unparse(node)
    return "device" in text or text.endswith(".type") or "where" in text


def comparisons(path):
    """Lines of a file that compare the name of a device."""
    text = path.read_text()
    if not any(name in text for name in QUOTED):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            if any(map(names_in, operands)) and any(map(is_question, operands)):
                yield node.lineno, ast.unparse(node)


def test_a_comparison_is_seen(tmp_path):
    file = tmp_path / "file.py"
    file.write_text(
        "a = x.device.type == 'meta'\nb = device.type in ('cpu', 'meta')\nc = key == 'meta'\nd = "
        "x.device.provider.has_data\n")
    assert [line for line, _ in comparisons(file)] == [1, 2]


def test_names_of_devices_are_not_compared():
    wrong = [f"{path.relative_to(ROOT)}:{line}: {text}" for path in ROOT.rglob("*.py")
             if not str(path.relative_to(ROOT)).startswith(OWN) for line, text in comparisons(path)]
    assert not wrong, "\n".join(wrong)
