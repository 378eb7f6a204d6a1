"""What LLVM calls this processor and its features: asked of LLVM once, then remembered on disk for as long as the
processor says the same of itself."""
import ctypes
import functools
import hashlib
import json
import pathlib
import platform
import sys

import llvmlite

from .. import cache
from ..apart import apart
from .bindings import bindings


@functools.cache
def host():
    """LLVM's name of the processor and its features: ``(str, {feature: whether it has it})``."""
    described = _description()
    key = hashlib.sha256(f"{llvmlite.__version__} {described}".encode()).hexdigest()
    known = cache.get("processor", key) if described else None
    if known is None:
        found = apart(_asked)
        if described:
            cache.put("processor", key, json.dumps(found).encode())
    else:
        found = json.loads(known)
    name, features = found
    return name, {**features, **_told_by_system()}


def _asked():
    llvm = bindings()
    return llvm.get_host_cpu_name(), dict(llvm.get_host_cpu_features())


# what Linux tells of AArch64: which of its two words (AT_HWCAP, AT_HWCAP2), and the bit
_WORDS = {1: 16, 2: 26}
_BITS = {"neon": (1, 1), "fullfp16": (1, 10), "lse": (1, 8), "dotprod": (1, 20), "sve": (1, 22), "sve2": (2, 1),
         "i8mm": (2, 13), "bf16": (2, 14)}
_APPLE = {"neon": "neon", "fullfp16": "arm.FEAT_FP16", "dotprod": "arm.FEAT_DotProd", "i8mm": "arm.FEAT_I8MM",
          "bf16": "arm.FEAT_BF16"}


def _told_by_system():
    """{feature: whether it is there} of an AArch64 processor, as Linux or macOS says; {} elsewhere.  LLVM reads the
    same from a file that emulators and containers need not have."""
    if platform.machine().lower() not in ("aarch64", "arm64"):
        return {}
    if sys.platform.startswith("linux"):
        ask = ctypes.CDLL(None).getauxval
        ask.argtypes, ask.restype = [ctypes.c_ulong], ctypes.c_ulong
        words = {number: ask(kind) for number, kind in _WORDS.items()}
        return {name: bool(words[word] >> bit & 1) for name, (word, bit) in _BITS.items()}
    if sys.platform == "darwin":
        return {name: _by_name(f"hw.optional.{key}") for name, key in _APPLE.items()}
    return {}


def _by_name(key):
    """Whether a number that macOS knows by a name is there and not 0."""
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    wrong = ctypes.CDLL(None).sysctlbyname(key.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    return not wrong and value.value != 0


def scalable_bytes():
    """Bytes of an SVE vector in this process, as Linux says; 0 where it does not tell."""
    if not sys.platform.startswith("linux"):
        return 0
    which, length = 51, 0xFFFF  # PR_SVE_GET_VL, and the bits of its answer that are the length
    found = ctypes.CDLL(None).prctl(which)
    return found & length if found > 0 else 0


def vendor():
    """Who made this processor, as it says itself; "" where the system does not tell.

    Example:
        >>> vendor().isprintable()
        True
    """
    names = [line.partition(":")[2].strip() for line in _description().splitlines() if line.startswith("vendor_id")]
    return names[0] if names else ""


def _description():
    """The system's words on the first processor, or "" where it has none."""
    try:
        first, _, _ = pathlib.Path("/proc/cpuinfo").read_text().partition("\n\n")
    except OSError:
        return ""
    steady = [line for line in first.splitlines()
              if not line.startswith(("cpu MHz", "bogomips", "processor", "core id", "apicid", "initial apicid"))]
    return "\n".join([platform.machine(), *steady])
