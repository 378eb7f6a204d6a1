"""Processor time of programs whose kernels are new, as a share of PyTorch's.

    python -m benchmarks.programs.cold [--only mlp,gpt] [--repeat 3] [--write]

Each program of ``short.py`` runs in fresh processes on one thread, by turns: under PyTorch, with an empty cache on disk,
and with the cache that this run left.  Each figure is the least of its repetitions.
"""

from __future__ import annotations

import math
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

from benchmarks import results

SHORT = pathlib.Path(__file__).with_name("short.py")
ROOT = SHORT.parents[2]
KINDS = "torch", "cold", "warm"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "RUSHLIGHT_NUM_THREADS"), "1")


def names():
    """The programs of ``short.py``, which imports PyTorch and is not imported here."""
    listed = re.search(r"^PROGRAMS = \((.*?)\)", SHORT.read_text(), re.MULTILINE | re.DOTALL).group(1)
    return re.findall(r"\w+", listed)


def processor_time(name, kind, cache):
    """User and system time of one process in seconds."""
    module = ["-m", "rushlight"] if kind != "torch" else []
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, **ONE_THREAD, "RUSHLIGHT_CACHE": cache, "PYTHONPATH": path}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *module, SHORT, name], env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(name, repeat):
    """{kind: least processor time}."""
    least = dict.fromkeys(KINDS, math.inf)
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as cache:
            for kind in KINDS:
                least[kind] = min(least[kind], processor_time(name, kind, cache))
    return least


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    command = results.parser(__doc__)
    command.add_argument("--only", default="", help="names of programs, divided by commas")
    command.add_argument("--repeat", type=int, default=3)
    options = command.parse_args()
    figures = {}
    for name in options.only.split(",") if options.only else names():
        found = figures[name] = measure(name, options.repeat)
        print(f"{name:12} torch {found['torch']:6.2f} s   cold {found['cold']:6.2f} s "
              f"{found['cold'] / found['torch']:5.2f}   warm {found['warm']:6.2f} s {found['warm'] / found['torch']:5.2f}",
              flush=True)
    for kind in KINDS[1:]:
        shares = [found[kind] / found["torch"] for found in figures.values()]
        print(f"{kind}: geometric mean {mean(shares):.2f}, greatest {max(shares):.2f}")
    results.keep("programs.cold", figures, options)


if __name__ == "__main__":
    main()
