"""Packages for other processors than this one: the same results, by the best build that the processor can run."""
import ctypes
import io
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.compiler.target import processor
from rushlight._src.core.devices import cpu
from rushlight._src.core.llvm.processor import host as real_host
from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.features import host, level, levels, targeted, targeting
from rushlight._src.devices.triton.target import Blocks
from rushlight._src.packages.archive import BadPackage
from rushlight._src.packages.builds import INSTRUCTIONS
from rushlight._src.packages.model import Model

from ..startup.machine_code import search_path
from .test_packages import MODELS

pytestmark = pytest.mark.processor

ROOT = Path(__file__).resolve().parents[2]
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-vnni", "x86-64-amx")
x86 = pytest.mark.skipif(not host().is_x86, reason="made on x86-64 only")


def has(name) -> bool:
    """Whether this processor has the instructions of a level."""
    wanted = {one for one in level(name).text.split(",") if one.startswith("+")}
    return wanted <= set(host().text.split(",")) and (level(name).tiles != "amx" or host().tiles == "amx")


runs_packages = pytest.mark.skipif(not host().is_x86 or not has(LEVELS[0]), reason="packages need SSE4")


def save(model, inputs, path, target, dims=None):
    program = torch.export.export(model.eval(), inputs, dynamic_shapes=dims)
    torch._inductor.aoti_compile_and_package(program, package_path=str(path), target=target)


def packaged(model, inputs, path, target, dims=None):
    save(model, inputs, path, target, dims)
    return torch._inductor.aoti_load_package(path)


def same(given, wanted):
    for a, b in zip(torch.utils._pytree.tree_leaves(given), torch.utils._pytree.tree_leaves(wanted), strict=True):
        np.testing.assert_allclose(a.detach().float().numpy(), b.detach().float().numpy(), rtol=1e-4, atol=1e-5)


@x86
@pytest.mark.parametrize("name", LEVELS[:4])
@pytest.mark.parametrize("which", ["linear", "images"])
def test_code_for_a_level_computes_the_same(name, which, tmp_path):
    if not has(name):
        pytest.skip(f"this processor is none of {name}")
    torch.manual_seed(0)
    model, inputs = MODELS[which]()
    loaded = packaged(model, inputs, tmp_path / "model.pt2", name)
    assert loaded.level == name
    same(loaded(*inputs), model(*inputs))


@runs_packages
def test_the_best_level_that_a_processor_has_is_taken(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(9, 20), torch.nn.GELU(), torch.nn.Linear(20, 5))
    batch = torch.export.Dim("b", min=1, max=12)
    loaded = packaged(model, (torch.randn(3, 9),), tmp_path / "model.pt2", LEVELS, ({0: batch},))
    assert loaded.manifest["levels"] == list(LEVELS)
    assert loaded.level == [name for name in LEVELS if has(name)][-1]
    for count in (1, 3, 12):
        x = torch.randn(count, 9)
        same(loaded(x), model(x))


@runs_packages
@pytest.mark.parametrize("width", [9, 600])  # of the second, weights lie beside
def test_a_level_below_this_processor_is_chosen_at_load(width, tmp_path):
    torch.manual_seed(0)
    model, x = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()), torch.randn(3, width)
    path = tmp_path / "model.pt2"
    assert packaged(model, (x,), path, LEVELS).level == [name for name in LEVELS if has(name)][-1]
    held = io.BytesIO(path.read_bytes())
    for name in LEVELS:
        for source in (path, held):
            if has(name):
                loaded = torch._inductor.aoti_load_package(source, level=name)
                assert loaded.level == name
                same(loaded(x), model(x))
            else:
                with pytest.raises(BadPackage, match=f"cannot run the code of 'model' for {name}"):
                    torch._inductor.aoti_load_package(source, level=name)
    with pytest.raises(ValueError, match="x86-64-v9"):
        torch._inductor.aoti_load_package(path, level="x86-64-v9")
    library = loaded.library
    library.rl_level_name.restype, library.rl_level_name.argtypes = ctypes.c_char_p, [ctypes.c_int64]
    assert [library.rl_level_name(k) for k in range(len(LEVELS) + 1)] == [*map(str.encode, LEVELS), None]
    assert library.rl_level_name(-1) is None
    for number in (len(LEVELS), -2, 1 << 40):
        assert not library.rl_supports(number) and not library.rl_create_level(os.fsencode(path), None, number)
    assert not library.rl_supports(-1)


@x86
@pytest.mark.parametrize("restricted, name, beyond", [
    ("generic", None, "x86-64-v2"), ("avx2", "x86-64-v3", "x86-64-v4"), ("avx512", "x86-64-v4", "x86-64-vnni"),
    ("vnni", "x86-64-vnni", "x86-64-amx")])
