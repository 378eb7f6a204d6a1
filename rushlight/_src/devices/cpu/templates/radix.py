"""Sort entries: few by counting for each the number of lesser ones, many digit by digit (Knuth, The Art of Computer
Programming 3, 5.2.5)."""

from ..llvm.types import i32, i64, ptr, vector
from ..llvm.values import constant, zero
from .entries import LAST

MOST_COUNTED = 128  # entries up to which each is compared with every other
GROUPS = 2          # vectors of entries that are compared at once
DIGITS, LEVELS = 4, 256
TABLES = 2          # adjacent entries count in separate tables, so that equal ones do not wait for each other
COUNTS_BYTES = TABLES * DIGITS * LEVELS * 4


def padding(lanes):
    """Number of entries after the last one that are read and written."""
    return 2 * GROUPS * lanes


def write_sort(module, lanes):
    """A function (entries, room, counts, count) that sorts entries and returns their address, `entries` or `room`."""
    f = module.function("sort", [("entries", ptr), ("room", ptr), ("counts", ptr), ("count", i64)], ptr, internal=True)
    entries, room, counts, count = f.parameters
    few, many = _write_counting(module, lanes), _write_digits(module)
    found, = f.when(f.compare("<=", count, MOST_COUNTED), lambda: [f.call(few, [entries, room, count])],
                    lambda: [f.call(many, [entries, room, counts, count])])
    f.ret(found)
    return f


def _write_counting(module, lanes):
    """A function that sorts few entries: the index of each is the number of lesser ones."""
    f = module.function("count_less", [("entries", ptr), ("room", ptr), ("count", i64)], ptr, internal=True)
    entries, room, count = f.parameters
    kind = vector(i64, lanes)
    for k in range(GROUPS):
        f.store(constant(kind, LAST), f.offset(f.offset(entries, count, i64), k * lanes, i64))

    def group(at, _):
        own = [f.load(kind, f.offset(entries, f.add(at, k * lanes), i64)) for k in range(GROUPS)]

        def compared(j, ranks):
            other = f.splat(f.load(i64, f.offset(entries, j, i64)), lanes)
            return [f.select(f.compare("<", other, mine), f.add(rank, 1), rank) for mine, rank in zip(own, ranks)]

        ranks = f.loop(0, count, 1, [zero(kind)] * GROUPS, compared)
        for mine, rank in zip(own, ranks):
            f.scatter(mine, f.offset(room, rank, i64))

    f.loop(0, count, GROUPS * lanes, [], group)
    f.ret(room)
    return f


def _digit(b, entry, k):
    """Digit k of an entry's upper half, as unsigned."""
    found = b.and_(b.lshr(entry, 32 + 8 * k), LEVELS - 1)
    return b.xor(found, LEVELS // 2) if k == DIGITS - 1 else found


def _write_digits(module):
    """A function that sorts many entries: stable passes by each digit, least significant first; digits that all entries
    share are skipped."""
    f = module.function("by_digits", [("entries", ptr), ("room", ptr), ("counts", ptr), ("count", i64)], ptr,
                        internal=True)
    entries, room, counts, count = f.parameters
    f.fill_bytes(counts, 0, COUNTS_BYTES)
    tables = [[f.offset(counts, (t * DIGITS + k) * LEVELS, i32) for k in range(DIGITS)] for t in range(TABLES)]

    def counted(at, some):
        one = f.load(i64, f.offset(entries, at, i64))
        for k in range(DIGITS):
            place = f.offset(some[k], _digit(f, one, k), i32)
            f.store(f.add(f.load(i32, place), 1), place)

    pairs = f.and_(count, -TABLES)
    f.loop(0, pairs, TABLES, [], lambda at, _: [counted(f.add(at, t), tables[t]) for t in range(TABLES)] and None)
    f.loop(pairs, count, 1, [], lambda at, _: counted(at, tables[0]))
    here, there = entries, room
    for k in range(DIGITS):
        here, there = _one_digit(f, k, here, there, [t[k] for t in tables], count)
    f.ret(here)
    return f


def _one_digit(f, k, here, there, tables, count):
    """Move entries by digit k, unless it is the same in all; return (their address, the other buffer)."""
    first = _digit(f, f.load(i64, here), k)
    alike = f.load(i32, f.offset(tables[0], first, i32))
    for table in tables[1:]:
        alike = f.add(alike, f.load(i32, f.offset(table, first, i32)))

    def moved():
        def begins(level, before):
            place = f.offset(tables[0], level, i32)
            own = f.load(i32, place)
            for table in tables[1:]:
                own = f.add(own, f.load(i32, f.offset(table, level, i32)))
            f.store(before[0], place)
            return [f.add(before[0], own)]

        f.loop(0, LEVELS, 1, [constant(i32, 0)], begins)

        def move(at, _):
            one = f.load(i64, f.offset(here, at, i64))
            place = f.offset(tables[0], _digit(f, one, k), i32)
            target = f.load(i32, place)
            f.store(f.add(target, 1), place)
            f.store(one, f.offset(there, f.convert(target, i64), i64))

        f.loop(0, count, 1, [], move)
        return [there, here]

    return f.when(f.compare("==", f.convert(alike, i64), count), lambda: [here, there], moved)
