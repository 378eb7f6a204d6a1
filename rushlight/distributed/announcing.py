"""Machine code of a step: a rank writes its header and data, meets the others and checks that all headers agree; small
data are also reduced.  One call from Python does all of it."""
from __future__ import annotations

import ctypes
import functools

from .._src.core.llvm.loaded import callable_at
from .._src.devices.cpu.llvm import jit
from .._src.devices.cpu.llvm.builder import Module
from .._src.devices.cpu.llvm.types import f64, i32, i64, ptr
from .._src.devices.cpu.llvm.values import constant
from .kernels import MOST, write_meet, write_reached

HEAD = 64  # bytes at the beginning of a slot that identify its rank's operation
# results of the functions: MORE if bytes are left that did not fit, DIFFERS + r if rank r runs another operation,
# DIFFERS + size + r if it sends another number of bytes than expected
MORE, LATE, AGREED, DIFFERS = -1, 0, 1, 2


class Place(ctypes.Structure):
    """Constants of a rank in its group: addresses of its shared memory, and how it waits."""

    _fields_ = [("words", ctypes.c_void_p), ("slots", ctypes.c_void_p), ("slot", ctypes.c_int64),
                ("rank", ctypes.c_int64), ("size", ctypes.c_int64), ("spins", ctypes.c_int64),
                ("yields", ctypes.c_int64), ("until", ctypes.c_void_p)]


def field(f, place, number: int):
    return f.load(ptr if number in (0, 1, 7) else i64, f.offset(place, 8 * number), 8)


def slots_at(f, place, step):
    """(the first slot of a step, the length of a slot, how many there are)."""
    slot, size = field(f, place, 2), field(f, place, 4)
    turn = f.cast("zext", f.and_(step, 1), i64)
    return f.offset(field(f, place, 1), f.mul(f.mul(turn, size), slot)), slot, size


def write_settle(module):
    """Emit ``settle(place, step, head, data, kernel, count, scale)``: once all ranks have met, it returns AGREED, or
    DIFFERS + the first rank whose header differs.  A kernel that is not null then reduces ``count`` elements of all
    ranks into ``data``."""
    f = module.function("settle", [("place", ptr), ("step", i32), ("head", ptr), ("data", ptr), ("kernel", ptr),
                                   ("count", i64), ("scale", f64)], i64)
    place, step, head, data, kernel, count, scale = f.parameters
    first, slot, size = slots_at(f, place, step)
    mine, wanted = field(f, place, 3), f.load(i32, head, 1)
    sources = f.alloca(ptr, MOST)
    reduces = f.compare("!=", f.cast("ptrtoint", kernel, i64), 0)

    def look(rank, carried):
        at = f.offset(first, f.mul(rank, slot))
        other = f.compare("!=", f.load(i32, at, 4), wanted)
        found = f.select(f.and_(other, f.compare("==", carried[0], AGREED)), f.add(rank, DIFFERS), carried[0])
        given = f.select(f.compare("==", rank, mine), data, f.offset(at, HEAD))
        f.when(reduces, lambda: f.store(given, f.offset(sources, f.mul(rank, 8)), 8) and None)
        return [found]

    found, = f.loop(0, size, 1, [constant(i64, AGREED)], look)
    f.when(f.and_(reduces, f.compare("==", found, AGREED)),
           lambda: f.call_pointer(kernel, [sources, data, count, scale]) and None)
    f.ret(found)
    return f


def write_announce(module, meet, settle):
    """Emit ``announce(place, step, head, data, nbytes, kernel, count, scale)``: it writes head and data into this
    rank's slot and meets; it returns LATE if some ranks have not come in time, else the result of ``settle``."""
    f = module.function("announce", [("place", ptr), ("step", i32), ("head", ptr), ("data", ptr), ("nbytes", i64),
                                     ("kernel", ptr), ("count", i64), ("scale", f64)], i64)
    place, step, head, data, nbytes, kernel, count, scale = f.parameters
    first, slot, size = slots_at(f, place, step)
    mine = f.offset(first, f.mul(field(f, place, 3), slot))
    f.copy_bytes(mine, head, HEAD)
    f.copy_bytes(f.offset(mine, HEAD), data, nbytes)
    met = f.call(meet, [field(f, place, 0), field(f, place, 3), size, step, field(f, place, 5), field(f, place, 6),
                        field(f, place, 7)], i64)
    there, = f.when(f.compare("!=", met, 0),
                    lambda: [f.call(settle, [place, step, head, data, kernel, count, scale], i64)],
                    lambda: [constant(i64, LATE)])
    f.ret(there)


