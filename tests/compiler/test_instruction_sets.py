"""RUSHLIGHT_CPU restricts the CPU's instruction sets, never extends them, and does so for every caller."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from rushlight._src.core.llvm import processor
from rushlight._src.core.llvm.bindings import bindings
from rushlight._src.core.llvm.machine import new_machine
from rushlight._src.core.settings import Settings
from rushlight._src.devices.cpu.llvm import features

from ..processors import other_levels
from ..startup.machine_code import search_path

pytestmark = pytest.mark.processor

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEVELS = ("generic", "avx2", "avx512", "vnni", "neon", "amx-model", "native")
CPUS = {  # LLVM's name and instruction sets of CPUs
    "x86-64": (), "nehalem": processor.SSE4, "haswell": processor.AVX2, "skylake-avx512": processor.AVX512,
    "cascadelake": {*processor.VNNI} - {"avx512bf16", "avx512vbmi"}, "znver4": (*processor.VNNI, "gfni", "avx512ifma"),
    "sapphirerapids": (*processor.VNNI, *processor.TILES), "graniterapids": (*processor.VNNI, *processor.TILES,
                                                                            "amx-fp16")}
x86 = pytest.mark.skipif(not features.host().is_x86, reason="LLVM has the assembler of its own architecture only")


def restricted(level, cpu):
    found = dict.fromkeys((*processor.VNNI, *processor.TILES, "amx-fp16"), False) | dict.fromkeys(CPUS[cpu], True)
    return processor.restrict(level, cpu, found, lambda: True)


def test_levels_are_those_of_the_setting():
    assert all(Settings.cpu.read(level) == level for level in LEVELS)
    with pytest.raises(ValueError, match="generic, avx2, avx512, vnni, neon, amx-model, native"):
        Settings.cpu.read("fast")


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_level_never_adds_an_instruction_set(level, cpu):
    sets = restricted(level, cpu)
    assert sets.names <= {*processor.BASELINE, *CPUS[cpu]} and not sets.names & sets.excluded
    assert sets.tiles in ("", "model" if level == "amx-model" else "amx" if level == "native" else "")
    assert sets.has("amx-tile") is bool(sets.tiles) and sets.has("sse2")
    assert sets.has("amx-fp16") is (level == "native" and cpu == "graniterapids")


IR = """define void @sum(ptr %x, ptr %y) {
  %a = load <16 x float>, ptr %x
  %b = load <16 x float>, ptr %y
  %c = fadd <16 x float> %a, %b
  store <16 x float> %c, ptr %x
  ret void
}
"""


@x86
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("level", LEVELS)
def test_code_of_a_level_has_no_vectors_that_the_cpu_lacks(level, cpu):
    """LLVM's name of a CPU stands for instruction sets, too: a level must not bring those that the CPU lacks."""
    sets = restricted(level, cpu)
    own = features._x86(sets)
    assembly = new_machine(own.cpu, own.text, 2, "small").emit_assembly(bindings().parse_assembly(IR))
    assert ("zmm" in assembly) is ("avx512f" in sets.names) is (own.width == 512)
    assert ("ymm" in assembly) is ("avx2" in sets.names and own.width < 512)


QUESTIONS = """
import json
import rushlight as torch
from rushlight._src.devices.cpu.llvm import features
from rushlight._src.devices.cpu.templates.contraction import tile_numbers
from rushlight.utils.collect_env import get_env_info
own, told = features.host(), torch.cpu.get_capabilities()
runnable = [name for name in features.PACKAGED if features.is_runnable(name)]
print(json.dumps({
    "level": own.level, "width": own.width, "vnni": own.vnni, "bf16": own.bf16, "tiles": own.tiles,
    "kind": features.processor_kind(), "runnable": runnable, "templates": tile_numbers("int8") is not None,
    "supported": {name: getattr(torch.cpu, f"_is_{name}_supported")()
                  for name in ("avx2", "avx512", "avx512_bf16", "vnni", "amx_tile", "amx_fp16")},
    "told": {name: told.get(name) for name in ("avx2", "avx512_f", "avx512_bf16", "avx512_vnni", "amx_tile",
                                               "amx_fp16", "sse2")},
    "capability": [torch.backends.cpu.get_cpu_capability(), torch._C._get_cpu_capability(),
                   torch._C._cpu._get_cpu_capability(),
                   torch.__config__.show().partition("CPU capability usage: ")[2].splitlines()[0]],
    "environment": get_env_info()["Instructions"] == str(own)}))
"""
HAS = {"generic": {"avx2": False, "avx512": False, "avx512_bf16": False, "vnni": False, "amx_tile": False},
       "avx2": {"avx512": False, "avx512_bf16": False, "vnni": False, "amx_tile": False},
       "avx512": {"avx512_bf16": False, "vnni": False, "amx_tile": False},
       "vnni": {"amx_tile": False}, "amx-model": {"amx_tile": True, "amx_fp16": False}, "native": {}}


