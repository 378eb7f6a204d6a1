"""Package files: a zip, stored, with a model's shared object, its manifest and the headers of C and C++, laid out as
PyTorch's ``.pt2`` archives."""
from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
from pathlib import Path

from .interface import HEADER_BYTES, SUFFIXES, VERSION as INTERFACE
from .nesting import Nesting

ROOT, FORMAT, VERSION = "package", "pt2", "0"
FOLDER = "data/aotinductor"
FOLDER_OF_HEADERS = Path(__file__).parent
HEADERS = {"wasm": ("rushlight.h", "rushlight.hpp", "rushlight.mjs"), "cubin": ("rushlight.h", "rushlight_gpu.h"),
           "hsaco": (), "program": ()}
"""What a package has for programs of its users, by how names of its code end."""
LIBRARIES = "rushlight.h", "rushlight.hpp"
MOST = 1 << 40  # bytes of a package
PAGE, PADDING = 4096, 0xD935  # where weights begin; the field that a zip's entry is filled up with
CHECKED = 1 << 24  # bytes of weights that are compared with their hash whenever a model is loaded
FOREIGN = ("the file is a package of PyTorch's AOTInductor: its shared object needs PyTorch's C++ library, so only PyTorch "
           "runs it. Save the program with torch.export.save, which is read here, and package that")
DAMAGED = (zipfile.BadZipFile, KeyError, ValueError, EOFError, RuntimeError, OSError, OverflowError, struct.error)


class BadPackage(RuntimeError):
    """A file that is no package, or a damaged one."""


def is_of_pytorch(names) -> bool:
    """True if an archive with entries of these names is a package that PyTorch's AOTInductor wrote: it has code of a
    model, but no manifest of that model's name as our packages do."""
    parts = [name.partition(f"{FOLDER}/")[2].split("/") for name in names if f"{FOLDER}/" in name]
    files = {(model, file) for model, *rest in parts for file in rest[-1:]}
    code = {model for model, file in files if file.endswith((".so", ".pyd", ".dylib", ".wrapper.cpp"))}
    return any((model, f"{model}.json") not in files for model in code)


def is_foreign(f) -> bool:
    """True if an open file is a package of PyTorch's AOTInductor; its position stays."""
    start = f.tell()
    try:
        with zipfile.ZipFile(f) as archive:
            return is_of_pytorch(archive.namelist())
    except DAMAGED:
        return False  # the reader of the format says what is wrong
    finally:
        f.seek(start)


def write(target, models: dict, metadata=None):
    """Write a package.  ``models``: {name: Model}; ``target``: a path or a file open for writing.  A file at the path
    is replaced atomically.  ``metadata``: further entries of each manifest."""
    if hasattr(target, "write"):
        held = io.BytesIO()
        write_to(held, models, metadata)
        target.write(held.getvalue())
        return target
    path = Path(os.fspath(target))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            write_to(file, models, metadata)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return str(path)


