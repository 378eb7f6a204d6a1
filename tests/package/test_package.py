"""Packages written and read again, in other processes too, and beside those of PyTorch."""
import io
import subprocess
import sys
import textwrap

import pytest

import rushlight as torch
from rushlight.package import (EmptyMatchError, GlobGroup, ObjMismatchError, PackageExporter, PackageImporter,
                               PackagingError, is_from_package, sys_importer)

FILES = {
    "mill/__init__.py": "from . import parts\nfrom .wheel import Wheel\n",
    "mill/parts.py": "import math\nimport grain.flour\nSIZE = int(math.sqrt(16))\n",
    "mill/wheel.py": """
        import rushlight as torch
        from .parts import SIZE

        class Wheel(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.turn = torch.nn.Linear(SIZE, 2)
                self.tied = self.turn.weight

            def forward(self, x):
                return self.turn(x) + SIZE
    """,
    "grain/__init__.py": "", "grain/flour.py": "NAME = 'rye'\ndef bake():\n    return NAME\n"}


@pytest.fixture
def mill(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    import mill
    yield mill
    for name in [n for n in sys.modules if n.partition(".")[0] in ("mill", "grain")]:
        del sys.modules[name]


def packed(mill, path, **patterns):
    model = mill.Wheel()
    with PackageExporter(path) as exporter:
        for action, names in {"intern": ["mill.**"], "extern": ["grain.**"], **patterns}.items():
            getattr(exporter, action)(names)
        exporter.save_pickle("model", "model.pkl", model)
        exporter.save_text("model", "words.txt", "grüße")
        exporter.save_binary("model", "bytes", b"\x00\x01")
    return model, exporter


def test_there_and_back(mill, tmp_path):
    model, exporter = packed(mill, tmp_path / "a.pt")
    assert set(exporter.interned_modules()) == {"mill", "mill.parts",
                                                "mill.wheel"} and set(exporter.externed_modules()) >= {"grain.flour",
                                                                                                       "math"}
    assert set(exporter.get_rdeps("mill.parts")) == {
        "mill", "mill.wheel"} and '"mill.wheel" -> "mill.parts"' in exporter.dependency_graph_string()
    found = PackageImporter(tmp_path / "a.pt")
    loaded = found.load_pickle("model", "model.pkl")
    x = torch.ones(3, 4)
    assert torch.equal(loaded(x), model(x)) and loaded.tied is loaded.turn.weight
    assert type(loaded) is not type(model) and is_from_package(loaded) and not is_from_package(model)
    assert type(loaded).__module__ == f"{found.id()}.mill.wheel" and found.import_module("mill").Wheel is type(loaded)
    assert (found.load_text("model", "words.txt"), found.load_binary("model", "bytes")) == ("grüße", b"\x00\x01")
    assert found.import_module("grain.flour") is sys.modules["grain.flour"] and "class Wheel" in found.get_source(
        "mill.wheel")
    assert found.file_structure(include="model/**").has_file("model/words.txt") and not found.file_structure(
        include="mill/**").has_file("model")
    assert found.python_version() == ".".join(map(str, sys.version_info[:3]))
    again = PackageImporter(tmp_path / "a.pt")
    assert again.import_module("mill.wheel").Wheel is not type(loaded)


def test_a_process_without_the_code(mill, tmp_path):
    packed(mill, tmp_path / "a.pt", intern=["mill.**", "grain.**"], extern=[])
    script = (f"import rushlight as torch; i = torch.package.PackageImporter({str(tmp_path / 'a.pt')!r}); "
              "print(i.load_pickle('model', 'model.pkl')(torch.zeros(1, 4)).shape)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "torch.Size([1, 2])\n", done.stderr


def test_packages_of_packages(mill, tmp_path):
    packed(mill, tmp_path / "a.pt")
    first = PackageImporter(tmp_path / "a.pt")
    loaded = first.load_pickle("model", "model.pkl")
    with pytest.raises(ObjMismatchError):
        PackageExporter(io.BytesIO()).save_pickle("m", "m.pkl", loaded)
    with PackageExporter(tmp_path / "b.pt", importer=(first, sys_importer)) as exporter:
        exporter.intern("mill.**")
        exporter.extern("grain.**")
        exporter.save_pickle("m", "m.pkl", loaded)
    second = PackageImporter(tmp_path / "b.pt").load_pickle("m", "m.pkl")
    assert torch.equal(second(torch.ones(1, 4)), loaded(torch.ones(1, 4))) and type(second) is not type(loaded)


def test_mocks(mill, tmp_path):
    packed(mill, tmp_path / "a.pt", intern=["mill.**"], mock=["grain.**"], extern=[])
    found = PackageImporter(tmp_path / "a.pt")
    bake = found.import_module("grain.flour").bake
    with pytest.raises(NotImplementedError, match="mocked"):
        bake()
    assert found.load_pickle("model", "model.pkl")(torch.zeros(1, 4)).shape == (1, 2)


def test_refusals(mill, tmp_path):
    with pytest.raises(PackagingError, match="(?s)did not match.*grain.flour.*mill.parts"):
        packed(mill, tmp_path / "a.pt", extern=[])
    with pytest.raises(PackagingError, match="denied"):
        packed(mill, tmp_path / "a.pt", deny=["grain.**"], extern=[])
    with pytest.raises(EmptyMatchError), PackageExporter(io.BytesIO()) as exporter:
        exporter.extern("nobody", allow_empty=False)
    assert not (tmp_path / "a.pt").exists()
    packed(mill, tmp_path / "a.pt")
    with pytest.raises(ImportError, match="disallowed"):
        PackageImporter(tmp_path / "a.pt", module_allowed=lambda name: False)
    found = PackageImporter(tmp_path / "a.pt")
    with pytest.raises(ModuleNotFoundError, match="self-contained"):
        found.import_module("pytest")
    with pytest.raises(FileNotFoundError):
        found.load_text("model", "none.txt")
    torch.save({}, tmp_path / "plain.pt")
    with pytest.raises(RuntimeError, match="not a package"):
        PackageImporter(tmp_path / "plain.pt")


def test_sources_and_hooks(tmp_path):
    file, seen = io.BytesIO(), []
    with PackageExporter(file) as exporter:
        exporter.register_extern_hook(lambda exporter, name: seen.append(name))
        exporter.save_source_string("a.b", "import math\nfrom a import c\nX = c.Y + math.floor(1.5)\n")
        exporter.save_source_string("a", "", is_package=True)
        exporter.save_source_string("a.c", "Y = 2\n")
        assert exporter.get_unique_id() != exporter.get_unique_id()
    assert seen == ["math"]
    file.seek(0)
    assert PackageImporter(file).import_module("a.b").X == 3


GLOBS = [("a.*", "a.b a a.b.c"), ("a.**", "a a.b a.b.c ab"), ("**", "a a.b"), ("a.*b", "a.b a.xb a.bx"),
         ("**.b", "b a.b a.c.b a.bc")]


@pytest.mark.parametrize("pattern, names", GLOBS)
def test_patterns(pattern, names):
    import torch as judge
    ours, theirs = GlobGroup(pattern, exclude="a.b.c"), judge.package.GlobGroup(pattern, exclude="a.b.c")
    assert [ours.matches(n) for n in names.split()] == [theirs.matches(n) for n in names.split()]
    with pytest.raises(ValueError):
        GlobGroup("a**")


def test_packages_of_pytorch(tmp_path):
    """Tensors, text and plain code go both ways."""
    import torch as judge
    for writer, reader, path in ((torch, judge, tmp_path / "a.pt"), (judge, torch, tmp_path / "b.pt")):
        x = writer.arange(6.0).reshape(2, 3)
        with writer.package.PackageExporter(str(path)) as exporter:
            exporter.save_pickle("data", "x.pkl", {"x": x, "view": x[1]})
            exporter.save_source_string("code", "def double(v):\n    return 2 * v\n")
        found = reader.package.PackageImporter(str(path))
        data = found.load_pickle("data", "x.pkl")
        assert data["x"].tolist() == x.tolist() and data["view"].data_ptr() == data["x"][1].data_ptr()
        assert found.import_module("code").double(data["view"]).tolist() == [6, 8, 10]
