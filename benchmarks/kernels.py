"""Generated kernels beside torch's eager operators, interleaved in one process: ratios of median times (below 1: ours
is faster).

    python -m benchmarks.kernels [part of a name] [--write]
    python -m benchmarks.kernels [part of a name] --convolutions forward [--dtype bfloat16] [--last] [--batch 8]
    [--write]

The second form compares convolutions or their gradients on one thread, by processor time; `--last` gives images with
channels last, and results where convolutions over pixels are planned.
"""

import math
import statistics
import time
from dataclasses import replace

import numpy as np
import torch

from rushlight._src.devices.cpu.llvm import pool
from rushlight._src.devices.cpu.templates.conv import (
    Convolution, plan_conv, plan_conv_input_grad, plan_conv_weight_grad, plan_pixels, plan_pixels_input_grad)
from rushlight._src.devices.cpu.templates.pixels_plan import pays
from rushlight._src.compiler.launch import encode
from rushlight._src.core import dtypes
from rushlight._src.graph.graph import Store
from tests.compiler.contractions import Runner
from tests.compiler.programs import Program

from .results import keep, parser

F = torch.nn.functional
rng = np.random.default_rng(0)


def floats(*shape):
    return rng.standard_normal(shape, np.float32)


def gelu_tanh(p, u):
    inner = p.mul(p.mul(u, math.sqrt(2 / math.pi)), p.add(p.mul(p.mul(u, u), 0.044715), 1.0))
    return p.mul(u, p.sigmoid(p.mul(inner, 2.0)))


def softmax(p, a):
    e = p.exp(p.sub(a, p.amax(a, dims=(1,))))
    return p.div(e, p.sum(e, dims=(1,)))


def layer_norm(p, a, w, b, n=768):
    mean = p.mul(p.sum(a, dims=(1,)), 1 / n)
    d = p.sub(a, mean)
    rstd = p.rsqrt(p.add(p.mul(p.sum(p.mul(d, d), dims=(1,)), 1 / n), 1e-5))
    return p.add(p.mul(p.mul(d, rstd), w), b)


def cross_entropy(p, a, t):
    n = a.shape[0]
    shifted = p.sub(a, p.amax(a, dims=(1,)))
    total = p.log(p.sum(p.exp(shifted), dims=(1,)))
    chosen = p.sub(p.gather(shifted, p.reshape(t, shape=(n, 1)), dim=1), total)
    return p.mul(p.sum(p.neg(chosen), dims=(0, 1)), 1 / n)


def adamw(p, x, g, m, v):
    m1 = p.add(p.mul(m, 0.9), p.mul(g, 0.1))
    v1 = p.add(p.mul(v, 0.999), p.mul(p.mul(g, g), 0.001))
    x1 = p.sub(p.mul(x, 0.9999), p.mul(p.div(m1, p.add(p.mul(p.sqrt(v1), 1.5), 1e-8)), 1e-3))
    return Store(m1, m), Store(v1, v), Store(x1, x)


def torch_adamw():
    x = torch.randn(10_000_000, requires_grad=True)
    x.grad = torch.randn(10_000_000)
    optimizer = torch.optim.AdamW([x], lr=1e-3, fused=True)
    return optimizer.step


