"""Templates compiled for GPUs that need not be there: what each target makes of every tile and of every kind of
attention, as a table.

    python -m tests.gpu.templates                       # for all targets
    python -m tests.gpu.templates --targets sm_90 --few
    python -m tests.gpu.templates --targets gfx942 --facts   # adds rows to templates/facts.txt
"""
from __future__ import annotations

import argparse
import collections
import itertools
import sys
from typing import NamedTuple

import rushlight as rl
from rushlight._src.core.expr import apply
from rushlight._src.core.dtypes import bool_, float32
from rushlight._src.devices.shared.attention import GRADIENT, SCORE, Form, Modification, spot
from rushlight._src.devices.shared.products import Epilogue
from rushlight._src.devices.triton.binaries import Variant, binary
from rushlight._src.devices.triton.rates import float32_by, tf32_by
from rushlight._src.devices.triton.step import modules
from rushlight._src.devices.triton.templates import attention
from rushlight._src.devices.triton.templates.facts import TABLE, table
from rushlight._src.devices.triton.templates.flash import Blocks, Forward
from rushlight._src.devices.triton.templates.flash_backward import KeyGradient, QueryGradient
from rushlight._src.devices.triton.templates.products import Templates
from rushlight._src.devices.triton.templates.tiled import Tile
from rushlight._src.devices.triton.tuning import registers

from .compiled import TARGETS, judged, make_pool

LARGE = 8192


class Formats(NamedTuple):
    """What a product tells of its operands."""

    formats: tuple


def products(target: str, few: bool) -> list:
    """Modules of matmuls and convolutions: every tile that fits, whole, in parts, and persistent."""
    templates, found = Templates("cuda", target), []
    for dtype in (rl.bfloat16, rl.float32) if few else (rl.bfloat16, rl.float16, rl.float32, rl.int8, rl.float64):
        tiles = templates.tiles(("matrices",), dtype, LARGE, LARGE, LARGE, 1)
        kept = [tile for tile in tiles if tile.splits in (1, 4)] if dtype is rl.bfloat16 else tiles[:1]
        out = rl.int32 if dtype is rl.int8 else dtype
        for tile in kept[:1] if few else kept:
            for role in ("part", "join") if tile.splits > 1 else ("whole",):
                for precision in ("ieee", tf32_by(target)) if dtype is rl.float32 else ("ieee",):
                    found.append(templates.written(("matrices", 1, 1), dtype, dtype, Epilogue(out=out), tile, role,
                                                   precision))
    for names in (("float8_e4m3fn", "float8_e5m2"), ("float8_e4m3fnuz", "float8_e4m3fnuz")):
        left, right = templates.operands_of(Formats((*names, False)))
        tiles = templates.tiles(("matrices",), left, LARGE, LARGE, LARGE, 1)
        for tile in tiles[:1] if few else tiles:
            if tile.splits == 1:
                found.append(templates.written(("matrices", 1, 1), left, right, Epilogue(out=rl.bfloat16), tile))
    for direction in ("forward", "input", "weight"):
        tile = Tile(64, 64, 32)
        found.append(templates.written(("images", direction, False), rl.bfloat16, rl.bfloat16,
                                       Epilogue(out=rl.bfloat16), tile))
    return found


def modification(score: bool) -> Modification:
    """A function of scores with its derivative, or a mask."""
    at = spot((4, 8, 512, 512))
    if score:
        return Modification(apply("mul", apply("tanh", SCORE), 2.0), apply("mul", GRADIENT, 2.0), None, at, ())
    from rushlight._src.core import expr
    where = [expr.value(e, rl.int64) for e in at]
    return Modification(None, None, apply("ge", where[2], where[3]), at, ())


def attentions(target: str, few: bool) -> list:
    """Modules of attention: all blocks that fit where causal, and every hole."""
    own, found = attention.Attentions("cuda", target), []
    plain = Form("bfloat16", 64, 64, False, False, False)
    forms = [plain._replace(mask="bool"), plain._replace(mask="float32"), plain._replace(drops=True),
             plain._replace(ragged=True, causal=True), plain._replace(mods=modification(True)),
             plain._replace(mods=modification(False), block=(128, 128))]
    for dtype in ("bfloat16", "float32"):
        for size in (64,) if few else (64, 80, 128, 256):
            precision = float32_by(target) if dtype == "float32" else "ieee"
            forms.append(Form(dtype, size, size, True, False, False, precision=precision))
    for form in forms:
        for kernel in (Forward, QueryGradient, KeyGradient):
            fitting = [blocks for blocks, facts in attention.choices(kernel, form, LARGE, LARGE, target).items()
                       if facts.shared <= own.shared]
            for blocks in fitting if form.causal and not few and not form.ragged else fitting[:1]:
                found.append(attention.module_of(kernel, form, blocks))
    return found


