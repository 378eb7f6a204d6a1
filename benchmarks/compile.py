"""Whole models as one program: ours compiled, ours eager and torch's eager, interleaved, with the same weights and inputs.

    python benchmarks/compile.py gpt resnet18 --steps 5 --threads 1 [--capture] [--torch-compile]

"program" is the model's forward traced as one operator, without capture; "compile" (--capture) is `rushlight.compile(model)`.  With one
thread times are CPU times, which a busy machine disturbs least.
"""
import argparse
import pathlib
import statistics
import sys
import time

import models
import numpy as np
import torch

import rushlight
from rushlight.core.native.allocator import pool

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from tests.whole import whole_module  # noqa: E402 - the tests of whole programs run models the same way


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def classes(below, *shape):
    return np.random.default_rng(1).integers(0, below, shape)


def gpt(dropout):
    return lambda t: models.load("gpt", t).GPT(65, 256, 6, 6, 384, dropout)


TEXT, IMAGES = (classes(65, 8, 256), classes(65, 8, 256)), numbers(8, 3, 224, 224)
CASES = {  # model, inputs, targets of a cross entropy (None: inference; ...: the model returns the loss)
    "gpt": (gpt(0.0), TEXT, ...),
    "gpt-dropout": (gpt(0.2), TEXT, ...),
    "resnet18": (lambda t: models.load("resnet", t).resnet18(), (IMAGES,), classes(1000, 8)),
    "resnet50": (lambda t: models.load("resnet", t).resnet50(), (IMAGES,), None),
    "vit": (lambda t: models.load("vit", t).VisionTransformer(), (IMAGES,), None),
    "vit-train": (lambda t: models.load("vit", t).VisionTransformer(), (IMAGES,), classes(1000, 8)),
}
HOW = {"program": whole_module, "eager": lambda model: model, "torch": lambda model: model, "compile": rushlight.compile, "torch.compile": torch.compile}


class Run:
    """One way of running one case: ``step()`` returns the loss, or the sum of the outputs of an inference."""

    def __init__(self, case, name):
        self.t = torch if name.startswith("torch") else rushlight
        build, inputs, targets = CASES[case]
        self.model = build(self.t)
        self.inputs = tuple(self.t.tensor(x) for x in inputs)
        self.targets = self.t.tensor(targets) if isinstance(targets, np.ndarray) else targets
        self.model.train(targets is not None)
        self.forward = HOW[name](self.model)

    def step(self):
        if self.targets is None:
            with self.t.no_grad():
                return self.forward(*self.inputs).sum().item()
        out = self.forward(*self.inputs)
        loss = out if self.targets is ... else self.t.nn.functional.cross_entropy(out, self.targets)
        for p in self.model.parameters():
            p.grad = None
        loss.backward()
        return loss.item()


def peak_of(step) -> float:
    """Megabytes of large blocks that a step takes beyond what is in use before it."""
    before = pool.peak = pool.live
    step()
    return (pool.peak - before) / 1e6


def compare(case, names, steps, clock):
    runs, times = {name: Run(case, name) for name in names}, {name: [] for name in names}
    weights = {k: v.numpy().copy() for k, v in runs["torch"].model.state_dict().items()}
    for name, run in runs.items():
        run.model.load_state_dict({k: run.t.tensor(v) for k, v in weights.items()})
        began = clock()
        result = run.step()
        print(f"{case}: {name}: first step {clock() - began:.2f} s, result {result:.6f}", flush=True)
        run.step()
    for _ in range(steps):
        for name, run in runs.items():
            run.step()  # brings its memory back into the caches that the others have used
            began = clock()
            run.step()
            times[name].append(1e3 * (clock() - began))
    middle = {name: statistics.median(v) for name, v in times.items()}
    for name, v in times.items():
        memory = f", {peak_of(runs[name].step):.0f} MB" if runs[name].t is rushlight else ""
        print(f"{case}: {name}: median {middle[name]:.1f} ms, least {min(v):.1f}; torch / this = {middle['torch'] / middle[name]:.2f}{memory}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--capture", action="store_true", help="rushlight.compile too")
    parser.add_argument("--torch-compile", action="store_true", help="torch.compile too, which takes a minute to start")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rushlight.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    names = ["program", "eager", "torch"] + ["compile"] * options.capture + ["torch.compile"] * options.torch_compile
    for case in options.cases or CASES:
        compare(case, names, options.steps, clock)


if __name__ == "__main__":
    main()