def write_to(target, models: dict, metadata=None):
    """Write a package to a seekable file."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as file:
        def put(name: str, data):
            file.writestr(entry_of(name), data)

        put("archive_format", FORMAT)
        put("archive_version", VERSION)
        for name in dict.fromkeys(name for model in models.values() for name in HEADERS.get(model.suffix, LIBRARIES)):
            put(f"include/{name}", (FOLDER_OF_HEADERS / name).read_text())
        for name, model in models.items():
            place = put_weights(file, f"{FOLDER}/{name}/{name}.weights", model.weights) if model.weights else 0
            files = model.files(place)
            manifest = {**model.manifest(), "sha256": hashlib.sha256(b"".join(files.values())).hexdigest(),
                        **({"metadata": metadata} if metadata else {})}
            put(f"{FOLDER}/{name}/{name}.json", json.dumps(manifest, indent=1))
            for file_name, data in files.items():
                put(f"{FOLDER}/{name}/{file_name}", data)


def entry_of(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{ROOT}/{name}", (1980, 1, 1, 0, 0, 0))


def put_weights(file: zipfile.ZipFile, name: str, weights) -> int:
    """Writes weights so that they begin on a page of the package; where that is."""
    info, begin = entry_of(name), file.fp.tell()
    info.file_size = len(weights.header) + weights.nbytes
    large = info.file_size > zipfile.ZIP64_LIMIT // 2
    head = 30 + len(info.filename.encode()) + 4 + 20 * large
    place = -(-(begin + head) // PAGE) * PAGE
    info.extra = struct.pack("<HH", PADDING, place - begin - head) + bytes(place - begin - head)
    with file.open(info, "w", force_zip64=large) as entry:
        entry.write(weights.header)
        for block in weights.blocks():
            entry.write(block)
    return place


class Package:
    """A package that was opened: ``manifests`` by model.  Opening reads metadata only; ``image`` gives a model's shared
    object after its hash was compared.

    BadPackage for anything that is not whole.
    """

    def __init__(self, source):
        self.path = None if hasattr(source, "read") else os.fspath(source)
        try:
            self.file = zipfile.ZipFile(source)
            names = self.file.namelist()
            if is_of_pytorch(names):
                raise BadPackage(FOREIGN)
            if self.text("archive_format") != FORMAT:
                raise BadPackage(f"a file of the format {self.text('archive_format')!r} is no package")
            paths = [n for n in names if n.startswith(f"{ROOT}/{FOLDER}/") and n.endswith(".json")]
            self.manifests = {Path(n).stem: json.loads(self.file.read(self.stored(n))) for n in paths}
        except (FileNotFoundError, BadPackage):
            raise
        except DAMAGED as reason:
            raise BadPackage(f"not a package: {type(reason).__name__}: {reason}") from None
        for name, manifest in self.manifests.items():
            check_manifest(name, manifest)
            try:
                Nesting(manifest)
            except (*DAMAGED, TypeError, AttributeError) as reason:  # of nothing but the manifest's own content
                raise BadPackage(f"the manifest of {name!r} is damaged: it does not tell how the model is called "
                                 f"({type(reason).__name__}: {reason})") from None

    def text(self, name: str) -> str:
        return self.file.read(self.stored(f"{ROOT}/{name}")).decode()

    def stored(self, name: str) -> zipfile.ZipInfo:
        """Return an entry of the zip, which must be neither compressed nor encrypted."""
        info = self.file.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise BadPackage(f"not a package: {name} is compressed or encrypted")
        return info

    def image(self, name: str) -> bytes:
        """The shared object of a model, as it was written."""
        if name not in self.manifests:
            raise BadPackage(f"the package has no model {name!r}; there are {', '.join(self.manifests)}")
        manifest = self.manifests[name]
        return self.part(name, f"{name}.{SUFFIXES.get(manifest['target'], 'so')}", manifest["sha256"])

    def part(self, name: str, file_name: str, sha256: str) -> bytes:
        """A file of a model, as it was written."""
        try:
            data = self.file.read(self.stored(f"{ROOT}/{FOLDER}/{name}/{file_name}"))
        except DAMAGED as reason:
            raise BadPackage(f"the model {name!r} is damaged: {reason}") from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise BadPackage(f"the model {name!r} is damaged: the hash of {file_name} is not that of the manifest")
        return data

    def verify(self, name: str):
        """Compare the weights of a model with their hash; BadPackage if they differ.  It reads all of them, a second
        for 2 GB, so it is done on request, or if they are small."""
        told = self.manifests[name].get("weights")
        if told is None:
            return
        made = hashlib.sha256()
        try:
            with self.file.open(self.stored(self.weights_entry(name))) as entry:
                entry.read(HEADER_BYTES)
                while block := entry.read(1 << 22):
                    made.update(block)
        except DAMAGED as reason:
            raise BadPackage(f"the weights of {name!r} are damaged: {reason}") from None
        if made.hexdigest() != told["sha256"]:
            raise BadPackage(f"the weights of {name!r} are damaged: their hash is not that of the manifest")

    def weights(self, name: str) -> bytes:
        """The weights of a model, with their header, for a package that is no file of the system."""
        try:
            return self.file.read(self.stored(self.weights_entry(name)))
        except DAMAGED as reason:
            raise BadPackage(f"the weights of {name!r} are damaged: {reason}") from None

    def weights_entry(self, name: str) -> str:
        return f"{ROOT}/{FOLDER}/{name}/{name}.weights"


def check_manifest(name: str, manifest):
    """BadPackage for a manifest whose entries are not what the loader reads."""
    def refuse(what):
        raise BadPackage(f"the manifest of {name!r} is damaged: {what}")

    if not isinstance(manifest, dict):
        refuse("no object")
    if isinstance(manifest.get("version"), int) and manifest["version"] != INTERFACE:
        raise BadPackage(f"the model {name!r} has version {manifest['version']} of the interface, and this is "
                         f"{INTERFACE}: package it again")
    for key, kind in (("version", int), ("target", str), ("sha256", str), ("instructions", list), ("levels", list),
                      ("checks", list),
                      ("inputs", list),
                      ("outputs", list), ("constants", list), ("varying", list), ("threads", int)):
        if not isinstance(manifest.get(key), kind):
            refuse(f"{key} is {manifest.get(key)!r}")
    for key in ("instructions", "levels"):
        if not all(isinstance(one, str) for one in manifest[key]):
            refuse(f"{key} are {manifest[key]!r}")
    wanted = manifest.get("conditions", [])
    if not (isinstance(wanted, list) and all(isinstance(one, str) for one in wanted)):
        refuse(f"its conditions are {wanted!r}")
    texts = manifest.get("metadata", {})
    if not (isinstance(texts, dict) and all(isinstance(one, str) for one in texts.values())):
        refuse(f"its metadata are {texts!r}")
    call = manifest.get("call")
    if not (isinstance(call, dict) and all(isinstance(call.get(key), str) for key in ("in_spec", "out_spec"))
            and all(isinstance(call.get(key), list) for key in ("names", "arguments", "results"))):
        refuse(f"it does not tell how the model is called, but {call!r}")
    for row in call["results"]:
        if not (row is None or isinstance(row, dict) and row.keys() & {"value", "size", "output"}):
            refuse(f"{row!r} is no result")
        if isinstance(row, dict) and "output" in row and not (type(row["output"]) is int and 0 <= row["output"] < len(
                manifest["outputs"])):
            refuse(f"{row!r} is no output")
    for row in manifest["checks"]:
        if not (isinstance(row, dict) and isinstance(row.get("error"), str) and isinstance(row.get("text"), str)):
            refuse(f"{row!r} is no check")
    told = manifest.get("weights")
    if told is not None and not (isinstance(told, dict) and type(told.get("bytes")) is int and isinstance(
            told.get("sha256"), str)):
        refuse(f"weights are {told!r}")
    for row in manifest["varying"]:
        if not (isinstance(row, dict) and isinstance(row.get("name"), str) and type(row.get("low")) is int
                and type(row.get("high")) is int and isinstance(row.get("source"), list) and len(row["source"]) == 4
                and all(type(n) is int for n in row["source"])
                and 0 <= row["source"][0] < len(manifest["inputs"]) and row["source"][2] > 0):
            refuse(f"{row!r} is no size")
    for row in (*manifest["inputs"], *manifest["outputs"], *manifest["constants"]):
        if not (isinstance(row, dict) and isinstance(row.get("name"), str) and isinstance(row.get("dtype"), str)):
            refuse(f"{row!r} is no tensor")
        for key in ("shape", "strides"):
            if not (isinstance(row.get(key), list) and all(type(n) is int and 0 <= n < MOST for n in row[key])):
                refuse(f"{row['name']} has the {key} {row.get(key)!r}")
        if len(row["shape"]) != len(row["strides"]):
            refuse(f"{row['name']} has {len(row['shape'])} sizes and {len(row['strides'])} strides")
