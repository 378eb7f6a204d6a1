"""Packaged models beside the same models compiled in Python, and PyTorch's packages: one thread, least milliseconds of
calls in turns.

    python -m benchmarks.packages --models resnet50,bert --judge
    python -m benchmarks.packages --varying             # for 1 to 16 examples, and texts of 2 to 512 words

Tells the seconds that packaging takes, the package's size, milliseconds to open it and to its first result, a call, the
same compiled in Python (for its sizes alone), and with ``--judge`` a call of PyTorch's package, which its own compiler
makes (that takes a C++ compiler, and a minute).
"""
import importlib
import os
import tempfile
import time

from .models.cases import CASES
from .results import keep, parser

MODELS = "resnet50,bert,vit,gpt2,convnext,mobilenet"


def built(case, library):
    """(model for inference, its inputs as the model takes them)."""
    t = importlib.import_module(library)
    t.set_num_threads(1)
    t.manual_seed(0)
    model = case.model(t).eval()
    return t, model, tuple(case.data(t)[0])


LONG = ("bert", "gpt2")  # whose second size is a text's length


def bounds(t, name, inputs):
    """``dynamic_shapes`` for each input of a model."""
    batch, length = t.export.Dim("batch", min=1, max=16), t.export.Dim("length", min=2, max=512)
    return tuple({0: batch, 1: length} if name in LONG else {0: batch} for _ in inputs)


def package(t, model, inputs, folder, varying=None):
    """(path, seconds); ``varying``: a model's name, if sizes vary."""
    path = os.path.join(folder, f"{t.__name__}.pt2")
    if varying and inputs[0].shape[0] == 1:
        inputs = tuple(t.cat([x, x]) for x in inputs)
    with t.no_grad():
        exported = t.export.export(model, inputs, dynamic_shapes=bounds(t, varying, inputs) if varying else None)
        began = time.perf_counter()
        t._inductor.aoti_compile_and_package(exported, package_path=path)
    return path, time.perf_counter() - began


def reference(result):
    """The first tensor of what a model returns."""
    return result if hasattr(result, "abs") else next(iter(result))


def measure(name, rounds, judged, varies=False):
    """The figures of one model."""
    with tempfile.TemporaryDirectory() as folder:
        ours, model, inputs = built(CASES[name], "rushlight")
        compiled = ours.compile(model)
        with ours.no_grad():
            compiled(*inputs)
            path, seconds = package(ours, model, inputs, folder, name if varies else None)
            began = time.perf_counter()
            loaded = ours._inductor.aoti_load_package(path)
            opened = 1e3 * (time.perf_counter() - began)
            loaded(*inputs)
            first = 1e3 * (time.perf_counter() - began)
            apart = (reference(loaded(*inputs)) - reference(model(*inputs))).abs().max().item()
            if apart > 1e-2:
                raise AssertionError(f"{name}: the package is {apart} away from the model")
        systems = {"package": (ours, lambda: loaded(*inputs)), "compiled": (ours, lambda: compiled(*inputs))}
        if judged:
            torch, other, given = built(CASES[name], "torch")
            made = torch._inductor.aoti_load_package(package(torch, other, given, folder, name if varies else None)[0])
            systems["AOTInductor"] = torch, lambda: made(*given)
        least = dict.fromkeys(systems, float("inf"))
        for _ in range(rounds):
            for system, (t, call) in systems.items():
                with t.no_grad():
                    began = time.thread_time()
                    call()
                    least[system] = min(least[system], 1e3 * (time.thread_time() - began))
        found = {"packaging s": seconds, "MB": os.path.getsize(path) / 1e6, "open ms": opened, "first result ms": first,
                 **least}
    print(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in found.items()) + "; " +
          ", ".join(f"package / {system} {least['package'] / least[system]:.2f}" for system in least
                    if system != "package"), flush=True)
    return found


def main():
    command = parser(__doc__)
    command.add_argument("--models", default=MODELS)
    command.add_argument("--rounds", type=int, default=10)
    command.add_argument("--judge", action="store_true", help="measure PyTorch's package too")
    command.add_argument("--varying", action="store_true", help="package for many sizes")
    options = command.parse_args()
    keep("packages", {name: measure(name, options.rounds, options.judge, options.varying)
                      for name in options.models.split(",")}, options)


if __name__ == "__main__":
    main()
