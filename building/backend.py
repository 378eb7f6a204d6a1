"""The build backend: setuptools, and in every wheel, installed or editable, a ``rushlight.pth``, so that
RUSHLIGHT_AS_TORCH=1 is seen when Python starts.  Wheels that are not editable have machine code of the hot path for the
interpreter that builds them; other interpreters compile it (``core/native/compiler/prebuilt.py``)."""
from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import zipfile

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F401,F403 - the other hooks

HOOK = {"rushlight.pth":
        b'import os; os.environ.get("RUSHLIGHT_AS_TORCH") == "1" and __import__("rushlight_as_torch")\n'}
PREBUILT = "rushlight/_src/core/native/prebuilt"


def with_files(folder: str, wheel: str, files: dict) -> str:
    """Adds files to a wheel and to its list of files."""
    path = os.path.join(folder, wheel)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(f"{path}.new", "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                data += "".join(row(name, added) for name, added in files.items()).encode()
            new.writestr(entry, data)
        for name, added in files.items():
            new.writestr(name, added)
    os.replace(f"{path}.new", path)
    return wheel


def row(name: str, data: bytes) -> str:
    """The line of a file in a wheel's RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def machine_code() -> dict:
    """The files of machine code for this interpreter; none where it cannot be made, which is said."""
    path = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "RUSHLIGHT_NATIVE": "0", "RUSHLIGHT_CACHE": "0"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-B", "-m", "rushlight._src.core.native.compiler.prebuilt", folder],
                              env=environment, capture_output=True, text=True)
        if done.returncode:
            print(f"the wheel has no machine code of the hot path:\n{done.stderr}", file=sys.stderr)
        return {f"{PREBUILT}/{file.name}": file.read_bytes() for file in pathlib.Path(folder).iterdir()}


def get_requires_for_build_wheel(config_settings=None):
    """Return the package's own dependencies, since the build compiles its hot path."""
    with open("pyproject.toml", "rb") as file:
        needed = tomllib.load(file)["project"]["dependencies"]
    return [*build_meta.get_requires_for_build_wheel(config_settings), *needed]


def build_wheel(folder, config_settings=None, metadata_directory=None):
    made = build_meta.build_wheel(folder, config_settings, metadata_directory)
    return with_files(folder, made, {**HOOK, **machine_code()})


def build_editable(folder, config_settings=None, metadata_directory=None):
    return with_files(folder, build_meta.build_editable(folder, config_settings, metadata_directory), HOOK)
