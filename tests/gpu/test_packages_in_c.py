"""The C interface of packages for GPUs, on the stand-in for the driver's library."""
import ctypes
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

import rushlight as torch
from rushlight._src.packages.interface import GPU_ERRORS, MISALIGNED, MISSING, NO_DRIVER, NO_WEIGHTS, OTHER_GPU

from .recorded import image
from .test_packages import named, package  # noqa: F401 - a fixture

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFUSED = -(1 << 21)


def test_models_compute_through_the_c_interface(tmp_path):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("the package triton is not installed: pip install rushlight[triton]")
    (tmp_path / "libcuda.so.1").symlink_to("libcuda-stand-in.so.1")
    done = subprocess.run([sys.executable, "-m", "tests.gpu.packaged", tmp_path], cwd=ROOT, capture_output=True,
                          text=True, timeout=600, env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name, tolerance in (("linear", 2e-5), ("embedding", 2e-5), ("bfloat16", 2e-2)):
        code, distance = found[name]
        assert code == 0 and distance < tolerance
        unloaded, freed = found[f"{name} left"]
        assert unloaded > 0 and 1 <= freed <= 2
    assert max(found["on streams"] + found["on threads"]) < 2e-5
    assert found["waits"] == [0, 1]  # a stream waits for the call on another one before it, and only then
    assert found["reported"] == [0, 1, 0]  # asked for without waiting; what a kernel saw is told once
    assert found["counted"] == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    for entry in ("cuModuleLoadData", "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuEventCreate"):
        assert found[entry] == [REFUSED - 7, None]


@pytest.fixture
def program(tmp_path):
    """(what runs a program of C on the package model.pt2 of a folder, the folder)."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")

    def run(path, weights, device, library=True, code=image()):
        with zipfile.ZipFile(path) as file:
            for name in ("include/rushlight.h", "include/rushlight_gpu.h", "data/aotinductor/model/model.so"):
                (tmp_path / pathlib.Path(name).name).write_bytes(file.read(f"package/{name}"))
        subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-g", "-fsanitize=address,undefined", "-Wall", "-Wextra",
                        "-Werror", "-I", tmp_path, ROOT / "tests/gpu/model_gpu.c", "-o", tmp_path / "run", "-ldl"],
                       check=True)
        (tmp_path / "driver").mkdir(exist_ok=True)
        (tmp_path / "driver/libcuda.so.1").write_bytes(code)
        done = subprocess.run([tmp_path / "run", tmp_path / "model.so", weights, str(device)], capture_output=True,
                              text=True, env={"LD_LIBRARY_PATH": str(tmp_path / "driver")} if library else {})
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.splitlines()

    return run


def test_programs_of_c_run_without_python(named, program, tmp_path):  # noqa: F811
    path = package(torch.nn.Linear(3, 16), (torch.ones(4, 3),), tmp_path / "model.pt2")
    assert program(path, path, 0) == [GPU_ERRORS[MISALIGNED], GPU_ERRORS[MISSING], "0 0", "0 0"]
    with zipfile.ZipFile(path) as file:
        (tmp_path / "weights").write_bytes(file.read("package/data/aotinductor/model/model.weights"))
    assert program(path, tmp_path / "weights", 0)[2:] == ["0 0", "0 0"]
    refused = [(path, 0, False, NO_DRIVER), (path, 7, True, NO_DRIVER), (path, -1, True, NO_DRIVER),
               ("-", 0, True, NO_WEIGHTS), (tmp_path / "absent", 0, True, NO_WEIGHTS),
               (tmp_path / "model.so", 0, True, NO_WEIGHTS)]
    for weights, device, library, code in refused:
        assert program(path, weights, device, library) == [f"{code} {GPU_ERRORS[code]}"]
    other = package(torch.nn.Linear(3, 16), (torch.ones(4, 3),), tmp_path / "other.pt2", "cuda-sm_80")
    assert program(other, other, 0) == [f"{OTHER_GPU} {GPU_ERRORS[OTHER_GPU]}"]


def test_the_library_needs_nothing_but_libc(named, tmp_path):  # noqa: F811
    path = package(torch.nn.ReLU(), (torch.ones(4, 3),), tmp_path / "model.pt2")
    with zipfile.ZipFile(path) as file:
        file.extract("package/data/aotinductor/model/model.so", tmp_path)
    library = ctypes.CDLL(str(tmp_path / "package/data/aotinductor/model/model.so"))
    library.rl_manifest.restype = ctypes.c_char_p
    assert json.loads(library.rl_manifest())["target"] == "cuda-sm_90" and library.rl_input_count() == 1
    needed = subprocess.run(["ldd", library._name], capture_output=True, text=True, check=True).stdout
    assert "python" not in needed and "libcuda" not in needed and "libc.so.6" in needed
