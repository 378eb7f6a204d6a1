"""What LLVM calls this processor and its features: asked of LLVM once, then remembered on disk for as long as the
processor says the same of itself."""
import functools
import hashlib
import json
import pathlib
import platform

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
    if known is not None:
        name, features = json.loads(known)
        return name, features
    found = apart(_asked)
    if described:
        cache.put("processor", key, json.dumps(found).encode())
    return found


def _asked():
    llvm = bindings()
    return llvm.get_host_cpu_name(), dict(llvm.get_host_cpu_features())


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
