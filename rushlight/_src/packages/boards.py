"""From an exported program to kernels for a GPU that need not be there: Triton's machine code, and a table of launches.

The table names what a launch is given: ``i0`` an input, ``c0`` a constant, ``o0`` a result, ``t0`` a temporary, ``n`` a
number, ``e`` the word for errors.  All memory begins at multiples of 16, which kernels are compiled for.
"""
from __future__ import annotations

import hashlib
import json
import struct

import numpy as np

from ..compiler.items import ByNumpy
from ..compiler.launch import CONSTANT
from ..compiler.pipeline import code_of
from ..core import dtypes
from ..core.devices import cpu
from ..core.meta import Meta
from ..core.native import Tensor
from ..core.settings import settings
from ..devices.cpu.llvm import jit
from ..devices.cpu.llvm.features import ARM, LINUX, host, level, targeting
from ..devices.triton import runner
from ..devices.triton.binaries import binary
from ..devices.triton.memory import FAR
from ..devices.triton.programs import ALIGNMENT, DecodedLaunch
from ..devices.triton.rates import SHARED
from ..devices.triton.step import modules
from ..devices.triton.target import Blocks
from ..devices.triton.texts import imported
from . import interface
from .board_entry import CONSTANTS, KERNEL_BYTES, NOTHING, PUBLIC, REPORT, TEMPORARIES, BoardInterface
from .builds import is_empty
from .model import add_rows
from .objects import SharedObject
from .signature import call_of
from .tracing import Domain, NotPackable, sizes_at, traced
from .weights import Weights

TARGETS = tuple(f"{'cuda' if name.startswith('sm_') else 'hip'}-{name}" for name in SHARED)
MISALIGNED = 8  # in place of the address of the error flag
ROOM = 256  # alignment of temporaries, in bytes
SYSTEMS = {True: ("x86-64-v2", LINUX), False: (ARM, ARM)}
"""The CPU and the target triple of the C interface, by whether this is an x86-64."""


class Unplaced:
    """A device with unknown addresses, all multiples of 16."""

    @staticmethod
    def table(values, name) -> int:
        return 0


def architecture_of(target) -> str:
    """"sm_90" of the target "cuda-sm_90".  ValueError for unknown GPUs, or one of several targets."""
    names = [target] if isinstance(target, str) else list(target)
    if len(names) > 1:
        raise ValueError(f"a package for a GPU has one target, not {', '.join(names)}")
    if names[0] not in TARGETS:
        raise ValueError(f"there are no packages for {names[0]!r}; of GPUs there are for {', '.join(TARGETS)}")
    return names[0].partition("-")[2]


