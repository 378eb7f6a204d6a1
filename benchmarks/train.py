"""Training steps of a GPT (6 layers, 384 wide, batch 8 x 256) and of ResNet-18 (batch 8), ours and torch's.

Times are interleaved in one process: milliseconds, median of several. Memory is that of a process of its own for each:
what its peak lies above the state after import.  ``--way``: "eager", "model" (the model compiled), "step" (the whole
step as one program); ``--half``: under autocast to bfloat16.  PyTorch takes a whole step eagerly.

    python -m benchmarks.train [--model gpt] [--way step] [--write]
"""
import argparse
import importlib
import pathlib
import statistics
import subprocess
import sys
import time

from .models import load
from .results import keep, parser


def gpt(t, layers=6, width=384, context=256, batch=8):
    model = load("gpt", t).GPT(65, context, layers, 6, width, 0.0)
    return model, t.randint(65, (batch, context)), t.randint(65, (batch, context)), lambda ids, targets: model(
        ids, targets)


def resnet18(t, batch=8):
    model = load("resnet", t).resnet18()
    return model, t.randn(batch, 3, 224,
                          224), t.randint(1000, (batch,)), lambda x, target: t.nn.functional.cross_entropy(
                              model(x), target)


ROOT = pathlib.Path(__file__).resolve().parents[1]
MODELS = {"gpt": gpt, "resnet18": resnet18}


def stepper(t, name, way="eager", half=False):
    """A function that takes one training step and returns the loss."""
    model, x, target, objective = MODELS[name](t)
    optimizer = t.optim.AdamW(model.parameters(), lr=1e-4)

    def computed(x, target):
        with t.autocast("cpu", dtype=t.bfloat16, enabled=half):
            return objective(x, target)

    whole = way == "step" and t.__name__ != "torch"
    loss_of = t.compile(computed) if way == "model" else computed

    def step(x, target):
        loss = loss_of(x, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = t.compile(step, fullgraph=True) if whole else step
    return lambda: run(x, target).item()


def peak():
    """The most memory this process ever held, in megabytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def report_memory(library, name, way, half):
    """In a process of its own: megabytes that three steps take beyond the import."""
    t = importlib.import_module(library)
    t.set_num_threads(2)
    before = peak()
    step = stepper(t, name, way, half)
    for _ in range(3):
        step()
    print(peak() - before)


def memory(library, name, way, half):
    command = [sys.executable, "-m", "benchmarks.train", "--model", name, "--memory-of", library, "--way", way,
               *["--half"] * half]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)


def compare(name, count, way, half):
    """Our and PyTorch's milliseconds a step and megabytes; printed as well."""
    import rushlight
    import torch

    torch.set_num_threads(2)
    steps = {library.__name__: stepper(library, name, way, half) for library in (rushlight, torch)}
    times = {library: [] for library in steps}
    for library, step in steps.items():
        began = time.perf_counter()
        step()
        print(f"{name}: {library}: first step {time.perf_counter() - began:.2f} s")
        step()
    for _ in range(count):
        for library, step in steps.items():
            began = time.perf_counter()
            step()
            times[library].append(1e3 * (time.perf_counter() - began))
    middle = {library: statistics.median(v) for library, v in times.items()}
    for library, v in times.items():
        print(f"{name}: {library}: median {middle[library]:.0f} ms, {min(v):.0f} to {max(v):.0f}")
    print(f"{name}: time ratio rushlight / torch: {middle['rushlight'] / middle['torch']:.2f}")
    peaks = {library: memory(library, name, way, half) for library in steps}
    print(f"{name}: peak memory {peaks['rushlight']:.0f} MB, torch {peaks['torch']:.0f} MB, ratio "
          f"{peaks['rushlight'] / peaks['torch']:.2f}")
    return {"milliseconds": middle, "megabytes": peaks}


def main():
    command = parser(__doc__)
    command.add_argument("--model", choices=MODELS)
    command.add_argument("--steps", type=int, default=5)
    command.add_argument("--memory-of", help=argparse.SUPPRESS)
    command.add_argument("--way", choices=["eager", "model", "step"], default="eager")
    command.add_argument("--half", action="store_true")
    options = command.parse_args()
    if options.memory_of:
        return report_memory(options.memory_of, options.model, options.way, options.half)
    names = [options.model] if options.model else MODELS
    keep("train", {name: compare(name, options.steps, options.way, options.half) for name in names}, options)


if __name__ == "__main__":
    main()
