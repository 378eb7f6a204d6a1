"""A stand-in for ``libnvidia-ml.so.1``: a shared object of ELF that our own code generator and linker make.

It knows the GPUs of the stand-in for the driver by their places on the bus.  Figures are told by the number of the GPU,
and differ from each other.
"""
from __future__ import annotations

from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import i64, ptr
from rushlight._src.devices.cpu.llvm.values import Value, constant
from rushlight._src.packages.objects import SharedObject

from .stub import Entry

INITIALISED = 0  # a word of the state: how often the library was
UNINITIALIZED, INVALID, TOO_SMALL, NOT_FOUND = 1, 2, 7, 6
PROCESSES = 20  # more than are asked for at first
ENTRIES = (("nvmlInit_v2", ""), ("nvmlDeviceGetHandleByPciBusId_v2", "pp"), ("nvmlDeviceGetUtilizationRates", "pp"),
           ("nvmlDeviceGetTemperature", "pip"), ("nvmlDeviceGetPowerUsage", "pp"), ("nvmlDeviceGetClockInfo", "pip"),
           ("nvmlDeviceGetComputeRunningProcesses_v3", "ppp"))


def initialised(e):
    e.count(INITIALISED)


def found(e, bus, out):
    place = e.f.sub(e.get(bus, 1), int.from_bytes(b"10.0\0\0\0\0", "little"))  # its second half: "10.0" and on
    index = e.f.div(place, 1 << 8)
    e.stop(e.f.compare("!=", place, e.f.mul(index, 1 << 8)), NOT_FOUND)
    e.stop(e.f.compare(">", index, 1), NOT_FOUND)
    e.put(e.f.add(index, 1), out)  # the handle: 1 and 2


def rates(e, handle, out):
    e.put_int(e.f.mul(handle, 10), out)
    e.put_int(e.f.add(handle, 60), e.f.add(out, 4))


def temperature(e, handle, sensor, out):
    e.stop(e.some(sensor), INVALID)
    e.put_int(e.f.add(handle, 40), out)


def power(e, handle, out):
    e.put_int(e.f.mul(handle, 100_000), out)


def clock(e, handle, kind, out):
    e.stop(e.f.compare("!=", kind, 1), INVALID)
    e.put_int(e.f.add(handle, 1700), out)


def processes(e, handle, count, rows):
    small = e.f.compare("<", e.f.and_(e.get(count), 0xFFFFFFFF), PROCESSES)
    e.f.when(small, lambda: e.put_int(PROCESSES, count))
    e.stop(small, TOO_SMALL)
    for k in range(PROCESSES):
        e.put(1000 + k, rows, 3 * k)
        e.put((k + 1) << 20, rows, 3 * k + 1)
        e.put(0, rows, 3 * k + 2)
    e.put_int(PROCESSES, count)


WRITERS = initialised, found, rates, temperature, power, clock, processes


def image() -> bytes:
    """The file."""
    module = Module()
    module.data("state", "[8 x i64]")
    module.data("words", "i64", str(int.from_bytes(b"a stub\0\0", "little")))
    for (name, kinds), write in zip(ENTRIES, WRITERS):
        e = Entry(module, name, kinds)
        if kinds:
            e.stop(e.zero(e.field(INITIALISED)), UNINITIALIZED)
        write(e, *e.given)
        e.f.ret(constant(e.f.result, 0))
    f = module.function("nvmlErrorString", [("status", i64)], ptr)
    f.ret(Value("@words", ptr))
    made = SharedObject()
    made.add_object(jit.compile_object(module.text()))
    return made.image((*(name for name, _ in ENTRIES), "nvmlErrorString"), "libnvidia-ml-stand-in.so.1")
