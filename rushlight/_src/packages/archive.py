"""Package files: a zip, stored, with a model's shared object, its manifest and the C header, laid out as PyTorch's
``.pt2`` archives."""
from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path


ROOT, FORMAT, VERSION = "package", "pt2", "0"
FOLDER = "data/aotinductor"
HEADER = Path(__file__).with_name("rushlight.h")
MOST = 1 << 40  # bytes of a package


class BadPackage(RuntimeError):
    """A file that is no package, or a damaged one."""


def write(target, models: dict):
    """Writes a package.  ``models``: {name: Model}; ``target``: a path or a file open for writing.  A file at the path
    is replaced once the new one is whole."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as file:
        def put(name: str, data):
            file.writestr(zipfile.ZipInfo(f"{ROOT}/{name}", (1980, 1, 1, 0, 0, 0)), data)

        put("archive_format", FORMAT)
        put("archive_version", VERSION)
        put("include/rushlight.h", HEADER.read_text())
        for name, model in models.items():
            image = model.shared_object()
            manifest = {**model.manifest(), "sha256": hashlib.sha256(image).hexdigest()}
            put(f"{FOLDER}/{name}/{name}.json", json.dumps(manifest, indent=1))
            put(f"{FOLDER}/{name}/{name}.so", image)
    if hasattr(target, "write"):
        target.write(held.getvalue())
        return target
    path = Path(os.fspath(target))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(held.getvalue())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return str(path)


class Package:
    """A package that was opened: ``manifests`` by model.  Opening reads metadata only; ``image`` gives a model's shared
    object after its hash was compared.

    BadPackage for anything that is not whole.
    """

    def __init__(self, source):
        try:
            self.file = zipfile.ZipFile(source)
            names = self.file.namelist()
            if self.text("archive_format") != FORMAT:
                raise BadPackage(f"a file of the format {self.text('archive_format')!r} is no package")
            paths = [n for n in names if n.startswith(f"{ROOT}/{FOLDER}/") and n.endswith(".json")]
            self.manifests = {Path(n).stem: json.loads(self.file.read(n)) for n in paths}
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError, RecursionError,
                OSError) as reason:
            if isinstance(reason, FileNotFoundError):
                raise
            raise BadPackage(f"not a package: {type(reason).__name__}: {reason}") from None
        for name, manifest in self.manifests.items():
            check_manifest(name, manifest)

    def text(self, name: str) -> str:
        return self.file.read(f"{ROOT}/{name}").decode()

    def image(self, name: str) -> bytes:
        if name not in self.manifests:
            raise BadPackage(f"the package has no model {name!r}; there are {', '.join(self.manifests)}")
        try:
            data = self.file.read(f"{ROOT}/{FOLDER}/{name}/{name}.so")
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError, OSError) as reason:
            raise BadPackage(f"the model {name!r} is damaged: {reason}") from None
        if hashlib.sha256(data).hexdigest() != self.manifests[name]["sha256"]:
            raise BadPackage(f"the model {name!r} is damaged: its hash is not that of the manifest")
        return data


def check_manifest(name: str, manifest):
    """BadPackage for a manifest whose entries are not what the loader reads."""
    def refuse(what):
        raise BadPackage(f"the manifest of {name!r} is damaged: {what}")

    if not isinstance(manifest, dict):
        refuse("no object")
    for key, kind in (("version", int), ("target", str), ("sha256", str), ("instructions", list), ("inputs", list),
                      ("outputs", list), ("constants", list), ("threads", int)):
        if not isinstance(manifest.get(key), kind):
            refuse(f"{key} is {manifest.get(key)!r}")
    for row in (*manifest["inputs"], *manifest["outputs"], *manifest["constants"]):
        if not (isinstance(row, dict) and isinstance(row.get("name"), str) and isinstance(row.get("dtype"), str)):
            refuse(f"{row!r} is no tensor")
        for key in ("shape", "strides"):
            if not (isinstance(row.get(key), list) and all(type(n) is int and 0 <= n < MOST for n in row[key])):
                refuse(f"{row['name']} has the {key} {row.get(key)!r}")
        if len(row["shape"]) != len(row["strides"]):
            refuse(f"{row['name']} has {len(row['shape'])} sizes and {len(row['strides'])} strides")
