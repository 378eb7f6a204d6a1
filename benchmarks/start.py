"""What it costs to begin: import time and memory, installed size, the first GPT step in a fresh process (cold and warm
cache), and the first compiled step of GPTs of more and more layers.

    python -m benchmarks.start [--write]  all of it
    python -m benchmarks.start --layers   the last part only
"""
import importlib.metadata
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from .results import keep, parser

HERE = pathlib.Path(__file__).resolve().parent
IMPORT = """
import time; began = time.perf_counter(); import {0}; took = time.perf_counter() - began
print(took, next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmRSS')) / 1024)
"""
FIRST_STEP = """
import importlib, sys, time; began = time.perf_counter(); sys.path.insert(0, {1!r})
from benchmarks import train
t = importlib.import_module({0!r}); t.set_num_threads(2)
step = train.stepper(t, 'gpt'); step(); print(time.perf_counter() - began, time.process_time())
"""
LAYERS = """
import sys, time; sys.path.insert(0, {1!r})
import rushlight as torch
from benchmarks.models import load
torch.set_num_threads(1)
model = load("gpt", torch).GPT(65, 32, {0}, 2, 32, 0.0)
f, x = torch.compile(model), torch.zeros((2, 32), dtype=torch.int64)
began, processor = time.perf_counter(), time.process_time()
f(x, x).backward(); print(time.perf_counter() - began, time.process_time() - processor)
"""
NEEDED = {"rushlight": ["rushlight", "numpy", "llvmlite"],
          "torch": ["torch", "filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "mpmath",
                    "MarkupSafe"]}


def run(code, **environment):
    """The numbers that a fresh process prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environment})
    return [float(x) for x in done.stdout.split()]


def installed_megabytes(library):
    """Files of the library and of what it depends on, without byte code."""
    total = 0
    for name in NEEDED[library]:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            files = []
        sizes = [p.stat().st_size for p in (pathlib.Path(f.locate()) for f in files) if p.suffix != ".pyc"
                 and p.is_file()]
        if name == "rushlight" and sum(sizes) < 100_000:  # an editable installation, or a checkout on the path
            sizes = [p.stat().st_size for p in (HERE.parent / "rushlight").rglob("*.py")]
        total += sum(sizes)
    return total / 1e6


def report(figures, what, times):
    figures[what] = {"seconds": round(times[0], 2), "processor seconds": round(times[1], 2)}
    print(f"{what}: {times[0]:.2f} s ({times[1]:.2f} s of processor time)")


def layers(figures):
    """What the first compiled training step takes beside the number of layers, which are alike: kernels are compiled
    once, and layers planned once."""
    for count in (2, 6, 12, 24, 48):
        with tempfile.TemporaryDirectory() as cache:
            for state in ("cold", "warm"):
                times = run(LAYERS.format(count, str(HERE.parent)), RUSHLIGHT_CACHE=cache)
                report(figures, f"first compiled step of a GPT of {count} narrow layers, {state} cache", times)


def main():
    command = parser(__doc__)
    command.add_argument("--layers", action="store_true", help="compiled GPTs of more and more layers alone")
    options, figures = command.parse_args(), {}
    if not options.layers:
        beginnings(figures)
    layers(figures)
    keep("start", figures, options)


def beginnings(figures):
    """Import, installed size and the first uncompiled step of either library."""
    for library in NEEDED:
        run(IMPORT.format(library))  # byte code gets written
        runs = [run(IMPORT.format(library)) for _ in range(5)]
        seconds, memory = (statistics.median(values) for values in zip(*runs))
        figures[f"{library}, import"] = {"seconds": round(seconds, 3), "resident MB": round(memory),
                                         "installed MB": round(installed_megabytes(library))}
        print(f"{library}: import {seconds:.2f} s ({min(r[0] for r in runs):.2f} to {max(r[0] for r in runs):.2f}), "
              f"{memory:.0f} MB resident; "
              f"installed with dependencies {installed_megabytes(library):.0f} MB")
    with tempfile.TemporaryDirectory() as cache:
        for state in ("cold", "warm", "warm"):
            report(figures, f"rushlight, {state} kernel cache: import to the end of the first GPT step",
                   run(FIRST_STEP.format("rushlight", str(HERE.parent)), RUSHLIGHT_CACHE=cache))
    report(figures, "torch: import to the end of the first GPT step", run(FIRST_STEP.format("torch", str(HERE.parent))))


if __name__ == "__main__":
    main()
