"""Ten models, packaged for many sizes, in a C program: equal to the eager model, with no Python in the process."""
import shutil
import subprocess

import numpy as np
import pytest

import rushlight as torch
from benchmarks.models.packaged import PACKAGED
from rushlight._src.packages.archive import FOLDER_OF_HEADERS

from .test_packages import ROOT

QUICK = "vit", "gpt2-decode", "dlrm"  # others take seconds each
MODELS = [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in PACKAGED]
pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """``examples/run.c``, compiled with sanitizers."""
    made = tmp_path_factory.mktemp("program") / "run"
    subprocess.run(["gcc", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-Wall", "-Werror",
                    "-I", FOLDER_OF_HEADERS, ROOT / "examples" / "run.c", "-o", made, "-ldl"], check=True)
    return made


def packaged(name, path):
    """(the Packaged, its model, the arrays of its example)."""
    one = PACKAGED[name]
    torch.manual_seed(0)
    model, arrays = one.case.model(torch, True).eval(), one.case.inputs(True)[:len(one.varying)]
    example = one.resized(arrays, batch=3)
    with torch.no_grad():
        exported = torch.export.export(model, tuple(map(torch.tensor, example)),
                                       dynamic_shapes=one.dynamic_shapes(torch, True))
        torch._inductor.aoti_compile_and_package(exported, package_path=str(path))
    return one, model, arrays


def ran(program, path, arrays, folder, count):
    """What the C program writes, and prints."""
    for k, x in enumerate(arrays):
        np.save(folder / f"in{k}.npy", x)
    given = [word for k in range(len(arrays)) for word in ("--input", folder / f"in{k}.npy")]
    wanted = [word for k in range(count) for word in ("--output", folder / f"out{k}.npy")]
    done = subprocess.run([program, path, *given, *wanted, "--libraries"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [np.load(folder / f"out{k}.npy") for k in range(count)], done.stdout


@pytest.mark.parametrize("name", MODELS)
def test_models_run_without_python(name, program, tmp_path):
    one, model, arrays = packaged(name, tmp_path / "model.pt2")
    for sizes in ({"batch": 1, "length": 7}, {"batch": 5, "length": 24}):
        given = one.resized(arrays, **sizes)
        with torch.no_grad():
            wanted = torch.utils._pytree.tree_leaves(model(*map(torch.tensor, given)))
        found, told = ran(program, tmp_path / "model.pt2", given, tmp_path, len(wanted))
        assert "libc.so" in told and "python" not in told.lower()
        for a, b in zip(found, wanted, strict=True):
            assert a.shape == tuple(b.shape)
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=2e-5)


def test_files_that_do_not_fit_are_refused(program, tmp_path):
    _, _, arrays = packaged("dlrm", tmp_path / "model.pt2")
    wrong = [arrays[0].astype(np.float64), arrays[1]], [arrays[0][:2], arrays[1]], [arrays[0]], [arrays[0][0],
                                                                                               arrays[1]]
    for given in wrong:
        with pytest.raises(RuntimeError) as refused:
            ran(program, tmp_path / "model.pt2", given, tmp_path, 1)
        assert "Sanitizer" not in str(refused.value)
    for data in (b"", b"PK\5\6" + bytes(18), (tmp_path / "model.pt2").read_bytes()[:-200]):
        (tmp_path / "bad.pt2").write_bytes(data)
        done = subprocess.run([program, tmp_path / "bad.pt2"], capture_output=True, text=True)
        assert done.returncode == 1 and "package" in done.stderr and "Sanitizer" not in done.stderr
