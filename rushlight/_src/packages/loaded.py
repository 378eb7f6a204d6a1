"""A packaged model in this process: called like the function that was exported."""
from __future__ import annotations

import ctypes
import os
import tempfile

from ..devices.cpu.llvm.features import host
from ..core import dtypes
from ..core.native import Tensor
from ..core.pytree import tree_flatten
from ..core.tensor import address, empty_of
from ..core.meta import Meta
from .archive import BadPackage, Package
from .entry import VERSION

WORD, NUMBER = ctypes.c_void_p, ctypes.c_int64
SIGNATURES = {"rl_create": (WORD,), "rl_run": (NUMBER, WORD, WORD, WORD), "rl_error": (ctypes.c_char_p, NUMBER),
              "rl_set_constant": (None, WORD, NUMBER, WORD),
              "rl_threads": (None, NUMBER), "rl_destroy": (None, WORD)}


class Loaded:
    """A model of a package.  Loading it runs the package's machine code: do so with packages that you trust.

    Inputs are tensors of the shapes and dtypes that the program was exported for, one after another as its pytree of
    arguments has them; the result is one tensor, or a list of them.  BadPackage where this processor cannot run it,
    ValueError and TypeError for inputs that do not fit.
    """

    def __init__(self, package: Package, name: str = ""):
        name = name or next(iter(package.manifests), "")
        image = package.image(name)
        self.manifest = manifest = package.manifests[name]
        missing = [one for one in manifest["instructions"] if f"+{one}" not in host().text.split(",")]
        if missing or manifest["target"] != "x86_64-linux-gnu" or not host().is_x86 or manifest["version"] != VERSION:
            raise BadPackage(
                f"the model {name!r} was compiled for {manifest['target']} with "
                f"{', '.join(missing) or 'another interface'}, which is not to be had here")
        # this user's alone; the mapped file stays when its name goes
        with tempfile.TemporaryDirectory(prefix="rushlight") as folder:
            path = os.path.join(folder, f"{os.path.basename(name)}.so")
            with open(path, "wb") as file:
                file.write(image)
            library = ctypes.CDLL(path)
        for function, (result, *arguments) in SIGNATURES.items():
            found = getattr(library, function)
            found.restype, found.argtypes = result, arguments
        self.library, self.inputs, self.outputs = library, *([meta_of(row) for row in manifest[kind]]
                                                             for kind in ("inputs", "outputs"))
        self.constants, self.held = [row["name"] for row in manifest["constants"]], {}
        self.model = library.rl_create()
        if not self.model:
            raise BadPackage(
                f"the model {name!r} cannot be created: the processor lacks instructions, or there is no memory")

    def __del__(self):
        if getattr(self, "model", None):
            self.library.rl_destroy(self.model)
            self.model = None

    def __call__(self, *args, **kwargs):
        given, _ = tree_flatten((args, kwargs))
        given = [value for value in given if isinstance(value, Tensor)]
        if len(given) != len(self.inputs):
            raise TypeError(f"the model takes {len(self.inputs)} tensors, but got {len(given)}")
        values = [fitted(value, meta, k) for k, (value, meta) in enumerate(zip(given, self.inputs))]
        results = [empty_of(meta) for meta in self.outputs]
        code = self.library.rl_run(self.model, (WORD * max(1, len(values)))(*map(address, values)),
                                   (WORD * max(1, len(results)))(*map(address, results)))
        if code:
            raise (IndexError if code == 1 else RuntimeError)(self.library.rl_error(code).decode())
        return results[0] if len(results) == 1 else results

    def get_metadata(self) -> dict:
        """The manifest."""
        return self.manifest

    def get_constant_fqns(self) -> list:
        """Names of weights and buffers."""
        return list(self.constants)

    def load_constants(self, constants: dict, *, check_full_update: bool = True, user_managed: bool = False):
        """Replaces weights by tensors of the same shape and dtype.  ``check_full_update``: ValueError if one is
        missing; ``user_managed``: they are read where they lie, else copied."""
        unknown = constants.keys() - set(self.constants)
        missing = set(self.constants) - constants.keys()
        if unknown or missing and check_full_update:
            raise ValueError(
                f"constants {'that the model does not have' if unknown else 'are missing'}: "
                f"{', '.join(sorted(unknown or missing))}")
        for name, value in constants.items():
            k = self.constants.index(name)
            value = fitted(value.detach(), meta_of(self.manifest["constants"][k]), name)
            self.held[name] = value if user_managed else value.clone()
            self.library.rl_set_constant(self.model, k, address(self.held[name]))


def meta_of(row: dict) -> Meta:
    return Meta(tuple(row["shape"]), tuple(row["strides"]),
                getattr(dtypes, {"bool": "bool_"}.get(row["dtype"], row["dtype"])))


def fitted(value: Tensor, meta: Meta, which) -> Tensor:
    """The tensor in memory as the model reads it."""
    if value.dtype is not meta.dtype or tuple(value.shape) != tuple(meta.shape):
        raise ValueError(
            f"input {which} is {value.dtype} of shape {tuple(value.shape)}; the model was compiled for {meta.dtype} "
            f"of shape {tuple(meta.shape)}")
    value = value.detach().resolve_conj().resolve_neg()
    if value._meta is meta:
        return value
    made = empty_of(meta)
    return made.copy_(value)
