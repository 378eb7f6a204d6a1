"""Packages of kernels for GPUs: made without one, and run through a driver's library without Triton."""
import importlib.util
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.devices.triton import board
from rushlight._src.packages import boards
from rushlight._src.packages.archive import BadPackage
from rushlight._src.packages.tracing import NotPackable

from ..packages.test_packages import MODELS, Counter

nn = torch.nn
SLOW = "attention", "images", "lstm"  # by Triton's interpreter


def package(model, inputs, path, target="cuda-sm_90", **given):
    program = torch.export.export(model.eval(), inputs)
    return torch._inductor.aoti_compile_and_package(program, package_path=str(path), target=target, **given)


@pytest.fixture
def named(gpu, monkeypatch):
    """(the provider, the stand-in's library); what is packaged is its machine code, which the interpreter computes."""
    from . import interpreter  # noqa: F401 - before anything imports Triton

    provider, library = gpu
    monkeypatch.setattr(boards, "binary", library.names.binary)

    def compiled_anew(module, variant, architecture):
        raise AssertionError(f"{module.name} was to be compiled")

    # the model on the device needs no compiler: what copies of tensors need, it has
    def known(module, variant, architecture):
        if len(module.text) == 64:
            compiled_anew(module, variant, architecture)
        return library.names.binary(module, variant, architecture)

    monkeypatch.setattr(board, "binary", known)
    return provider, library


def leaves(tree):
    return torch.utils._pytree.tree_leaves(tree)


def judged(loaded, model, inputs):
    wanted = leaves(model(*inputs))
    for found, one in zip(leaves(loaded(*[x.to("cuda") for x in inputs])), wanted, strict=True):
        assert found.device.type == "cuda" and found.dtype is one.dtype
        tolerance = 2e-2 if one.dtype is torch.bfloat16 else 2e-5
        np.testing.assert_allclose(found.float().cpu().numpy(), one.detach().float().numpy(), tolerance, tolerance)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in SLOW))
                                  for name in MODELS if name != "several"])
def test_results_are_the_processors(named, tmp_path, name):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    loaded = torch._inductor.aoti_load_package(package(model, inputs, tmp_path / "model.pt2"))
    for _ in range(2):  # planned, and then by the hot path
        judged(loaded, model, inputs)


class Nested(nn.Module):
    def forward(self, x, table):
        return {"rows": table[x.argmax(-1)], "same": x, "view": x.t()}, x.shape[0], x.sum()


def test_arguments_and_results_are_nested(named, tmp_path):
    x, table = torch.randn(6, 5), torch.randn(5, 3)
    loaded = torch._inductor.aoti_load_package(package(Nested(), (x, table), tmp_path / "model.pt2"))
    found, rows, total = loaded(table=table.cuda(), x=x.cuda())
    assert rows == 6 and sorted(found) == ["rows", "same", "view"]
    assert found["rows"].tolist() == table[x.argmax(-1)].tolist() and found["view"].tolist() == x.t().tolist()
    assert abs(total.item() - x.sum().item()) < 1e-5


def test_inputs_may_lie_anywhere(named, tmp_path):
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    loaded = torch._inductor.aoti_load_package(package(model, (x,), tmp_path / "model.pt2"))
    wanted = model(x).tolist()
    room = torch.zeros(13, device="cuda")
    room[1:] = x.cuda().flatten()
    for given in (x.cuda(), room[1:].view(4, 3), x.t().contiguous().cuda().t(), x.cuda().requires_grad_()):
        np.testing.assert_allclose(loaded(given).tolist(), wanted, rtol=1e-5)
    with pytest.raises(ValueError, match="input 0 is on cpu; the model runs on cuda:0"):
        loaded(x)
    with pytest.raises(ValueError, match="compiled for torch.float32 of shape"):
        loaded(torch.zeros(5, 3, device="cuda"))


