"""A program's kernel calls as runnable Python: allocations, and the kernels with their arguments, in order."""
from __future__ import annotations

import ctypes
import itertools
import struct
import weakref

from ...core import failures
from ...core.native import Tensor
from ...core.tensor import address, empty
from ...compiler.launch import CONSTANT, Launch, encode
from .llvm import pool

_numbers = itertools.count()
programs: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # number in a source: the code it came from

HEADER = """from rushlight import {dtypes}
from rushlight._src.devices.cpu.host import Address, attached, empty, workspace
"""


def written(code, name: str) -> str:
    """Return the source of a Python function of a program's inputs: tensors, scalars, and the RNG stream's seed and
    offset."""
    number = next(_numbers)
    programs[number] = code
    outputs = [f"out{k}" for k in range(len(code.outputs))]
    given, stream = code.names
    values = [*given, *outputs, *(["arena"] if code.temporaries else []), *stream, "flag"]
    lines = [f"launch = attached({number})  # {name}"]
    for text, meta in zip(outputs, code.outputs):
        lines.append(f"{text} = empty({tuple(meta.shape)}, {meta.dtype.name}, {tuple(meta.strides)})")
    lines += [f"arena = workspace({code.temporaries[0]})"] if code.temporaries else []
    lines.append("flag = workspace(8)")
    lines += list(calls(code, values))
    lines.append("flag.check()")
    dtypes = ", ".join(sorted({meta.dtype.name for meta in code.outputs})) or "float32"
    body = "\n".join(f"    {line}" for line in lines)
    result = ", ".join(outputs) + ("," if len(outputs) == 1 else "")
    return (f"{HEADER.format(dtypes=dtypes)}\n\ndef program({', '.join([*given, *stream])}):\n{body}\n    return "
            f"({result})")


def calls(code, values):
    """Yield each step as the source of a call: its kernel by number, then its slots."""
    for k, launch in enumerate(code.launches):
        slots = [shown(values, *slot) for slot in launch.slots]
        yield f"launch({', '.join([str(k), *slots])}, extent={launch.extent}, grain={launch.grain})  # {code.labels[k]}"


def shown(values, value: int, number: int) -> str:
    """Return the source of a slot: a constant, a value, or an address some bytes into one."""
    if value == CONSTANT:
        return str(number)
    return f"Address({values[value]}, {number})" if number else values[value]


class Workspace:
    """Bytes that live while a program runs."""

    def __init__(self, nbytes: int):
        self.room = (ctypes.c_char * (max(nbytes, 8) + 64))()
        self.address = -(-ctypes.addressof(self.room) // 64) * 64

    def check(self):
        """Raise the error that a kernel reported here."""
        flag = ctypes.c_int64.from_address(self.address).value
        if flag:
            raise failures.error(flag) or IndexError("an index is out of range")


workspace = Workspace


class Address:
    """An address some bytes into a tensor or workspace."""

    def __init__(self, owner, offset: int):
        self.address = word(owner) + offset


def word(value) -> int:
    """Return the value of a slot: an address, an int, or the bits of a float."""
    if isinstance(value, Tensor):
        return address(value)
    if isinstance(value, (Workspace, Address)):
        return value.address
    return struct.unpack("<q", struct.pack("<d", value))[0] if type(value) is float else int(value)


def attached(number: int):
    """Return ``launch(step, *slots, extent=, grain=)`` for the kernels of a program.  LookupError if this process did
    not make it, or has released it."""
    code = programs.get(number)
    if code is None:
        raise LookupError(
            f"this process has no program {number}: the text runs where it was written, while the compiled function "
            "lives")
    launches, runner = code.launches, pool.caller("program_run")

    def launch(step, *slots, extent, grain):
        words = encode([Launch(launches[step].kernel, extent, grain, tuple((CONSTANT, word(slot)) for slot in slots))])
        block = (ctypes.c_int64 * len(words))(*words)
        runner(ctypes.addressof(block), ctypes.addressof((ctypes.c_int64 * 1)()))

    launch.code = code  # it keeps the kernels in memory
    return launch


__all__ = ["Address", "Workspace", "attached", "empty", "workspace", "written"]
