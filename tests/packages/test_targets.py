"""Packages for other processors than this one: the same results, by the best build that the processor can run."""
import re
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.features import host, level, levels, targeted, targeting
from rushlight._src.packages.model import Model

from .test_packages import MODELS

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-amx")
x86 = pytest.mark.skipif(not host().is_x86, reason="made on x86-64 only")


def has(name) -> bool:
    """Whether this processor has the instructions of a level."""
    wanted = {one for one in level(name).text.split(",") if one.startswith("+")}
    return wanted <= set(host().text.split(",")) and (level(name).tiles != "amx" or host().tiles == "amx")


def packaged(model, inputs, path, target, dims=None):
    program = torch.export.export(model.eval(), inputs, dynamic_shapes=dims)
    torch._inductor.aoti_compile_and_package(program, package_path=str(path), target=target)
    return torch._inductor.aoti_load_package(path)


def same(given, wanted):
    for a, b in zip(torch.utils._pytree.tree_leaves(given), torch.utils._pytree.tree_leaves(wanted), strict=True):
        np.testing.assert_allclose(a.detach().float().numpy(), b.detach().float().numpy(), rtol=1e-4, atol=1e-5)


@x86
@pytest.mark.parametrize("name", LEVELS[:3])
@pytest.mark.parametrize("which", ["linear", "images"])
def test_code_for_a_level_computes_the_same(name, which, tmp_path):
    if not has(name):
        pytest.skip(f"this processor is none of {name}")
    torch.manual_seed(0)
    model, inputs = MODELS[which]()
    loaded = packaged(model, inputs, tmp_path / "model.pt2", name)
    assert loaded.level == name
    same(loaded(*inputs), model(*inputs))


@x86
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


def test_templates_ask_for_the_processor_that_is_targeted():
    folder = Path(jit.__file__).parents[1]
    files = [folder / "step.py", *(folder / "templates").glob("*.py"), *(folder / "claims").glob("*.py")]
    wrong = [f"{file.name}: {line.strip()}" for file in files if file.name != "habits.py"
             for line in file.read_text().splitlines() if re.search(r"\bhost\(\)|@functools\.(lru_)?cache\b", line)]
    assert len(files) > 20 and not wrong
