"""Every extra that a message or a page tells users to install is one that the project has."""
from __future__ import annotations

import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_extras_that_are_named():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {(name, path.name) for path in [*PAGES, *sorted((ROOT / "rushlight").rglob("*.py"))]
             for name in re.findall(r"rushlight\[(\w+)\]", path.read_text())}
    assert {name for name, _ in named} >= {"cuda", "mpi", "nccl", "onnx", "webgpu"}
    assert not [found for found in named if found[0] not in extras]
