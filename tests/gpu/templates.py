"""Templates compiled for GPUs that need not be there: what each target makes of every tile and of every kind of
attention, as a table.

    python -m tests.gpu.templates                       # for all targets
    python -m tests.gpu.templates --targets sm_90 --few
"""
from __future__ import annotations

import argparse
import collections
import sys
import time
from typing import NamedTuple

import rushlight as rl
from rushlight._src.core.expr import apply
from rushlight._src.core.dtypes import bool_, float32
from rushlight._src.devices.shared.attention import GRADIENT, SCORE, Modification, spot
from rushlight._src.devices.shared.products import Epilogue
from rushlight._src.devices.triton.binaries import Variant
from rushlight._src.devices.triton.rates import float32_by, tf32_by
from rushlight._src.devices.triton.step import modules
from rushlight._src.devices.triton.templates import attention
from rushlight._src.devices.triton.templates.flash import Form, Forward
from rushlight._src.devices.triton.templates.flash_backward import KeyGradient, QueryGradient
from rushlight._src.devices.triton.templates.products import Templates
from rushlight._src.devices.triton.templates.tiled import Tile

from .compiled import TARGETS, judged

LARGE = 8192


class Formats(NamedTuple):
    """What a product tells of its operands."""

    formats: tuple


def products(target: str, few: bool) -> list:
    """Modules of products and convolutions: every tile that fits, whole, in parts, and persistent."""
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
            fitting = [blocks for blocks in attention.choices(kernel, form, LARGE, LARGE)
                       if attention.shared_memory(kernel, form, blocks) <= own.shared]
            for blocks in fitting if form.causal and not few and not form.ragged else fitting[:1]:
                found.append(attention.module_of(kernel, form, blocks))
    return found


def main(*given) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.templates")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--few", action="store_true", help="one tile, and one size of heads")
    options = parser.parse_args(given)
    counts, start = collections.Counter(), time.process_time()
    for target in options.targets.split(","):
        for number in dict.fromkeys(products(target, options.few) + attentions(target, options.few)):
            module = modules.made[number]
            wrong = judged(module, Variant(0, aligned=tuple(range(len(module.pointers) + 1))), target)
            counts[target, "fail" if wrong else "compile"] += 1
            if wrong:
                print(f"{target} {module.name} {dict(module.blocks)} {module.warps} warps, {module.stages} stages: "
                      f"{wrong}", flush=True)
        print(f"{target}: {counts[target, 'compile']} compile, {counts[target, 'fail']} fail; "
              f"{time.process_time() - start:.0f} s of processor time so far", flush=True)
    return sum(count for (_, verdict), count in counts.items() if verdict == "fail")


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
