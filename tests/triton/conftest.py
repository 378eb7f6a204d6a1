"""Kernels of this folder run by Triton's interpreter, or are skipped where the package is absent."""
import importlib.util

import pytest

from ..compiler.programs import Program
from .programs import compile_for_blocks, run_by_interpreter


@pytest.fixture(autouse=True)
def by_the_interpreter(monkeypatch):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("the package triton is not installed: pip install rushlight[triton]")
    monkeypatch.setattr(Program, "compile", compile_for_blocks)
    monkeypatch.setattr(Program, "run", run_by_interpreter)
