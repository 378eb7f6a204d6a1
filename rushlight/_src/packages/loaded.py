"""A packaged model in this process: called like the function that was exported."""
from __future__ import annotations

import builtins
import ctypes
import json
import os
import platform
import tempfile
import weakref

import numpy as np

from ..compiler.launch import CONSTANT, Launch, encode
from ..core import dtypes
from ..core.meta import Meta
from ..core.native import Tensor
from ..core.native.objects import RUN
from ..core.op import make
from ..core.tensor import address, empty_of, place
from ..devices.cpu.code import Code
from ..devices.cpu.llvm.features import PACKAGED, host, is_runnable
from ..eager.arguments import run_values
from ..eager.draft import blank_plan, install
from .archive import CHECKED, BadPackage, Package
from .interface import HEADER_BYTES, UNMET, VERSION, gpus
from .nesting import Nesting

WORD, NUMBER = ctypes.c_void_p, ctypes.c_int64
BESIDE = ("sha256", "metadata")  # what the archive alone says
MOST_SHAPES = 256  # whose sizes are remembered
SIGNATURES = {"rl_create_level": (WORD, ctypes.c_char_p, WORD, NUMBER), "rl_supports": (NUMBER, NUMBER),
              "rl_verify": (NUMBER, WORD), "rl_manifest": (ctypes.c_char_p,), "rl_output_sizes": (NUMBER, WORD, WORD),
              "rl_run_dlpack": (NUMBER, WORD, WORD, WORD),
              "rl_error": (ctypes.c_char_p, NUMBER),
              "rl_set_constant": (NUMBER, WORD, NUMBER, WORD), "rl_running": (NUMBER, WORD),
              "rl_threads": (None, NUMBER), "rl_level": (NUMBER, WORD), "rl_destroy": (None, WORD)}


