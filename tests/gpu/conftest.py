"""Kernels of this folder run by Triton's interpreter, or are skipped where the package is absent."""
import importlib.util

import pytest

import rushlight as rl
from rushlight._src.core.devices import Registry
from rushlight._src.core.native import mine
from rushlight._src.devices.triton.choices import choices
from rushlight._src.switches import forget_plans

from ..compiler.programs import Program
from .programs import compile_for_blocks, run_by_interpreter
from .recorded import provided


@pytest.fixture
def by_the_interpreter(monkeypatch):
    """Programs of ``tests/compiler`` are Triton's."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("the package triton is not installed: pip install rushlight[triton]")
    monkeypatch.setattr(Program, "compile", compile_for_blocks)
    monkeypatch.setattr(Program, "run", run_by_interpreter)


@pytest.fixture
def as_before():
    """Whatever devices there were before, they are again for other tests."""
    before = dict(Registry.providers), Registry.accelerator
    yield
    Registry.leave("cuda")
    mine.queue = None
    Registry.providers, Registry.accelerator = before
    choices.__init__()


@pytest.fixture
def planned_anew(as_before):
    """No plan of other tests is known, nor do others know those of the test."""
    forget_plans()
    rl._dynamo.reset()
    yield
    forget_plans()
    rl._dynamo.reset()


@pytest.fixture
def gpu(by_the_interpreter, as_before, monkeypatch, tmp_path):
    """(the provider "cuda" over a library that stands in, the library); kernels are computed."""
    provider, library = provided(monkeypatch, tmp_path)
    yield provider, library
    assert library.failure is None, library.failure


@pytest.fixture
def silent(as_before, monkeypatch, tmp_path):
    """The same, but kernels are only noted."""
    return provided(monkeypatch, tmp_path, computes=False)
