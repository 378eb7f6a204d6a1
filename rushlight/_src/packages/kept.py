"""Cache of packages: the plans, machine code and image of a program that was packaged before come from the disk cache.

The key of an entry is the program as text, the metadata of its inputs and constants, the CPUs that it is for, and all
that affects plans (``eager/store.py``).  The contents of weights in a separate file are not part of the key: their
header and hash are written into the image each time.
"""
from __future__ import annotations

import hashlib
import json
import logging
import zlib

from ..core import cache
from ..core.encoding import Damaged, Unsaveable, decode, encode
from ..core.log import logger
from ..core.native import Tensor
from ..core.settings import settings
from ..core.tensor import place
from ..devices.cpu.llvm import pool
from ..devices.cpu.llvm.features import host
from ..eager import store
from ..eager.weights import forms_of
from .model import Model, contents, packed
from .weights import Weights

log = logger("cache")
KIND = "package"


def model_of(program, name: str, identity, targets=()):
    """Return a model for ``archive.write``: a Kept if there is an entry, else a Model, which makes one.  ``identity``:
    a string that determines what the program computes, None if other processes cannot know it."""
    if identity is None or not settings.store or cache.directory() is None:
        return Model(program, name, targets)
    rows = [(spec.target if spec.kind.name != "USER_INPUT" else "", value)
            for spec, (value, _) in zip(program.graph_signature.input_specs, program.given())]
    constants = [value.detach() for target, value in rows if target and isinstance(value, Tensor)]
    try:
        known = encode([getattr(value, "_rush_meta", None) for _, value in rows])
    except Unsaveable:
        return Model(program, name, targets)
    built = [one.fingerprint for one in targets or (host(),)]
    facts = store.surroundings(), pool.get_num_threads(), settings.packed_mb, built, name, shared(constants), known
    key = hashlib.sha256(f"{facts}\n{identity}".encode()).hexdigest()
    return found(key, constants, lambda: Model(program, name, targets)) or Remembered(program, name, targets, key)


def shared(constants) -> list:
    """For each constant the number of the first one that is the same memory."""
    first: dict = {}
    return [first.setdefault((place(one), one._rush_meta.nbytes), k) for k, one in enumerate(constants)]


def digest(value) -> str:
    return hashlib.sha256(contents(value)).hexdigest()


class Remembered(Model):
    """A Model whose shared object is cached."""

    def __init__(self, program, name, targets, key):
        super().__init__(program, name, targets)
        self.key = key

    def shared_object(self, weights_at=0) -> bytes:
        image, manifest = super().shared_object(weights_at), self.manifest()
        marks = self.weights.marks() if self.weights else ()
        found = [image.count(mark) for mark in marks]
        if any(count != 1 for count in found):
            log.debug("the package of %s is not kept: its image has the header and hash of the weights %s times",
                      self.name, found)
            return image
        beside = self.weights.places if self.weights else {}
        inside = {k: digest(value) for k, (_, value, _) in enumerate(self.constants) if k not in beside}
        code = self.builds[0].code if self.packed else None
        try:
            packing = code and (store.code_rows(code), [one[0] for one in self.operands()])
            entry = encode((self.suffix, json.dumps(manifest), image, weights_at, [image.index(m) for m in marks],
                            [k for k in beside if k < len(self.constants)], inside, packing))
        except Unsaveable as reason:
            log.debug("the package of %s is not kept: %s", self.name, reason)
            return image
        if not cache.put(KIND, self.key, zlib.compress(entry, 1)):
            log.debug("the package of %s is not kept: the cache takes nothing", self.name)
        return image


class Kept:
    """A cached model for ``archive.write``.  LookupError if an entry has other contents, or the cache lost a kernel.
    ``make``: returns the Model."""

    def __init__(self, entry, constants, make):
        self.suffix, manifest, self.image, self.weights_at, self.marks, beside, inside, packing = entry
        if any(digest(constants[k]) != wanted for k, wanted in inside.items()):
            raise LookupError("constants in the shared object differ")
        self.told, self.make, self.weights = json.loads(manifest), make, None
        rows = [(k, constants[k]) for k in beside]
        if packing:
            forms = forms_of(store.code_from(packing[0]))
            made = [packed(form, constants[number]) for form, number in zip(forms, packing[1], strict=True)]
            rows += [(len(constants) + k, one) for k, one in enumerate(made)]
        if self.marks:
            self.weights = Weights(rows)

    def manifest(self) -> dict:
        if self.weights:
            self.told["weights"] = {"bytes": self.weights.nbytes, "sha256": self.weights.sha256}
        return self.told

    def files(self, weights_at=0) -> dict:
        return {f"{self.told['name']}.{self.suffix}": self.shared_object(weights_at)}

    def shared_object(self, weights_at=0) -> bytes:
        if weights_at != self.weights_at:  # the offset of the weights is a number in its code
            return self.make().shared_object(weights_at)
        image = bytearray(self.image)
        for at, mark in zip(self.marks, self.weights.marks() if self.weights else ()):
            image[at:at + len(mark)] = mark
        return bytes(image)


def found(key: str, constants, make):
    """The Kept of an entry, or None."""
    if any(one.isEnabledFor(logging.DEBUG) for one in store.WATCHED):
        return None
    data = cache.get(KIND, key)
    if data is None:
        return None
    try:
        return Kept(decode(store.inflated(data)), constants, make)
    except (zlib.error, Damaged, LookupError, ValueError, TypeError) as reason:
        log.debug("a package is planned again: %s: %s", type(reason).__name__, reason)
        return None
