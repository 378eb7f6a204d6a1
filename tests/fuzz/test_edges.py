"""A short look at operators at the edges of what they take; ``python -m tests.fuzz.edges`` looks at all of them."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's database wants it

from .edges import hunted, op_db  # noqa: E402

VALUES = ("abs", "sign", "exp", "sub", "fmod", "copysign")
ARGUMENTS = ("roll", "tile", "chunk", "unsqueeze", "diagonal", "mode")


def entry(name):
    return next(info for info in op_db if info.name == name)


@pytest.mark.parametrize("name", VALUES)
def test_elements_at_the_edges(name):
    assert not [d for d in hunted(entry(name), most=6, count=1, kinds="^edges .* first$") if d[0] == "value"
                and d[1] != "complex64"]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_other_types(name):
    """A bool, a float or a string where an int is expected, and the reverse: refused as PyTorch refuses."""
    kinds = r"^(True|False|1\.0|1\.5|None|'a'|1j) at \(0, 1\)$"
    assert not [d for d in hunted(entry(name), most=12, count=1, kinds=kinds) if d[0] in ("accepts", "refuses", "form")]
