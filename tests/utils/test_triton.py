"""Questions about Triton are answered by what is installed."""
import sys

import rushlight as rl
from rushlight.utils import _triton


def test_the_package_is_seen_without_an_import(tmp_path, monkeypatch):
    loaded = "triton" in sys.modules
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("raise ImportError('imported')")
    (tmp_path / "triton-3.9.1.dist-info").mkdir()
    (tmp_path / "triton-3.9.1.dist-info" / "METADATA").write_text("Name: triton\nVersion: 3.9.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    if not loaded:
        assert _triton.has_triton_package() and _triton.has_triton() == rl.cuda.is_available()
    assert _triton.get_triton_version() == (3, 9)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setattr(sys, "path", [])
    assert not _triton.has_triton_package() and not _triton.has_triton()
    assert _triton.get_triton_version() == (0, 0) and _triton.get_triton_version((1, 2)) == (1, 2)
