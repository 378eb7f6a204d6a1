"""What packaging asks for, what opening a package brings in, and how a call goes."""
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.core import cache
from rushlight._src.core.native.objects import RUN
from rushlight._src.core.settings import settings

nn = torch.nn


def packaged(model, inputs, path):
    torch._inductor.aoti_compile_and_package(torch.export.export(model.eval(), inputs), package_path=str(path))
    return torch._inductor.aoti_load_package(path)


def test_packages_are_made_without_a_disk_cache(tmp_path):
    model, x = nn.Sequential(nn.Linear(19, 23), nn.Tanh(), nn.LayerNorm(23)), torch.randn(7, 19)
    with settings.set(cache="0"):
        assert cache.current() is None
        for _ in range(2):  # the second one has kernels that are there already
            loaded = packaged(model, (x,), tmp_path / "model.pt2")
            np.testing.assert_allclose(loaded(x).numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_packages_of_another_version_are_told_apart_from_damaged_ones(tmp_path):
    packaged(nn.Linear(5, 3), (torch.randn(2, 5),), tmp_path / "model.pt2")
    with zipfile.ZipFile(tmp_path / "model.pt2") as old, zipfile.ZipFile(tmp_path / "older.pt2", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, b'{"version": 2}' if name.endswith("model.json") else data)
    with pytest.raises(RuntimeError, match="version 2 of the interface"):
        torch._inductor.aoti_load_package(tmp_path / "older.pt2")


def test_opening_a_package_imports_neither_templates_nor_llvm(tmp_path):
    packaged(nn.Linear(5, 3), (torch.randn(2, 5),), tmp_path / "model.pt2")
    program = ("import sys, rushlight as torch\n"
               "loaded = torch._inductor.aoti_load_package(sys.argv[1])\n"
               "wrong = [m for m in sys.modules if '.cpu.templates' in m or '.cpu.claims' in m or m.startswith("
               "'rushlight._src.packages.') and m.rpartition('.')[2] not in ('archive', 'interface', 'loaded', "
               "'nesting')]\n"
               "assert not wrong, wrong\n"
               "print(tuple(loaded.inputs[0].shape))")
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "model.pt2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(2, 5)"


def test_a_call_is_one_step_of_a_program(tmp_path):
    model, x = nn.Linear(5, 3), torch.randn(2, 5)
    loaded = packaged(model, (x,), tmp_path / "model.pt2")
    wanted = model(x).detach().numpy()
    for given in (x, torch.randn(5, 2).t().copy_(x), x.clone().requires_grad_()):  # as it lies, turned, recorded
        result = loaded(given)
        np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-5, atol=1e-6)
        assert not result.requires_grad
    assert loaded.operator.plans[x._rush_meta, None, 0].kind == RUN
    with torch.inference_mode():
        assert loaded(x).is_inference()
    with pytest.raises(TypeError, match="takes 1 arguments by position, but 2 were given"):
        loaded(x, x)


def test_large_temporaries_lie_in_huge_pages(tmp_path):
    model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)), torch.randn(1 << 17, 8)
    loaded = packaged(model, (x,), tmp_path / "model.pt2")
    assert loaded.manifest["arena"] >= 4 << 20
    for _ in range(2):
        np.testing.assert_allclose(loaded(x).numpy(), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
