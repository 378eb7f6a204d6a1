"""Tests on another version of Python, taken from Debian's packages without installing them:
``python -m tests.pythons 3.14 [pytest arguments]``; with ``--machine aarch64`` on a processor that qemu-user plays.

Sets the interpreter and the wheels up once, in ``PYTHONS`` (default: ``~/.cache/rushlight-pythons``); where that cannot
be done it says so and ends well.  Tests that hold results against PyTorch skip themselves, since it is not set up.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import zipfile

NEWEST = "3.14"
PROJECT = pathlib.Path(__file__).resolve().parent.parent
SUITES = ("trixie", "forky", "sid")
LIBRARIES = ("libc6", "libstdc++6", "libgcc-s1", "zlib1g", "libexpat1", "libffi8", "libssl3t64", "libbz2-1.0",
             "liblzma5", "libsqlite3-0", "libuuid1", "libzstd1")
WHEELS = ("numpy", "llvmlite", "pytest", "pytest-xdist", "hypothesis")
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
TESTS = ("tests/capture", "tests/core", "tests/ops", "tests/autograd")
LAUNCHER = """#!/bin/sh
root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
"""
# what runs an interpreter of each machine, by its name and the name that Debian gives it
MACHINES = {
    "x86_64": ("amd64", 'exec "$root/usr/lib64/ld-linux-x86-64.so.2" --argv0 "$0" --library-path '
                        '"$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu" "$root/usr/bin/python{version}" "$@"'),
    "aarch64": ("arm64", 'exec qemu-aarch64-static -L "$root" "$root/usr/bin/python{version}" "$@"'),
}


class Unavailable(Exception):
    """The version cannot be set up here."""


def run(*command, cwd=None):
    """What a command prints; Unavailable where it fails."""
    try:
        done = subprocess.run(command, cwd=cwd, text=True, capture_output=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:3])}: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]}")
    return done.stdout


def mirror() -> str:
    """Where this machine has Debian's packages from.  Unavailable where it has none."""
    for place in (*pathlib.Path("/etc/apt/sources.list.d").glob("*.sources"), pathlib.Path("/etc/apt/sources.list")):
        found = re.search(r"^(?:URIs:\s*|deb\s+(?:\[[^]]*\]\s+)?)(\S+://\S*debian/?)(?:\s|$)",
                          place.read_text() if place.exists() else "", re.M)
        if found:
            return found[1].rstrip("/")
    raise Unavailable("no mirror of Debian's packages is known here")


def emulator(machine: str) -> None:
    """Sees to it that programs of a machine run here; Unavailable where they do not."""
    if machine == platform.machine() or shutil.which(f"qemu-{machine}-static"):
        return
    if os.getuid():
        raise Unavailable(f"qemu-{machine}-static is not installed (apt-get install qemu-user-static)")
    run("apt-get", "install", "-qq", "-y", "--no-install-recommends", "qemu-user-static")


def interpreter(version: str, folder: pathlib.Path, machine: str = "x86_64") -> pathlib.Path:
    """The launcher of this version, set up if it is not yet; Unavailable where no suite has it."""
    emulator(machine)
    kind, command = MACHINES[machine]
    launcher = folder / "root" / "usr" / "bin" / "python"
    if launcher.exists():
        return launcher
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    for suite in SUITES:
        (folder / suite / "partial").mkdir(parents=True, exist_ok=True)
        (folder / f"{suite}.list").write_text(f"deb [trusted=yes] {mirror()} {suite} main\n")
        options = [f"-oDir::State::Lists={folder / suite}", f"-oDir::Etc::SourceList={folder / suite}.list",
                   "-oDir::Etc::SourceParts=/dev/null", f"-oAPT::Architecture={kind}", f"-oAPT::Architectures={kind}"]
        try:
            run("apt-get", *options, "update")
            run("apt-cache", *options, "show", f"python{version}-minimal")
        except Unavailable:
            continue
        run("apt-get", *options, "download", f"python{version}-minimal", f"libpython{version}-minimal",
            f"libpython{version}-stdlib", *LIBRARIES, cwd=packages)
        for package in packages.glob("*.deb"):
            run("dpkg", "-x", str(package), str(folder / "root"))
        if not (folder / "root" / "lib").exists():
            (folder / "root" / "lib").symlink_to("usr/lib")
        launcher.write_text(LAUNCHER + command.replace("{version}", version) + "\n")
        launcher.chmod(0o755)
        return launcher
    raise Unavailable(f"none of the suites {', '.join(SUITES)} has Python {version}")


def wheels(version: str, folder: pathlib.Path, machine: str = "x86_64") -> pathlib.Path:
    """A folder with what the tests import."""
    site, got = folder / "site", folder / "wheels"
    if not (site / "ready").exists():
        platforms = [word for name in PLATFORMS for word in ("--platform", f"{name}_{machine}")]
        run(sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "--python-version", version,
            *platforms, "-d", str(got), *WHEELS)
        for wheel in got.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(site)
        (site / "ready").touch()
    return site


def installed(version: str, machine: str = "x86_64") -> tuple[pathlib.Path, dict]:
    """(the launcher of this version, the environment in which it imports the project), set up if it is not yet;
    Unavailable where it cannot be."""
    keep = pathlib.Path(os.environ.get("PYTHONS") or pathlib.Path.home() / ".cache" / "rushlight-pythons")
    keep = keep / (version if machine == "x86_64" else f"{version}-{machine}")
    python, site = interpreter(version, keep, machine), wheels(version, keep, machine)
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{PROJECT}"}
    environment.pop("PYTHONHOME", None)
    if "PYTHONPYCACHEPREFIX" not in environment:  # bytecode of this version is not left beside the sources
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return python, environment


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("version", nargs="?", default=NEWEST)
    parser.add_argument("--minutes", type=float, help="how long the tests may take; what has not run by then is said")
    parser.add_argument("--machine", choices=MACHINES, default="x86_64")
    options, arguments = parser.parse_known_args()
    try:
        python, environment = installed(options.version, options.machine)
    except Unavailable as reason:
        print(f"Python {options.version} is not tested: {reason}")
        return 0
    chosen = arguments if any(not a.startswith("-") for a in arguments) else [*arguments, *TESTS]
    try:
        return subprocess.run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen], cwd=PROJECT,
                              env=environment,
                              timeout=options.minutes and 60 * options.minutes).returncode
    except subprocess.TimeoutExpired:
        print(f"Python {options.version}: no failure within {options.minutes:g} minutes, and not every test has run")
        return 0


if __name__ == "__main__":
    sys.exit(main())
