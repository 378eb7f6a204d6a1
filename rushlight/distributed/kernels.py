"""Machine code of collectives between processes: barriers at a step, and reductions over memory that several of them
wrote."""
from __future__ import annotations

import ctypes
import functools
import platform

from .._src.core.platform import here
from .._src.core.llvm.loaded import callable_at
from .._src.devices.cpu.llvm import jit
from .._src.devices.cpu.llvm.builder import Module
from .._src.devices.cpu.llvm.values import constant
from .._src.devices.cpu.llvm.features import host
from .._src.devices.cpu.llvm.types import bf16, f16, f32, f64, i8, i16, i32, i64, ptr, vector

FUTEX = {"x86_64": 202, "aarch64": 98}
LINE = 64  # bytes between the words of two members: each has its own cache line
TYPES = {"bool": i8, "uint8": i8, "int8": i8, "int16": i16, "uint16": i16, "int32": i32, "uint32": i32, "int64": i64,
         "uint64": i64, "float16": f16, "bfloat16": bf16, "float32": f32, "float64": f64}
BITS = {"band": "and_", "bor": "or_", "bxor": "xor"}
TRUTH = {"sum": "bor", "product": "band", "min": "band", "max": "bor"}  # equivalents for bool
MOST = 8  # memories that one kernel reads
UNROLL = 4


def futex_number():
    """Return the number of the futex system call; None if there is none."""
    return FUTEX.get(platform.machine()) if here.name == "linux" else None


def pause(b):
    if b.features.is_x86:
        b.call("llvm.x86.sse2.pause", [])


def system(b, word, operation: int, value, until):
    """Emit futex(word, operation, value, until); on other systems the thread yields."""
    null = constant(ptr, 0)
    if futex_number() is None:
        b.call(here.giving_way, [], i32)
    else:
        b.call("syscall", [constant(i64, futex_number()), word, constant(i64, operation), value, until, null,
                           constant(i64, 0)], i64, variadic=1)


def write_publish(module):
    """Emit ``publish(word, value)``: it sets a member's word, and wakes its waiters (the next word counts them)."""
    f = module.function("publish", [("word", ptr), ("value", i32)])
    word, value = f.parameters
    f.atomic_update("xchg", word, value, "seq_cst")
    sleepers = f.atomic_load(i32, f.offset(word, 4), "seq_cst")
    f.when(f.compare("!=", sleepers, 0), lambda: system(f, word, 1, constant(i64, 1 << 30), constant(ptr, 0)))
    f.ret()
    return f


def write_reached(module):
    """Emit ``reached(word, value, spins, yields, until)``: it returns 1 once the word has reached ``value``, and 0 if
    it has not after ``spins`` polls, ``yields`` further polls with yields to other threads (cheaper than a sleep if
    there are more ranks than CPUs), and one sleep."""
    f = module.function("reached", [("word", ptr), ("value", i32), ("spins", i64), ("yields", i64), ("until", ptr)],
                        i64)
    word, value, spins, yields, until = f.parameters
    behind = lambda seen: f.compare("<", f.sub(seen, value), 0)  # noqa: E731 - words wrap around

    def looks(seen, count, rest):
        def look(values):
            rest()
            return [f.atomic_load(i32, word), f.sub(values[1], 1)]
        return f.while_loop([seen, count], lambda values: f.and_(behind(values[0]), f.compare(">", values[1], 0)),
                            look)[0]

    seen = looks(f.atomic_load(i32, word), spins, lambda: pause(f))
    seen = looks(seen, yields, lambda: f.call(here.giving_way, [], i32))

    def sleep():
        sleepers = f.offset(word, 4)
        f.atomic_update("add", sleepers, constant(i32, 1), "seq_cst")
        now = f.atomic_load(i32, word, "seq_cst")
        f.when(behind(now), lambda: system(f, word, 0, now, until))
        f.atomic_update("sub", sleepers, constant(i32, 1), "seq_cst")
        return [f.atomic_load(i32, word)]

    seen, = f.when(behind(seen), sleep, lambda: [seen])
    f.ret(f.cast("zext", f.compare(">=", f.sub(seen, value), 0), i64))
    return f


def write_meet(module, reached):
    """Emit ``meet(words, rank, size, value, spins, yields, until)``: it marks the rank's arrival at step ``value``, and
    waits for all; it returns 0 if some are late, else 1.

    After a word for each rank comes one that counts all arrivals: threads sleep on it alone, and the last to arrive
    wakes them.
    """
    f = module.function("meet", [("words", ptr), ("rank", i64), ("size", i64), ("value", i32), ("spins", i64),
                                 ("yields", i64), ("until", ptr)], i64)
    words, rank, size, value, spins, yields, until = f.parameters
    f.atomic_store(value, f.offset(words, f.mul(rank, LINE)))
    count = f.offset(words, f.mul(size, LINE))
    whole = f.mul(f.cast("trunc", size, i32), value)
    now = f.add(f.atomic_update("add", count, constant(i32, 1), "seq_cst"), 1)

    def wake():
        sleepers = f.atomic_load(i32, f.offset(count, 4), "seq_cst")
        f.when(f.compare("!=", sleepers, 0), lambda: system(f, count, 1, constant(i64, 1 << 30), constant(ptr, 0)))
        return [constant(i64, 1)]

    there, = f.when(f.compare("==", now, whole), wake,
                    lambda: [f.call(reached, [count, whole, spins, yields, until], i64)])
    f.ret(there)
    return f


