"""Runs a Python of Windows under Wine, with the package: ``python -m tests.windows [pytest arguments]``, or ``python -m
tests.windows --run FILE`` for a program.

The interpreter is that of Windows as Panda3D's wheel brings it for programs made with it (signed by the Python Software
Foundation), the standard library is that of the Python that runs this, and NumPy and llvmlite are their wheels for
Windows.  Wine's library of C lacks functions of complex numbers before version 10, which NumPy needs: they are compiled
here.  All is set up once, in ``WINDOWS`` (default: ``~/.cache/rushlight-windows``); where that cannot be done this says
so and ends well.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import zipfile

from .pythons import PROJECT, Unavailable, run

COMPILER, READER = "x86_64-w64-mingw32-gcc", "x86_64-w64-mingw32-objdump"
INTERPRETER, WHEELS = "panda3d", ("numpy", "llvmlite", "pytest", "hypothesis", "colorama")
TESTS = ("tests/platforms/test_program.py", "tests/core/native/test_arithmetic.py", "tests/core/native/test_classes.py")
# names of equal length: libraries that import the first one are given the second
LACKING, GIVEN = b"api-ms-win-crt-math-l1-1-0.dll", b"rushlight-mathematics-of-c.dll"
COMPLEX = re.compile(r"c(real|imag|abs|arg|exp|log|pow|sqrt|sin|cos|tan|sinh|cosh|tanh)([fl]?)$")
LAUNCHER = """
#include <windows.h>
int wmain(int count, wchar_t **arguments) {
    HMODULE library = LoadLibraryW(L"python%s.dll");
    int (*run)(int, wchar_t **) = library ? (void *)GetProcAddress(library, "Py_Main") : 0;
    return run ? run(count, arguments) : 100;
}
"""
PARTS = """
#include <complex.h>
typedef struct {float r, i;} F;
typedef struct {double r, i;} D;
static float complex of_F(F v) { float complex z; __real__ z = v.r; __imag__ z = v.i; return z; }
static double complex of_D(D v) { double complex z; __real__ z = v.r; __imag__ z = v.i; return z; }
static F to_F(float complex z) { F v = {__real__ z, __imag__ z}; return v; }
static D to_D(double complex z) { D v = {__real__ z, __imag__ z}; return v; }
"""


def needed() -> str:
    """The command of Wine; Unavailable where something is missing."""
    wine = shutil.which("wine") or shutil.which("wine64")
    if not wine or not shutil.which(COMPILER):
        raise Unavailable("Wine or a compiler for Windows is not installed (apt-get install wine64 mingw-w64)")
    return wine


def download(folder: pathlib.Path, *names: str):
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    run(sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "--no-deps" if names == (INTERPRETER,)
        else "-q", "--python-version", version, "--platform", "win_amd64", "-d", str(folder), *names)


def interpreter(root: pathlib.Path, folder: pathlib.Path):
    """Puts ``python.exe``, its libraries and modules there."""
    download(folder, INTERPRETER)
    (root / "DLLs").mkdir(parents=True)
    for wheel in folder.glob(f"{INTERPRETER}*.whl"):
        archive = zipfile.ZipFile(wheel)
        for name in archive.namelist():
            short = pathlib.PurePosixPath(name).name
            if name.startswith("deploy_libs/") and not short.startswith("api-ms-") or short == "MSVCP140.dll":
                (root / ("DLLs" if short.endswith(".pyd") else "") / short).write_bytes(archive.read(name))
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    if not (root / f"python{version}.dll").exists():
        raise Unavailable(f"there is no interpreter of Windows for Python {version}")
    (root / "launcher.c").write_text(LAUNCHER % version)
    run(COMPILER, "-municode", "-o", str(root / "python.exe"), str(root / "launcher.c"))
    shutil.copytree(sysconfig.get_path("stdlib"), root / "Lib", ignore=shutil.ignore_patterns(
        "site-packages", "test", "lib-dynload", "__pycache__", "config-*"))


def imported(file: pathlib.Path) -> set:
    """The names that a library imports from what Wine lacks a part of."""
    library, found = "", set()
    for line in run(READER, "-p", str(file)).splitlines():
        if "DLL Name:" in line:
            library = line.split()[-1]
        name = re.match(r"\s+[0-9a-f]+\s+\d+\s+([A-Za-z_]\w*)$", line)
        if name and library.encode() == LACKING:
            found.add(name[1])
    return found


def complex_function(name: str) -> str:
    """A function of C's library as Windows calls it: there a ``long double`` is a ``double``."""
    which, kind = COMPLEX.match(name).groups()
    form, real, own = ("F", "float", name) if kind == "f" else ("D", "double", f"c{which}")
    given, called = f"{form} a", f"{own}(of_{form}(a)"
    if which == "pow":
        given, called = f"{form} a, {form} b", f"{called}, of_{form}(b)"
    if which in ("real", "imag", "abs", "arg"):
        return f"{real} rl_{name}({given}) {{ return {called}); }}"
    return f"{form} rl_{name}({given}) {{ return to_{form}({called})); }}"