def test_constants_are_written_and_replaced(named, tmp_path):
    x = torch.ones(3)
    loaded = torch._inductor.aoti_load_package(package(Counter(), (x,), tmp_path / "model.pt2"))
    assert [loaded(x.cuda())[0].item() for _ in range(3)] == [1, 2, 3]
    assert loaded.get_constant_fqns() == ["seen"]
    loaded.load_constants({"seen": torch.tensor(40)})
    assert loaded(x.cuda())[0].item() == 41
    with pytest.raises(ValueError, match="user_managed=False"):
        loaded.load_constants({"seen": torch.tensor(40)}, user_managed=True)
    with pytest.raises(ValueError, match="no single thread"):
        torch._inductor.aoti_load_package(tmp_path / "model.pt2", run_single_threaded=True)


def test_what_a_kernel_reports_is_raised(named, tmp_path):
    model, x = nn.Embedding(5, 2), torch.tensor([1, 2])
    loaded = torch._inductor.aoti_load_package(package(model, (x,), tmp_path / "model.pt2"))
    assert loaded(x.cuda()).tolist() == model(x).tolist()
    loaded(torch.tensor([1, 7]).cuda())
    with pytest.raises(IndexError):
        torch.cuda.synchronize()


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.rand(3)


class Sorted(nn.Module):
    def forward(self, x):
        return x.sort().values