def waiting_text() -> str:
    module = Module()
    write_publish(module)
    write_meet(module, write_reached(module))
    return module.text()


class TimeSpec(ctypes.Structure):
    """The time limit of a sleep."""

    _fields_ = [("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_int64)]


@functools.cache
def waiting():
    """(publish, meet, reached) as functions that let other Python threads run."""
    found = jit.build(f"distributed: waiting 4 {futex_number()} {here.name}", waiting_text,
                      ["publish", "meet", "reached"])
    kinds = {"publish": (None, ctypes.c_void_p, ctypes.c_int32),
             "meet": (ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32, ctypes.c_int64,
                      ctypes.c_int64, ctypes.c_void_p),
             "reached": (ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64,
                         ctypes.c_void_p)}
    return tuple(callable_at(found[name], ctypes.CFUNCTYPE(*kinds[name])) for name in ("publish", "meet", "reached"))


def combined(b, kind: str, signed: bool, a, c):
    """Two values as one."""
    if kind in BITS:
        return getattr(b, BITS[kind])(a, c)
    if kind in ("min", "max"):
        return (b.minimum if kind == "min" else b.maximum)(a, c, signed)
    return b.mul(a, c) if kind == "product" else b.add(a, c)


def write_combine(kind: str, name: str, count: int) -> str:
    """combine(sources, target, n, scale): n elements of ``count`` memories as one, halves carried as float32; sums
    times ``scale``."""
    module = Module()
    element, signed = TYPES[name], not name.startswith("u")
    kind = TRUTH.get(kind, kind) if name == "bool" else kind
    f = module.function("combine", [("sources", ptr), ("target", ptr), ("n", i64), ("scale", f64)])
    sources, target, n, scale = f.parameters
    memories = [f.load(ptr, f.offset(sources, 8 * k), 8) for k in range(count)]
    wide = f32 if element in (f16, bf16) else element

    def piece(at, lanes):
        values = [f.load(vector(element, lanes), f.offset(m, at, element), element.bytes) for m in memories]
        if wide is not element:
            values = [f.convert(v, wide) for v in values]
        result = functools.reduce(lambda a, c: combined(f, kind, signed, a, c), values)
        if kind == "avg":
            factor = f.convert(scale, wide)
            result = f.mul(result, f.splat(factor, lanes) if lanes else factor)
        f.store(f.convert(result, element) if wide is not element else result, f.offset(target, at, element),
                element.bytes)

    lanes = host().lanes(wide.bytes)
    step = lanes * UNROLL
    whole = f.mul(f.div(n, step), step)
    f.loop(0, whole, step, [], lambda at, _: [piece(f.add(at, k * lanes), lanes) for k in range(UNROLL)] and None)
    f.loop(whole, n, 1, [], lambda at, _: piece(at, 0))
    f.ret()
    return module.text()


@functools.cache
def combiner_at(kind: str, name: str, count: int) -> int:
    """Return the address of the kernel that reduces ``count`` buffers of a dtype."""
    return jit.build(f"distributed: combine 1 {kind} {name} {count}", lambda: write_combine(kind, name, count),
                     ["combine"])["combine"]


@functools.cache
def combiner(kind: str, name: str, count: int):
    """The kernel that reduces ``count`` memories of a dtype."""
    return callable_at(combiner_at(kind, name, count), ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p,
                                                                        ctypes.c_int64, ctypes.c_double))


@functools.cache
def pointers(count: int):
    return ctypes.c_void_p * count


def combine(kind: str, name: str, itemsize: int, sources: list, target: int, count: int, scale: float = 1.0):
    """``count`` elements at each of the addresses ``sources``, reduced in their order, at the address ``target``, which
    may be one of them.

    ``kind``: "sum", "avg" (times ``scale``), "product", "min", "max", "band", "bor" or "bxor".
    """
    first = sources[:MOST]
    rest = sources[MOST:]
    if rest and target in rest:
        raise ValueError("the target of a reduction is read after it is written")
    combiner("sum" if rest and kind == "avg" else kind, name, len(first))(pointers(len(first))(*first), target, count,
                                                                          scale)
    while rest:
        first, rest = [target, *rest[:MOST - 1]], rest[MOST - 1:]
        combiner("sum" if rest and kind == "avg" else kind, name, len(first))(pointers(len(first))(*first), target,
                                                                              count, scale)


__all__ = ["LINE", "TYPES", "TimeSpec", "combine", "waiting"]