def test_code_beyond_the_level_of_the_process_is_not_taken(restricted, name, beyond, tmp_path):
    """Though the real CPU, of which ``cpuid`` tells the package, may run it."""
    real = {f"+{one}" for one, on in real_host()[1].items() if on}
    if name and not {one for one in level(name).text.split(",") if one.startswith("+")} <= real:
        pytest.skip(f"this processor is none of {name}")
    path = tmp_path / "model.pt2"
    save(torch.nn.Linear(9, 9), (torch.ones(3, 9),), path, LEVELS)
    program = f"""
import rushlight as torch
from rushlight._src.packages.archive import BadPackage
for level in (None, {beyond!r}):
    try:
        loaded = torch._inductor.aoti_load_package({str(path)!r}, level=level)
        print(loaded.level, list(loaded(torch.ones(3, 9)).shape))
    except BadPackage as error:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=1500,
                          env={**os.environ, "RUSHLIGHT_CPU": restricted, "PYTHONPATH": search_path(ROOT)})
    assert done.stdout.splitlines() == [f"{name} [3, 9]" if name else "refused", "refused"], done.stderr


def test_targets_are_named():
    assert levels(None) == () and [one.level for one in levels(("x86-64-v4", "x86-64-v2"))] == list(LEVELS[:3:2])
    program = torch.export.export(torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),))
    with pytest.raises(ValueError, match="x86-64-v9"):
        torch._inductor.aoti_compile_and_package(program, package_path="model.pt2", target="x86-64-v9")
    if host().is_x86:
        with pytest.raises(ValueError, match="one architecture"):
            Model(program, "model", levels(("x86-64-v2", "aarch64-linux-gnu")))


def test_code_for_others_is_not_mixed_with_that_of_this_processor():
    def text():
        from rushlight._src.devices.cpu.llvm.builder import Module
        from rushlight._src.devices.cpu.llvm.values import constant
        from rushlight._src.devices.cpu.llvm.types import i64
        module = Module()
        module.function("width", [], i64).ret(constant(i64, module.features.width))
        return module.text()

    own = jit.build("a width", text, ["width"])["width"]
    with targeting(level("aarch64-linux-gnu")):
        assert targeted().width == 128
        other = jit.build("a width", text, ["width"])["width"]
        assert jit.build("a width", text, ["width"])["width"] == other != own
    assert jit.build("a width", text, ["width"])["width"] == own
    images = [jit.object_of(jit.origin(address)[0]) for address in (own, other)]
    assert int.from_bytes(images[1][18:20], "little") == 183 != int.from_bytes(images[0][18:20], "little")


@pytest.mark.parametrize("other", ["aarch64-linux-gnu", "wasm32", "cuda-sm_90"])
def test_calls_are_planned_for_this_processor_all_the_same(other):
    kind, _, architecture = other.partition("-")
    elsewhere = cpu.provider.planned_for(Blocks(kind, architecture)) if kind == "cuda" else targeting(level(other))
    rows = torch.ones(3, 4 + len(other))  # of no other call's shape
    wanted = [[1 + math.log(2)] * rows.shape[1]] * 3
    with elsewhere:
        before = targeted(), processor()
        np.testing.assert_allclose(torch.logaddexp(rows, rows).tolist(), wanted, 1e-6)
        assert (targeted(), processor()) == before  # what is packaged is for the other one again
    np.testing.assert_allclose(torch.logaddexp(rows, rows).tolist(), wanted, 1e-6)


def test_templates_ask_for_the_processor_that_is_targeted():
    folder = Path(jit.__file__).parents[1]
    files = [folder / "step.py", *(folder / "templates").glob("*.py"), *(folder / "claims").glob("*.py")]
    wrong = [f"{file.name}: {line.strip()}" for file in files if file.name != "habits.py"
             for line in file.read_text().splitlines() if re.search(r"\bhost\(\)|@functools\.(lru_)?cache\b", line)]
    assert len(files) > 20 and not wrong


@x86
def test_a_package_asks_for_all_instructions_that_compilers_choose_by_themselves():
    """What LLVM knows beyond them are instructions of systems, of cryptography, and those that every x86-64 has;
    avx10.1 is a name for all of AVX-512, whose parts are asked for."""
    never = {"64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "sahf", "crc32", "adx", "aes", "vaes", "pclmul",
             "vpclmulqdq", "sha", "clflushopt", "clwb", "clzero", "fsgsbase", "invpcid", "prfchw", "rdpid", "rdrnd",
             "rdseed", "shstk", "xsave", "xsavec", "xsaveopt", "xsaves", "serialize", "cldemote", "enqcmd", "movdir64b",
             "movdiri", "pconfig", "ptwrite", "tsxldtrk", "uintr", "waitpkg", "wbnoinvd", "pku", "rtm", "mwaitx", "lwp",
             "hreset", "kl", "widekl", "usermsr", "cmpccxadd", "prefetchi", "rdpru", "sgx", "invlpgb", "raoint",
             "avx10.1", "avx10.1-256", "avx10.1-512"}
    found = {one[1:] for one in host().text.split(",") if one.startswith("+")}
    assert found - never <= {name for name, *_ in INSTRUCTIONS}
