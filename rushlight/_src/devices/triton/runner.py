"""Machine code that gives a stream the launches of a program, as the hot path calls it.

A program's words: status (0: its launches were given; below 0: it was not made for these values, and nothing was given;
above: what the driver said, or LIBRARY more than what a library said), whether its positions have 64 bits, and the
count of its launches; then of each HEAD words (function, programs, threads, bytes of shared memory, count of slots,
words until the next), for each slot (value, number, bits that have to be 0), room for the arguments, and their
addresses.

What has no threads is a call of an entry of another library, with CALLED arguments: "programs" is the number of that
which is the stream, and "bytes of shared memory" whether argument POINTED is given by its address.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib

from ...core.llvm.loaded import callable_at
from ...core.native.queues import FAR
from ..cpu.llvm import jit
from ..cpu.llvm.builder import Module
from ..cpu.llvm.types import i32, i64, ptr
from ..cpu.llvm.values import constant

STATUS, WIDE, COUNT, BODY = range(4)
FUNCTION, PROGRAMS, THREADS, SHARED, SLOTS, LENGTH, HEAD = range(7)
STREAM, LAUNCH, COUNTS = range(3)  # of a queue's words
TAIL = 2  # arguments that Triton adds: memory of its own, and of its profiler
CALLED = 16  # arguments of a library's entry; more than it has do no harm
POINTED = 2
LIBRARY = 1 << 32
UNPREPARED = -1


def text() -> str:
    """gpu_run(values, program, words of the queue, 0)"""
    f = Module().function("gpu_run", [("values", ptr), ("program", i64), ("queue", i64), ("unused", i64)])
    values, program, queue = f.parameters[0], *(f.cast("inttoptr", number, ptr) for number in f.parameters[1:3])

    def word(pointer, number):
        return f.load(i64, f.offset(pointer, number, i64))

    def filled(_, state):
        at, wrong = state
        count = word(at, SLOTS)
        slots = f.offset(at, HEAD, i64)
        arguments = f.offset(slots, f.mul(count, 3), i64)

        def slot(k, seen):
            row = f.offset(slots, f.mul(k, 3), i64)
            source = word(row, 0)
            base, = f.when(f.compare("<", source, 0), lambda: [constant(i64, 0)],
                           lambda: [f.load(i64, f.offset(values, source, i64))])
            value = f.add(base, word(row, 1))
            f.store(value, f.offset(arguments, k, i64))
            return [f.or_(seen[0], f.and_(value, word(row, 2)))]

        wrong, = f.loop(0, count, 1, [wrong], slot)
        return [f.offset(at, word(at, LENGTH), i64), wrong]

    launches, first = word(program, COUNT), f.offset(program, BODY, i64)
    _, wrong = f.loop(0, launches, 1, [first, constant(i64, 0)], filled)
    far = f.compare("!=", f.load(i64, f.offset(f.cast("inttoptr", word(queue, COUNTS), ptr), FAR, i64)), 0)
    narrow = f.compare("==", word(program, WIDE), 0)
    fine = f.and_(f.compare("==", wrong, 0), f.xor(f.and_(far, narrow), True))
    launch, stream = (f.cast("inttoptr", word(queue, number), ptr) for number in (LAUNCH, STREAM))
    one, null = constant(i32, 1), constant(ptr, 0)

    def given():
        def launched(_, state):
            at, status = state
            count = word(at, SLOTS)
            arguments = f.offset(at, f.add(f.mul(count, 3), HEAD), i64)
            pointers = f.offset(arguments, f.add(count, TAIL), i64)
            numbers = [f.cast("trunc", word(at, k), i32) for k in (PROGRAMS, THREADS, SHARED)]
            handle = f.cast("inttoptr", word(at, FUNCTION), ptr)

            def asked():
                got = f.call_pointer(launch, [handle, numbers[0], one, one, numbers[1], one, one, numbers[2], stream,
                                              pointers, null], i32)
                return [f.cast("zext", got, i64)]

            def library():
                f.store(word(queue, STREAM), f.offset(arguments, word(at, PROGRAMS), i64))
                values = [word(arguments, k) for k in range(CALLED)]
                values[POINTED] = f.select(f.compare("!=", word(at, SHARED), 0), word(pointers, POINTED),
                                           values[POINTED])
                got = f.cast("zext", f.call_pointer(handle, values, i32), i64)
                return [f.select(f.compare("!=", got, 0), f.add(got, LIBRARY), got)]

            def next_one():
                return f.when(f.compare("!=", word(at, THREADS), 0), asked, library)

            status, = f.when(f.compare("==", status, 0), next_one, lambda: [status])
            return [f.offset(at, word(at, LENGTH), i64), status]

        return [f.loop(0, launches, 1, [first, constant(i64, 0)], launched)[1]]

    status, = f.when(fine, given, lambda: [constant(i64, UNPREPARED)])
    f.store(status, f.offset(program, STATUS, i64))
    f.ret()
    return f.module.text()


@functools.cache
def address() -> int:
    """The address of the machine code; kept on disk by its text."""
    written = text()
    name = f"gpu_run {hashlib.sha256(written.encode()).hexdigest()[:16]}"
    return jit.build(name, lambda: written, ["gpu_run"])["gpu_run"]


def caller():
    """The same as a function of Python."""
    types = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
    return callable_at(address(), ctypes.PYFUNCTYPE(None, *types))
