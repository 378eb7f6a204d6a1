"""The CPU's instruction sets: those that it has (``host``), and those that it may use (``instruction_sets``), which the
setting ``RUSHLIGHT_CPU`` restricts.

Code generation, ``torch.cpu``, packages and tuned choices all call ``instruction_sets``, so that a restricted CPU is
the same for every caller. ``host`` is for properties of the real CPU; each of its callers says why.
"""
import functools
import hashlib
import json
import platform
from dataclasses import dataclass

import llvmlite

from .. import cache
from ..apart import apart
from ..platform import here
from ..settings import settings
from .bindings import bindings

BASELINE = ("64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2")  # of every x86-64
SSE4 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16")
AVX2 = SSE4 + ("avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe")
AVX512 = AVX2 + ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
VNNI = AVX512 + ("avx512vbmi", "avx512vnni", "avx512bf16")
TILES = ("amx-bf16", "amx-int8", "amx-tile")
NEON = ("neon", "fp-armv8")  # of every AArch64
LEVELS = {"generic": (), "avx2": AVX2, "avx512": AVX512, "vnni": VNNI, "neon": ()}  # of RUSHLIGHT_CPU on x86-64
# LLVM's names of CPUs, the largest first: a name stands for its instructions, so a CPU without them needs a smaller one
_NAMES = (("x86-64-v4", AVX512), ("x86-64-v3", AVX2), ("x86-64-v2", SSE4))


@dataclass(frozen=True)
class InstructionSets:
    """The instruction sets that code may use, by LLVM's names.

    `level`: the value of `RUSHLIGHT_CPU`; `cpu`: LLVM's name of a CPU; `names`: the sets that code may use; `excluded`:
    those that it must not use although `cpu` may stand for them; `tiles`: "amx" for AMX tiles, "model" for a model of
    them in vectors, "" for neither.
    """

    level: str
    cpu: str
    names: frozenset
    excluded: frozenset
    is_x86: bool
    tiles: str = ""

    def has(self, name: str) -> bool:
        """True if code may use an instruction set, or if the model of AMX tiles stands for it."""
        return name in self.names or self.tiles == "model" and name in TILES


@functools.cache
def instruction_sets(level: str | None = None) -> InstructionSets:
    """The instruction sets of this CPU, restricted to a level; default `RUSHLIGHT_CPU` as it was at the first call.

    Example:
        >>> instruction_sets().has("sse2") == instruction_sets().is_x86
        True
    """
    level = level or settings.cpu
    if platform.machine().lower() in ("x86_64", "amd64"):
        return restrict(level, *host(), here.tiles)
    return restrict_arm(level, *host(), here.scalable_bytes)


def restrict(level: str, cpu: str, found: dict, may_use_tiles) -> InstructionSets:
    """The instruction sets that `level` leaves of those `found` on an x86-64 CPU.

    A level never adds an instruction set, except that "amx-model" has a model of AMX tiles. ``may_use_tiles()``
    requests AMX tiles from the operating system.

    Example:
        >>> found = {"avx2": True, "avx512f": False}
        >>> sorted(restrict("avx512", "haswell", found, bool).names - {*BASELINE})
        ['avx2']
    """
    if level in LEVELS:
        names = frozenset(BASELINE) | {name for name in LEVELS[level] if found.get(name)}
        return InstructionSets(level, next((name for name, sets in _NAMES if names.issuperset(sets)), "x86-64"), names,
                               frozenset(), is_x86=True)
    tiles = "model" if level == "amx-model" else "amx" if all(map(found.get, TILES)) and may_use_tiles() else ""
    names = {name for name, on in found.items() if on and (tiles == "amx" or not name.startswith("amx"))}
    return InstructionSets(level, cpu, names.union(BASELINE), frozenset(found) - names - {*BASELINE}, True, tiles)


def restrict_arm(level: str, cpu: str, found: dict, scalable_bytes) -> InstructionSets:
    """The same of an AArch64 CPU.  ``scalable_bytes()`` is the length of SVE's vectors, 0 without SVE."""
    if level not in ("native", "amx-model", "neon"):
        return InstructionSets(level, "", frozenset(NEON), frozenset(), is_x86=False)
    has_sve = level == "native" and found.get("sve") and scalable_bytes()
    names = {name for name, on in found.items() if on and (has_sve or not name.startswith("sve"))}
    excluded = {*found, *(() if has_sve else ("sve", "sve2"))} - names
    return InstructionSets(level, cpu, frozenset(names), frozenset(excluded), is_x86=False,
                           tiles="model" if level == "amx-model" else "")


@functools.cache
def host():
    """LLVM's name of the real CPU and its features: ``(str, {feature: whether it has it})``; asked of LLVM once, then
    cached on disk for as long as the CPU says the same of itself."""
    described = here.processor()
    key = hashlib.sha256(f"{llvmlite.__version__} {described}".encode()).hexdigest()
    known = cache.get("processor", key) if described else None
    if known is None:
        found = apart(_asked)
        if described:
            cache.put("processor", key, json.dumps(found).encode())
    else:
        found = json.loads(known)
    name, features = found
    return name, {**features, **here.features()}


def _asked():
    llvm = bindings()
    return llvm.get_host_cpu_name(), dict(llvm.get_host_cpu_features())


def vendor():
    """The vendor of the real CPU, as it says itself; "" where the system does not tell.  `RUSHLIGHT_CPU` leaves it: the
    vendor stands for caches and latencies, which no level changes.

    Example:
        >>> vendor().isprintable()
        True
    """
    names = [line.partition(":")[2].strip() for line in here.processor().splitlines() if line.startswith("vendor_id")]
    return names[0] if names else ""
