"""Steady state, beside torch: what a new number and a new size cost, what new lengths cost `cat`, and what programs
remember as they go on.

    python -m benchmarks.steady [--iterations 8000] [--write]

Times are of the processor, in microseconds a call, after eight numbers to learn from.  Memory is what the process grew
by, in KB an iteration, in the last quarter of a loop.  `--write` keeps the table in
`benchmarks/results/<processor>.json`.
"""
import gc
import pathlib
import statistics
import time

import torch

import rushlight

from .results import keep, parser

CALLS, LEARNING, LENGTHS = 30, 8, (3, 50, 2000)


def numbers(t):
    """Calls with a number."""
    x, f = t.randn(16, 16), t.nn.functional
    w, q = t.randn(16, 16, requires_grad=True), t.randn(1, 2, 8, 16)
    return {"clamp": lambda k: t.clamp(x, min=k * 1e-3), "dropout": lambda k: f.dropout(x, k / 1000),
            "leaky_relu": lambda k: f.leaky_relu(x, k * 1e-5), "elu": lambda k: f.elu(x, k / 7),
            "celu": lambda k: f.celu(x, k / 7 + .1), "hardtanh": lambda k: f.hardtanh(x, -k / 7, k / 5 + 1),
            "softplus": lambda k: f.softplus(x, k / 9 + .1), "pow": lambda k: x ** (k / 7 + .01),
            "threshold": lambda k: f.threshold(x, k / 7, k / 8), "nan_to_num": lambda k: t.nan_to_num(x, k / 3),
            "norm": lambda k: t.linalg.vector_norm(x, k / 3 + 2.5), "pad": lambda k: f.pad(x, (1, 1), value=k / 3),
            "layer_norm": lambda k: f.layer_norm(x, (16,), eps=k * 1e-5 + 1e-6),
            "huber_loss": lambda k: f.huber_loss(x, x, delta=k / 3 + .1), "tril": lambda k: t.tril(x, k - 30),
            "attention, scale": lambda k: f.scaled_dot_product_attention(q, q, q, scale=k / 100),
            "leaky_relu, backward": lambda k: f.leaky_relu(w, k * 1e-5).sum().backward()}


def sizes(t):
    """Calls with a new size: of a program's rows, where 40 others were seen before."""
    f, v, m, w = t.nn.functional, t.randn(4000), t.randn(4000, 8), t.randn(8, 16)
    g, b, image, taps, heads = t.randn(4000, requires_grad=True), t.randn(8), t.randn(1, 4, 4000), t.randn(
        8, 4, 3), t.randn(1, 2, 4000, 16)
    return {"arange": lambda k: t.arange(k), "add": lambda k: v[:k] + 1, "relu": lambda k: f.relu(m[:k]),
            "sum": lambda k: v[:k].sum(), "softmax": lambda k: m[:k].softmax(-1),
            "mse_loss": lambda k: f.mse_loss(m[:k], m[1:k + 1]),
            "matmul": lambda k: m[:k] @ w, "stack": lambda k: t.stack([v[:k], v[:k]]),
            "cat": lambda k: t.cat([m[:k], m[:3]]), "repeat": lambda k: v[:5].repeat(k),
            "pad": lambda k: f.pad(v[:50], (k, 1)),
            "slices": lambda k: v[k:2 * k + 3], "randperm": lambda k: t.randperm(k),
            "linear": lambda k: f.linear(m[:k], w.t(), w[0]), "conv": lambda k: f.conv1d(image[..., :k], taps, b),
            "attention": lambda k: f.scaled_dot_product_attention(heads[:, :, :1], heads[:, :, :k], heads[:, :, :k]),
            "one_hot": lambda k: f.one_hot(t.arange(9), k), "topk": lambda k: v[:1000].topk(k),
            "split": lambda k: v.split(k), "index": lambda k: v[t.arange(k)], "chunk": lambda k: v[:k].chunk(3),
            "embedding": lambda k: f.embedding(t.ones(k, dtype=t.int64), w),
            "square, backward": lambda k: (g[:k] ** 2).sum().backward()}