class BoardModel:
    """The program of an ExportedProgram for a GPU, as ``archive.write`` takes it.

    NotPackable for dynamic shapes, and for nodes that Triton's kernels do not compute."""

    def __init__(self, program, name: str, architecture: str):
        imported()  # or an error that names the extra
        if settings.max_autotune:
            raise ValueError("max_autotune measures choices on the device: packages for GPUs follow the model of cost")
        self.name, self.architecture = name, architecture
        self.kind = "cuda" if architecture.startswith("sm_") else "hip"
        self.suffix = interface.MACHINE_CODE[self.kind]
        given = [(value, varying) for value, (_, _, varying) in program.given()]
        domain = Domain(given, program)
        if domain.varying:
            raise NotPackable(f"packages for GPUs are for one size of each input: {domain.varying[0].name} varies")
        if any(isinstance(value, Tensor) and not value.device.provider.on_host for value, _ in given):
            raise NotPackable("packages for GPUs are made of programs on the CPU: export model.cpu()")
        with cpu.provider.planned_for(Blocks("cuda", architecture)):
            one = traced(program, given, domain, {}, sizes_at({}, {}), name)
            one.outline.items = [item for item in one.outline.items if not is_empty(item)]
            lacking = dict.fromkeys(node.op.name for item in one.outline.items if type(item) is ByNumpy
                                    for node in item.part.nodes)
            if lacking:
                raise NotPackable(f"{', '.join(lacking)} has no kernel for GPUs: the host would compute it")
            if one.checks:
                raise NotPackable("the program checks its tensors while it runs, for which the host would have to wait")
            self.code = code_of(one.outline)
        self.inputs, self.constants, self.outputs, self.names = [], [], list(zip(one.kept, self.code.outputs)), []
        for spec, (value, _), writes in zip(program.graph_signature.input_specs, given, one.written):
            if not isinstance(value, Tensor):
                continue
            if spec.kind.name != "USER_INPUT":
                self.names.append(f"c{len(self.constants)}")
                self.constants.append((spec.target, value.detach()))
                continue
            if writes:
                raise NotPackable(f"the program writes into its input {spec.arg.name}: return what it writes")
            self.names.append(f"i{len(self.inputs)}")
            self.inputs.append((spec.arg.name, value._rush_meta))
        self.names += [f"o{k}" for k in range(len(self.outputs))]
        self.names += [f"t{k}" for k in range(len(self.code.temporaries))]
        self.call = call_of(program, [one], [])
        self.weights = Weights(list(enumerate(value for _, value in self.constants))) if self.constants else None
        self.kernels, self.rows, self.launches, self.records, self.tables = {}, [], [], [], {}
        for launch in self.code.launches:
            self.add(launch)

    @property
    def wide(self) -> bool:
        """Whether positions in some memory have 64 bits."""
        metas = [*(meta for _, meta in (*self.inputs, *self.outputs)), *(x._rush_meta for _, x in self.constants)]
        return max((*(meta.nbytes for meta in metas), *self.code.temporaries), default=0) >= FAR

    def add(self, launch):
        """Add a launch as a row of the table, and its kernel as a file."""
        module, bare = modules.made[launch.kernel], DecodedLaunch(Unplaced, launch, MISALIGNED)
        variant = bare.variant([number for _, number in bare.slots], self.wide)
        made = binary(module, variant, self.architecture)
        if made.scratch:
            raise NotPackable(f"{module.name} needs memory of its own in each program")
        key = module, variant
        if key not in self.kernels:
            self.kernels[key] = made.code
            self.rows.append({
                "file": f"kernel{len(self.rows)}.{self.suffix}", "sha256": hashlib.sha256(made.code).hexdigest(),
                "name": module.name, "entry": made.entry, "shared": made.shared, "threads": made.threads,
                "pointers": list(module.pointers), "tables": [[list(values), name] for values, name in module.tables],
                "flag": module.flag, "numbers": module.numbers, "parameters": module.parameters, "form": module.form,
                "block": variant.block, "wide": variant.wide, "aligned": list(variant.aligned)})
        number = list(self.kernels).index(key)
        self.records.append((number, bare.programs, made.threads, made.shared, self.arguments(module, bare, variant)))
        slots = [["n" if value == CONSTANT else self.names[value], number]
                 for value, number in launch.slots[:len(launch.slots) - module.flag]]
        self.launches.append({"kernel": number, "extent": launch.extent, "grain": launch.grain,
                              "slots": slots + [["e", 0]] * module.flag})

    def manifest(self) -> dict:
        """Return the description of the model: the entries of ``Model.manifest``, and the table."""
        def told(name, meta: Meta):
            return {"name": name, "dtype": meta.dtype.name, "shape": list(meta.shape), "strides": list(meta.strides)}

        made = {"name": self.name, "version": interface.VERSION, "target": f"{self.kind}-{self.architecture}",
                "processor": self.architecture, "levels": [self.architecture], "instructions": [], "threads": 0,
                "varying": [], "checks": [], "call": self.call, "inputs": [told(*one) for one in self.inputs],
                "outputs": [told(*one) for one in self.outputs], "kernels": self.rows, "launches": self.launches,
                "temporaries": list(self.code.temporaries), "steps": list(self.code.labels),
                "constants": [told(name, value._rush_meta) | {"at": self.weights.places[k]}
                              for k, (name, value) in enumerate(self.constants)]}
        if self.weights is not None:
            made["weights"] = {"bytes": self.weights.nbytes, "sha256": self.weights.sha256}
        return made

    def files(self, weights_at=0) -> dict:
        """{name: contents} of its kernels, and of the library that runs them without Python."""
        found = {row["file"]: code for row, code in zip(self.rows, self.kernels.values())}
        return found | ({f"{self.name}.so": self.library(weights_at)} if self.kind == "cuda" else {})

    # --- without Python -----------------------------------------------------------------------------------------------
    def arguments(self, module, bare, variant) -> list:
        """Return the arguments of a launch: (index of a value, what is added to it, bits that have to be 0).  Tables
        and the error flag are values after those of the program."""
        first, fixed = len(module.pointers), len(module.tables)
        found = [list(slot) for slot in bare.slots]
        for k, table in enumerate(module.tables):
            found[first + k] = [("table", self.tables.setdefault(table, len(self.tables))), 0]
        if module.flag:
            found[first + fixed] = [("report", 0), 0]
        return [(value, number, ALIGNMENT if k in variant.aligned else 0) for k, (value, number) in enumerate(found)]

    def face(self, weights_at) -> BoardInterface:
        """The C interface over a model's memory on the device: constants, tables behind them; temporaries."""
        own = self.weights.nbytes if self.weights else 0
        places, at, held = [], 0, 0
        for name in self.names:
            kind, k = name[0], int(name[1:])
            if kind == "c":
                places.append((CONSTANTS, self.weights.places[k]))
            elif kind == "t":
                places.append((TEMPORARIES, at))
                at += -(-self.code.temporaries[k] // ROOM) * ROOM
            else:
                places.append((NOTHING, 0))
        for data in self.table_bytes():
            places.append((CONSTANTS, own + held))
            held += len(data)
        places.append((REPORT, 0))
        behind = {("table", k): len(self.names) + k for k in range(len(self.tables))} | {("report", 0): len(places) - 1}
        launches = [(*row[:4], [(behind.get(value, value), *rest) for value, *rest in row[4]]) for row in self.records]
        inputs, outputs = ([(self.names.index(f"{kind}{k}"), meta.nbytes) for k, (_, meta) in enumerate(rows)]
                           for kind, rows in (("i", self.inputs), ("o", self.outputs)))
        beside = self.weights and (interface.HEADER_BYTES + own, weights_at)
        return BoardInterface(places, inputs, outputs, len(self.constants), launches, len(self.rows),
                              int(self.architecture[3:]), (own, held, at), beside)

    def table_bytes(self) -> list:
        """The contents of tables, each up to a multiple of 64 bytes."""
        found = [np.array(values, getattr(dtypes, name).numpy).tobytes() for values, name in self.tables]
        return [data.ljust(-(-len(data) // 64) * 64, b"\0") for data in found]

    def library(self, weights_at) -> bytes:
        """A shared object for Linux: kernels, the table of launches, and the C interface over the driver's library."""
        processor, machine = SYSTEMS[host().is_x86]
        out, entries, pointers = SharedObject(machine), bytearray(), {}
        with targeting(level(processor)):
            face = self.face(weights_at)
            for text in (face.text(), runner.text()):
                out.add_object(jit.compile_object(text))
        for name, data in {**face.tables(), "manifest": json.dumps(self.manifest()).encode() + b"\0",
                           "tables": b"".join(self.table_bytes()),
                           "weights_header": self.weights.header if self.weights else b""}.items():
            out.add_data(f"model_{name}", data or bytes(8))
        for k, (row, code) in enumerate(zip(self.rows, self.kernels.values())):
            out.add_data(f"kernel{k}", code)
            pointers |= {KERNEL_BYTES * k: (f"kernel{k}", 0), KERNEL_BYTES * k + 8: ("model_entries", len(entries))}
            entries += row["entry"].encode() + b"\0"
        shared = b"".join(struct.pack("<3q", 0, 0, row["shared"]) for row in self.rows)
        out.add_data("model_entries", bytes(entries) or bytes(8))
        out.add_data("model_kernels", shared or bytes(8), pointers=pointers)
        for kind, rows in (("inputs", self.inputs), ("outputs", self.outputs),
                           ("constants", [(name, value._rush_meta) for name, value in self.constants])):
            add_rows(out, kind, rows)
        return out.image(PUBLIC, f"{self.name}.so")
