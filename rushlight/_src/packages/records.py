"""Programs as records: encoded programs with addresses in place of indirect slots.

Most slots of a launch hold the same address in every call: temporaries, weights, the flag.  A record has the kernel,
its extent, its grain, the count of its arguments, and these as the kernel takes them, so that a call copies nothing.
Addresses of inputs and outputs differ between calls: ``patches`` list the arguments to set.
"""
from __future__ import annotations

from ..compiler.launch import CONSTANT, HEAD
from ..devices.cpu.llvm.types import i64, ptr
from ..devices.cpu.llvm.values import Value, constant

PATCH = 24  # bytes: address of the argument, offset of its base in a table of addresses, offset to add
RECORD_WORDS = 4  # words for each word of a program: those of its record, and of patches for all its slots


def write_records(module):
    """records_words(words): how many words a program has.

    records_fill(words, values, moving, records, patches): writes records and patches.  ``values``: address by number;
    ``moving``: by number -1, or which address of a call it is.
    records_patch(patches, addresses): has the records take the addresses of a call.
    records_run(records, threads): runs them.
    """
    write_words(module)
    write_fill(module)
    write_patch(module)
    write_run(module)


def write_words(module):
    f = module.function("records_words", [("words", ptr)], i64, internal=True)

    def one(_, carried):
        count = f.load(i64, f.offset(f.parameters[0], f.mul(f.add(carried[0], 3), 8)))
        return [f.add(carried[0], f.add(f.mul(count, 2), HEAD))]

    found, = f.loop(0, f.load(i64, f.parameters[0]), 1, [constant(i64, 1)], one)
    f.ret(found)


def write_fill(module):
    f = module.function("records_fill", [("words", ptr), ("values", ptr), ("moving", ptr), ("records", ptr),
                                         ("patches", ptr)], internal=True)
    words, values, moving, records, patches = f.parameters
    head = 8 * HEAD

    def launch(_, carried):
        source, record, patch = carried
        f.copy_bytes(record, source, head)
        count = f.load(i64, f.offset(source, 24))
        arguments = f.offset(record, head)

        def slot(k, carried):
            pair = f.offset(f.offset(source, head), f.mul(k, 16))
            value, number = f.load(i64, pair), f.load(i64, f.offset(pair, 8))
            target = f.offset(arguments, k, i64)

            def settled():
                f.store(number, target)
                return list(carried)

            def placed():
                which = f.load(i64, f.offset(moving, value, i64))

                def fixed():
                    f.store(f.add(f.load(i64, f.offset(values, value, i64)), number), target)
                    return list(carried)

                def told():
                    f.store(target, carried[0])
                    f.store(f.mul(which, 8), f.offset(carried[0], 8))
                    f.store(number, f.offset(carried[0], 16))
                    return [f.offset(carried[0], PATCH)]

                return f.when(f.compare("<", which, 0), fixed, told)

            return f.when(f.compare("==", value, CONSTANT), settled, placed)

        patch, = f.loop(0, count, 1, [patch], slot)
        return [f.offset(source, f.add(f.mul(count, 16), head)), f.offset(record, f.add(f.mul(count, 8), head)), patch]

    count = f.load(i64, words)
    f.store(count, records)
    _, _, end = f.loop(0, count, 1, [f.offset(words, 8), f.offset(records, 8), f.offset(patches, 8)], launch)
    room = f.sub(f.cast("ptrtoint", end, i64), f.cast("ptrtoint", f.offset(patches, 8), i64))
    f.store(room, patches)
    f.ret()


def write_patch(module):
    f = module.function("records_patch", [("patches", ptr), ("addresses", ptr)], internal=True)
    patches, addresses = f.parameters

    def one(at, _):
        patch = f.offset(f.offset(patches, 8), at)
        base = f.load(i64, f.offset(addresses, f.load(i64, f.offset(patch, 8))))
        f.store(f.add(base, f.load(i64, f.offset(patch, 16))), f.load(ptr, patch))

    f.loop(0, f.load(i64, patches), PATCH, [], one)
    f.ret()


def write_run(module):
    """One thread takes each step as a whole: parts are for others to claim."""
    f = module.function("records_run", [("records", ptr), ("threads", i64)], internal=True)
    records, threads = f.parameters
    count, first, zero = f.load(i64, records), f.offset(records, 8), constant(i64, 0)

    def read(record):
        kernel, arguments = f.load(ptr, record), f.offset(record, 8 * HEAD)
        extent, grain, room = (f.load(i64, f.offset(record, 8 * k)) for k in (1, 2, 3))
        return kernel, arguments, extent, grain, f.offset(arguments, f.mul(room, 8))

    def alone(_, carried):
        kernel, arguments, extent, _, following = read(carried[0])
        f.call_pointer(kernel, [arguments, zero, extent, zero])
        return [following]

    def shared(_, carried):
        kernel, arguments, extent, grain, following = read(carried[0])
        f.call("pool_run", [kernel, arguments, extent, grain])
        return [following]

    f.when(f.compare("<=", threads, 1), lambda: f.loop(zero, count, 1, [first], alone) and None,
           lambda: f.loop(zero, count, 1, [first], shared) and None)
    f.ret()
