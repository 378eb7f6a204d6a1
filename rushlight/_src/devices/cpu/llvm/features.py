"""The target of code generation: this host's CPU (``host``), or another one for which code is generated (``level``,
within ``targeting``).  Planning and code generation read ``targeted``, and cache what depends on it by ``remembered``.

The setting `RUSHLIGHT_CPU` restricts the host's instruction sets (``core/llvm/processor.py``), and never extends them:

- `generic`: the baseline of x86-64, or NEON
- `avx2`, `avx512`: no dot products of int8 and bfloat16
- `vnni`: AVX-512 with its dot products of int8 and bfloat16, as far as the CPU has them; no AMX tiles
- `neon`: AArch64 without SVE
- `amx-model`: all instruction sets but AMX tiles, which vectors emulate
- `native`: all instruction sets, the default.
"""

import functools
import hashlib
from dataclasses import dataclass

from ....core.cached import cached_property
from ....core.llvm import processor
from ....core.llvm.planning import planned_for, planning
from ....core.platform import here

_LEVELS = {"x86-64-v2": processor.SSE4, "x86-64-v3": processor.AVX2, "x86-64-v4": processor.AVX512,
           "x86-64-vnni": processor.VNNI, "x86-64-amx": processor.VNNI + processor.TILES}
LINUX, ARM = "x86_64-linux-gnu", "aarch64-linux-gnu"
WASM, WINDOWS, MAC = "wasm32", "x86_64-pc-windows-msvc", "arm64-apple-darwin"
_ARMV8_6 = (*processor.NEON, "fullfp16", "dotprod", "bf16", "i8mm")
# AArch64: (features, bits of a vector); the first is the baseline
_ARM_LEVELS = {ARM: (processor.NEON, 128), "aarch64-v8.6": (_ARMV8_6, 128),
               **{f"aarch64-sve{width}": ((*_ARMV8_6, "sve"), width) for width in (256, 512)}}
# targets with vectors of 128 bits: LLVM's CPU name, its features, the number of vector registers
_OTHERS = {MAC: ("apple-m1", "", 32),
           WASM: ("generic", "+simd128,+bulk-memory,+bulk-memory-opt,+mutable-globals,+nontrapping-fptoint,+sign-ext,"
                  "-reference-types,-multivalue,-call-indirect-overlong", 16)}
PACKAGED = (*_LEVELS, WINDOWS, *_ARM_LEVELS, *_OTHERS)