X, B, W = floats(4096, 1024), floats(1024), floats(768)
L, S, C = floats(4096, 768), floats(4096, 512), floats(1024, 10000)
T, I = rng.integers(0, 10000, 1024), rng.integers(0, 50257, 4096)
E, G = floats(50257, 128), floats(4096, 128)
t = {k: torch.from_numpy(v) for k, v in dict(X=X, B=B, W=W, L=L, S=S, C=C, T=T, I=I, E=E, G=G).items()}
CASES = {
    "add": (lambda p, a: p.add(a, a), [X], lambda: t["X"] + t["X"]),
    "gelu(x+b)*s": (lambda p, a, b: p.mul(gelu_tanh(p, p.add(a, b)), 1.7), [X, B],
                    lambda: F.gelu(t["X"] + t["B"], approximate="tanh") * 1.7),
    "gelu erf": (lambda p, a: p.mul(p.mul(a, 0.5), p.add(p.erf(p.mul(a, math.sqrt(0.5))), 1.0)), [X],
                 lambda: F.gelu(t["X"])),
    "exp": (lambda p, a: p.exp(a), [X], lambda: torch.exp(t["X"])),
    "tanh": (lambda p, a: p.tanh(a), [X], lambda: torch.tanh(t["X"])),
    "sin": (lambda p, a: p.sin(a), [X], lambda: torch.sin(t["X"])),
    "softmax": (softmax, [S], lambda: torch.softmax(t["S"], 1)),
    "layer norm": (layer_norm, [L, W, W], lambda: F.layer_norm(t["L"], (768,), t["W"], t["W"])),
    "cross entropy": (cross_entropy, [C, T], lambda: F.cross_entropy(t["C"], t["T"])),
    "sum all": (lambda p, a: p.sum(a, dims=(0, 1)), [X], lambda: t["X"].sum()),
    "sum dim 0": (lambda p, a: p.sum(a, dims=(0,)), [X], lambda: t["X"].sum(0)),
    "sum dim 1": (lambda p, a: p.sum(a, dims=(1,)), [X], lambda: t["X"].sum(1)),
    "argmax": (lambda p, a: p.argmax(a, dims=(1,)), [C], lambda: t["C"].argmax(1)),
    "transpose": (lambda p, a: p.copy(p.permute(a, dims=(1, 0))), [X], lambda: t["X"].T.contiguous()),
    "embedding": (lambda p, a, i: p.take(a, i, dim=0), [E, I], lambda: F.embedding(t["I"], t["E"])),
    "embedding backward": (lambda p, i, g: p.put(p.full(shape=(50257, 128), value=0.0, dtype=dtypes.float32), i, g,
                                                 dim=0, combine="add"),
                           [I, G], lambda: torch.zeros(50257, 128).index_add_(0, t["I"], t["G"])),
    "adamw": (adamw, [floats(10_000_000), floats(10_000_000), floats(10_000_000), np.abs(floats(10_000_000))],
              torch_adamw()),
}
# in, out, size, kernel, stride, pad, dilation, groups
CONVOLUTIONS = {
    "resnet stem": (3, 64, 224, 7, 2, 3, 1, 1),
    **{f"resnet {size} {kernel}x{kernel}/{stride} {i}-{o}": (i, o, size, kernel, stride, kernel // 2, 1, 1)
       for size, kernel, stride, i, o in (
        (56, 1, 1, 64, 64), (56, 3, 1, 64, 64), (56, 1, 1, 64, 256), (56, 1, 1, 256, 64), (56, 1, 1, 256, 128),
        (56, 3, 2, 128, 128), (56, 1, 2, 256, 512),
        (28, 1, 1, 128, 512), (28, 1, 1, 512, 128), (28, 3, 1, 128, 128), (28, 1, 1, 512, 256), (28, 3, 2, 256, 256),
        (28, 1, 2, 512, 1024),
        (14, 1, 1, 256, 1024), (14, 1, 1, 1024, 256), (14, 3, 1, 256, 256), (14, 1, 1, 1024, 512), (14, 3, 2, 512, 512),
        (14, 1, 2, 1024, 2048),
        (7, 1, 1, 512, 2048), (7, 1, 1, 2048, 512), (7, 3, 1, 512, 512))},
    "convnext stem": (3, 96, 224, 4, 4, 0, 1, 1), "convnext 1x1": (96, 384, 56, 1, 1, 0, 1, 1),
    "convnext down": (96, 192, 56, 2, 2, 0, 1, 1),
    "vgg 1": (3, 64, 224, 3, 1, 1, 1, 1), "vgg 2": (64, 64, 224, 3, 1, 1, 1, 1), "vgg 3": (64, 128, 112, 3, 1, 1, 1, 1),
    "u-net 1": (1, 64, 128, 3, 1, 1, 1, 1), "u-net 2": (128, 64, 128, 3, 1, 1, 1, 1),
    "u-net 3": (256, 512, 32, 3, 1, 1, 1, 1), "u-net 4": (64, 2, 128, 1, 1, 0, 1, 1),
    "groups": (128, 128, 56, 3, 1, 1, 1, 4), "resnext": (128, 128, 56, 3, 1, 1, 1, 32),
    "dilation": (64, 64, 56, 3, 1, 2, 2, 1), "odd": (40, 72, 30, 3, 1, 1, 1, 1),
    "depthwise": (96, 96, 56, 7, 1, 3, 1, 96), "5x5": (32, 64, 28, 5, 1, 2, 1, 1),
}


def convolution(direction, case, dtype, batch, last):
    """(ours, torch's) as calls of no arguments."""
    channels, out, size, kernel, stride, pad, dilation, groups = case
    form = {"memory_format": torch.channels_last if last else torch.contiguous_format}
    kind = getattr(torch, dtype)
    x = torch.randn(batch, channels, size, size).to(kind).contiguous(**form)
    weight = torch.randn(out, channels // groups, kernel, kernel).to(kind).contiguous(**form)
    arguments = [stride] * 2, [pad] * 2, [dilation] * 2
    y = F.conv2d(x, weight, None, *arguments, groups).contiguous(**form)
    made = {"x": x, "weight": weight.contiguous(), "y": y}
    target = {"forward": "y", "input": "x", "weight": "weight"}[direction]
    pixels = last and direction != "weight" and pays(dtype, channels // groups, out // groups, groups)
    made[target] = torch.empty(made[target].shape, dtype=kind)  # results lie row by row, but for those over pixels
    if pixels:
        made[target], made["weight"] = made[target].contiguous(**form), weight
    problem = Convolution(batch, channels, out, (size,) * 2, (kernel,) * 2, *map(tuple, arguments), groups, dtype,
                          made["x"].stride(), made["y"].stride(),
                          w=made["weight"].stride())
    planners = {"forward": plan_pixels, "input": plan_pixels_input_grad} if pixels else {
        "forward": plan_conv, "input": plan_conv_input_grad, "weight": plan_conv_weight_grad}
    plan = planners[direction](problem)
    ours = Runner(plan, **{name: one.data_ptr() for name, one in made.items()})
    ours.held = made
    if direction == "forward":
        return ours, lambda: F.conv2d(x, weight, None, *arguments, groups), made[target]
    mask = [direction == "input", direction == "weight", False]
    return (ours, lambda: torch.ops.aten.convolution_backward(y, x, weight, None, *arguments, False, [0, 0], groups,
                                                              mask)[mask.index(True)],
            made[target])


def without_packing(made):
    """A Runner that has run, but for the steps that pack weights: what they filled stays."""
    plan, operands, _ = made.keep
    names = {name: k for k, name in enumerate((*operands, *plan.temporaries))}
    rest = replace(plan, steps=tuple(step for step in plan.steps if not step.fills))
    made.code = np.array(encode(rest.launches(names)), np.int64)
    made.arguments = made.code.ctypes.data, made.values.ctypes.data
    return made


def compare_convolutions(options):
    """Prints and returns ratios of the least processor times."""
    torch.set_num_threads(1)
    pool.set_num_threads(1)
    ratios = {}
    for name, case in CONVOLUTIONS.items():
        if options.part not in name:
            continue
        ours, theirs, got = convolution(options.convolutions, case, options.dtype, options.batch, options.last)
        ours()
        if options.kept:
            ours = without_packing(ours)
            ours()
        error = float((got.double() - theirs().double()).norm() / theirs().double().norm())
        least, started = [math.inf] * 2, time.perf_counter()
        while time.perf_counter() - started < 0.3:
            for k, run in enumerate((ours, theirs)):
                least[k] = min(least[k], seconds(run, time.thread_time))
        ratios[name] = round(least[0] / least[1], 3)
        print(f"{name:28s} {least[0] * 1e3:8.3f} ms   torch {least[1] * 1e3:8.3f} ms   ratio {ratios[name]:6.2f}   "
              f"difference {error:.1e}", flush=True)
    return ratios


def seconds(run, clock=time.perf_counter):
    start = clock()
    run()
    return clock() - start


def main():
    command = parser(__doc__)
    command.add_argument("part", nargs="?", default="", metavar="part of a name")
    command.add_argument("--convolutions", choices=("forward", "input", "weight"),
                         help="compares convolutions, or their gradients")
    command.add_argument("--dtype", default="bfloat16")
    command.add_argument("--batch", type=int, default=1)
    command.add_argument("--last", action="store_true", help="images have channels last")
    command.add_argument("--kept", action="store_true", help="our weights are packed before (PyTorch's each time)")
    options = command.parse_args()
    if options.convolutions:
        ratios = compare_convolutions(options)
        print(f"geometric mean {math.exp(statistics.mean(map(math.log, ratios.values()))):.2f}, most "
              f"{max(ratios.values())}")
        return keep(f"convolutions {options.convolutions} {options.dtype} {options.batch} "
                    f"{'last' if options.last else ''}{' kept' if options.kept else ''}".strip(), ratios, options)
    torch.set_num_threads(2)
    ratios = {}
    for name, (build, arrays, theirs) in CASES.items():
        if options.part not in name:
            continue
        p = Program()
        made = build(p, *(p.of(a) for a in arrays))
        p.run(made if isinstance(made, tuple) else (made,), arrays)
        ours, judged = [], []
        for _ in range(15):
            ours.append(seconds(p.again))
            judged.append(seconds(theirs))
        mine, other = statistics.median(ours) * 1e3, statistics.median(judged) * 1e3
        ratios[name] = round(mine / other, 3)
        print(f"{name:20s} {mine:8.3f} ms   torch {other:8.3f} ms   ratio {mine / other:6.2f}   kernels "
              f"{len(p.program.steps)}", flush=True)
    print(f"geometric mean {math.exp(statistics.mean(map(math.log, ratios.values()))):.2f}")
    keep("kernels", ratios, options)


if __name__ == "__main__":
    main()
