"""The examples in docstrings give what they say."""
import doctest
import importlib

import pytest

import rushlight as torch

MODULES = ["fx.graph", "fx._symbolic_trace", "fx.interpreter", "fx.subgraph_rewriter", "fx.passes.shape_prop", "fx.experimental.proxy_tensor", "fx.aot",
           "_inductor.compile_fx", "_dynamo", "_dynamo.testing", "export", "compiling", "tools.minify", "profiler", "utils.flop_counter", "utils.benchmark"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(f"rushlight.{name}")
    public = {k: v for k, v in vars(module).items() if not k.startswith("__")}
    failed, tried = doctest.testmod(module, globs={**public, "torch": torch, "__name__": "__main__"})
    assert tried and not failed
