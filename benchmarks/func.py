"""Function transforms beside torch: interleaved in one process: median times and ratios (below 1: ours is faster).

    python -m benchmarks.func [--rounds 20] [--threads 1] [--write]
"""
import statistics
import time

import numpy as np
import torch

import rushlight

from .results import keep, parser


def mlp(t, sizes=(64, 128, 128, 10)):
    generator = np.random.default_rng(0)
    return {f"w{k}": t.tensor(generator.standard_normal((a, b)).astype(np.float32) / a**0.5)
            for k, (a, b) in enumerate(zip(sizes, sizes[1:]))} | {
        f"b{k}": t.zeros(b) for k, b in enumerate(sizes[1:])}


def forward(t, p, x):
    for k in range(3):
        x = x @ p[f"w{k}"] + p[f"b{k}"]
        if k < 2:
            x = t.nn.functional.gelu(x)
    return x


def loss(t):
    return lambda p, x, y: t.nn.functional.cross_entropy(forward(t, p, x), y)


def chain(t, count=20):
    def call(x):
        for _ in range(count):
            x = x.sin() * 0.9 + 0.1
        return x.sum()
    return call


def cases(t):
    """Name: a function without arguments."""
    generator = np.random.default_rng(1)
    p, x, y = mlp(t), t.tensor(generator.standard_normal((256, 64))
                               .astype(np.float32)), t.tensor(generator.integers(0, 10, 256))
    small, tiny = t.tensor(generator.standard_normal(16).astype(np.float32)), t.tensor(generator.standard_normal(64)
                                                                                       .astype(np.float32))
    f = t.func
    leaves = {k: v.clone().requires_grad_() for k, v in p.items()}

    def eager():
        for v in leaves.values():
            v.grad = None
        loss(t)(leaves, x, y).backward()

    def eager_chain():
        v = small.clone().requires_grad_()
        chain(t)(v).backward()

    examples = f.vmap(f.grad(loss(t)), in_dims=(None, 0, 0))
    return {
        "backward of 60 small operators (no transform)": eager_chain,
        "grad of 60 small operators": lambda: f.grad(chain(t))(small),
        "grad of grad of 12 small operators": lambda: f.grad(lambda v: f.grad(chain(t, 4))(v).sum())(small),
        "jvp of 60 small operators": lambda: f.jvp(chain(t), (small,), (small,)),
        "vmap of 60 small operators, 256 examples": lambda: f.vmap(chain(t))(x),
        "backward of an MLP, batch 256 (no transform)": eager,
        "grad of an MLP, batch 256": lambda: f.grad(loss(t))(p, x, y),
        "gradients of 256 examples of an MLP": lambda: examples(p, x, y),
        "Jacobian of an MLP by reverse mode": lambda: f.jacrev(lambda v: forward(t, p, v))(tiny),
        "Jacobian of an MLP by forward mode": lambda: f.jacfwd(lambda v: forward(t, p, v))(tiny),
        "Hessian of an MLP, 64 inputs": lambda: f.hessian(lambda v: forward(t, p, v).logsumexp(0))(tiny),
        "ensemble of 16 MLPs": lambda c={k: t.stack([v] * 16)
                                         for k, v in p.items()}: f.vmap(lambda q: forward(t, q, x))(c),
    }


def main():
    command = parser(__doc__)
    command.add_argument("--rounds", type=int, default=20)
    command.add_argument("--threads", type=int, default=0, help="of both libraries; 0: what they choose")
    options, figures = command.parse_args(), {}
    rounds = options.rounds
    if options.threads:
        rushlight.set_num_threads(options.threads), torch.set_num_threads(options.threads)
    ours, theirs = cases(rushlight), cases(torch)
    print(f"{'':50s} {'rushlight':>10s} {'torch':>10s}  ratio")
    for name in ours:
        for _ in range(3):
            ours[name](), theirs[name]()
        times = [[], []]
        for _ in range(rounds):
            for side, call in enumerate((ours[name], theirs[name])):
                start = time.perf_counter()
                call()
                times[side].append(time.perf_counter() - start)
        a, b = map(statistics.median, times)
        figures[name] = round(a / b, 3)
        print(f"{name:50s} {a * 1e3:8.3f}ms {b * 1e3:8.3f}ms  {a / b:5.2f}", flush=True)
    keep("func", figures, options)


if __name__ == "__main__":
    main()
