"""Generated kernels beside torch's eager operators, interleaved in one process: ratios of median times (below 1: ours is faster).

    python -m benchmarks.kernels [part of a name] [--write]
"""

import math
import statistics
import time

import numpy as np
import torch

from rushlight.core import dtypes
from rushlight.graph.graph import Store
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
    "gelu(x+b)*s": (lambda p, a, b: p.mul(gelu_tanh(p, p.add(a, b)), 1.7), [X, B], lambda: F.gelu(t["X"] + t["B"], approximate="tanh") * 1.7),
    "gelu erf": (lambda p, a: p.mul(p.mul(a, 0.5), p.add(p.erf(p.mul(a, math.sqrt(0.5))), 1.0)), [X], lambda: F.gelu(t["X"])),
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
    "embedding backward": (lambda p, i, g: p.put(p.full(shape=(50257, 128), value=0.0, dtype=dtypes.float32), i, g, dim=0, combine="add"),
                           [I, G], lambda: torch.zeros(50257, 128).index_add_(0, t["I"], t["G"])),
    "adamw": (adamw, [floats(10_000_000), floats(10_000_000), floats(10_000_000), np.abs(floats(10_000_000))], torch_adamw()),
}


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main():
    command = parser(__doc__)
    command.add_argument("part", nargs="?", default="", metavar="part of a name")
    options = command.parse_args()
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
        print(f"{name:20s} {mine:8.3f} ms   torch {other:8.3f} ms   ratio {mine / other:6.2f}   kernels {len(p.program.steps)}", flush=True)
    print(f"geometric mean {math.exp(statistics.mean(map(math.log, ratios.values()))):.2f}")
    keep("kernels", ratios, options)


if __name__ == "__main__":
    main()
