"""Packages of programs that need Python, and packages of PyTorch's AOTInductor."""
import io
import random
import warnings
import zipfile

import pytest

import rushlight as torch
from rushlight._src.packages.archive import BadPackage, Package
from rushlight._src.packages.tracing import NotPackable

X = torch.tensor([[1.0, -2, 3], [-4, 5, -7]])


class Calling(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.scale = torch.nn.Parameter(torch.full((3,), 2.0))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return self.function(x * self.scale), self.count + 0


def branch(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


def loop(x):
    return torch._higher_order_ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))


DATA = {"branch": branch, "loop": loop, "mask": lambda x: x[x > 0], "sum of a mask": lambda x: x[x > 0].sum(),
        "positions": lambda x: {"at": x.nonzero(), "where": torch.where(x > 0)}, "distinct": torch.unique,
        "number": lambda x: x * x.sum().item(), "selected": lambda x: torch.masked_select(x, x > 0) * 2}
DRAWS = {"uniform": lambda x: x + torch.rand(3), "normal": torch.randn_like,
         "integers": lambda x: torch.randint(0, 9, (3,)), "bernoulli": lambda x: torch.bernoulli(x.sigmoid()),
         "dropout": lambda x: torch.nn.functional.dropout(x, 0.5, True)}


def packaged(function, path, **options):
    module = Calling(function)
    program = torch.export.export(module, (X,))
    with pytest.warns(UserWarning, match="runs in Python only"):
        torch._inductor.aoti_compile_and_package(program, package_path=str(path), **options)
    return module


@pytest.mark.parametrize("name", [*DATA, *DRAWS])
def test_data_dependent_and_random_programs_are_packaged(name, tmp_path):
    module = packaged({**DATA, **DRAWS}[name], tmp_path / "model.pt2")
    loaded = torch._inductor.aoti_load_package(tmp_path / "model.pt2")
    with torch.no_grad():
        for module_input in (X, -X, X):  # a buffer counts the calls, and draws go on
            place = torch.get_rng_state()
            wanted = module(module_input)
            torch.set_rng_state(place)
            torch.testing.assert_close(loaded(module_input), wanted)


def test_python_models_have_metadata_and_constants(tmp_path):
    module = packaged(lambda x: x[x > 0], tmp_path / "model.pt2",
                      inductor_configs={"aot_inductor.metadata": {"author": "me"}, "max_autotune": False})
    loaded = torch._inductor.package.load_package(tmp_path / "model.pt2", run_single_threaded=True)
    told = loaded.get_metadata()
    assert (told["author"], told["AOTI_DEVICE_KEY"], told["target"]) == ("me", "cpu", "python") and told["reason"]
    assert loaded.get_constant_fqns() == ["scale", "count"]
    other = {"scale": torch.full((3,), -1.0), "count": torch.tensor(5.0)}
    loaded.load_constants(other)
    torch.testing.assert_close(loaded(X), ((-X)[X < 0], torch.tensor(6.0)))
    assert not loaded(X.requires_grad_())[0].requires_grad and other["count"] == 5
    loaded.load_constants({"scale": other["scale"]}, check_full_update=False, user_managed=True)
    other["scale"].fill_(3)
    torch.testing.assert_close(loaded(X)[0], (X * 3)[X > 0].detach())
    for wrong in ({"scale": other["scale"]}, {**other, "absent": X}, {**other, "scale": X}):
        with pytest.raises(ValueError):
            loaded.load_constants(wrong)
    with pytest.raises(RuntimeError, match="Guard failed"):
        loaded(torch.ones(5, 3))
    with pytest.raises(ValueError, match="runs in Python"):
        torch._inductor.aoti_load_package(tmp_path / "model.pt2", level="x86-64-v3")
    assert module.count == 0


@pytest.mark.parametrize("make", [
    lambda program, path: torch._inductor.aoti_compile_and_package(program, package_path=path, target="x86-64-v3"),
    lambda program, path: torch._inductor.aot_compile(program.module(), (X,))], ids=["target", "shared object"])
def test_machine_code_that_is_asked_for_is_refused(make, tmp_path):
    with pytest.raises(NotPackable, match="random|elements"):
        make(torch.export.export(Calling(DRAWS["uniform"]), (X,)), str(tmp_path / "model.pt2"))
    assert not (tmp_path / "model.pt2").exists()


def test_programs_of_machine_code_stay_so(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch._inductor.aoti_compile_and_package(torch.export.export(torch.nn.Linear(3, 2), (X.detach(),)),
                                                 package_path=str(tmp_path / "model.pt2"))
    assert Package(tmp_path / "model.pt2").manifests["model"]["target"] != "python"


def test_damaged_python_models_are_refused(tmp_path):
    packaged(DATA["mask"], tmp_path / "model.pt2")
    whole, rng, refused = (tmp_path / "model.pt2").read_bytes(), random.Random(0), 0
    for _ in range(200):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            torch._inductor.aoti_load_package(io.BytesIO(bytes(data)))
        except BadPackage:
            refused += 1
    assert refused > 100


def foreign(suffix: str) -> io.BytesIO:
    """An archive with the entries of a package that PyTorch's AOTInductor wrote."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in (("archive_format", "pt2"), ("archive_version", "0"), ("byteorder", "little"),
                              (f"data/aotinductor/model/cij.wrapper{suffix}", "code"),
                              ("data/aotinductor/model/cij.wrapper_metadata.json", '{"AOTI_DEVICE_KEY": "cpu"}')):
            archive.writestr(f"net/{name}", content)
    file.seek(0)
    return file


@pytest.mark.parametrize("load", [torch._inductor.aoti_load_package, torch._inductor.package.load_package,
                                  torch.export.load])
@pytest.mark.parametrize("suffix", [".so", ".cpp", ".pyd"])
def test_packages_of_pytorch_are_named(load, suffix):
    with pytest.raises(RuntimeError, match="AOTInductor.*only PyTorch runs it") as found:
        load(foreign(suffix))
    assert "damaged" not in str(found.value)


def test_ints_that_vary_are_arguments_in_python_and_refused_in_shared_objects(tmp_path):
    class Scale(torch.nn.Module):
        def forward(self, x, n):
            return x * n, n + 1

    x, shapes = torch.ones(2), (None, torch.export.Dim.DYNAMIC)
    program = torch.export.export(Scale(), (x, 5), dynamic_shapes=shapes)
    with pytest.warns(UserWarning, match="an int that varies"):
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    model = torch._inductor.aoti_load_package(path)
    for n in (5, 7, 0, -3):
        found, following = model(x, n)
        assert found.tolist() == [n, n] and following == n + 1
    with pytest.raises(NotPackable, match="an int that varies.*pass a tensor"):
        torch._export.aot_compile(Scale(), (x, 5), dynamic_shapes=shapes)
