"""From an exported program to the shared object of a model."""
from __future__ import annotations

import json
import struct
from array import array

from ..core.dtypes import uint8
from ..core.expr import Expr
from ..core.meta import Meta, settled
from ..core.native import Tensor
from ..core.native.memory import fill_bytes, run_program
from ..core.settings import settings
from ..core.tensor import empty, place
from ..devices.cpu.llvm import jit, pool
from ..devices.cpu.llvm.features import WASM, host
from . import entry, interface
from .builds import PACKED_WORDS, Build, add_kernels
from .checks import told
from .objects import SharedObject
from .signature import call_of
from .sizes import Sized
from .tracing import Domain, NotPackable
from .weights import Weights

NUMBERS = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4, "int8": 5, "uint8": 6, "int16": 7, "int32": 8,
           "int64": 9, "bool": 10, "complex64": 11, "complex128": 12}

BESIDE = 1 << 20  # bytes of constants from which they are stored in a separate file of the package


class Model:
    """The program of an ExportedProgram, for its example's sizes or for all within the bounds of its dimensions.

    ``inputs``, ``outputs``: (name, Meta) each, with symbols for dynamic sizes; ``constants``: (name, tensor, whether
    the program writes into it); ``given``: what each input of the program is, as ``entry.Interface`` takes it;
    ``builds``: one for each kind of CPU; ``weights``: the constants stored in a separate file, None if they are in the
    shared object; ``packed``: prepacked constants, which are in the separate file, too.
    ``targets``: Features of CPUs, in ascending order; default: those of this one.
    """

    def __init__(self, program, name: str, targets=()):
        self.name = name
        found = [(value, varying) for value, (_, _, varying) in program.given()]
        self.domain = Domain(found, program)
        self.builds = [Build(features, k, program, found, self.domain, name)
                       for k, features in enumerate(targets or (host(),))]
        first = self.builds[0]
        self.inputs, self.constants, self.given = [], [], []
        written = [any(flags) for flags in zip(*(one.written for one in first.programs))]
        numbers = {}
        for k, (spec, (value, _), writes) in enumerate(zip(program.graph_signature.input_specs, found, written)):
            if not isinstance(value, Tensor):
                continue
            if spec.kind.name == "USER_INPUT":
                numbers[k] = len(self.inputs)
                self.given.append(("input", len(self.inputs)))
                self.inputs.append((spec.arg.name, Meta.of(self.domain.shape(k, value, {}), value.dtype)
                                    if k in self.domain.forms else value._rush_meta))
            else:
                self.given.append(("constant", len(self.constants)))
                self.constants.append((spec.target, value.detach(), writes))
        self.varying = [v._replace(source=(numbers[v.source[0]], *v.source[1:])) for v in self.domain.varying]
        self.call = call_of(program, [one for build in self.builds for one in build.programs], self.varying)
        self.example = {s: v.example for v in self.varying for s in (v.symbol, v.wide)}
        self.outputs, self.checks = first.outputs, [told(error) for error in first.programs[0].checks]
        if any(len(one.checks) != len(self.checks) for build in self.builds for one in build.programs):
            raise NotPackable("what the program checks depends on sizes")
        if any(build.target != first.target for build in self.builds):
            raise ValueError("a package is for one kind of machine: CPUs of one architecture")
        if any(settled(meta, self.example) != settled(other, self.example) for build in self.builds
               for (_, meta), (_, other) in zip(build.outputs, self.outputs, strict=True)):
            raise NotPackable("results have other strides on other CPUs: package for one at a time")
        kept = [(k, value) for k, (_, value, writes) in enumerate(self.constants) if not writes]
        beside = first.target != WASM and sum(v._rush_meta.nbytes for _, v in kept) >= BESIDE
        self.packed = self.pack() if beside and len(self.builds) == 1 else []
        rows = kept + [(len(self.constants) + k, value) for k, value in enumerate(self.packed)]
        self.weights = Weights(rows) if beside else None

    def pack(self) -> list:
        """Return the prepacked operands if all that the program packs are constants, and there is memory for them."""
        found = self.operands()
        if sum(form.nbytes for _, form in found) > settings.packed_mb << 20:
            return []
        if any(number is None or self.constants[number][2] for number, _ in found):
            return []
        return [packed(form, self.constants[number][1]) for number, form in found]

    def operands(self) -> list:
        """(number of the constant, None for what is none; how it is packed) of the operands that its program packs."""
        given = [(self.given[value], form) for value, form in self.builds[0].packed]
        return [(number if kind == "constant" else None, form) for (kind, number), form in given]

    def manifest(self) -> dict:
        """Return the description of the model, as data.  Dynamic shapes are those of the example; ``sizes`` has their
        expressions."""
        def told(name, meta: Meta):
            own = settled(meta, self.example) if self.varying else meta
            row = {"name": name, "dtype": meta.dtype.name, "shape": list(own.shape), "strides": list(own.strides)}
            if any(isinstance(n, Expr) for n in meta.shape):
                row["sizes"] = [n if type(n) is int else self.spelled(n) for n in meta.shape]
            return row

        first = self.builds[0]
        made = {"name": self.name, "version": interface.VERSION, "target": first.target,
                "processor": first.features.cpu, "levels": [build.features.level for build in self.builds],
                "instructions": first.instructions(), "threads": pool.get_num_threads(), "arena": self.arena(),
                "varying": [{"name": v.name, "low": v.low, "high": v.high, "source": list(v.source)}
                            for v in self.varying],
                "conditions": list(map(self.spelled, self.domain.conditions)),
                "inputs": [told(*x) for x in self.inputs], "outputs": [told(*x) for x in self.outputs],
                "constants": [told(name, value._rush_meta) for name, value, _ in self.constants],
                "steps": list(first.code.labels) if first.code
                else [item.label for item in first.programs[0].outline.items]}
        made["checks"], made["call"] = self.checks, self.call
        if self.weights is not None:
            made["weights"] = {"bytes": self.weights.nbytes, "sha256": self.weights.sha256}
        return made

    @property
    def suffix(self) -> str:
        """The file name extension of its library."""
        return interface.SUFFIXES.get(self.builds[0].target, "so")

    def spelled(self, e: Expr) -> str:
        """A size by the names of those that vary."""
        from ..core.expr_text import Printer
        return Printer({s: v.name for v in self.varying for s in (v.symbol, v.wide)}).text(e)

    def arena(self) -> int:
        """Return the bytes of temporaries for static sizes, the most of any build."""
        return max(build.arena for build in self.builds)

    def files(self, weights_at=0) -> dict:
        """Return {name: contents} of its files in a package, with weights at this offset."""
        return {f"{self.name}.{self.suffix}": self.shared_object(weights_at)}

    def shared_object(self, weights_at=0) -> bytes:
        """Return the file: kernels, pool, program, constants and interface.  ``weights_at``: the offset in the package
        of the weights in a separate file."""
        least = self.builds[0]
        out, names = SharedObject(least.target), {}
        out.add_object(least.pool())

        def kernel(address_of) -> str:
            return names.setdefault(address_of, f"kernel{len(names)}")

        for build in self.builds:
            sized = Sized(out, self.varying, kernel, build.number)
            if build.code:
                build.add_words(out, kernel, bool(self.packed))
                sized.settled(meta for _, meta in self.outputs)
            else:
                with build.targeted(), jit.ahead():  # LLVM compiles one item while the next one is planned
                    for one in build.programs:
                        sized.add(one.outline, one.conditions, one.numbers)
            if not build.number or self.varying:
                # it runs once for new sizes
                out.add_object(least.compiled(sized.finish([meta for _, meta in self.inputs]), 0))
        add_kernels(out, names)
        beside = None if self.weights is None else (interface.HEADER_BYTES + self.weights.nbytes, weights_at)
        with least.targeted():
            metas = ([settled(meta, self.example) for _, meta in rows] for rows in (self.inputs, self.outputs))
            dense = [any(isinstance(n, Expr) for n in meta.shape) for _, meta in self.inputs]
            face = entry.Interface(self.given, *metas, dense, len(self.constants), self.arena(),
                                   pool.get_num_threads(), [build.required() for build in self.builds],
                                   len(self.varying), beside, len(self.checks), len(self.packed))
            text = face.text()
        out.add_object(least.compiled(text))
        out.add_data("model_moving", struct.pack(f"<{len(face.moving())}q", *face.moving()))
        self.add_tables(out)
        return out.image(face.public, f"{self.name}.{self.suffix}", face.system.starts, face.system.ends)

    def add_tables(self, out: SharedObject):
        """Add the tables of the interface: the manifest, names, shapes; and the constants themselves."""
        count = range(len(self.builds))
        for name in ("need", "fill") if self.varying else ("words",):
            found = [f"sizes_{name}{k}" if self.varying else f"model_words{k}" for k in count]
            found += [PACKED_WORDS] if self.packed else []
            out.add_data(f"model_{name}_of", bytes(8 * len(found)),
                         pointers={8 * k: (one, 0) for k, one in enumerate(found)})
        out.add_data("model_arena_of", struct.pack(f"<{len(count)}q", *(build.arena for build in self.builds)))
        out.add_data("model_manifest", json.dumps(self.manifest()).encode() + b"\0")
        out.add_data("model_errors", b"".join(text.encode().ljust(256, b"\0") for text in interface.ERRORS))
        levels = (build.features.level.encode().ljust(entry.LEVEL_BYTES, b"\0") for build in self.builds)
        out.add_data("model_levels", b"".join(levels))
        texts = (one["text"].encode()[:255].ljust(256, b"\0") for one in self.checks)
        out.add_data("model_checks", b"".join(texts) or b"\0")
        for kind, rows in (("inputs", self.inputs), ("outputs", self.outputs),
                           ("constants", [(name, value._rush_meta) for name, value, _ in self.constants])):
            starts_of = add_rows(out, kind, [(name, settled(meta, self.example)) for name, meta in rows])
            if kind == "inputs":
                out.add_data("model_input_shapes", bytes(8 * max(1, len(rows))),
                             pointers={8 * k: ("model_inputs_sizes", at) for k, at in enumerate(starts_of)})
        text, table, pointers = bytearray(), bytearray(), {}
        for k, v in enumerate(self.varying):
            pointers[24 * k] = "model_size_names", len(text)
            text += v.name.encode() + b"\0"
            table += struct.pack("<3q", 0, v.low, v.high)
        out.add_data("model_size_names", bytes(text) or b"\0")
        out.add_data("model_sizes_told", bytes(table) or bytes(24), pointers=pointers)
        self.add_constants(out)

    def add_constants(self, out: SharedObject):
        """Add the constants that are in the object, and the offsets of the others in the weights."""
        pointers, places = {}, self.weights.places if self.weights else {}
        for k, (_, value, written) in enumerate(self.constants):
            if k not in places:
                out.add_data(f"constant{k}", contents(value), 64, written)
                pointers[8 * k] = f"constant{k}", 0
        count = max(1, len(self.constants) + len(self.packed))
        out.add_data("model_default_constants", bytes(8 * count), pointers=pointers)
        out.add_data("model_constant_places", struct.pack(f"<{count}q", *(places.get(k, -1) for k in range(count))))
        out.add_data("model_weights_header", self.weights.header if self.weights else bytes(interface.HEADER_BYTES))