@x86
@pytest.mark.parametrize("level", HAS)
def test_every_question_has_the_same_answer(level):
    done = subprocess.run([sys.executable, "-c", QUESTIONS], capture_output=True, text=True, timeout=1500,
                          env={**os.environ, "RUSHLIGHT_CPU": level, "PYTHONPATH": search_path(ROOT)})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    supported, told, width = found["supported"], found["told"], found["width"]
    assert found["level"] == level and supported.items() >= HAS[level].items()
    assert found["vnni"] is supported["vnni"] is told["avx512_vnni"]
    assert found["bf16"] is supported["avx512_bf16"] is told["avx512_bf16"]
    assert bool(found["tiles"]) is supported["amx_tile"] is told["amx_tile"] is found["templates"]
    assert supported["avx512"] is told["avx512_f"] is (width == 512) is ("x86-64-v4" in found["runnable"])
    assert supported["avx2"] is told["avx2"] is (width >= 256) is ("x86-64-v3" in found["runnable"]) and told["sse2"]
    assert set(found["capability"]) == {{512: "AVX512", 256: "AVX2"}.get(width, "DEFAULT")}
    products = "+".join(name for name in ("vnni", "bf16") if found[name]) or "none"
    assert f" {width} {products} {found['tiles'] or 'none'} " in found["kind"] and found["environment"]
    real = [name for name, on in processor.host()[1].items() if on]
    if level not in ("native", "amx-model"):
        assert all(name.replace("_", "") in real for name, on in told.items() if on and name.startswith("avx"))


@pytest.mark.parametrize("cpu, others", [
    ("x86-64", "amx-model"), ("haswell", "generic amx-model"), ("skylake-avx512", "generic avx2 amx-model"),
    ("cascadelake", "generic avx2 avx512 amx-model"), ("znver4", "generic avx2 avx512 amx-model"),
    ("sapphirerapids", "generic avx2 avx512 vnni amx-model")])
def test_levels_that_a_cpu_is_not_by_itself(cpu, others):
    assert other_levels(lambda level: features._x86(restricted(level, cpu))) == others.split()


def run_other_levels(*arguments):
    return subprocess.run([sys.executable, "-m", "tests.processors", *arguments, "tests/ops/test_rounding.py"],
                          cwd=ROOT, capture_output=True, text=True, timeout=1500)


def test_the_runner_fails_when_time_is_over():
    done = run_other_levels("--minutes", "0", "--level", "amx-model")
    first, last = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    assert first == "amx-model: tile registers by a model"
    assert done.returncode == 1 and last == "FAILED: 0 minutes were over while the level amx-model was running"


def test_the_runner_fails_when_levels_have_not_run():
    done = run_other_levels("--minutes", "0")
    *levels, last = done.stdout.splitlines()
    assert [line.split()[-2] for line in levels] == last.removeprefix("FAILED under ").split(", ")
    assert "amx-model" in last and done.returncode == 1


@pytest.mark.parametrize("level", LEVELS)
def test_levels_of_aarch64_never_add_an_instruction_set(level):
    found = {"neon": True, "fp-armv8": True, "dotprod": True, "bf16": True, "i8mm": False, "sve": True, "sve2": False}
    for length in (0, 32):
        sets = processor.restrict_arm(level, "neoverse-v1", found, lambda length=length: length)
        assert {*processor.NEON} <= sets.names <= {name for name, on in found.items() if on}
        assert ("sve" in sets.names) is (level == "native" and length > 0)
        assert sets.has("amx-tile") is (level == "amx-model") and not sets.names & sets.excluded
