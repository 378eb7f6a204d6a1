"""Build: the part of a package for one kind of CPU, its kernels and the programs that launch them."""
from __future__ import annotations

import struct
from typing import NamedTuple

from ..compiler.items import ByNumpy
from ..compiler.launch import HEAD, encode, starts
from ..compiler.pipeline import code_of
from ..core.cached import cached_property
from ..core.platform.arm import BITS, WORDS
from ..devices.cpu.llvm import jit, pool
from ..devices.cpu.llvm.features import ARM, LINUX, host, targeting
from ..eager.weights import forms_of, without_packing
from .tracing import NotPackable, programs

PACKED_WORDS = "model_packed_words"
# multiplications for each packed byte, from which on reading weights from mapped pages, which are small, costs more
# than packing them into large ones
MUCH = 256

BASIC, MORE, FURTHER = (1, 0), (7, 0), (0x80000001 - (1 << 32), 0)  # leaves of cpuid
INSTRUCTIONS = (("sse3", BASIC, 2, 0), ("ssse3", BASIC, 2, 9), ("sse4.1", BASIC, 2, 19), ("sse4.2", BASIC, 2, 20),
                ("popcnt", BASIC, 2, 23), ("cx16", BASIC, 2, 13), ("movbe", BASIC, 2, 22), ("avx", BASIC, 2, 28),
                ("bmi", MORE, 1, 3), ("bmi2", MORE, 1, 8), ("lzcnt", FURTHER, 2, 5), ("sse4a", FURTHER, 2, 6),
                ("gfni", MORE, 2, 8), ("avxvnni", (7, 1), 0, 4),
                ("avx2", MORE, 1, 5), ("fma", BASIC, 2, 12), ("f16c", BASIC, 2, 29), ("avx512f", MORE, 1, 16),
                ("avx512cd", MORE, 1, 28), ("avx512dq", MORE, 1, 17), ("avx512bw", MORE, 1, 30),
                ("avx512vl", MORE, 1, 31), ("avx512ifma", MORE, 1, 21), ("avx512vbmi", MORE, 2, 1),
                ("avx512vbmi2", MORE, 2, 6), ("avx512bitalg", MORE, 2, 12), ("avx512vpopcntdq", MORE, 2, 14),
                ("avx512vnni", MORE, 2, 11), ("amx-bf16", MORE, 3, 22), ("amx-tile", MORE, 3, 24),
                ("amx-int8", MORE, 3, 25), ("avx512fp16", MORE, 3, 23), ("avx512bf16", (7, 1), 0, 5))
"""Instructions that LLVM may choose: where ``cpuid`` tells of them (leaf, register of eax ebx ecx edx, bit)."""
STATES = (("avx", 6), ("avx512f", 0xE6), ("amx-tile", 0x600E6))
"""Registers that the system has to keep, as ``xgetbv`` tells: bits."""


class Required(NamedTuple):
    """The instruction-set requirements of code.  x86-64: ``rows`` of leaf, register and bits for ``cpuid``; ``states``:
    bits of ``xgetbv``; ``tiles``: whether AMX tile registers must be requested.  AArch64: ``words``, {index of Linux's
    HWCAP word: its bits}; ``vector``: bytes of SVE's vectors, 0 for any."""

    rows: list
    states: int
    tiles: bool
    words: dict
    vector: int


def found_object(digest) -> bytes:
    """Return the object file of compiled code."""
    image = digest and jit.object_of(digest)
    if not image:
        raise NotPackable("the disk cache has lost the object of a kernel that another process compiled: recompile it")
    return image


