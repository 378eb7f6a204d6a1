"""Tests of programs run on WebGPU here, or are skipped with the reason."""
import pytest

from rushlight._src.core.devices import Registry

from ..compiler.programs import Program
from .programs import compile_for_shaders, device, run_on_shaders


@pytest.fixture(autouse=True)
def on_shaders(monkeypatch):
    if isinstance(device(), str):
        pytest.skip(device())
    monkeypatch.setattr(Program, "compile", compile_for_shaders)
    monkeypatch.setattr(Program, "run", run_on_shaders)


@pytest.fixture(scope="package", autouse=True)
def accelerator():
    """Whatever the accelerator was before, it is again for other tests."""
    before = Registry.accelerator
    yield
    Registry.accelerator = before
