"""Tests of programs run on WebGPU here, or are skipped with the reason."""
import pytest

from ..compiler.programs import Program
from .programs import compile_for_shaders, device, run_on_shaders


@pytest.fixture(autouse=True)
def on_shaders(monkeypatch):
    if isinstance(device(), str):
        pytest.skip(device())
    monkeypatch.setattr(Program, "compile", compile_for_shaders)
    monkeypatch.setattr(Program, "run", run_on_shaders)
