"""Entries of the stand-in for NVIDIA's library: profilers, and machine code, which is a name and how many
arguments it takes."""
from __future__ import annotations

from rushlight._src.devices.cpu.llvm.types import i32, i64, ptr

from .stub import INVALID, writes


@writes("cuModuleLoadData")
def load(e, number, out, code):
    known = e.f.compare("==", e.f.cast("zext", e.f.load(i32, e.place(code), 1), i64),
                        int.from_bytes(b"STUB", "little"))
    e.stop(e.f.xor(known, True), INVALID)
    arguments = e.f.cast("zext", e.f.load(i32, e.place(e.f.add(code, 4)), 1), i64)
    name = e.f.call("strdup", [e.place(e.f.add(code, 8))], ptr)
    made = e.made(2)
    e.put(e.f.cast("ptrtoint", name, i64), made)
    e.put(arguments, made, 1)
    e.put(made, out)


@writes("cuModuleUnload")
def unload(e, number, module):
    e.note(number, 0, module, 0, 0, 0)
    e.freed(e.get(module))
    e.freed(module)


@writes("cuProfilerStart")
@writes("cuProfilerStop")
def control_profiler(e, number):
    e.note(number, 0, 0, 0, 0, 0)


@writes("cuModuleGetFunction")
def function(e, number, out, module, name):
    e.put(module, out)


@writes("cuFuncSetAttribute")
def function_set(e, number, function, which, value):
    pass
