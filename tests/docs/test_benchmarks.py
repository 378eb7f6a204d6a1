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
    unknown = [flag for flag in re.findall(r"--[a-z-]+", commands) if flag not in said.getvalue().partition("options:")[2]]
    assert not unknown


def test_figures_are_kept_with_the_processor_and_what_was_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    options = argparse.Namespace(write=True, threads=1, only="")
    results.keep("calls", {"a call": 1.0}, options)
    results.keep("ops", {"add": 0.5}, options)
    results.keep("ops", {"add": 0.4}, argparse.Namespace(write=False))
    (file,) = (tmp_path / "results").iterdir()
    found = json.loads(file.read_text())
    assert found["ops"] == {"processor": results.processor(), "threads": 1, "figures": {"add": 0.5}} and found["calls"]["figures"] == {"a call": 1.0}