class Writing(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


@pytest.mark.parametrize("model, words", [(Noise, "random numbers"), (Sorted, "the host would compute it"),
                                          (Writing, "writes into its input x")])
def test_what_cannot_be_packaged_is_refused(by_the_interpreter, model, words, tmp_path):
    from . import interpreter  # noqa: F401
    with pytest.raises(NotPackable, match=words):
        package(model(), (torch.ones(3),), tmp_path / "model.pt2")


def test_targets_and_sizes_that_there_are_not(by_the_interpreter, tmp_path):
    from . import interpreter  # noqa: F401
    model, x, path = nn.Linear(3, 2), torch.ones(4, 3), tmp_path / "model.pt2"
    with pytest.raises(ValueError, match="no packages for 'cuda-sm_7'; of GPUs there are for cuda-sm_80, cuda-sm_90"):
        package(model, (x,), path, "cuda-sm_7")
    with pytest.raises(ValueError, match="one target, not cuda-sm_80, x86-64-v3"):
        package(model, (x,), path, ["cuda-sm_80", "x86-64-v3"])
    with pytest.raises(ValueError, match="max_autotune measures"):
        package(model, (x,), path, inductor_configs={"max_autotune": True})
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", max=9)},))
    with pytest.raises(NotPackable, match="one size of each input: rows varies"):
        torch._inductor.aoti_compile_and_package(program, package_path=str(path), target="cuda-sm_90")
    assert not path.exists()


def changed(path, folder, edit, suffix=".json"):
    """A copy of a package whose manifest, or kernels, ``edit`` has changed."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(folder / "changed.pt2", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, edit(data) if name.endswith(suffix) else data)
    return folder / "changed.pt2"


def told(edit):
    """A change of the manifest as a dict."""
    def changed_text(data):
        manifest = json.loads(data)
        edit(manifest)
        return json.dumps(manifest)
    return changed_text


def slot(number, part, value):
    """A change of an argument of the first launch."""
    return told(lambda manifest: manifest["launches"][0]["slots"][number].__setitem__(part, value))


DAMAGES = {
    "another GPU": (told(lambda m: m.update(target="cuda-sm_80")), ".json", "compiled for cuda-sm_80; this GPU is"),
    "kernel": (lambda data: data[:-1] + b"?", ".cubin", "the hash of kernel0.cubin is not that of the manifest"),
    "weights": (lambda data: data[:-1] + bytes([data[-1] ^ 1]), ".weights", "hash is not that of the manifest"),
    "no kernel": (told(lambda m: m["launches"][0].update(kernel=9)), ".json", "is no launch"),
    "too few arguments": (told(lambda m: m["launches"][0]["slots"].pop()), ".json", "has . arguments|has .. arguments"),
    "memory that is not there": (slot(0, 0, "i7"), ".json", "no memory"),
    "beyond memory": (slot(0, 1, 1 << 20), ".json", "no memory"),
    "an address for a number": (slot(-1, 0, "i0"), ".json", "no number"),
    "a kernel without its form": (told(lambda m: m["kernels"][0].pop("form")), ".json", "is no kernel"),
    "constants elsewhere": (told(lambda m: m["constants"][0].update(at=-64)), ".json", "is at -64"),
    "temporaries": (told(lambda m: m.update(temporaries=[-1])), ".json", "temporaries are"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_packages_are_refused(named, tmp_path, damage):
    edit, suffix, words = DAMAGES[damage]
    path = package(nn.Linear(3, 16), (torch.ones(4, 3),), tmp_path / "model.pt2")
    torch._inductor.aoti_load_package(path)
    with pytest.raises(BadPackage, match=words):
        torch._inductor.aoti_load_package(changed(path, tmp_path, edit, suffix))


def script(text, *given, **variables):
    """What a process without devices or an interpreter prints."""
    own = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"} | variables
    done = subprocess.run([sys.executable, "-c", text, *map(str, given)], env=own, capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


COMPILED = """import sys, rushlight as torch
program = torch.export.export(torch.nn.Linear(6, 4), (torch.ones(4, 6),))
for target in ("cuda-sm_90", "hip-gfx942"):
    path = f"{sys.argv[1]}/{target}.pt2"
    torch._inductor.aoti_compile_and_package(program, package_path=path, target=target)
    try:
        torch._inductor.aoti_load_package(path)
    except RuntimeError as reason:
        print(reason)
"""
ABSENT = """import sys, rushlight as torch
sys.modules["triton"] = None
program = torch.export.export(torch.nn.ReLU(), (torch.ones(4, 6),))
try:
    torch._inductor.aoti_compile_and_package(program, package_path=f"{sys.argv[1]}/absent.pt2", target="cuda-sm_90")
except RuntimeError as reason:
    print(reason)
"""


def test_machine_code_is_made_without_a_gpu(tmp_path):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("the package triton is not installed: pip install rushlight[triton]")
    printed = script(COMPILED, tmp_path, TRITON_CACHE_DIR=str(tmp_path / "triton"))
    for target, suffix in (("cuda-sm_90", "cubin"), ("hip-gfx942", "hsaco")):
        assert f"compiled for {target}, and its device is not available here" in printed
        with zipfile.ZipFile(tmp_path / f"{target}.pt2") as file:
            kernels = [name for name in file.namelist() if name.endswith(suffix)]
            assert kernels and all(file.read(name)[:4] == b"\x7fELF" for name in kernels)
            library = "package/data/aotinductor/model/model.so", "package/include/rushlight_gpu.h"
            assert [name in file.namelist() for name in library] == [suffix == "cubin"] * 2


def test_without_triton(tmp_path):
    assert "Triton is not installed: pip install rushlight[cuda]" in script(ABSENT, tmp_path)
    assert not (tmp_path / "absent.pt2").exists()


ALONE = """import json, pathlib, sys, rushlight as torch
from rushlight._src.core.devices import Registry
from rushlight._src.devices.triton.driver import NVIDIA, Driver
from rushlight._src.devices.triton.provider import GPUs
from rushlight._src.devices.triton.vendor.libraries import Libraries
from tests.gpu.recorded import Recorded
sys.modules["triton"] = None
library = Recorded(pathlib.Path(sys.argv[1]))
Registry.enter("cuda", GPUs(Driver(NVIDIA, library.library), libraries=Libraries("cuda", {})))
model = torch._inductor.aoti_load_package(sys.argv[2], device_index=1)
x = torch.empty(5, 16, device="cuda:1")
for _ in range(2):
    library.clear()
    assert model(x).device == torch.device("cuda:1")
    print(json.dumps([row[1:5] for row in library.notes("cuLaunchKernel")]))
print([row["extent"] for row in model.get_metadata()["launches"]])
"""


def test_packages_run_without_triton(named, tmp_path):
    """On a second GPU, all launches in the table's order, the same in each call."""
    model, inputs = MODELS["linear"]()
    path = package(model, inputs, tmp_path / "model.pt2")
    (tmp_path / "alone").mkdir()
    first, second, extents = map(json.loads, script(ALONE, tmp_path / "alone", path).splitlines())
    assert first == second and len(first) == len(extents) > 1
