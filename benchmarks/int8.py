"""Models that compute with bytes: our compiled int8 beside our float32 and PyTorch's x86 engine.

In one process, on one thread, by processor times:

    python -m benchmarks.int8 resnet50 1
    python -m benchmarks.int8 bert 1 dynamic
"""
from __future__ import annotations

import argparse
import copy
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


def linears(library, model, data):
    """The model whose linear layers alone, in and out, are of bytes: each wrapped, calibrated and converted."""
    quantization, layer = importlib.import_module(f"{library.__name__}.ao.quantization"), library.nn.Linear
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is layer:
                setattr(module, name, quantization.QuantWrapper(child))
                getattr(module, name).qconfig = quantization.get_default_qconfig("x86")
    with library.no_grad():
        quantization.prepare(model, inplace=True)
        for given in data:
            model(*map(library.tensor, given))
        return quantization.convert(model, inplace=True)


def dynamic(library, model, data):
    """The model whose linear layers choose scales of their inputs as they run."""
    return importlib.import_module(f"{library.__name__}.ao.quantization").quantize_dynamic(model, {library.nn.Linear})


def images(batch, seed):
    return (np.random.default_rng(seed).standard_normal((batch, 3, 224, 224)).astype(np.float32),)


def sentences(batch, seed):
    """128 words each, all of them attended to."""
    return (np.random.default_rng(seed).integers(1, 30000, (batch, 128)), np.ones((batch, 128), np.int64))


def residual(name):
    return lambda library: getattr(load("resnet", library), name)()


MODELS = {  # how a model is made, what it is given, and what makes it one of bytes
    "resnet18": (residual("resnet18"), images, {"static": lambda t, m, d: converted(t, m, [x for x, in d])}),
    "resnet50": (residual("resnet50"), images, {"static": lambda t, m, d: converted(t, m, [x for x, in d])}),
    "bert": (lambda library: load("bert", library).BERT(), sentences, {"static": linears, "dynamic": dynamic}),
    "vit": (lambda library: load("vit", library).VisionTransformer(), images, {"static": linears, "dynamic": dynamic}),
}


def noise_ratio(signal, other) -> float:
    """SQNR in dB."""
    return float(10 * np.log10((signal.astype(np.float64) ** 2).sum()
                               / ((signal.astype(np.float64) - other) ** 2).sum()))


def measure(name: str, batch: int, kind: str):
    import torch

    import rushlight
    for library in (rushlight, torch):
        library.set_num_threads(1)
    make, given, kinds = MODELS[name]
    theirs, ours = (make(library).eval() for library in (torch, rushlight))
    ours.load_state_dict({k: rushlight.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    data = [given(n, k) for k, n in enumerate((batch, 2))]
    whole, their_whole = (kinds[kind](t, model, data[1:]) for t, model in ((rushlight, ours), (torch, theirs)))
    x, y = ([library.tensor(v) for v in data[0]] for library in (rushlight, torch))
    with rushlight.no_grad(), torch.no_grad():
        compiled, floats = (rushlight.compile(model, options={"freezing": True}) for model in (whole, ours))
        real = theirs(*y).numpy()
        own_ratio, their_ratio = (noise_ratio(real, r.numpy()) for r in (compiled(*x), their_whole(*y)))
        times = best({"ours int8": lambda: compiled(*x), "ours float32": lambda: floats(*x),
                      "PyTorch int8": lambda: their_whole(*y)})
    own = times.pop("ours int8")
    told = ", ".join(f"{k} {v:.1f} ms ({v / own:.2f} times as long)" for k, v in times.items())
    print(f"{name}, {kind}, batch {batch}: ours int8 {own:.1f} ms, {told}; SQNR {own_ratio:.1f} dB, PyTorch's "
          f"{their_ratio:.1f} dB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="resnet50", choices=tuple(MODELS))
    parser.add_argument("batch", nargs="?", type=int, default=1)
    parser.add_argument("kind", nargs="?", default="static", choices=("static", "dynamic"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    measure(chosen.model, chosen.batch, chosen.kind)


if __name__ == "__main__":
    main()
