"""The examples in docstrings give what they say."""
import doctest
import importlib
import pathlib

import pytest

import rushlight as torch

ROOT = pathlib.Path(torch.__file__).parents[1]
WITH_EXAMPLES = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                 for path in sorted(ROOT.glob("rushlight/**/*.py")) if ">>> " in path.read_text()]


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected in")
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name):
    module = importlib.import_module(name)
    names = {k: v for k, v in vars(module).items() if not k.startswith("__")}
    # capture follows functions of users only
    given = {**names, "torch": torch, "__name__": "__main__", "__package__": module.__package__}
    failed, _ = doctest.testmod(module, globs=given)
    assert not failed
