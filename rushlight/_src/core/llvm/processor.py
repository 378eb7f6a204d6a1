"""What LLVM calls this processor and its features: asked of LLVM once, then remembered on disk for as long as the
processor says the same of itself."""
import functools
import hashlib
import json

import llvmlite

from .. import cache
from ..apart import apart
from ..platform import here
from .bindings import bindings


@functools.cache
def host():
    """LLVM's name of the processor and its features: ``(str, {feature: whether it has it})``."""
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
    """Who made this processor, as it says itself; "" where the system does not tell.

    Example:
        >>> vendor().isprintable()
        True
    """
    names = [line.partition(":")[2].strip() for line in here.processor().splitlines() if line.startswith("vendor_id")]
    return names[0] if names else ""
