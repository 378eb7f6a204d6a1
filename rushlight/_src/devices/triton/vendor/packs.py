"""Machine code that executes a plan of cuDNN, as a call of a library on the hot path (``runner.py``).

A plan takes its memory by a descriptor, a variant pack, which cannot be changed once it is finalized: a call makes one,
executes the plan, and frees it.  Words of a plan: those of ENTRIES, which are addresses of the library's functions; its
handle; the address of the word that says which stream that has; the plan; the number of tensors; and the address of
their unique ids.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib

from ...cpu.llvm import jit
from ...cpu.llvm.builder import Module
from ...cpu.llvm.types import i32, i64, ptr
from ...cpu.llvm.values import constant
from .graphs import OF_PACK, POINTER, WHOLE

ENTRIES = ("cudnnSetStream", "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute", "cudnnBackendFinalize",
           "cudnnBackendExecute", "cudnnBackendDestroyDescriptor")
SET_STREAM, CREATE, SET, FINALIZE, EXECUTE, DESTROY, HANDLE, CURRENT, PLAN, COUNT, NUMBERS = range(11)
STREAM, FIRST = 1, 2  # arguments of a call: the words, the stream, then tensors' addresses, and that of the workspace
DNN = 1 << 20  # is added to statuses, to mark them as cuDNN's
IDS, POINTERS, WORKSPACE = 1000, 1001, 1003  # attributes of a pack


def text() -> str:
    """dnn_run(words, stream, addresses): the status of the first call that failed, and DNN; else 0."""
    f = Module().function("dnn_run", [("words", ptr), ("stream", ptr), ("places", ptr)], i32)
    words, stream, places = f.parameters

    def pointer(number):
        return f.load(ptr, f.offset(words, number, i64))

    def call(entry, *given):
        return f.call_pointer(pointer(entry), list(given), i32)

    def unless(status, *calls):
        """The status of the first of some calls that fails; none follows it."""
        for one in calls:
            status, = f.when(f.compare("==", status, 0), lambda one=one: [one()], lambda status=status: [status])
        return status

    current, fine, held = pointer(CURRENT), constant(i32, 0), f.alloca(ptr)

    def moved():
        status = call(SET_STREAM, pointer(HANDLE), stream)
        f.when(f.compare("==", status, 0), lambda: f.store(stream, current))
        return [status]

    status, = f.when(f.compare("==", f.cast("ptrtoint", f.load(ptr, current), i64), f.cast("ptrtoint", stream, i64)),
                     lambda: [fine], moved)
    status = unless(status, lambda: call(CREATE, constant(i32, OF_PACK), held))

    def run():
        pack, count = f.load(ptr, held), f.load(i64, f.offset(words, COUNT, i64))
        rows = ((IDS, WHOLE, count, pointer(NUMBERS)), (POINTERS, POINTER, count, places),
                (WORKSPACE, POINTER, constant(i64, 1), f.offset(places, count, i64)))
        found = unless(fine, *(
            lambda row=row: call(SET, pack, constant(i32, row[0]), constant(i32, row[1][0]), *row[2:]) for row in rows),
            lambda: call(FINALIZE, pack), lambda: call(EXECUTE, pointer(HANDLE), pointer(PLAN), pack))
        freed = call(DESTROY, pack)
        return [f.select(f.compare("==", found, 0), freed, found)]

    status, = f.when(f.compare("==", status, 0), run, lambda: [status])
    f.ret(f.select(f.compare("==", status, 0), fine, f.add(status, constant(i32, DNN))))
    return f.module.text()


@functools.cache
def address() -> int:
    """The address of the machine code; kept on disk by its text."""
    written = text()
    name = f"dnn_run {hashlib.sha256(written.encode()).hexdigest()[:16]}"
    return jit.build(name, lambda: written, ["dnn_run"])["dnn_run"]


class Pack:
    """The words of a plan.  ``current``: the word of the handle's stream; ``numbers``: of tensors, in the order of
    addresses; those in ``constants`` are passed by value."""

    def __init__(self, library, handle: int, current, plan: int, numbers: list, constants: dict):
        entries = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in ENTRIES]
        self.numbers = (ctypes.c_int64 * len(numbers))(*numbers)
        self.constants = {number: ctypes.c_float(value) for number, value in constants.items()}
        self.words = (ctypes.c_int64 * (NUMBERS + 1))(*entries, handle, ctypes.addressof(current), plan, len(numbers),
                                                      ctypes.addressof(self.numbers))

    @property
    def address(self) -> int:
        return ctypes.addressof(self.words)

    def places(self) -> list:
        """The addresses of the constants."""
        return [ctypes.addressof(value) for value in self.constants.values()]