def aligned(module) -> tuple:
    """The arguments that are multiples of 16 for sizes as models have them: all but numbers and counts of 1."""
    kinds = module.signature(False)
    names = [name for name, kind in kinds.items() if kind != "constexpr"]
    ones = {"p1"} if module.name.startswith("a") else {"p3", "p4", "p5", "p10", "p15"}
    return tuple(k for k, name in enumerate(names) if name not in ones and not name.startswith("s"))


GRID = ((128, 128, 8, 2), (128, 64, 8, 2), (64, 64, 8, 2), (64, 64, 4, 2), (32, 64, 8, 2), (64, 32, 4, 2),
        (64, 32, 4, 1),
        # blocks that ``--facts`` compiles
        (32, 32, 4, 2), (32, 32, 4, 1), (16, 64, 4, 2), (16, 32, 4, 1), (16, 16, 4, 1))


def add_facts(target: str):
    """Compiles plain attention with blocks that the table of facts lacks for a GPU, and adds rows for them."""
    for dtype, kind in (("bfloat16", "half"), ("float32", "single")):
        precision = float32_by(target) if dtype == "float32" else "ieee"
        for size, kernel in itertools.product(attention.HEADS, (Forward, QueryGradient, KeyGradient)):
            form = Form(dtype, size, size, True, False, False, precision=precision)
            known = table().get((target, kind, size, kernel.__name__), {})
            for blocks in (Blocks(*numbers) for numbers in GRID if numbers not in known):
                module = modules.made[attention.module_of(kernel, form, blocks)]
                variant = Variant(0, aligned=aligned(module))
                if judged(module, variant, target):
                    continue  # it needs more shared memory than there is
                made = binary(module, variant, target)
                row = f"{target} {kind} {size} {kernel.__name__} {' '.join(map(str, blocks))}"
                with open(TABLE, "a", encoding="utf-8") as file:
                    file.write(f"{row}: {' '.join(map(str, (*registers(made.code), made.shared)))}\n")
                print(row, flush=True)


def inspect(module, target: str) -> tuple:
    """Return what is wrong with a module on a target, and how many registers its machine code keeps in memory."""
    variant = Variant(0, aligned=aligned(module))
    wrong = judged(module, variant, target)
    return wrong, 0 if wrong else registers(binary(module, variant, target).code)[1]


def main(*given) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.templates")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--few", action="store_true", help="one tile, and one size of heads")
    parser.add_argument("--facts", action="store_true", help="add rows to the table of what compilers have made")
    options = parser.parse_args(given)
    for target in options.targets.split(",") if options.facts else ():
        add_facts(target)
    if options.facts:
        return 0
    counts = collections.Counter()
    with make_pool(options.workers) as pool:
        asked = {target: [modules.made[number] for number in dict.fromkeys(
            products(target, options.few) + attentions(target, options.few))] for target in options.targets.split(",")}
        found = {target: pool.map(inspect, made, itertools.repeat(target)) for target, made in asked.items()}
        for target, outcomes in found.items():
            for module, (wrong, spilled) in zip(asked[target], outcomes, strict=True):
                counts[target, "fail" if wrong else "compile"] += 1
                if spilled and module.name.startswith("a"):
                    counts[target, "spill"] += 1
                    wrong = f"{spilled} registers are kept in memory"
                if wrong:
                    print(f"{target} {module.name} {dict(module.blocks)} {module.warps} warps, {module.stages} stages: "
                          f"{wrong}", flush=True)
            print(f"{target}: {counts[target, 'compile']} compile, {counts[target, 'fail']} fail, "
                  f"{counts[target, 'spill']} of attention keep registers in memory", flush=True)
    return sum(count for (_, verdict), count in counts.items() if verdict == "fail")


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