class Build:
    """An exported program for one kind of CPU.

    ``programs``: the traced programs; ``code``: its launches for static sizes; ``number``: the index of the build in
    the package.  A CPU runs the last build whose instructions it has.
    """

    def __init__(self, features, number: int, program, found, domain, name: str):
        self.features, self.number = features, number
        if features.is_x86 and not host().is_x86:
            raise NotPackable("packages for x86-64 are made on x86-64: LLVM has the assembler of its own machine only")
        with self.targeted():
            self.programs = programs(program, found, domain, name)
            for one in self.programs:
                one.outline.items = [item for item in one.outline.items if not is_empty(item)]
            self.code = None if domain.varying else code_of(self.programs[0].outline)
            jit.settle()
        self.check_kernels()

    def targeted(self):
        """Context manager in which code is generated for this build's CPUs."""
        return targeting(self.features if self.features.triple else None)

    def check_kernels(self):
        """NotPackable where a step would be computed by NumPy."""
        for one in self.programs:
            for item in one.outline.items:
                part = getattr(item, "part", None)
                if part is not None:
                    raise NotPackable(f"{', '.join(dict.fromkeys(n.op.name for n in part.nodes))} has no kernel: it "
                                      "would be computed by NumPy")

    @property
    def outputs(self) -> list:
        return list(zip(self.programs[0].kept, self.programs[0].outline.outputs))

    @property
    def arena(self) -> int:
        """The bytes of its temporaries, for static sizes."""
        return sum(self.code.temporaries) if self.code else 0

    @property
    def target(self) -> str:
        """The kind of machine, as LLVM spells it."""
        return self.features.triple or (LINUX if self.features.is_x86 else ARM)

    def instructions(self) -> list[str]:
        had = self.features.text.split(",")
        known = [name for name, *_ in INSTRUCTIONS] if self.features.is_x86 else BITS if self.target == ARM else ()
        return [name for name in known if f"+{name}" in had]

    def required(self) -> Required:
        names, words, states = self.instructions(), {}, 0
        rows = [(leaf, register, word(1 << bit)) for name, leaf, register, bit in INSTRUCTIONS if name in names]
        for name, bits in STATES:
            states |= bits if name in names else 0
        for name in names if self.target == ARM else ():
            number, bit = BITS[name]
            words[WORDS[number]] = words.get(WORDS[number], 0) | 1 << bit
        return Required(rows, states, self.features.tiles == "amx", words,
                        self.features.width // 8 if self.features.scalable else 0)

    def pool(self) -> bytes:
        """The object of the thread pool and of the runner of programs."""
        with self.targeted():
            functions = pool.built()
            return found_object(jit.origin(functions["program_run"])[0])

    def compiled(self, text: str, level=1) -> bytes:
        """The object of text."""
        with self.targeted():
            return jit.compile_object(text, level)

    @cached_property
    def packed(self) -> list:
        """(the value that is packed, how) of the operands that its program packs; empty for CPUs other than this one,
        which cannot pack for them, or if packing is a small part of a call."""
        if self.code is None or self.features.triple:
            return []
        found = [(one[1], form) for one, form in zip(self.code.packings, forms_of(self.code))]
        work = sum(self.programs[0].outline.work)
        return found if sum(form.nbytes for _, form in found) * MUCH >= work else []

    def add_words(self, out, kernel, packed=False):
        """Add its encoded program, with the addresses of kernels and tables; and the one for prepacked operands."""
        begins = list(starts(self.code.block))
        tables = {f"table{self.number}_{number}": place for number, place in enumerate(self.code.tables)}
        for name, array in zip(tables, self.code.tables.values()):
            out.add_data(name, array.tobytes())
        self.add_launches(out, kernel, f"model_words{self.number}", dict(enumerate(self.code.launches)), begins, tables)
        if packed:
            self.add_launches(out, kernel, PACKED_WORDS, without_packing(self.code), begins, tables)

    @staticmethod
    def add_launches(out, kernel, name: str, launches: dict, begins, tables: dict):
        """Add encoded launches, by their numbers in the program, with its ``begins`` and the positions of tables."""
        words, pointers = encode(launches.values()), {}
        for at, (number, launch) in zip(starts(words), launches.items()):
            pointers[8 * at] = kernel(launch.kernel), 0
            words[at] = 0
            begin, end = begins[number], begins[number] + HEAD + 2 * len(launch.slots)
            for table, place in tables.items():
                if begin <= place < end:
                    pointers[8 * (at + place - begin)] = table, 0
                    words[at + place - begin] = 0
        out.add_data(name, struct.pack(f"<{len(words)}q", *words), pointers=pointers)


def is_empty(item) -> bool:
    """Whether an item that no kernel computes has nothing to compute: results without elements."""
    return type(item) is ByNumpy and all(type(node.meta.nbytes) is int and not node.meta.nbytes
                                         for node in item.part.outputs)


def word(bits: int) -> int:
    """Bits as a signed number of 32."""
    return bits - (1 << 32) if bits >> 31 else bits


def add_kernels(out, names: dict):
    """Adds the objects of kernels.  ``names``: those that they have here, by address; a kernel that this process holds
    in memory twice, as when two threads or processes compile it at once, has two."""
    groups: dict = {}
    for address_of, name in names.items():
        digest, symbol = jit.origin(address_of) or (None, None)
        groups.setdefault(digest, {}).setdefault(symbol, []).append(name)
    for digest, symbols in groups.items():
        out.add_object(found_object(digest), {symbol: first for symbol, (first, *_) in symbols.items()})
        for first, *others in symbols.values():
            out.define(dict.fromkeys(others, out.defined[first]))
