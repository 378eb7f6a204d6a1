"""Processor time of programs whose kernels are new, as a share of PyTorch's.

    python -m benchmarks.programs.cold [--only mlp,gpt] [--repeat 3] [--write]

The package is installed from a wheel, as ``pip install`` would.  Each program of ``short.py`` runs in fresh processes
on one thread, by turns: under PyTorch, with an empty cache on disk, and with the cache that this run left.  Each figure
is the least of its repetitions.  Bytecode of both packages is compiled before the first one, as installing does.
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
import zipfile

from benchmarks import results

SHORT = pathlib.Path(__file__).with_name("short.py")
ROOT = SHORT.parents[2]
SOURCES = "rushlight", "building", "pyproject.toml", "README.md", "LICENSE", "rushlight_as_torch.py"
KINDS = "torch", "cold", "warm"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "RUSHLIGHT_NUM_THREADS"), "1")


def names():
    """The programs of ``short.py``, which imports PyTorch and is not imported here."""
    listed = re.search(r"^PROGRAMS = \((.*?)\)", SHORT.read_text(), re.MULTILINE | re.DOTALL).group(1)
    return re.findall(r"\w+", listed)


def install(folder):
    """Builds the wheel of this checkout, beside which nothing is left, and unpacks it; where."""
    source, site = folder / "source", folder / "site"
    source.mkdir()
    for name in SOURCES:
        (source / name).symlink_to(ROOT / name)
    build = f"import sys; sys.path.insert(0, 'building'); import backend; backend.build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, stdout=subprocess.DEVNULL)
    wheel, = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    return site


def processor_time(name, kind, site, cache):
    """User and system time of one process in seconds."""
    module = ["-m", "rushlight"] if kind != "torch" else []
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, **ONE_THREAD, "RUSHLIGHT_CACHE": cache, "PYTHONPATH": path,
                   "PYTHONPYCACHEPREFIX": str(site.parent / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *module, SHORT, name], env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(name, site, repeat):
    """{kind: least processor time}."""
    least = dict.fromkeys(KINDS, math.inf)
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as cache:
            for kind in KINDS:
                least[kind] = min(least[kind], processor_time(name, kind, site, cache))
    return least


def compile_bytecode(site):
    """Compile the package, and what a program imports of PyTorch, so that no process that is measured does."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(site.parent / "bytecode")}
    subprocess.run([sys.executable, "-m", "compileall", "-q", site], env=environment, check=True)
    processor_time(names()[0], "torch", site, "0")


def shares(found):
    """How much of PyTorch's processor time each kind of process takes."""
    return {kind: found[kind] / found["torch"] for kind in KINDS[1:]}


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    command = results.parser(__doc__)
    command.add_argument("--only", default="", help="names of programs, divided by commas")
    command.add_argument("--repeat", type=int, default=3)
    options = command.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        site = install(pathlib.Path(folder))
        compile_bytecode(site)
        for name in options.only.split(",") if options.only else names():
            found = figures[name] = measure(name, site, options.repeat)
            print(f"{name:12} torch {found['torch']:6.2f} s", *(f"{kind} {found[kind]:6.2f} s {share:5.2f}"
                                                               for kind, share in shares(found).items()), flush=True)
    for kind in KINDS[1:]:
        taken = [shares(found)[kind] for found in figures.values()]
        print(f"{kind}: geometric mean {mean(taken):.2f}, greatest {max(taken):.2f}")
    results.keep("programs.cold", figures, options)


if __name__ == "__main__":
    main()
