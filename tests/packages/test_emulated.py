"""Packages for processors that this machine is none of, run by emulation (qemu-user), where that and a C compiler for
them are installed: ``apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross``."""
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.devices.cpu.llvm.features import host

from .test_packages import MODELS

ARM = "aarch64-linux-gnu"


def emulator(kind):
    """qemu-user for a kind of processor; the test is skipped where there is none."""
    found = shutil.which(f"qemu-{kind}") or shutil.which(f"qemu-{kind}-static")
    if not found:
        pytest.skip(f"qemu-{kind} is not installed")
    return found


def unpacked(folder, path, suffix="so"):
    """The library of a package, as a file, with the C header beside it."""
    with zipfile.ZipFile(path) as file:
        for name in ("include/rushlight.h", f"data/aotinductor/model/model.{suffix}"):
            (folder / Path(name).name).write_bytes(file.read(f"package/{name}"))
    return folder / f"model.{suffix}"


def compiled(folder, path, compiler, suffix="so", options=("-ldl",)):
    """A C program that runs the model of a package."""
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    unpacked(folder, path, suffix)
    source = Path(__file__).with_name("run.c")
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-I", folder, source, "-o", folder / "run", *options],
                   check=True)


def ran(command, folder, path, inputs, metas, library="model.so"):
    """(number of the build that ran, its results)."""
    for k, x in enumerate(inputs):
        (folder / f"{k}.raw").write_bytes(bytes(x.contiguous().untyped_storage())[:x.nbytes])
    done = subprocess.run([*command, folder / "run", folder / library, path,
                           *(folder / f"{k}.raw" for k in range(len(inputs)))], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    level, *lines = done.stdout.splitlines()
    found = []
    for line, meta in zip(lines, metas, strict=True):
        data = np.frombuffer(bytes.fromhex(line), meta["dtype"])
        found.append(np.lib.stride_tricks.as_strided(data, meta["shape"], [n * data.itemsize for n in meta["strides"]]))
    return int(level.split()[1]), found


def packaged(which, path, target):
    """(model, its inputs, the manifest's rows of its results)."""
    from rushlight._src.packages.archive import Package
    torch.manual_seed(0)
    model, inputs = MODELS[which]()
    program = torch.export.export(model.eval(), inputs)
    torch._inductor.aoti_compile_and_package(program, package_path=str(path), target=target)
    return model, inputs, Package(path).manifests["model"]["outputs"]


def same(found, wanted):
    for a, b in zip(found, torch.utils._pytree.tree_leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("which", ["linear", "images", "lstm", "several"])
def test_packages_for_arm_compute_the_same(which, tmp_path):
    command = [emulator("aarch64"), "-L", f"/usr/{ARM}"]
    model, inputs, metas = packaged(which, tmp_path / "model.pt2", ARM)
    compiled(tmp_path, tmp_path / "model.pt2", f"{ARM}-gcc")
    same(ran(command, tmp_path, tmp_path / "model.pt2", inputs, metas)[1], model(*inputs))


NEWER, SVE, LONGER = "aarch64-v8.6", "aarch64-sve256", "aarch64-sve512"
PROCESSORS = {"cortex-a72": 0, "max,pauth=off,sve=off": 1, "max,pauth=off,sve-default-vector-length=16": 1,
              "max,pauth=off,sve-default-vector-length=32": 2, "max,pauth=off,sve-default-vector-length=64": 3}


@pytest.mark.parametrize("which", ["linear", "attention"])
def test_processors_of_arm_take_the_builds_that_they_can_run(which, tmp_path):
    """Plain CPUs, those with matmul instructions, and those with SVE, each by its vector width."""
    model, inputs, metas = packaged(which, tmp_path / "model.pt2", [ARM, NEWER, SVE, LONGER])
    compiled(tmp_path, tmp_path / "model.pt2", f"{ARM}-gcc")
    for processor, number in PROCESSORS.items():
        command = [emulator("aarch64"), "-L", f"/usr/{ARM}", "-cpu", processor]
        level, found = ran(command, tmp_path, tmp_path / "model.pt2", inputs, metas)
        assert level == number, processor
        same(found, model(*inputs))


def test_code_for_longer_vectors_is_refused(tmp_path):
    packaged("linear", tmp_path / "model.pt2", SVE)
    compiled(tmp_path, tmp_path / "model.pt2", f"{ARM}-gcc")
    command = [emulator("aarch64"), "-L", f"/usr/{ARM}", "-cpu", "max,pauth=off,sve-default-vector-length=64"]
    done = subprocess.run([*command, tmp_path / "run", tmp_path / "model.so", tmp_path / "model.pt2"],
                          capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == "not created\n"


@pytest.mark.skipif(not host().is_x86, reason="made on x86-64 only")
def test_older_processors_take_the_builds_that_they_can_run(tmp_path):
    command = emulator("x86_64")
    levels = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
    model, inputs, metas = packaged("linear", tmp_path / "model.pt2", levels)
    compiled(tmp_path, tmp_path / "model.pt2", "gcc")
    for processor, number in (("Nehalem", 0), ("Haswell", 1)):
        level, found = ran([command, "-cpu", processor], tmp_path, tmp_path / "model.pt2", inputs, metas)
        assert level == number
        same(found, model(*inputs))