def add_rows(out: SharedObject, kind: str, rows):
    """An array of ``rl_tensor``; where the shape of each begins among the sizes."""
    text, numbers, pointers, table, starts_of = bytearray(), bytearray(), {}, bytearray(), []
    for name, meta in rows:
        at = len(table)
        pointers |= {at: (f"model_{kind}_names", len(text)), at + 24: (f"model_{kind}_sizes", len(numbers)),
                     at + 32: (f"model_{kind}_sizes", len(numbers) + 8 * len(meta.shape))}
        text += name.encode() + b"\0"
        starts_of.append(len(numbers))
        numbers += struct.pack(f"<{2 * len(meta.shape)}q", *meta.shape, *meta.strides)
        table += struct.pack("<6q", 0, NUMBERS[meta.dtype.name], len(meta.shape), 0, 0, meta.nbytes)
    out.add_data(f"model_{kind}_names", bytes(text) or b"\0")
    out.add_data(f"model_{kind}_sizes", bytes(numbers) or bytes(8))
    out.add_data(f"model_{kind}", bytes(table) or bytes(8), pointers=pointers)
    return starts_of


def packed(form, value):
    """A constant as a program packs it, in bytes."""
    copy = empty((form.nbytes,), uint8)
    fill_bytes(place(copy), 0, form.nbytes)
    values = array("q", (place(value), place(copy)))
    run_program(form.code, values.buffer_info()[0])
    return copy


def contents(value) -> bytes:
    """The bytes of a tensor as its Meta sees them."""
    import ctypes

    span = value._rush_meta.nbytes
    return ctypes.string_at(place(value), span) if span else b"\0"
