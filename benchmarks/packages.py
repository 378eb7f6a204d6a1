"""Packaged models beside the same models compiled in Python, and PyTorch's packages: one thread, least milliseconds of
calls in turns.

    python -m benchmarks.packages --models resnet50,bert --judge
    python -m benchmarks.packages --varying             # for 1 to 16 examples, and texts of 2 to 512 words
    python -m benchmarks.packages --empty               # what a call costs beside its kernels: these do nothing

Tells the seconds that packaging takes, the package's size, milliseconds to open it and to its first result (in Python,
and with a C compiler in the program that ``examples/run.c`` is), a call, the same compiled in Python (for its
sizes alone), and with ``--judge`` a call of PyTorch's package, which its own compiler makes (that takes a C++ compiler,
and minutes: ``--folder`` keeps those packages).
"""
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import numpy as np

from .models.packaged import PACKAGED
from .results import keep, parser

ROOT = pathlib.Path(__file__).resolve().parents[1]


def built(one, library):
    """(library, model for inference, its inputs as the model takes them)."""
    t = importlib.import_module(library)
    t.set_num_threads(1)
    t.manual_seed(0)
    return t, one.case.model(t).eval(), tuple(one.case.data(t)[0][:len(one.varying)])


def package(t, one, model, inputs, path, varying=False):
    """Writes a package; (seconds, processor seconds of all threads)."""
    if varying and any(one.varying) and inputs[0].shape[0] == 1:
        inputs = tuple(t.cat([x, x]) for x in inputs)
    with t.no_grad():
        exported = t.export.export(model, inputs, dynamic_shapes=one.dynamic_shapes(t) if varying else None)
        began, spent = time.perf_counter(), time.process_time()
        t._inductor.aoti_compile_and_package(exported, package_path=path)
    return time.perf_counter() - began, time.process_time() - spent


def tensors(result):
    """The tensors of what a model returns."""
    if hasattr(result, "abs"):
        return [result]
    return [x for one in result for x in tensors(one)]


def emptied(out, names):
    """In place of ``packages.builds.add_kernels``: kernels that do nothing."""
    from rushlight._src.devices.cpu.llvm import jit
    from rushlight._src.devices.cpu.llvm.builder import Module
    from rushlight._src.devices.cpu.llvm.types import i64, ptr

    module = Module()
    for name in names.values():
        module.function(name, [("slots", ptr), ("begin", i64), ("end", i64), ("worker", i64)]).ret()
    out.add_object(jit.compile_object(module.text(), 1))


def overhead(name, options, folder):
    """Microseconds of a call in C of the package with kernels that do nothing."""
    from rushlight._src.packages import model as made

    ours, model, inputs = built(PACKAGED[name], "rushlight")
    kernels, made.add_kernels = made.add_kernels, emptied
    try:
        path = os.path.join(folder, f"{name}.pt2")
        package(ours, PACKAGED[name], model, inputs, path, options.varying)
    finally:
        made.add_kernels = kernels
    found = 1e3 * min(in_c(path, inputs, folder, 1000)["C: call ms"] for _ in range(3))
    steps = len(ours._inductor.aoti_load_package(path).get_metadata()["steps"])
    print(f"{name}: {steps} steps, {found:.2f} us a call", flush=True)
    return {"steps": steps, "call us": found}


def in_c(path, inputs, folder, repeat=10):
    """Milliseconds in a program of C: to open the package and compute the first result, the least of five processes,
    since others fill memory and wait for the disk; and of the fastest call."""
    if not shutil.which("cc"):
        return {}
    program = os.path.join(folder, "run")
    header = ROOT / "rushlight" / "_src" / "packages"
    subprocess.run(["cc", "-O2", "-I", header, ROOT / "examples" / "run.c", "-o", program, "-ldl"], check=True)
    given = []
    for k, x in enumerate(inputs):
        np.save(os.path.join(folder, f"{k}.npy"), x.numpy())
        given += ["--input", os.path.join(folder, f"{k}.npy")]
    firsts = []
    for times in 1, 1, 1, 1, repeat:
        told = subprocess.run([program, path, *given, "--repeat", str(times), "--threads", "1"], capture_output=True,
                              text=True, check=True).stdout
        opened, first, least = map(float, re.findall(r"([\d.]+) ms", told))
        firsts.append(opened + first)
    return {"C: open ms": opened, "C: first result ms": min(firsts), "C: call ms": least}


def judged(name, one, varying, folder):
    """(torch, a call of PyTorch's package)."""
    torch, model, inputs = built(one, "torch")
    path = os.path.join(folder, f"torch-{name}{'-varying' * varying}.pt2")
    if not os.path.exists(path):
        package(torch, one, model, inputs, path, varying)
    made = torch._inductor.aoti_load_package(path)
    return torch, lambda: made(*inputs)


def measure(name, options, folder):
    """The figures of one model."""
    one, varying = PACKAGED[name], options.varying
    ours, model, inputs = built(one, "rushlight")
    compiled, path = ours.compile(model), os.path.join(folder, f"{name}.pt2")
    with ours.no_grad():
        compiled(*inputs)
        seconds, spent = package(ours, one, model, inputs, path, varying)
        began = time.perf_counter()
        loaded = ours._inductor.aoti_load_package(path)
        opened = 1e3 * (time.perf_counter() - began)
        found = tensors(loaded(*inputs))
        first = 1e3 * (time.perf_counter() - began)
        apart = max((a - b).abs().max().item() for a, b in zip(found, tensors(model(*inputs))))
        if apart > 1e-2:
            raise AssertionError(f"{name}: the package is {apart} away from the model")
    systems = {"package": (ours, lambda: loaded(*inputs)), "compiled": (ours, lambda: compiled(*inputs))}
    if options.judge:
        systems["AOTInductor"] = judged(name, one, varying, options.folder or folder)
    least = dict.fromkeys(systems, float("inf"))
    for _ in range(options.rounds):
        for system, (t, call) in systems.items():
            with t.no_grad():
                began = time.thread_time()
                call()
                least[system] = min(least[system], 1e3 * (time.thread_time() - began))
    found = {"packaging s": seconds, "packaging processor s": spent, "MB": os.path.getsize(path) / 1e6,
             "open ms": opened, "first result ms": first, "apart": apart, **in_c(path, inputs, folder), **least}
    print(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in found.items()) + "; " +
          ", ".join(f"package / {system} {least['package'] / least[system]:.2f}" for system in least
                    if system != "package"), flush=True)
    return found


def main():
    command = parser(__doc__)
    command.add_argument("--models", default=",".join(PACKAGED))
    command.add_argument("--rounds", type=int, default=10)
    command.add_argument("--judge", action="store_true", help="measure PyTorch's package too")
    command.add_argument("--varying", action="store_true", help="package for many sizes")
    command.add_argument("--empty", action="store_true", help="measure calls whose kernels do nothing")
    command.add_argument("--folder", help="where PyTorch's packages are kept")
    options = command.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = overhead if options.empty else measure
        keep("packages", {name: measured(name, options, folder) for name in options.models.split(",")}, options)


if __name__ == "__main__":
    main()
