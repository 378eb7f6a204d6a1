"""One training step of a GPT (6 layers, 384 wide, batch 8 x 256), ours and torch's interleaved; milliseconds, median of several."""
import argparse
import pathlib
import statistics
import time

import torch

import rushlight

EXAMPLE = pathlib.Path(__file__).resolve().parents[1] / "examples" / "gpt.py"


def example(library):
    """The example's classes, with ``library`` in the place of torch."""
    source = EXAMPLE.read_text()
    for line in ("import torch\n", "from torch import nn\n", "from torch.nn import functional as F\n"):
        assert line in source, line
        source = source.replace(line, "")
    names = {"torch": library, "nn": library.nn, "F": library.nn.functional, "__name__": "example"}
    exec(compile(source, str(EXAMPLE), "exec"), names)
    return names


def stepper(t, options):
    model = example(t)["GPT"](65, options.context, options.layers, 6, options.width, 0.0)
    optimizer = t.optim.AdamW(model.parameters(), lr=1e-4)
    ids, targets = t.randint(65, (options.batch, options.context)), t.randint(65, (options.batch, options.context))

    def step():
        loss = model(ids, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(2)
    steps = {"rushlight": stepper(rushlight, options), "torch": stepper(torch, options)}
    times = {name: [] for name in steps}
    for name, step in steps.items():
        began = time.perf_counter()
        step()
        print(f"{name}: first step {time.perf_counter() - began:.2f} s")
        step()
    for _ in range(options.steps):
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            times[name].append(1e3 * (time.perf_counter() - began))
    middle = {name: statistics.median(v) for name, v in times.items()}
    for name, v in times.items():
        print(f"{name}: median {middle[name]:.0f} ms, {min(v):.0f} to {max(v):.0f}")
    print(f"ratio rushlight / torch: {middle['rushlight'] / middle['torch']:.2f}")


if __name__ == "__main__":
    main()