def loops(t):
    """Loops that go on for ever: (function of the iteration, how many iterations stand for one hundred)."""
    f, nn = t.nn.functional, t.nn
    x, v, w = t.randn(64, 64), t.randn(80000), t.ones(3, 8)
    state = {"cache": t.ones(1, 8)}
    parameter = nn.Parameter(t.ones(5))
    optimizer = t.optim.Adam([parameter])
    data = t.utils.data.TensorDataset(t.arange(40.0))

    def growing(k):
        state["cache"] = t.cat([state["cache"] if k % 400 else t.ones(1, 8), t.ones(1, 8)])

    def generated(k):
        keys = v[:(k % 600 + 2) * 8].view(-1, 8)
        return (t.ones(1, 8) @ keys.t()).softmax(-1) @ keys

    def attended(keys, scale):
        heads = v[:keys * 16].view(1, 2, -1, 8)
        return f.scaled_dot_product_attention(heads[:, :, :1], heads, heads, scale=scale)

    def step(k):
        optimizer.param_groups[0]["lr"] = 1e-3 / (k + 1)
        parameter.grad = t.ones(5)
        optimizer.step()

    def modules(k):
        nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))(t.ones(3, 4)).sum().backward()

    def epochs(k):
        return [batch for batch in t.utils.data.DataLoader(data, batch_size=k % 17 + 3, shuffle=True)]

    return {"matmul": (lambda k: t.ones(k + 2, 3) @ w, 100), "randperm": (lambda k: t.randperm(k + 2), 100),
            "empty": (lambda k: t.empty(k + 2), 100), "arange": (lambda k: t.arange(k + 2), 100),
            "cat": (lambda k: t.cat([v[:k % 1000 + 1], v[:k + 1]]), 100),
            "views": (lambda k: v[k:k + 2 * (k % 50) + 2].view(-1, 2), 100),
            "as_strided": (lambda k: t.as_strided(v, (3, 4), (k % 100 + 1, 1), k), 100),
            "slices": (lambda k: (v[k:k + 100] + 1, v[:k + 1]), 100),
            "numbers": (lambda k: f.leaky_relu(x, k * 1e-5), 100), "limits": (lambda k: t.clamp(x, -k / 7, k / 3), 100),
            "roll": (lambda k: t.roll(v[:50], -k), 100), "softmax": (lambda k: v[:k + 2].softmax(0), 100),
            "backward": (lambda k: (t.ones(k + 2, requires_grad=True) ** 2).sum().backward(), 100),
            "generation": (generated, 50), "growing cache": (growing, 100), "modules": (modules, 10),
            "optimizer": (step, 50), "epochs": (epochs, 4),
            "dropout": (lambda k: f.dropout(x, k % 997 / 1000), 100), "pad": (lambda k: f.pad(v[:50], (k, 1)), 100),
            "linear": (lambda k: f.linear(v[:8 * (k % 3000) + 8].view(-1, 8), w, w[:, 0]), 100),
            "conv": (lambda k: f.conv1d(v[:4 * (k % 2000 + 3)].view(1, 4, -1),
                                        w[None, :2].expand(5, 2, 8)[..., :3].repeat(1, 2, 1)), 100),
            "attention": (lambda k: attended(k % 2000 + 1, None), 50),
            "attention, scale": (lambda k: attended(9, k / 1000), 100), "repeat": (lambda k: v[:5].repeat(k + 1), 100),
            "one_hot": (lambda k: f.one_hot(t.arange(9), k % 3000 + 9), 100),
            "topk": (lambda k: v[:3000].topk(k % 2500 + 1), 100),
            "indices": (lambda k: v[t.arange(k % 300 + 1) * (k % 7 + 1)], 50),
            "split": (lambda k: v[:1000].split(k % 500 + 1), 50)}


def new_number(function) -> float:
    """Microseconds of the processor for a call with a new number."""
    for k in range(LEARNING):
        function(100 + k)
    spent = time.process_time()
    for k in range(CALLS):
        function(200 + k)
    return (time.process_time() - spent) / CALLS * 1e6


def new_size(function) -> float:
    """Microseconds of the processor for a call with a new size; the median, as a kernel for another size of tile may be
    compiled among them."""
    spent = []
    for k in range(100):
        begin = time.process_time()
        function(300 + 5 * k if k >= 40 else 10 + 7 * k)
        spent.append(time.process_time() - begin)
    return statistics.median(spent[40:]) * 1e6


def joins(t, count) -> float:
    """Microseconds of the processor to join tensors of lengths that were not seen before."""
    spent = []
    for seed in range(5):
        parts = [t.zeros((k * 37 + seed * 11) % 29 + 1, 8) for k in range(count)]
        begin = time.process_time()
        t.cat(parts)
        spent.append(time.process_time() - begin)
    return statistics.median(spent) * 1e6


def resident() -> int:
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def growth(function, iterations) -> float:
    """KB an iteration, in the last quarter."""
    quarter = max(iterations // 4, 1)
    for k in range(3 * quarter):
        function(k)
    before = resident()
    for k in range(3 * quarter, 4 * quarter):
        function(k)
    return max(resident() - before, 0) / quarter / 1e3


def main():
    command = parser(__doc__)
    command.add_argument("--iterations", type=int, default=8000)
    options = command.parse_args()
    table: dict = {"us for a new number": {}, "us for a new size": {}, "us to join new lengths": {},
                   "KB an iteration": {}}
    ours, theirs = numbers(rushlight), numbers(torch)
    rows = [("us for a new number", name, new_number(ours[name]), new_number(theirs[name])) for name in ours]
    rows += [("us for a new size", name, new_size(function), new_size(sizes(torch)[name]))
             for name, function in sizes(rushlight).items()]
    rows += [("us to join new lengths", str(count), joins(rushlight, count), joins(torch, count)) for count in LENGTHS]
    mine, judge = loops(rushlight), loops(torch)
    rows += [("KB an iteration", name,
              *(growth(function, options.iterations * share // 100) for function, share in (mine[name], judge[name])))
             for name in mine]
    for part, name, a, b in rows:
        table[part][name] = [round(a, 2), round(b, 2)]
        print(f"{part:26}{name:24}{a:10.2f}{b:10.2f}")
    keep("steady", table, options)


if __name__ == "__main__":
    main()
