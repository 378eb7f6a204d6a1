"""The build backend: setuptools, and a ``rushlight.pth`` in every wheel, installed or editable, so that
RUSHLIGHT_AS_TORCH=1 is seen when Python starts."""
from __future__ import annotations

import base64
import hashlib
import os
import zipfile

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F401,F403 - the other hooks

NAME = "rushlight.pth"
LINE = 'import os; os.environ.get("RUSHLIGHT_AS_TORCH") == "1" and __import__("rushlight_as_torch")\n'


def with_hook(folder: str, wheel: str) -> str:
    """Adds the file to a wheel and to its list of files."""
    path = os.path.join(folder, wheel)
    digest = base64.urlsafe_b64encode(hashlib.sha256(LINE.encode()).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(f"{path}.new", "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                data += f"{NAME},sha256={digest},{len(LINE)}\n".encode()
            new.writestr(entry, data)
        new.writestr(NAME, LINE)
    os.replace(f"{path}.new", path)
    return wheel


def build_wheel(folder, config_settings=None, metadata_directory=None):
    return with_hook(folder, build_meta.build_wheel(folder, config_settings, metadata_directory))


def build_editable(folder, config_settings=None, metadata_directory=None):
    return with_hook(folder, build_meta.build_editable(folder, config_settings, metadata_directory))