class Loaded:
    """A model of a package.  Loading it runs the package's machine code: do so with packages that you trust.

    Inputs are tensors of the shapes and dtypes that the program was exported for, as arguments by position and name
    that are nested as they were exported, or, if none is by name, the tensors alone, one after another as its pytree of
    arguments has them.
    The result is what the exported program returns.  BadPackage if this CPU cannot run it, ValueError and TypeError for
    inputs that do not fit.  ``verify``: compare large weights with their hash, too; small ones always are.  ``level``:
    the CPU level whose code runs, one of ``levels`` in the manifest; default: the last one that this CPU supports.
    ValueError for an unknown name.
    """

    KIND = RUN  # of its plans

    def __init__(self, package: Package, name: str = "", verify=False, level: str | None = None):
        name = name or next(iter(package.manifests), "")
        image = package.image(name)
        self.manifest = manifest = package.manifests[name]
        missing = [one for one in manifest["instructions"] if f"+{one}" not in host().text.split(",")]
        if missing or manifest["target"] != f"{platform.machine()}-linux-gnu" or manifest["version"] != VERSION:
            raise BadPackage(
                f"the model {name!r} was compiled for {manifest['target']} with "
                f"{', '.join(missing) or 'another interface'}, which is not to be had here")
        if level is not None and level not in manifest["levels"]:
            raise ValueError(f"the model {name!r} has no code for {level!r}; it has for "
                             f"{', '.join(manifest['levels'])}")
        # this user's alone; the mapped file stays when its name goes
        with tempfile.TemporaryDirectory(prefix="rushlight") as folder:
            path = os.path.join(folder, f"{os.path.basename(name)}.so")
            with open(path, "wb") as file:
                file.write(image)
            library = ctypes.CDLL(path)
        for function, (result, *arguments) in SIGNATURES.items():
            found = getattr(library, function)
            found.restype, found.argtypes = result, arguments
        self.library, self.model, self.weights = library, None, None
        if json.loads(library.rl_manifest()) != {key: value for key, value in manifest.items()
                                                  if key not in BESIDE}:
            raise BadPackage(f"the manifest of {name!r} is not that of its shared object")
        self.inputs, self.outputs = ([meta_of(row) for row in manifest[kind]] for kind in ("inputs", "outputs"))
        self.varying, self.known, self.nesting = manifest["varying"], {}, Nesting(manifest)
        self.constants, self.held = [row["name"] for row in manifest["constants"]], {}
        self.replaced = []  # constants that calls which run may still read
        self.model = self.created(package, name, self.choose_level(name, level))
        own = weakref.ref(self)
        self.operator = make(f"package.{name}", lambda *args: own().call(args), composite=True,
                             reports=lambda code: own().failure(code))
        if not self.model:
            raise BadPackage(
                f"the model {name!r} cannot be created: its weights are damaged, or there is no memory")
        told = manifest.get("weights")
        if verify:
            package.verify(name)
        if told and (verify or told["bytes"] <= CHECKED) and not library.rl_verify(self.model):
            raise BadPackage(f"the weights of {name!r} are damaged: their checksum is another")

    def choose_level(self, name: str, level: str | None) -> int:
        """Return the index of the level whose code runs: ``level``, or the last one that this CPU runs.  The library
        checks the real CPU, since it works without Python; ``is_runnable`` applies the limits of `RUSHLIGHT_CPU`."""
        levels = self.manifest["levels"]
        # a package for the CPU that made it has one level, whose instructions the manifest names
        found = [k for k, one in enumerate(levels) if level in (None, one) and self.library.rl_supports(k)
                 and (one not in PACKAGED or is_runnable(one))]
        if not found:
            raise BadPackage(f"this CPU cannot run the code of {name!r} for {level or ', '.join(levels)}")
        return found[-1]

    def created(self, package: Package, name: str, level: int):
        """The library's model, with weights mapped from the package."""
        if "weights" not in self.manifest:
            return self.library.rl_create_level(None, None, level)
        if package.path is not None:
            return self.library.rl_create_level(os.fsencode(package.path), None, level)
        self.weights = data = np.frombuffer(package.weights(name), np.uint8)
        return self.library.rl_create_level(None, data.ctypes.data + HEADER_BYTES, level) if len(
            data) == HEADER_BYTES + self.manifest["weights"]["bytes"] else None

    def __del__(self):
        if getattr(self, "model", None):
            self.library.rl_destroy(self.model)
            self.model = None

    def __call__(self, *args, **kwargs):
        nesting = self.nesting
        if kwargs or nesting.measured or not nesting.direct:
            args = nesting.tensors(args, kwargs)
        found = self.operator(*args)
        return found if nesting.plain else nesting.nested(found, args)

    def failure(self, code: int):
        """The error of a run that failed; None for what a kernel reports."""
        if code > 0:
            return None
        if code <= UNMET:
            told = self.manifest["checks"][UNMET - code]
            kind = getattr(builtins, told["error"], None)
            if isinstance(kind, type) and issubclass(kind, Exception):
                return kind(told["text"])
        return RuntimeError(self.library.rl_error(code).decode())

    def call(self, args):
        """Handle a call that the hot path does not take: its inputs need other strides, or their shapes are new."""
        given = self.nesting.tensors(args, {}) if self.nesting.direct else args
        inputs, outputs, shapes = self.inputs, self.outputs, None
        if self.varying:
            key = tuple([tuple(value.shape) for value in given])
            inputs, outputs, shapes = self.known.get(key) or self.sized(key)
        values = tuple(self.fitted(value, meta, k) for k, (value, meta) in enumerate(zip(given, inputs)))
        key = (*(value._rush_meta for value in values), None, 0)
        plan = self.operator.plans.get(key)
        if plan is None or plan.kind != self.KIND:
            plan = self.operator.plans.enter(key, self.plan(outputs, shapes))
        return run_values(plan, values, None, [place(value) for value in values], 0)

    def fitted(self, value, meta, which):
        """An input in memory as the model reads it."""
        return fitted(value, meta, which)

    def plan(self, outputs, shapes):
        """Return the plan of calls whose inputs have the strides that the model reads: one launch, the model itself.
        ``shapes``: of the inputs if sizes are dynamic, as ``sized`` gives them."""
        many = len(self.inputs)
        slots = [(many + len(outputs), 0), (CONSTANT, self.model),
                 (CONSTANT, ctypes.addressof(shapes[0]) if shapes else 0),
                 *((k, 0) for k in range(many + len(outputs)))]
        kernel = ctypes.cast(self.library.rl_launch, WORD).value
        plan = blank_plan(self.operator, RUN)
        plan.several = int(len(outputs) != 1)
        install(plan, Code(encode([Launch(kernel, 1, 1, tuple(slots))]), outputs, keep=(shapes,), long=True))
        return plan

    def sized(self, key):
        """(Metas of inputs, of outputs, (the shapes as the library takes them, what keeps these)) for shapes of inputs;
        ValueError for those that the model was not packaged for."""
        self.check_sizes(key)
        arrays = [(NUMBER * max(1, len(shape)))(*shape) for shape in key]
        shapes = (WORD * max(1, len(key)))(*map(ctypes.addressof, arrays))
        told = (NUMBER * max(1, sum(2 * len(meta.shape) for meta in self.outputs)))()
        code = self.library.rl_output_sizes(shapes, told)
        if code:
            wanted = "; ".join(self.manifest.get("conditions", ()))
            raise ValueError(f"inputs of the shapes {', '.join(map(str, key))}: "
                             f"{self.library.rl_error(code).decode()}{wanted and f', which have to meet {wanted}'}")
        outputs, at = [], 0
        for meta in self.outputs:
            rank = len(meta.shape)
            outputs.append(meta.like(tuple(told[at:at + rank]), tuple(told[at + rank:at + 2 * rank])))
            at += 2 * rank
        inputs = [meta if tuple(meta.shape) == shape else meta.like(shape) for meta, shape in zip(self.inputs, key)]
        if len(self.known) >= MOST_SHAPES:
            self.known.pop(next(iter(self.known)))
        self.known[key] = inputs, outputs, (shapes, arrays)
        return self.known[key]

    def check_sizes(self, key):
        """ValueError for a shape that the model was not packaged for."""
        for k, (shape, meta, row) in enumerate(zip(key, self.inputs, self.manifest["inputs"])):
            sizes = row.get("sizes", row["shape"])
            if len(shape) != len(meta.shape) or any(type(n) is int and n != m for n, m in zip(sizes, shape)):
                raise ValueError(f"input {k} has the shape {shape}; the model was compiled for {sizes}")
        for one in self.varying:
            number, dim, factor, offset = one["source"]
            size = (key[number][dim] - offset) // factor
            if not one["low"] <= size <= one["high"]:
                raise ValueError(f"{one['name']} is {size} (dimension {dim} of input {number}); the model was packaged "
                                 f"for {one['low']} to {one['high']}")

    @property
    def level(self) -> str:
        """The CPU level whose code runs: the last of the manifest's ``levels`` that this CPU supports."""
        return self.manifest["levels"][self.library.rl_level(self.model)]

    def get_metadata(self) -> dict:
        """Return the manifest, with the package's own metadata, and the device under PyTorch's name."""
        device = "cuda" if gpus(self.manifest["target"]) else "cpu"
        return {**self.manifest, "AOTI_DEVICE_KEY": device, **self.manifest.get("metadata", {})}

    def get_constant_fqns(self) -> list:
        """Names of weights and buffers."""
        return list(self.constants)

    def load_constants(self, constants: dict, *, check_full_update: bool = True, user_managed: bool = False):
        """Replace weights by tensors of the same shape and dtype.  ``check_full_update``: ValueError if one is missing;
        ``user_managed``: use the tensors' memory instead of copies."""
        unknown = constants.keys() - set(self.constants)
        missing = set(self.constants) - constants.keys()
        if unknown or missing and check_full_update:
            raise ValueError(
                f"constants {'that the model does not have' if unknown else 'are missing'}: "
                f"{', '.join(sorted(unknown or missing))}")
        for name, value in constants.items():
            k = self.constants.index(name)
            value = fitted(value.detach(), meta_of(self.manifest["constants"][k]), name)
            self.replace(name, value, user_managed)

    def replace(self, name: str, value, user_managed: bool):
        """Make later calls read another tensor for a constant."""
        self.replaced.append(self.held.get(name))
        self.held[name] = value if user_managed else value.clone()
        if value._rush_meta.nbytes:
            code = self.library.rl_set_constant(self.model, self.constants.index(name), address(self.held[name]))
            if code:
                raise self.failure(code)
        if not self.library.rl_running(self.model):
            self.replaced.clear()

    def run_on_one_thread(self):
        """Its kernels run on the calling thread from here on."""
        self.library.rl_threads(1)


def opened(package: Package, name: str = "", verify=False, level: str | None = None, index=-1):
    """The Loaded of a model; ``index``: of the GPU where it is for one, below 0 for the current one."""
    name = name or next(iter(package.manifests), "")
    if name not in package.manifests or not gpus(package.manifests[name]["target"]):
        return Loaded(package, name, verify, level)
    from .loaded_boards import LoadedBoard
    return LoadedBoard(package, name, verify, level, index)


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
    if value._rush_meta is meta:
        return value
    made = empty_of(meta)
    return made.copy_(value)
