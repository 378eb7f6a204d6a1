"""What CONTRIBUTING.md tells newcomers to do works as it stands there."""
import doctest
import importlib
import re
import textwrap

import rushlight as rl
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


def test_the_rule_and_the_stage_that_are_added(monkeypatch):
    simplify = importlib.import_module("rushlight._src.compiler.simplify")
    pipeline = importlib.import_module("rushlight._src.compiler.pipeline")
    P = simplify.P
    monkeypatch.setitem(simplify.RULES, P.add, list(simplify.RULES[P.add]))
    monkeypatch.setattr(simplify, "SHOWN", list(simplify.SHOWN))
    names = dict(vars(simplify))
    exec(block("@rule"), names)
    exec(block("def prune"), names)
    seen = []

    def watched(c):
        names["prune"](c)
        seen.append([node.op.name for node in c.graph.nodes])

    monkeypatch.setattr(pipeline, "PLANNING", (pipeline.whole("prune", watched), *pipeline.PLANNING))
    assert "->" in names["prune"].__doc__
    rl._dynamo.reset()
    x = rl.randn(3, 41)
    assert rl.compile(lambda x: (x + x).exp())(x).allclose((2 * x).exp())
    assert ["prims.mul", "prims.exp"] in seen
