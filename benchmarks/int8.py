"""Models that compute with bytes: our compiled int8 beside our float32 and PyTorch's x86 engine.

In one process, on one thread, by processor times:

    python -m benchmarks.int8 resnet50 1
"""
from __future__ import annotations

import argparse
import importlib
import time
import warnings

import numpy as np

from benchmarks.models import load

ROUNDS = 5


def converted(library, model, data):
    """The model prepared, calibrated and converted for x86."""
    room = f"{library.__name__}.ao.quantization"
    fx, quantization = map(importlib.import_module, (f"{room}.quantize_fx", room))
    with library.no_grad():
        mapping = quantization.get_default_qconfig_mapping("x86")
        prepared = fx.prepare_fx(model, mapping, (library.tensor(data[0]),))
        for x in data:
            prepared(library.tensor(x))
        return fx.convert_fx(prepared)


def best(calls: dict) -> dict:
    """The least processor time of each call in milliseconds, by turns."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            found[name] = min(found[name], 1e3 * (time.process_time() - begin))
    return found


def measure(name: str, batch: int):
    import torch

    import rushlight
    for library in (rushlight, torch):
        library.set_num_threads(1)
    theirs, ours = (getattr(load("resnet", library), name)().eval() for library in (torch, rushlight))
    ours.load_state_dict({k: rushlight.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    images = [np.random.default_rng(k).standard_normal((n, 3, 224, 224)).astype(np.float32)
              for k, n in enumerate((batch, 2))]
    whole, their_whole = converted(rushlight, ours, images[1:]), converted(torch, theirs, images[1:])
    x, y = rushlight.tensor(images[0]), torch.tensor(images[0])
    with rushlight.no_grad(), torch.no_grad():
        compiled, floats = (rushlight.compile(model, options={"freezing": True}) for model in (whole, ours))
        apart = np.abs(compiled(x).numpy() - their_whole(y).numpy()).max()
        times = best({"ours int8": lambda: compiled(x), "ours float32": lambda: floats(x),
                      "PyTorch int8": lambda: their_whole(y)})
    own = times.pop("ours int8")
    told = ", ".join(f"{k} {v:.1f} ms ({v / own:.2f} times as long)" for k, v in times.items())
    print(f"{name}, batch {batch}: ours int8 {own:.1f} ms, {told}; results at most {apart:.1e} apart")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="resnet50", choices=("resnet18", "resnet50"))
    parser.add_argument("batch", nargs="?", type=int, default=1)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    measure(chosen.model, chosen.batch)


if __name__ == "__main__":
    main()
