"""What CONTRIBUTING.md tells newcomers to do works as it stands there."""
import doctest
import importlib
import re
import textwrap

from rushlight import nn
from rushlight._src.core.op import OPS
from tests.docs.test_names import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"(?:^ {7}.*\n|^\n(?= {7}))+", PAGE, flags=re.MULTILINE)]


def block(beginning):
    return next(text.strip("\n") for text in BLOCKS if text.strip().startswith(beginning))


def test_the_operator_that_is_added(monkeypatch):
    family = importlib.import_module("rushlight._src.ops.activation")
    names = dict(vars(family))
    try:
        exec(block("@op"), names)
        monkeypatch.setattr(nn.functional, "softroot", names["softroot"], raising=False)
        text = block(">>>").replace("import torch\n", "import rushlight as torch\n").replace("from torch.nn import",
                                                                                             "from rushlight.nn import")
        found = doctest.DocTestParser().get_doctest(text, {}, "CONTRIBUTING.md", None, 0)
        told = []
        doctest.DocTestRunner().run(found, out=told.append)
        assert not told, "".join(told)
    finally:
        OPS.pop("nn.functional.softroot", None)


def test_the_tests_that_it_names_exist():
    named = re.findall(r"tests/[\w/]+\.py", PAGE)
    assert len(named) > 4 and all((ROOT / path).exists() for path in named)