def mathematics(root: pathlib.Path):
    """Has the libraries of wheels import C's mathematics from a library that is compiled here: complex functions, and
    the others as Wine has them."""
    files = [file for kind in ("*.pyd", "*.dll") for file in (root / "Lib" / "site-packages").rglob(kind)
             if LACKING in file.read_bytes()]
    names = sorted(set().union(*map(imported, files)))
    own = [name for name in names if COMPLEX.match(name)]
    (root / "mathematics.c").write_text(PARTS + "\n".join(map(complex_function, own)) + "\n")
    (root / "mathematics.def").write_text("EXPORTS\n" + "".join(
        f"{name} = {f'rl_{name}' if name in own else f'ucrtbase.{name}'}\n" for name in names))
    run(COMPILER, "-O2", "-static", "-shared", "-o", str(root / GIVEN.decode()), str(root / "mathematics.c"),
        str(root / "mathematics.def"))
    for file in files:
        file.write_bytes(file.read_bytes().replace(LACKING, GIVEN))


def installed() -> tuple[list, dict]:
    """(the command that runs Python of Windows, its environment), set up if it is not yet; Unavailable where it cannot
    be."""
    wine = needed()
    keep = pathlib.Path(os.environ.get("WINDOWS") or pathlib.Path.home() / ".cache" / "rushlight-windows").absolute()
    root, home = keep / "root", keep / "home"
    if not (keep / "ready").exists():
        shutil.rmtree(keep, ignore_errors=True)
        interpreter(root, keep / "interpreter")
        download(keep / "wheels", *WHEELS)
        for wheel in (keep / "wheels").glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(root / "Lib" / "site-packages")
        mathematics(root)
        home.mkdir()
        (keep / "ready").touch()
    own = {name: value for name, value in os.environ.items()
           if not name.startswith("RUSHLIGHT_") or name in ("RUSHLIGHT_LOGS", "RUSHLIGHT_CPU")}
    return [wine, str(root / "python.exe")], {
        **own, "HOME": str(home), "WINEPREFIX": str(home / "wine"), "WINEDEBUG": "-all", "PYTHONHOME": of_wine(root),
        "PYTHONPATH": of_wine(PROJECT), "PYTHONDONTWRITEBYTECODE": "1", "RUSHLIGHT_CACHE": of_wine(keep / "cache")}


def of_wine(path: pathlib.Path) -> str:
    """How Wine calls a path of this system."""
    return "Z:" + str(path).replace("/", "\\")


def shown(command, environment, minutes: float) -> int:
    """Runs a command and shows what it prints, through a pipe: Wine does not take every kind of file."""
    with subprocess.Popen(command, cwd=PROJECT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as process:
        late = threading.Timer(60 * minutes, process.kill)
        late.start()
        for line in process.stdout:
            print(line.decode(errors="replace").rstrip(), flush=True)
        ended = not late.is_alive()
        late.cancel()
    if ended:
        print(f"Python of Windows: no failure within {minutes:g} minutes, and not everything has run")
    return 0 if ended else process.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=30, help="how long it may take")
    parser.add_argument("--run", type=pathlib.Path, help="a program to run in place of tests")
    options, arguments = parser.parse_known_args()
    try:
        command, environment = installed()
    except Unavailable as reason:
        print(f"Python of Windows is not tested: {reason}")
        return 0
    if options.run:
        command = [*command, of_wine(options.run.absolute()), *arguments]
    else:
        chosen = arguments if any(not a.startswith("-") for a in arguments) else [*arguments, *TESTS]
        command = [*command, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", *chosen]
    return shown(command, environment, options.minutes)


if __name__ == "__main__":
    sys.exit(main())
