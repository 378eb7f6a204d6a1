"""From an exported program to the shared object of a model."""
from __future__ import annotations

import json
import struct

from ..compiler.launch import encode, starts
from ..devices.cpu.llvm import jit, pool
from ..devices.cpu.llvm.features import host
from ..compiler.pipeline import DERIVING, Compilation, code_of, outlined, run
from ..core import cache
from ..core.interpret import recording, unwound
from ..core.meta import Meta
from ..core.random import default_generator
from ..core.tensor import address
from . import entry
from .elf import SharedObject

NUMBERS = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4, "int8": 5, "uint8": 6, "int16": 7, "int32": 8,
           "int64": 9, "bool": 10, "complex64": 11, "complex128": 12}
LEVELS = (("avx2", (7, 0), 1, 1 << 5), ("fma", (1, 0), 2, 1 << 12), ("f16c", (1, 0), 2, 1 << 29),
          ("avx512f", (7, 0), 1, 1 << 16), ("avx512dq", (7, 0), 1, 1 << 17),
          ("avx512bw", (7, 0), 1, 1 << 30), ("avx512vl", (7, 0), 1, 1 << 31), ("avx512vnni", (7, 0), 2, 1 << 11),
          ("amx-bf16", (7, 0), 3, 1 << 22), ("amx-tile", (7, 0), 3, 1 << 24),
          ("amx-int8", (7, 0), 3, 1 << 25), ("avx512fp16", (7, 0), 3, 1 << 23), ("avx512bf16", (7, 1), 0, 1 << 5))
"""Instructions: where ``cpuid`` tells of them (leaf, register, bits)."""


class NotPackable(RuntimeError):
    """A program that cannot run without Python."""