@dataclass(frozen=True)
class Features:
    """The target of code generation: LLVM's CPU name and feature string, and the vector width to write code for."""

    level: str
    cpu: str
    text: str
    width: int          # bits of the widest vector worth using: 512, 256 or 128; SVE's may be longer
    registers: int      # vector registers
    is_x86: bool
    fma: bool
    f16c: bool          # instructions that convert float16
    bf16: bool          # dot products of bfloat16 pairs (avx512_bf16, bf16 of AArch64)
    vnni: bool          # dot products of int8 (avx512_vnni, dotprod of AArch64)
    mixed: bool = False  # of int8 and uint8 (i8mm of AArch64)
    tiles: str = ""     # matrix multiplication in AMX tiles (tiles.py): "amx", "model", or none
    second_cache: int = 1 << 20  # bytes of a core's L2 cache
    triple: str = ""    # LLVM's target triple of another machine; "" for this one

    @property
    def scalable(self):
        """True if vectors are SVE's, of the size that this CPU has."""
        return not self.is_x86 and self.width > 128

    def lanes(self, itemsize):
        """Lanes of the widest vector with elements of `itemsize` bytes.

        Example:
            >>> host().lanes(4) * 32 == host().width
            True
        """
        return self.width // (8 * itemsize)

    def __hash__(self):
        return hash(self.fingerprint)

    @cached_property
    def fingerprint(self):
        """A short digest for cache keys: objects compiled for one fingerprint run on any machine that has it."""
        text = f"{self.level} {self.cpu} {self.text} {self.tiles} {self.triple} {self.width}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _x86(sets):
    """The Features of the InstructionSets of an x86-64 CPU."""
    have = sets.names
    wide = {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= have
    text = [f"+{name}" for name in sorted(have)] + [f"-{name}" for name in sorted(sets.excluded)]
    return Features(
        level=sets.level, cpu=sets.cpu, text=",".join(text + ["-prefer-256-bit"] * wide),
        width=512 if wide else 256 if "avx2" in have and "fma" in have else 128,
        registers=32 if wide else 16, is_x86=True,
        fma="fma" in have, f16c="f16c" in have,
        bf16="avx512bf16" in have, vnni="avx512vnni" in have, tiles=sets.tiles, second_cache=_second_cache())


def _second_cache():
    """Bytes of a core's L2 cache, from half a MB to 2; 1 MB if the system does not report it."""
    return min(max(here.second_cache() or 1 << 20, 1 << 19), 1 << 21)


@functools.lru_cache(maxsize=None)
def host():
    """The Features of this host's CPU, restricted by `RUSHLIGHT_CPU` as it was at the first call."""
    return of_instruction_sets(processor.instruction_sets())


def of_instruction_sets(sets) -> Features:
    """The Features of this host's CPU restricted to some InstructionSets."""
    if sets.is_x86:
        return _x86(sets)
    width = 8 * here.scalable_bytes() if "sve" in sets.names else 128
    return _arm(sets.level, sets.cpu, sorted(sets.names), max(width, 128), sorted(sets.excluded), tiles=sets.tiles,
                second_cache=_second_cache())


def is_runnable(name: str) -> bool:
    """True if this host's CPU, restricted by `RUSHLIGHT_CPU`, runs code for a level that packages know.

    Example:
        >>> is_runnable("x86-64-v2") and is_runnable("aarch64-linux-gnu")
        False
    """
    other, own = level(name), host()
    wanted = {one for one in other.text.split(",") if one.startswith("+")}
    return (other.is_x86 == own.is_x86 and wanted.issubset(own.text.split(","))
            and (not other.scalable or other.width == own.width))


def _arm(level, cpu, have, width, lacking=(), **more):
    """The features of an AArch64 CPU that has `have` but not `lacking`, with vectors of `width` bits, regardless of its
    name."""
    text = ",".join([f"+{name}" for name in have] + [f"-{name}" for name in lacking])
    return Features(level, cpu, text, width=width, registers=32, is_x86=False,
                    fma=True, f16c=True, bf16="bf16" in have, vnni="dotprod" in have, mixed="i8mm" in have, **more)


def level(name):
    """The Features of machines other than this one: ``x86-64-v2``, ``x86-64-v3`` (AVX2), ``x86-64-v4`` (AVX-512),
    ``x86-64-vnni`` (with dot products of int8 and bfloat16), ``x86-64-amx`` (with AMX tiles as well),
    ``aarch64-linux-gnu`` (NEON), ``aarch64-v8.6`` (with dot products of int8 and bfloat16), ``aarch64-sve256`` and
    ``aarch64-sve512`` (SVE of that vector width), ``x86_64-pc-windows-msvc`` (AVX2), ``arm64-apple-darwin``, or
    ``wasm32`` (vectors of 128 bits, no threads).  ValueError for another name.

    Example:
        >>> level("x86-64-v3").width, level("aarch64-linux-gnu").registers
        (256, 32)
    """
    if name in _ARM_LEVELS:
        return _arm(name, "generic", *_ARM_LEVELS[name], triple=ARM)
    if name in _OTHERS:
        cpu, text, registers = _OTHERS[name]
        return Features(name, cpu, text, width=128, registers=registers, is_x86=False, fma=name != WASM,
                        f16c=name != WASM, bf16=False, vnni=False, triple=name)
    have = _LEVELS["x86-64-v3" if name == WINDOWS else name] if name in (*_LEVELS, WINDOWS) else None
    if have is None:
        raise ValueError(f"there is no target {name!r}; there are "
                         f"{', '.join((*_LEVELS, WINDOWS, *_ARM_LEVELS, *_OTHERS))}")
    wide = "avx512vl" in have
    text = ",".join(f"+{one}" for one in have) + (",-prefer-256-bit" if wide else "")
    cpu = {"x86-64-vnni": "x86-64-v4", "x86-64-amx": "x86-64-v4", WINDOWS: "x86-64-v3"}.get(name, name)
    return Features(name, cpu, text,
                    width=512 if wide else 256 if "avx2" in have else 128, registers=32 if wide else 16, is_x86=True,
                    fma="fma" in have, f16c="f16c" in have, bf16="avx512bf16" in have, vnni="avx512vnni" in have,
                    tiles="amx" if "amx-tile" in have else "", triple=WINDOWS if name == WINDOWS else LINUX)


def levels(names) -> tuple:
    """The Features of one name or several that packages know, the simplest CPU first; none for None.  ValueError for
    other names."""
    names = [names] if isinstance(names, str) else list(names or ())
    for name in names:
        if name not in PACKAGED:
            raise ValueError(f"there are no packages for {name!r}; there are for {', '.join(PACKAGED)}")
    return tuple(sorted((level(name) for name in dict.fromkeys(names)),
                        key=lambda one: PACKAGED.index(one.level)))


def targeted():
    """The Features that this thread generates code for: this machine's, except within ``targeting``."""
    others = planning.others
    return others and others[1] or host()


def targeting(features):
    """A context in which this thread plans and generates code for a machine with these Features, which may be unable to
    run here."""
    return planned_for(features=features)


def remembered(maxsize=None):
    """``functools.lru_cache`` for functions whose results depend on the target of code generation.

    Example:
        >>> width = remembered()(lambda: targeted().width)
        >>> with targeting(level("x86-64-v3")):
        ...     width()
        256
        >>> width() == host().width
        True
    """
    def decorate(function):
        @functools.lru_cache(maxsize=maxsize)
        def known(features, *args, **names):
            return function(*args, **names)

        @functools.wraps(function)
        def found(*args, **names):
            return known(targeted(), *args, **names)

        found.cache_clear = known.cache_clear
        return found
    return decorate


@remembered()
def processor_kind() -> str:
    """The kind of CPU that measurements hold for: its vendor, the width of its vectors, its dot products, AMX tiles and
    KB of L2 cache."""
    own = targeted()
    products = "+".join(name for name in ("vnni", "bf16") if getattr(own, name)) or "none"
    return (f"{processor.vendor() or 'unknown'} {own.width} {products} {own.tiles or 'none'} "
            f"{own.second_cache >> 10}")
