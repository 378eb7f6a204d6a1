"""Whole models as one program: ours compiled, ours eager and torch's eager, interleaved; milliseconds a step.

    python benchmarks/compile.py gpt resnet18 --steps 5 [--torch-compile]
"""
import argparse
import inspect
import statistics
import time

import networks
import torch

import rushlight
from rushlight.core.op import make
from rushlight.nn import Parameter


def whole(model, name="step"):
    """The model's forward as one operator, and a function that calls it with the model's own parameters and buffers."""
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    homes = [(model.get_submodule(path.rpartition(".")[0]), path.rpartition(".")[2]) for path in tensors]
    count = len(tensors)

    def body(*values):
        saved = [getattr(module, key) for module, key in homes]
        try:
            for (module, key), value in zip(homes, values):
                table = module._parameters if key in module._parameters else module._buffers
                table[key] = value
            return model(*values[count:])
        finally:
            for (module, key), value in zip(homes, saved):
                table = module._parameters if key in module._parameters else module._buffers
                table[key] = value

    operator = make(name, body, None, inspect.Signature([inspect.Parameter("values", inspect.Parameter.VAR_POSITIONAL)]))
    own = list(tensors.values())
    return lambda *inputs: operator(*own, *inputs)


CASES = {
    "gpt": (networks.gpt, lambda t: (t.randint(65, (8, 256)), t.randint(65, (8, 256))), True),
    "gpt-dropout": (lambda t: networks.gpt(t, dropout=0.2), lambda t: (t.randint(65, (8, 256)), t.randint(65, (8, 256))), True),
    "gpt-small": (lambda t: networks.gpt(t, layers=2, width=64, heads=4, context=32), lambda t: (t.randint(65, (2, 32)), t.randint(65, (2, 32))), True),
    "resnet18": (networks.resnet18, lambda t: (t.randn(8, 3, 224, 224), t.randint(1000, (8,))), True),
    "resnet50": (networks.resnet50, lambda t: (t.randn(8, 3, 224, 224),), False),
    "vit": (networks.vit, lambda t: (t.randn(8, 3, 224, 224),), False),
}


def stepper(t, case, how):
    build, inputs, training = CASES[case]
    t.manual_seed(0)
    model = build(t)
    arguments = inputs(t)
    model.train(training)
    if not training:
        for p in model.parameters():
            p.requires_grad_(False)
    forward = {"compiled": lambda: whole(model), "eager": lambda: model, "torch.compile": lambda: t.compile(model)}[how]()

    def step():
        if not training:
            return float(forward(*arguments).sum())
        loss = forward(*arguments)
        for p in model.parameters():
            p.grad = None
        loss.backward()
        return loss.item()

    step.model = model
    return step


def compare(case, steps, torch_compile, clock):
    ways = {"compiled": (rushlight, "compiled"), "eager": (rushlight, "eager"), "torch": (torch, "eager")}
    if torch_compile:
        ways["torch.compile"] = torch, "torch.compile"
    runs, times = {name: stepper(t, case, how) for name, (t, how) in ways.items()}, {name: [] for name in ways}
    share(runs)
    for name, step in runs.items():
        began = time.perf_counter()
        result = step()
        print(f"{case}: {name}: first step {time.perf_counter() - began:.2f} s, result {result:.6f}", flush=True)
        step()
    for _ in range(steps):
        for name, step in runs.items():
            step()  # brings its memory back into the caches that the others have used
            began = clock()
            step()
            times[name].append(1e3 * (clock() - began))
    best = {name: statistics.median(v) for name, v in times.items()}
    for name, v in times.items():
        print(f"{case}: {name}: median {best[name]:.1f} ms, least {min(v):.1f}; torch / this = {best['torch'] / best[name]:.2f}", flush=True)


def share(runs):
    """The same weights for all."""
    weights = {k: v.numpy().copy() for k, v in runs["torch"].model.state_dict().items()}
    for name, step in runs.items():
        t = torch if name.startswith("torch") else rushlight
        step.model.load_state_dict({k: t.tensor(v) for k, v in weights.items()})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--torch-compile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rushlight.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter  # a busy machine disturbs one thread's CPU time least
    for case in options.cases or CASES:
        compare(case, options.steps, options.torch_compile, clock)


if __name__ == "__main__":
    main()
