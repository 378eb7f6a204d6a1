"""A packaged model on a GPU: its kernels are loaded and launched through the driver's library, without Triton."""
from __future__ import annotations

import hashlib
import weakref

import numpy as np

from ..compiler.launch import CONSTANT, Launch, encode
from ..core.devices import device
from ..core.errors import NoDeviceError
from ..core.native.objects import ELSEWHERE
from ..core.op import make
from ..core.tensor import address, empty_of
from ..devices.cpu.code import Code
from ..devices.triton.binaries import Binary, Packaged, Variant
from ..devices.triton.step import Module, modules
from ..eager.draft import blank_plan, install
from ..eager.elsewhere import settled_on
from .archive import CHECKED, BadPackage, Package
from .interface import HEADER_BYTES
from .loaded import Loaded, fitted, meta_of
from .nesting import Nesting

ALIGNMENT = 16
FIELDS = {"file": str, "sha256": str, "name": str, "entry": str, "shared": int, "threads": int, "pointers": list,
          "tables": list, "flag": bool, "numbers": int, "parameters": int, "form": str, "block": int, "wide": bool,
          "aligned": list}  # of a kernel


class LoadedBoard(Loaded):
    """A model of a package for a GPU.  Loading it gives the package's machine code to the driver: do so with packages
    that you trust.

    Inputs and results are tensors on the GPU; otherwise as ``Loaded``.  ``index``: of the GPU; below 0: the current
    one.  BadPackage where there is no such GPU.
    """

    KIND = ELSEWHERE
    library = model = None

    def __init__(self, package: Package, name: str, verify=False, level: str | None = None, index=-1):
        self.manifest = manifest = package.manifests[name]
        self.name, (kind, _, self.architecture) = name, manifest["target"].partition("-")
        if level is not None and level != self.architecture:
            raise ValueError(f"the model {name!r} has no code for {level!r}; it has for {self.architecture}")
        try:
            where = device("cuda", index if index >= 0 else None)
            self.where = where = where.provider.placed(where)
        except NoDeviceError as reason:
            raise BadPackage(f"the model {name!r} was compiled for {manifest['target']}, and its device is not "
                             f"available here: {reason}") from reason
        self.board = where.provider.board(where.index)
        if (self.board.driver.vendor.kind, self.board.architecture) != (kind, self.architecture):
            raise BadPackage(f"the model {name!r} was compiled for {manifest['target']}; this GPU is "
                             f"{self.board.driver.vendor.kind}-{self.board.architecture}")
        self.inputs, self.outputs = ([meta_of(row).on(where) for row in manifest[part]]
                                     for part in ("inputs", "outputs"))
        self.varying, self.known, self.nesting = [], {}, Nesting(manifest)
        self.constants = [row["name"] for row in manifest["constants"]]
        if verify:
            package.verify(name)
        self.kernels = [self.kernel(package, row) for row in self.rows("kernels")]
        self.held = self.brought(package)
        self.launches = [self.launch(row) for row in self.rows("launches")]
        own = weakref.ref(self)
        self.operator = make(f"package.{name}", lambda *args: own().call(args), composite=True,
                             reports=lambda code: None)

    def refuse(self, what):
        raise BadPackage(f"the manifest of {self.name!r} is damaged: {what}")

    def rows(self, part: str) -> list:
        found = self.manifest.get(part)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            self.refuse(f"{part} are {found!r}")
        return found

    def kernel(self, package: Package, row: dict) -> int:
        """The number that launches know a kernel by."""
        if any(type(row.get(key)) is not kind for key, kind in FIELDS.items()):
            self.refuse(f"{row!r} is no kernel")
        code = package.part(self.name, row["file"], row["sha256"])
        try:
            tables = tuple((tuple(values), name) for values, name in row["tables"])
            module = Module(row["name"], row["sha256"], tuple(row["pointers"]), tables, row["flag"], row["numbers"],
                            row["parameters"], row["form"])
            variant = Variant(row["block"], row["wide"], tuple(row["aligned"]))
            return modules.number(Packaged(module, variant, Binary(code, row["entry"], row["shared"], row["threads"])))
        except (TypeError, ValueError) as reason:
            self.refuse(f"{row['name']} is no kernel: {reason}")

    def brought(self, package: Package) -> dict:
        """Return the constants on the device, by name."""
        told, found = self.manifest.get("weights"), {}
        if not self.constants:
            return found
        data = package.weights(self.name)
        if told is None or len(data) != HEADER_BYTES + told["bytes"]:
            raise BadPackage(f"the weights of {self.name!r} are damaged: there are {len(data)} bytes")
        rest = memoryview(data)[HEADER_BYTES:]
        if told["bytes"] <= CHECKED and hashlib.sha256(rest).hexdigest() != told["sha256"]:
            raise BadPackage(f"the weights of {self.name!r} are damaged: their hash is not that of the manifest")
        source, provider = np.frombuffer(rest, np.uint8), self.where.provider
        for row in self.manifest["constants"]:
            meta, at = meta_of(row).on(self.where), row.get("at")
            if type(at) is not int or not 0 <= at <= told["bytes"] - meta.nbytes:
                self.refuse(f"the constant {row['name']} is at {at!r}")
            found[row["name"]] = made = empty_of(meta)
            if meta.nbytes:
                provider.upload(self.where.index, address(made), source.ctypes.data + at, meta.nbytes, False)
        return found

    def launch(self, row: dict) -> Launch:
        """A row of the table as the device's program has it: constants are addresses."""
        sizes = {"i": [meta.nbytes for meta in self.inputs], "o": [meta.nbytes for meta in self.outputs],
                 "t": self.manifest.get("temporaries"),
                 "c": [meta_of(one).nbytes for one in self.manifest["constants"]]}
        starts = {"i": 0, "o": len(self.inputs), "t": len(self.inputs) + len(self.outputs)}
        kernel, slots = row.get("kernel"), row.get("slots")
        if not isinstance(sizes["t"], list) or not all(type(n) is int and n >= 0 for n in sizes["t"]):
            self.refuse(f"temporaries are {sizes['t']!r}")
        if type(kernel) is not int or not 0 <= kernel < len(self.kernels) or not isinstance(slots, list) or not all(
                type(row.get(key)) is int and row[key] > 0 for key in ("extent", "grain")):
            self.refuse(f"{row!r} is no launch")
        module, found = modules.made[self.kernels[kernel]].module, []
        if len(slots) != len(module.pointers) + module.numbers + module.parameters + module.flag:
            self.refuse(f"a launch of {module.name} has {len(slots)} arguments")
        for k, slot in enumerate(slots):
            if not (isinstance(slot, list) and len(slot) == 2 and isinstance(slot[0], str) and slot[0]
                    and type(slot[1]) is int):
                self.refuse(f"{slot!r} is no argument")
            name, number = slot
            part, digits = name[0], name[1:]
            if k < len(module.pointers):
                if part not in sizes or not digits.isdigit() or int(digits) >= len(sizes[part]) or not (
                        0 <= number <= sizes[part][int(digits)]):
                    self.refuse(f"{slot!r} is no memory")
                if part == "c":
                    found.append((CONSTANT, address(self.held[self.constants[int(digits)]]) + number))
                else:
                    found.append((starts[part] + int(digits), number))
            elif name != ("e" if module.flag and k == len(slots) - 1 else "n"):
                self.refuse(f"{slot!r} is no number")
            else:
                found.append((CONSTANT, number))
        return Launch(self.kernels[kernel], row["extent"], row["grain"], tuple(found))

    def plan(self, outputs, shapes):
        """Return the plan of calls whose inputs have the strides that the model reads: its launches."""
        plan = blank_plan(self.operator, self.KIND)
        plan.several = int(len(outputs) != 1)
        install(plan, Code(encode(self.launches), outputs, self.manifest["temporaries"], keep=(self.held,), long=True,
                           device="cuda"))
        return settled_on(plan, self.where)

    def __call__(self, *args, **kwargs):
        given = self.nesting.tensors(args, kwargs)
        found = self.operator(*map(aligned, given))
        return found if self.nesting.plain else self.nesting.nested(found, given)

    def fitted(self, value, meta, which):
        if value.device is not self.where:
            raise ValueError(f"input {which} is on {value.device}; the model runs on {self.where}")
        return aligned(fitted(value, meta, which))

    @property
    def level(self) -> str:
        """The architecture that it was compiled for."""
        return self.architecture

    def replace(self, name: str, value, user_managed: bool):
        if user_managed:
            raise ValueError("kernels contain the addresses of a GPU's constants: load them with user_managed=False")
        self.held[name].copy_(value)

    def run_on_one_thread(self):
        raise ValueError(f"the model {self.name!r} runs on a GPU, whose kernels have no single thread")


def aligned(value):
    """A tensor whose memory begins where kernels were compiled for."""
    return value.clone() if address(value) % ALIGNMENT else value