def write_take(module):
    """Emit ``take(place, step, head, table, limit)``: once all have met, it copies the data for this rank from the
    others' slots, and returns AGREED, MORE, or the rank that differs."""
    f = module.function("take", [("place", ptr), ("step", i32), ("head", ptr), ("table", ptr), ("limit", i64)], i64)
    place, step, head, table, limit = f.parameters
    first, slot, size = slots_at(f, place, step)
    mine, wanted = field(f, place, 3), f.load(i32, head, 1)
    inline = f.add(f.mul(size, 16), HEAD)
    number = lambda base, index: f.load(i64, f.offset(base, f.mul(index, 8)), 8)  # noqa: E731

    def check(rank, carried):
        at = f.offset(first, f.mul(rank, slot))
        expected = number(table, f.add(f.mul(size, 2), rank))
        wrong = f.compare("!=", number(f.offset(at, HEAD), mine), expected)
        bad = f.select(wrong, f.add(f.add(rank, size), DIFFERS), constant(i64, AGREED))
        bad = f.select(f.compare("!=", f.load(i32, at, 4), wanted), f.add(rank, DIFFERS), bad)
        most, = f.loop(0, size, 1, [carried[1]], lambda k, m: [f.maximum(m[0], number(f.offset(at, HEAD), k))])
        return [f.select(f.compare("==", carried[0], AGREED), bad, carried[0]), most]

    def copies():
        def one(rank, carried):
            at = f.offset(first, f.mul(rank, slot))
            nbytes, target = number(table, f.add(f.mul(size, 2), rank)), number(table, f.add(f.mul(size, 3), rank))
            mine_too = f.compare("==", rank, mine)
            held = f.cast("ptrtoint", f.offset(at, f.add(inline, f.mul(mine, limit))), i64)
            source = f.select(mine_too, number(table, f.add(size, rank)), held)
            f.when(f.or_(mine_too, f.compare("<=", nbytes, limit)),
                   lambda: f.copy_bytes(f.cast("inttoptr", target, ptr), f.cast("inttoptr", source, ptr),
                                        nbytes) and None)
        f.loop(0, size, 1, [], lambda rank, _: one(rank, _))

    found, most = f.loop(0, size, 1, [constant(i64, AGREED), constant(i64, 0)], check)
    f.when(f.compare("==", found, AGREED), copies)
    more = f.and_(f.compare("==", found, AGREED), f.compare(">", most, limit))
    f.ret(f.select(more, constant(i64, MORE), found))
    return f


def write_swap(module, meet, take):
    """Emit ``swap(place, step, head, table, limit)``: it passes up to ``limit`` bytes to each other rank through this
    rank's slot, and reads those of the other ranks.  ``table``: for each rank, the bytes to send, their address, the
    bytes to receive, and their address.  Returns LATE, or the result of ``take``."""
    f = module.function("swap", [("place", ptr), ("step", i32), ("head", ptr), ("table", ptr), ("limit", i64)], i64)
    place, step, head, table, limit = f.parameters
    first, slot, size = slots_at(f, place, step)
    rank = field(f, place, 3)
    mine = f.offset(first, f.mul(rank, slot))
    f.copy_bytes(mine, head, HEAD)
    f.copy_bytes(f.offset(mine, HEAD), table, f.mul(size, 16))
    inline = f.offset(mine, f.add(f.mul(size, 16), HEAD))

    def one(other, _):
        nbytes = f.load(i64, f.offset(table, f.mul(other, 8)), 8)
        source = f.load(ptr, f.offset(table, f.mul(f.add(other, size), 8)), 8)
        f.when(f.and_(f.compare("!=", other, rank), f.compare("<=", nbytes, limit)),
               lambda: f.copy_bytes(f.offset(inline, f.mul(other, limit)), source, nbytes) and None)

    f.loop(0, size, 1, [], one)
    met = f.call(meet, [field(f, place, 0), rank, size, step, field(f, place, 5), field(f, place, 6),
                        field(f, place, 7)], i64)
    there, = f.when(f.compare("!=", met, 0), lambda: [f.call(take, [place, step, head, table, limit], i64)],
                    lambda: [constant(i64, LATE)])
    f.ret(there)


def text() -> str:
    module = Module()
    meet = write_meet(module, write_reached(module))
    write_announce(module, meet, write_settle(module))
    write_swap(module, meet, write_take(module))
    return module.text()


@functools.cache
def announcing():
    """Return (announce, ``settle``, swap, take) as functions that release the GIL."""
    names = ("announce", "settle", "swap", "take")
    found = jit.build("distributed: announcing 2", text, list(names))
    begin = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p
    after = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
    kinds = {"announce": (*begin, ctypes.c_void_p, ctypes.c_int64, *after), "settle": (*begin, ctypes.c_void_p, *after),
             "swap": (*begin, ctypes.c_char_p, ctypes.c_int64), "take": (*begin, ctypes.c_char_p, ctypes.c_int64)}
    return [callable_at(found[name], ctypes.CFUNCTYPE(*kinds[name])) for name in names]
