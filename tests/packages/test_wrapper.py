"""rushlight.hpp in a program of C++17, built by the system's compiler where there is one."""
import shutil
import subprocess
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.core import dtypes
from rushlight._src.core.dlpack import kind_of
from rushlight._src.devices.cpu.llvm.features import host
from rushlight._src.packages.model import NUMBERS

from .test_calls import Summed
from .test_emulated import emulator, unpacked

LEVELS = ("x86-64-v2", "x86-64-v3")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program, built from the headers that lie in a package."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        warnings.warn("the C++ wrapper of packages is not tested: no compiler of C++ is installed")
        pytest.skip("no compiler of C++ is installed")
    folder = tmp_path_factory.mktemp("program")
    packaged(folder / "model.pt2", False)
    with zipfile.ZipFile(folder / "model.pt2") as file:
        for name in ("rushlight.h", "rushlight.hpp"):
            (folder / name).write_bytes(file.read(f"package/include/{name}"))
    subprocess.run([compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", folder,
                    Path(__file__).with_name("model.cpp"), "-o", folder / "run", "-ldl", "-lpthread"], check=True)
    return folder / "run"


def packaged(path, varying, target=None):
    torch.manual_seed(0)
    model, inputs = Summed().eval(), (torch.randn(6, 24), torch.randn(6, 8))
    dim = torch.export.Dim("batch", min=1, max=64)
    exported = torch.export.export(model, inputs, dynamic_shapes=({0: dim}, {0: dim}) if varying else None)
    torch._inductor.aoti_compile_and_package(exported, package_path=str(path), target=target)
    return model


def ran(program, folder, level, *command, code=0):
    library = unpacked(folder, folder / "model.pt2")
    done = subprocess.run([*command, program, library, folder / "model.pt2", level], capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("varying", [False, True])
def test_a_program_of_cpp_runs_a_model(program, varying, tmp_path):
    model = packaged(tmp_path / "model.pt2", varying)
    kinds, _, numbers, end = ran(program, tmp_path, "")
    names = sorted(NUMBERS, key=NUMBERS.get)
    wanted = [kind_of(getattr(dtypes, {"bool": "bool_"}.get(name, name))) for name in names]
    assert kinds.split() == [f"{kind.code}:{kind.bits}" for kind in wanted] and end == "fine"
    count = 11 if varying else 6
    x, y = (torch.from_numpy(np.sin(np.float32(by) * np.arange(count * width, dtype=np.float32)).reshape(count, width))
            for by, width in ((0.1, 24), (0.3, 8)))
    wanted = np.concatenate([one.detach().numpy().ravel() for one in model(x, y)])
    np.testing.assert_allclose(np.array(numbers.split(), np.float32), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not host().is_x86, reason="made on x86-64 only")
def test_levels_are_chosen_and_those_above_the_processor_refused(program, tmp_path):
    packaged(tmp_path / "model.pt2", False, LEVELS)
    assert ran(program, tmp_path, "x86-64-v2")[1] == "x86-64-v2"
    assert ran(program, tmp_path, "abacus", code=1)[1].endswith("no code for abacus")
    command = emulator("x86_64"), "-cpu", "Nehalem"
    assert ran(program, tmp_path, "", *command)[1] == "x86-64-v2"
    assert "this processor cannot run" in ran(program, tmp_path, "x86-64-v3", *command, code=1)[1]
