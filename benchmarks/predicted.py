"""What the model of cost expects of GPUs for the kernels of ``benchmarks.gpu``, beside what was measured.

    python -m benchmarks.predicted            # prints the table
    python -m benchmarks.predicted --write    # and writes it into docs/gpu.md
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib

import rushlight as rl
from rushlight._src.devices.cpu.templates.matmul import Matmul
from rushlight._src.devices.shared.attention import Attention
from rushlight._src.devices.triton.costs import Work, seconds
from rushlight._src.devices.triton.rates import GPUS
from rushlight._src.devices.triton.templates import attention, products
from rushlight._src.devices.triton.templates.flash import Forward
from rushlight._src.devices.triton.templates.flash_backward import KeyGradient, QueryGradient
from rushlight._src.ops.flash import AttentionSpec

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs" / "gpu.md", ROOT / "benchmarks" / "results"
OURS, NONE = "rushlight.compile", "not measured: no GPU"
SIZE, ELEMENTS = 8192, 1 << 28
BOUND = {"copy": 2, "add": 2, "gelu": 2, "softmax": 2, "layer_norm": 2, "sum": 1}  # how often memory sees each element
DTYPES = {"bfloat16": rl.bfloat16, "float16": rl.float16, "float32": rl.float32, "float8": rl.float8_e4m3fn}
NO_PRODUCT = Matmul((), 1, 1, 1, (), (), ())
BEGIN, END = "<!-- predicted -->\n", "<!-- end of predicted -->\n"


def product(architecture: str, dtype) -> float:
    """Seconds of a product of square matrices, float32 by tf32."""
    templates, shape = products.Templates("cuda", architecture), ("matrices",)
    if dtype.is_byte:
        dtype, _ = templates.operands_of(dataclasses.replace(NO_PRODUCT, formats=(dtype.name, dtype.name, False)))
    tile = templates.tiles(shape, dtype, SIZE, SIZE, SIZE, 1)[0]
    return templates.estimate(shape, dtype, tile, SIZE, SIZE, SIZE, 1)


def attended(architecture: str, kernels: tuple) -> float:
    """Seconds of causal attention of bfloat16, batch 4, 32 heads, 4096, 128."""
    strides = 32 * 4096 * 128, 4096 * 128, 128, 1
    problem = Attention(4, 32, 1, 4096, 4096, 128, 128, *(strides,) * 4, "bfloat16", AttentionSpec(True, 0.1))
    own = attention.Attentions("cuda", architecture)
    chosen = {kernel: next(iter(own.fitting(kernel, problem).items())) for kernel in kernels}
    return sum(own.estimate(kernel, own.form(problem), problem, *item) for kernel, item in chosen.items())


def moved(architecture: str, times: int) -> float:
    """Seconds of a kernel that memory alone bounds."""
    gpu, programs = GPUS[architecture], ELEMENTS // 1024
    each = 4.0 * times * ELEMENTS
    return seconds(gpu, Work(programs, 0, each / programs, each, 4 * gpu.warp, 32, 0))


def predicted(architecture: str) -> dict:
    """{kernel: (a figure, its unit)}."""
    before = rl.get_float32_matmul_precision()
    rl.set_float32_matmul_precision("high")
    try:
        found = {f"product {SIZE} {name}": (2 * SIZE**3 / product(architecture, dtype) / 1e12, "TFLOP/s")
                 for name, dtype in DTYPES.items()}
    finally:
        rl.set_float32_matmul_precision(before)
    forward = attended(architecture, (Forward,))
    found["attention forward"] = forward * 1e3, "ms"
    backward = attended(architecture, (QueryGradient, KeyGradient))
    found["attention forward and backward"] = (forward + backward) * 1e3, "ms"
    for name, times in BOUND.items():
        found[f"{name}, GB/s"] = 4 * times * ELEMENTS / moved(architecture, times) / 1e9, "GB/s"
    return found


def results() -> list:
    """What ``benchmarks.gpu`` found on GPUs: their rows by name."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json")))
    return [rows for rows in found if isinstance(rows, dict) and "architecture" in rows.get("device", ())
            and not rows["device"]["dry"]]


def measured(name: str) -> str:
    """The figures of a kernel, with the GPU's name."""
    found = ((rows["device"]["name"], rows.get(name, {}).get(OURS, rows.get(name, {}).get("rushlight")))
             for rows in results())
    return "; ".join(f"{gpu}: {figure:.4g}" for gpu, figure in found if isinstance(figure, float)) or NONE


def shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 1000 else f"{figure:.3g}"


def table() -> str:
    """The figures of all GPUs, a row a kernel."""
    figures = {name: predicted(name) for name in GPUS}
    lines = ["| kernel | unit | " + " | ".join(f"{gpu.name} ({name})" for name, gpu in GPUS.items()) + " | measured |",
             "| --- | --- | " + "--- | " * (len(GPUS) + 1)]
    for kernel in next(iter(figures.values())):
        row = " | ".join(shown(figures[name][kernel][0]) for name in GPUS)
        lines.append(
            f"| {kernel.removesuffix(', GB/s')} | {figures['sm_90'][kernel][1]} | {row} | {measured(kernel)} |")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def written(page: str) -> str:
    """The page with the table in its place."""
    first, rest = page.split(BEGIN)
    return first + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predicted")
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(table(), end="")


if __name__ == "__main__":
    main()
