"""A part of PyTorch's database of operators, where its harness is (``python -m tests.webgpu.database`` runs all)."""
import pathlib

import pytest

from .database import counted, parsed

HARNESS = pathlib.Path(__file__).parents[3] / "shared" / "conformance" / "conformance.py"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not HARNESS.exists(), reason="no conformance harness here")
def test_entries():
    found = counted(str(HARNESS), parsed(str(HARNESS), "--every", "40", "--from", "3", "--samples", "2"))
    assert not found["fails"] and found["shaders"] >= 10