class Model:
    """The program of an ExportedProgram for its example's sizes.

    ``inputs``, ``outputs``: (name, Meta) each; ``constants``: (name, tensor, whether the program writes into it);
    ``given``: what each input of the program is, as ``entry.Interface`` takes it; ``code``: its launches, compiled for
    this processor.
    """

    def __init__(self, program, name: str):
        self.name = name
        found = program.given()
        specs = program.graph_signature.input_specs
        if any(varying for _, (_, _, varying) in found):
            raise NotPackable("sizes that vary are not packaged yet: export the program for fixed sizes")
        from ..aot.alias import Recording
        from ..core.native import Tensor
        from ..eager.plan import own
        from ..graph.graph import Store

        trace, drawn = Recording(), default_generator.place
        with unwound(), recording(0):
            entered = [trace.input(value._meta) if isinstance(value, Tensor) else value for value, _ in found]
            nodes = [getattr(one, "node", None) for one in entered]  # before anything is written into them
            with trace:
                results = list(zip(program.graph_signature.output_specs, program.graph_module(*entered)))
                homes = {spec.target: node for spec, node in zip(specs, nodes) if spec.kind.name != "USER_INPUT"}
                stores = [Store(own(value), node) for node, value in trace.written()]
                stores += [Store(own(r.node), homes[spec.target]) for spec, r in results if spec.kind.name
                           == "BUFFER_MUTATION"]
                kept = [(spec.arg.name, r) for spec, r in results if spec.kind.name == "USER_OUTPUT"
                        and isinstance(r, Tensor)]
                outputs = [own(r.node) for _, r in kept]
                if len(set(outputs)) < len(outputs):
                    raise NotPackable("a result is returned twice")
                if trace.drawn or tuple(default_generator.place) != tuple(drawn):
                    raise NotPackable("the program draws random numbers")
                made = run(DERIVING, Compilation(name, trace, outputs, stores=stores))
                self.code = code_of(outlined(made))
        jit.settle()
        if self.code.callbacks:
            part, *_ = next(iter(self.code.callbacks.values()))
            raise NotPackable(
                f"{', '.join(dict.fromkeys(n.op.name for n in part.nodes))} has no kernel: it would be computed by "
                "NumPy")
        written = {store.into for store in stores}
        self.inputs, self.constants, self.given = [], [], []
        for spec, (value, _), node in zip(specs, found, nodes):
            if not isinstance(value, Tensor):
                continue
            if spec.kind.name == "USER_INPUT":
                self.given.append(("input", len(self.inputs)))
                self.inputs.append((spec.arg.name, value._meta))
            else:
                self.given.append(("constant", len(self.constants)))
                self.constants.append((spec.target, value.detach(), node in written))
        self.outputs = [(name, meta) for (name, _), meta in zip(kept, self.code.outputs)]

    def manifest(self) -> dict:
        """What the model is, for people and programs: nothing in it is executed."""
        def told(name, meta: Meta):
            return {"name": name, "dtype": meta.dtype.name, "shape": list(meta.shape), "strides": list(meta.strides)}

        return {"name": self.name, "version": entry.VERSION, "target": "x86_64-linux-gnu", "processor": host().cpu,
                "instructions": self.required(), "threads": pool.get_num_threads(),
                "arena": sum(self.code.temporaries), "inputs": [told(*x) for x in self.inputs],
                "outputs": [told(*x) for x in self.outputs],
                "constants": [told(name, value._meta) for name, value, _ in self.constants],
                "steps": list(self.code.labels)}

    def required(self) -> list[str]:
        had = host().text.split(",")
        return [name for name, *_ in LEVELS if f"+{name}" in had]

    def shared_object(self) -> bytes:
        """The file: kernels, pool, program, constants and interface."""
        out = SharedObject()
        launches, names = self.code.launches, {}
        for launch in launches:
            if launch.kernel not in names:
                names[launch.kernel] = f"kernel{len(names)}"
        groups: dict = {}
        for kernel, name in names.items():
            digest, symbol = jit.origin(kernel) or (None, None)
            image = digest and cache.get("object", digest)
            if image is None:
                raise NotPackable(
                    "packages are made of what the disk cache holds, which is switched off (RUSHLIGHT_CACHE)")
            groups.setdefault(digest, (image, {}))[1][symbol] = name
        for image, renamed in groups.values():
            out.add_object(image, renamed)
        digest, _ = jit.origin(pool.addresses()["program_run"])
        out.add_object(cache.get("object", digest))
        wanted = self.required()
        required = [(leaf, register, bits - (1 << 32) if bits >> 31 else bits) for name, leaf, register, bits in LEVELS
                    if name in wanted]
        face = entry.Interface(self.given, len(self.inputs), len(self.outputs), len(self.constants),
                               sum(self.code.temporaries), pool.get_num_threads(), required,
                               host().tiles == "amx")
        out.add_object(jit.compile_object(face.text()))
        self.add_program(out, launches, names)
        self.add_tables(out)
        return out.image(entry.PUBLIC, f"{self.name}.so", ["model_begin"], ["model_end"])

    def add_program(self, out: SharedObject, launches, names: dict):
        """The words, in which kernels and tables are addresses."""
        words = encode(launches)
        pointers = {}
        for at, launch in zip(starts(words), launches):
            pointers[8 * at] = names[launch.kernel], 0
            words[at] = 0
        for number, (place, array) in enumerate(self.code.tables.items()):
            out.add_data(f"table{number}", array.tobytes())
            pointers[8 * place] = f"table{number}", 0
            words[place] = 0
        out.add_data("model_words", struct.pack(f"<{len(words)}q", *words), pointers=pointers)

    def add_tables(self, out: SharedObject):
        """What the interface tells: the manifest, names, shapes; and the constants themselves."""
        out.add_data("model_manifest", json.dumps(self.manifest()).encode() + b"\0")
        out.add_data("model_errors", b"".join(text.encode().ljust(256, b"\0") for text in entry.ERRORS))
        for kind, rows in (("inputs", self.inputs), ("outputs", self.outputs),
                           ("constants", [(name, value._meta) for name, value, _ in self.constants])):
            add_rows(out, kind, rows)
        pointers = {}
        for k, (_, value, written) in enumerate(self.constants):
            out.add_data(f"constant{k}", contents(value), 64, written)
            pointers[8 * k] = f"constant{k}", 0
        out.add_data("model_default_constants", bytes(8 * max(1, len(self.constants))), pointers=pointers)


def add_rows(out: SharedObject, kind: str, rows):
    """An array of ``rl_tensor``."""
    text, numbers, pointers, table = bytearray(), bytearray(), {}, bytearray()
    for name, meta in rows:
        at = len(table)
        pointers |= {at: (f"model_{kind}_names", len(text)), at + 24: (f"model_{kind}_sizes", len(numbers)),
                     at + 32: (f"model_{kind}_sizes", len(numbers) + 8 * len(meta.shape))}
        text += name.encode() + b"\0"
        numbers += struct.pack(f"<{2 * len(meta.shape)}q", *meta.shape, *meta.strides)
        table += struct.pack("<6q", 0, NUMBERS[meta.dtype.name], len(meta.shape), 0, 0, meta.nbytes)
    out.add_data(f"model_{kind}_names", bytes(text) or b"\0")
    out.add_data(f"model_{kind}_sizes", bytes(numbers) or bytes(8))
    out.add_data(f"model_{kind}", bytes(table) or bytes(8), pointers=pointers)


def contents(value) -> bytes:
    """The bytes of a tensor as its Meta sees them."""
    import ctypes

    span = value._meta.nbytes
    return ctypes.string_at(address(value), span) if span else b"\0"
