"""``aot_compile``: shared objects beside their packages; packages of several models; settings of PyTorch's compiler."""
import ctypes
import io
import json
import zipfile

import pytest

import rushlight as torch
from rushlight._inductor.package import load_package, package_aoti
from rushlight._src.packages.archive import BadPackage, Package

nn = torch.nn
AS_FILES = {"aot_inductor.package": True}


class Net(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.linear, self.scale = nn.Linear(8, 4), scale

    def forward(self, x, more=None):
        found = torch.relu(self.linear(x)) * self.scale
        return found if more is None else (found, more["shift"] + 1)


def net(scale=1.0):
    torch.manual_seed(0)
    return Net(scale).eval()


def test_a_shared_object_lies_beside_its_package(tmp_path):
    model, x = net(), torch.randn(3, 8)
    path = torch._inductor.aot_compile(torch.export.export(model, (x,)).module(), (x,),
                                       options={"aot_inductor.output_path": str(tmp_path / "own.so")})
    assert path == str(tmp_path / "own.so") and (tmp_path / "own.pt2").exists()
    torch.testing.assert_close(torch._export.aot_load(path, "cpu")(x), model(x))
    library = ctypes.CDLL(path)
    library.rl_manifest.restype = ctypes.c_char_p
    assert [row["name"] for row in json.loads(library.rl_manifest())["inputs"]] == ["x"]


def test_sizes_vary_as_the_program_lets_them():
    model, x, batch = net(), torch.randn(3, 8), torch.export.Dim("batch", min=2, max=9)
    given = (x, {"shift": torch.randn(3)})
    program = torch.export.export(model, given, dynamic_shapes=({0: batch}, {"shift": {0: batch}}))
    loaded = torch._export.aot_load(torch._inductor.aot_compile(program.module(), given), "cpu")
    for count in (2, 9):
        given = torch.randn(count, 8), {"shift": torch.randn(count)}
        for found, wanted in zip(loaded(*given), model(*given), strict=True):
            torch.testing.assert_close(found, wanted)
    with pytest.raises(ValueError):
        loaded(torch.randn(10, 8), {"shift": torch.randn(10)})


def test_functions_and_modules_by_the_earlier_name():
    x = torch.randn(3, 8)
    path = torch._export.aot_compile(lambda x, y: x * y, (x, x))
    assert torch._export.aot_load(path, "cpu")(x, x).equal(x * x)
    batch = torch.export.Dim("batch", max=64)
    path = torch._export.aot_compile(net(), (x,), dynamic_shapes={"x": {0: batch}})
    torch.testing.assert_close(torch._export.aot_load(path, "cpu")(x[:1]), net()(x[:1]))
    with pytest.raises(RuntimeError, match="device"):
        torch._export.aot_load(path, "cuda")
    with pytest.raises(RuntimeError, match="not next to its package"):
        torch._export.aot_load("/nowhere/model.so", "cpu")


def test_a_package_of_several_models(tmp_path):
    x = torch.randn(3, 8)
    files = {f"scaled{k}": torch._inductor.aot_compile(torch.export.export(net(k), (x,)).module(), (x,),
                                                       options=AS_FILES) for k in (2.0, 3.0)}
    assert all(isinstance(one, list) for one in files.values())
    files = {name.replace(".0", ""): one for name, one in files.items()}
    path = package_aoti(str(tmp_path / "two.pt2"), files)
    for name, scale in (("scaled2", 2.0), ("scaled3", 3.0)):
        torch.testing.assert_close(load_package(path, name)(x), net(scale)(x))
    assert sum(name.endswith((".so", ".weights")) for name in zipfile.ZipFile(path).namelist()) == 2
    with pytest.raises(RuntimeError, match="has no model 'third'"):
        load_package(path, "third")
    held = io.BytesIO()
    package_aoti(held, files["scaled2"])
    held.seek(0)
    torch.testing.assert_close(load_package(held)(x), net(2.0)(x))
    with pytest.raises(ValueError, match="in this process"):
        package_aoti(str(tmp_path / "none.pt2"), {"model": ["elsewhere.so"]})


def test_settings_of_pytorchs_compiler(tmp_path):
    x = torch.randn(3, 8)
    program, path = torch.export.export(net(), (x,)), tmp_path / "m.pt2"
    configs = {"max_autotune": True, "always_keep_tensor_constants": True, "aot_inductor.metadata": {"made": "here"},
               "aot_inductor.package_constants_in_so": False}
    torch._inductor.aoti_compile_and_package(program, package_path=str(path), inductor_configs=configs)
    loaded = torch._inductor.aoti_load_package(str(path))
    told = loaded.get_metadata()
    assert told["made"] == "here" and told["AOTI_DEVICE_KEY"] == "cpu" and told["name"] == "model"
    torch.testing.assert_close(loaded(x), net()(x))
    assert "metadata" not in Package(torch._inductor.aoti_compile_and_package(program)).manifests["model"]
    with pytest.raises(RuntimeError, match="Unexpected optimization option"):
        torch._inductor.aoti_compile_and_package(program, inductor_configs={"aot_inductor.nothing_at_all": 1})
    with pytest.raises(TypeError, match="dict of strings"):
        torch._inductor.aoti_compile_and_package(program, inductor_configs={"aot_inductor.metadata": {"a": 1}})


def test_metadata_that_are_no_texts_are_refused(tmp_path):
    program, held = torch.export.export(net(), (torch.randn(3, 8),)), io.BytesIO()
    torch._inductor.aoti_compile_and_package(program, package_path=held, inductor_configs={
        "aot_inductor.metadata": {"made": "here"}})
    whole, bad = zipfile.ZipFile(held), io.BytesIO()
    with zipfile.ZipFile(bad, "w") as file:
        for name in whole.namelist():
            data = whole.read(name)
            file.writestr(name, data.replace(b'"made": "here"', b'"made": 1') if name.endswith(".json") else data)
    with pytest.raises(BadPackage, match="metadata"):
        Package(bad)
