"""``python -m rushlight``: what programs find, and what the processes find that they start."""
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from ..startup.machine_code import search_path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import multiprocessing, sys
import torch
from dataclasses import dataclass

@dataclass
class Point:
    x: float

def work(queue, point):
    queue.put((torch.__file__.split("/")[-2], torch.arange(3.0).sum().item() + point.x, __name__, type(point).__name__))

if __name__ == "__main__":
    print(sys.argv[1:], __file__, sys.modules["__main__"].Point is Point)
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    process = context.Process(target=work, args=(queue, Point(4.0)))
    process.start()
    print(queue.get(timeout=600))
    process.join()
    sys.exit(7)
"""
TELL = "import sys, torch; print(sys.argv, torch.__file__.split('/')[-2], __name__)"
SPREAD = ("import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import torch; "
          "print(torch.__file__)'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout)")


def rushlight(*arguments, folder=None, **options):
    return subprocess.run([sys.executable, "-m", "rushlight", *arguments], cwd=folder,
                          env={**os.environ, "PYTHONPATH": search_path(ROOT)}, capture_output=True, text=True,
                          timeout=900, **options)


def test_spawned_processes_find_rushlight_too(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT)
    done = rushlight("program.py", "spawn", folder=tmp_path)
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines() == ["['spawn'] program.py True", "('rushlight', 7.0, '__mp_main__', 'Point')"]


def test_an_error_is_that_of_the_script(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import torch\n\nraise ValueError(torch.ones(1))\n")
    done = rushlight(str(script))
    assert done.returncode == 1 and "ValueError: tensor([1.])" in done.stderr and "program.py\", line 3" in done.stderr


@pytest.mark.parametrize("arguments, given, argv",
                         [(["-c", TELL, "a", "-b"], None, ["-c", "a", "-b"]), (["-"], TELL, ["-"]), ([], TELL, ["-"]),
                          (["-m", "told.inner", "a"], None, [os.path.join("told", "inner.py"), "a"])])
def test_programs_that_are_no_file(arguments, given, argv, tmp_path):
    (tmp_path / "told").mkdir()
    (tmp_path / "told" / "inner.py").write_text(TELL)
    done = rushlight(*arguments, folder=tmp_path, input=given or "")
    assert done.stdout.replace(f"{tmp_path}{os.sep}", "").strip() == f"{argv} rushlight __main__", done.stderr


def test_modules_of_torch_run_as_programs():
    done = rushlight("-m", "torch.distributed.run", "--help")
    assert done.returncode == 0 and "--nproc-per-node" in done.stdout, done.stderr


def test_child_processes_find_rushlight_too(tmp_path):
    assert rushlight("-c", SPREAD).stdout.strip() == str(ROOT / "rushlight" / "__init__.py")
    (tmp_path / "sitecustomize.py").write_text("print('customized')")
    code = f"import os; os.environ['PYTHONPATH'] += os.pathsep + {str(tmp_path)!r}; {SPREAD}"
    assert rushlight("-c", code).stdout.split() == ["customized", str(ROOT / "rushlight" / "__init__.py")]


def test_collections_skip_the_package_and_find_cycles_of_the_program():
    code = """
import gc, weakref
class Cycle: pass
one = Cycle()
one.own, known = one, weakref.ref(one)
del one
gc.collect()
print(known(), gc.get_freeze_count() > len(gc.get_objects()))
"""
    assert rushlight("-c", code).stdout.split() == ["None", "True"]


@pytest.mark.parametrize("arguments", [["nothing.py"], ["-m"], ["-c"]])
def test_what_cannot_be_run(arguments):
    done = rushlight(*arguments)
    assert done.returncode == 2 and done.stderr.startswith("python -m rushlight: ")


@pytest.mark.parametrize("build", ["build_wheel", "build_editable"])
def test_an_installed_hook_costs_nothing_and_works_everywhere(build, tmp_path):
    pytest.importorskip("setuptools")
    source = tmp_path / "source"
    source.mkdir()
    for name in ("rushlight", "building", "pyproject.toml", "README.md", "LICENSE", "rushlight_as_torch.py"):
        (source / name).symlink_to(ROOT / name)
    text = f"import sys; sys.path.insert(0, 'building'); import backend; print(backend.{build}({str(tmp_path)!r}))"
    made = subprocess.run([sys.executable, "-c", text], cwd=source, capture_output=True, text=True, timeout=1500)
    assert made.returncode == 0, made.stderr
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    site = next((tmp_path / "venv").rglob("site-packages"))
    with zipfile.ZipFile(tmp_path / made.stdout.split()[-1]) as wheel:
        listed = wheel.read(next(n for n in wheel.namelist() if n.endswith("RECORD"))).decode()
        assert {line.split(",")[0] for line in listed.splitlines()} == set(wheel.namelist())
        wheel.extractall(site)
    (site / "zzz.pth").write_text(sysconfig.get_paths()["purelib"])  # what it depends on, and another torch

    def told(code, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "RUSHLIGHT_AS"))}
        done = subprocess.run([python, "-c", code], cwd=tmp_path, env={**env, **more}, capture_output=True, text=True,
                              timeout=900)
        return done.stdout.strip() or done.stderr

    assert told("import sys; print('rushlight_as_torch' in sys.modules)") == "False"
    first = told("import rushlight", RUSHLIGHT_LOGS="timing", RUSHLIGHT_CACHE=str(tmp_path / "cache"))
    assert ("loaded" if build == "build_wheel" else "compiled") + " the hot path" in first, first
    assert told("import sys; print('rushlight_as_torch' in sys.modules, 'rushlight' in sys.modules)",
                RUSHLIGHT_AS_TORCH="1") == "True False"
    assert told("import torch.nn; print(torch.nn.__spec__.name, torch.nn.Linear.__module__)",
                RUSHLIGHT_AS_TORCH="1") == "rushlight.nn torch.nn.modules.linear"
    assert "rushlight" in told("from importlib.metadata import version; print(version('torch'))",
                               RUSHLIGHT_AS_TORCH="1")
    for name in ("torch", "torch.nn", "functorch"):  # each is the first that a program asks for
        assert told(f"import {name}, rushlight, torch, sys; print(torch is rushlight is sys.modules['torch'], "
                    "torch.ops is rushlight.ops)", RUSHLIGHT_AS_TORCH="1") == "True True"
    trains = ("import torch; f = torch.compile(torch.nn.Linear(2, 1)); f(torch.ones(1, 2)).sum().backward(); "
              "print([p.grad.tolist() for p in f.parameters()])")
    assert told(trains, RUSHLIGHT_AS_TORCH="1") == "[[[1.0, 1.0]], [1.0]]"
