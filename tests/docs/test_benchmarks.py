"""Every benchmark runs by the command that its docstring gives, from a checkout, and takes the options it names."""
import argparse
import contextlib
import importlib
import io
import json
import pathlib
import re
import sys

import pytest

from benchmarks import results

ROOT = pathlib.Path(__file__).parents[2]
NAMES = sorted(p.stem for p in (ROOT / "benchmarks").glob("*.py") if "__main__" in p.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_takes_the_options_that_its_docstring_names(name, monkeypatch):
    module = importlib.import_module(f"benchmarks.{name}")
    assert f"python -m benchmarks.{name}" in module.__doc__
    said = io.StringIO()
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    if name != "census":
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit, FileNotFoundError):
            module.main()
    commands = "\n".join(line for line in module.__doc__.splitlines() if "python -m" in line)
    unknown = [flag for flag in re.findall(r"--[a-z-]+", commands)
               if flag not in said.getvalue().partition("options:")[2]]
    assert not unknown


def test_figures_are_kept_with_the_processor_and_what_was_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    options = argparse.Namespace(write=True, threads=1, only="")
    results.keep("calls", {"a call": 1.0}, options)
    results.keep("ops", {"add": 0.5}, options)
    results.keep("ops", {"add": 0.4}, argparse.Namespace(write=False))
    (file,) = (tmp_path / "results").iterdir()
    found = json.loads(file.read_text())
    assert found["ops"] == {"processor": results.processor(), "threads": 1,
                            "figures": {"add": 0.5}} and found["calls"]["figures"] == {"a call": 1.0}


def test_recipes_of_programs_say_what_is_run_and_compared():
    from benchmarks.programs import data, run
    known = {"source", "commit", "paths", "folder", "path", "command", "before", "data", "set", "needs", "compare",
             "text", "ignore", "tolerance", "level", "unit", "seconds", "environment", "ranks", "devices", "draw"}
    for name, recipe in run.recipes().items():
        assert set(recipe) <= known and recipe["command"] and ("source" in recipe or recipe["needs"]), name
        assert "source" not in recipe or re.fullmatch("[0-9a-f]{40}", recipe["commit"]), name
        assert {kind.partition("@")[0] for kind in recipe["data"]} <= set(data.KINDS), name
        assert set(recipe["compare"]) <= {"losses", "parameters",
                                          "text"} and [re.compile(p) for p in (recipe["text"], *recipe["ignore"])], name


@pytest.mark.parametrize("loss, text, state",
                         [(1.0, "loss 2.5 in 7 ms", "equal"), (1.0005, "loss 2.5 in 9 ms", "equal"),
                          (1.01, "loss 2.5 in 7 ms", "level"), (1.5, "loss 2.5 in 7 ms", "differs"),
                          (float("nan"), "loss 2.5 in 7 ms", "differs"), (1.0, "loss 2.6 in 7 ms", "level"),
                          (1.0, "", "differs")])
def test_programs_are_compared_by_all_their_numbers(loss, text, state):
    from benchmarks.programs import run
    recipe = {"compare": ["losses", "parameters", "text"], "text": "loss", "ignore": ["in .*"], "tolerance": 1e-3,
              "level": 0.1}
    parameters = [{"count": 3, "sum": 0.5, "norm": 2.0}]
    theirs = {"losses": [1.0], "parameters": parameters, "text": "loss 2.5 in 7 ms\nother 3"}
    assert run.judged(recipe, theirs, {"losses": [loss], "parameters": parameters, "text": text})[0] == state
