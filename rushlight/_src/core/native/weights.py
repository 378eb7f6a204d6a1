"""Packed copies of operands: made once while an operand is unchanged, and shared by all programs that need its form.

A template packs a right operand, or the weights of a convolution, into the order in which it reads them. A plan whose
program begins with such a step has a ``Packing``: a second form of its program, without those steps, that is given the
packed copies. A copy belongs to the storage that it was made of, is freed with it, and is valid until the storage is
written: ``Storage.writes`` counts every write, whatever tensor it went through. Storages whose memory may be written
without being counted (``Storage.shown``, and borrowed memory) are packed at each call.
"""
from __future__ import annotations

from .allocator import LARGE, Storage, allocate
from .language import Args, cast, filled, i64, native, new_tuple, tuple_set
from .memory import copy_bytes, fill_bytes, load_i64, run_program, run_program_nogil, stack, store_i64
from .objects import Plan, Tensor, state

PATIENCE = 1024  # calls that an operand whose copies are used too rarely has to stay as it is, at most
MOST = 8  # copies of one storage, in different forms or of different slices
PAID = 4  # uses from which on a copy was worth making
PAUSE = 64  # programs between two searches for unused copies


@native(weakref=True)
class Form:
    """The packed form of an operand: a program of two values, the operand's address and that of its copy."""

    code: i64
    owner: object  # the object that keeps the program alive
    nbytes: i64


@native(weakref=True)
class Packing:
    """The operands that a program packs; those of its launches that pack are left out in ``code``."""

    code: i64  # 0 at first
    calls: i64  # how often the program has been run before it was made
    owner: object
    count: i64
    tensors: tuple  # of each operand, which tensor among the arguments it is, ascending
    places: tuple  # which value of the program
    forms: tuple


@native
class Kept:
    """The memory that packed copies take and may take, in bytes; ``checked``: 1 if each is compared with a fresh one
    before it is used."""

    bytes: i64
    most: i64
    checked: i64
    made: i64  # how many copies were made
    used: i64  # how often one was used again
    clock: i64  # how many programs have asked for copies
    sought: i64  # when there last was no room for one


kept = Kept()


@native(acyclic=True, weakref=True)
class Packed:
    """The state of an operand in one form; a storage has a chain of these."""

    form: object
    address: i64  # of the operand
    writes: i64  # to the storage, when it was last looked at
    calm: i64  # programs that read it since
    wait: i64  # how many have to, until a copy is kept
    memory: Storage  # the copy, or None
    zeroed: i64  # 1 if the copy's memory was zeroed first, so that it can be compared
    seen: i64  # when the copy was last used, by ``kept.clock``
    next: object

    def finalize(self):
        if self.memory is not None:
            kept.bytes -= self.memory.nbytes


@native
def sources(packing: Packing, args: Args) -> tuple:
    """The storages of a program's operands."""
    wanted = packing.tensors
    count = packing.count
    found = new_tuple(count)
    number = 0
    at = 0
    for k in range(len(args)):
        argument = args[k]
        kind = type(argument)
        if isinstance(argument, Tensor):
            at = taken(found, at, wanted, number, cast(Tensor, argument)._rush_storage)
            number += 1
        elif kind is list or kind is tuple:
            inner: i64 = len(argument)
            for j in range(inner):
                element = argument[j]
                if isinstance(element, Tensor):
                    at = taken(found, at, wanted, number, cast(Tensor, element)._rush_storage)
                    number += 1
    while at < count:
        tuple_set(found, at, None)
        at += 1
    return filled(found)


@native
def taken(found: tuple, at: i64, wanted: tuple, number: i64, storage: Storage) -> i64:
    """Enter the storage of one tensor for all operands that it is; returns the number of operands entered by then."""
    count = len(wanted)
    while at < count:
        which: i64 = wanted[at]
        if which != number:
            return at
        tuple_set(found, at, storage)
        at += 1
    return at


@native
def own(storage: Storage) -> bool:
    """True if all writes to a storage's memory are counted: its address was never exposed."""
    return storage.shown == 0 and storage.kind > 0 and storage.kind <= LARGE


@native
def show(storage: Storage) -> None:
    """Record that a storage's address is exposed: its copies are invalid afterwards."""
    storage.shown = 1
    storage.packs = None


@native
def packed(form: Form, address: i64, nogil: i64, zeroed: i64) -> Storage:
    """A packed copy of the operand at an address; None if there is no memory for it."""
    memory: Storage = None
    try:
        memory = allocate(form.nbytes)
    except RuntimeError:  # raised by ``heap.refuse``
        return None
    if zeroed != 0:
        fill_bytes(memory.address, 0, form.nbytes)
    values = stack(2)
    store_i64(values, 0, address)
    store_i64(values, 1, memory.address)
    if nogil != 0:
        run_program_nogil(form.code, values)
    else:
        run_program(form.code, values)
    return memory


@native
def looked_at(storage: Storage, form: Form, address: i64) -> Packed:
    """The state of an operand that a program reads, moved to the front of the chain; outdated copies are released."""
    one: object = storage.packs
    before: Packed = None
    number = 0
    while one is not None:
        found = cast(Packed, one)
        if found.writes != storage.writes:
            outdated(found)
        if found.form is form and found.address == address:
            if before is not None:
                before.next = found.next
                found.next = storage.packs
                storage.packs = found
            if found.writes == storage.writes:
                found.calm += 1
            else:
                found.writes = storage.writes
                found.calm = 0
            return found
        number += 1
        if number == MOST and before is not None:  # the one that was looked at longest ago
            before.next = None
            break
        before = found
        one = found.next
    made = Packed()
    made.form = form
    made.address = address
    made.writes = storage.writes
    made.wait = 1
    made.next = storage.packs
    storage.packs = made
    return made


@native
def outdated(found: Packed) -> None:
    """Frees a copy whose operand was written; how long the next one has to wait follows from how often it was used."""
    if found.memory is not None:
        if found.calm - found.wait >= PAID:
            found.wait = 1 if found.wait < 2 else found.wait // 2
        elif found.wait < PATIENCE:
            found.wait *= 2
        let_go(found)


@native
def let_go(found: Packed) -> None:
    """Frees a copy."""
    if found.memory is not None:
        kept.bytes -= found.memory.nbytes
        found.memory = None


@native
def copy_of(storage: Storage, found: Packed, nogil: i64) -> Storage:
    """The cached copy of an operand, or a new one, which is cached if there is room and the operand was not written
    meanwhile: other threads run while it is packed. None if there is no memory for it."""
    form = cast(Form, found.form)
    before = storage.writes
    if found.writes != before or not own(storage):  # it was written while another operand was packed
        return packed(form, found.address, nogil, 0)
    found.seen = kept.clock
    zeroed = kept.checked
    if found.memory is not None:
        if zeroed == 0 or found.zeroed != 0:
            kept.used += 1
            if zeroed != 0:
                check(found, form)
            return found.memory
        let_go(found)
    memory = packed(form, found.address, nogil, zeroed)
    if memory is None:
        return None
    if kept.bytes + memory.nbytes > kept.most and kept.clock - kept.sought >= PAUSE:
        kept.sought = kept.clock
        state.make_room(memory.nbytes)
    if kept.bytes + memory.nbytes > kept.most or found.memory is not None or found.writes != before:
        return memory
    if storage.writes == before and own(storage):
        kept.bytes += memory.nbytes
        kept.made += 1
        found.memory = memory
        found.zeroed = zeroed
        state.copied(found)
    return memory


@native
def check(found: Packed, form: Form) -> None:
    """Raise an error if a copy differs from a fresh one: a write was not counted."""
    held = found.memory
    fresh = packed(form, found.address, 0, 1)
    if fresh is None:
        return
    for k in range(form.nbytes // 8):
        if load_i64(fresh.address, k) != load_i64(held.address, k):
            raise AssertionError("a packed copy of an operand is stale: a write to its storage was not counted")


@native
def ready(packing: Packing, storages: tuple, values: i64) -> tuple:
    """The states of a program's operands, each None if it must be packed now; None if all must be."""
    count = packing.count
    found = new_tuple(count)
    live = 0
    for k in range(count):
        storage = cast(Storage, storages[k])
        known: Packed = None
        if storage is not None:
            if own(storage):
                place: i64 = packing.places[k]
                known = looked_at(storage, cast(Form, packing.forms[k]), load_i64(values, place))
                if known.calm < known.wait:
                    known = None
                else:
                    live += 1
        tuple_set(found, k, known)
    all = filled(found)
    return None if live == 0 else all


@native
def run_packed(plan: Plan, args: Args, values: i64, used: i64) -> bool:
    """Run a program with packed copies of its operands, if these are unchanged; False if it must run with packing.
    ``used``: the number of its error flag."""
    packing = cast(Packing, plan.packing)
    if packing.code == 0:
        packing.calls += 1
        if packing.calls == 1:
            return False
        state.leave_out(plan, packing)
        if packing.code == 0:
            return False
    if kept.most == 0:
        return False
    kept.clock += 1
    storages = sources(packing, args)
    known = ready(packing, storages, values)
    if known is None:
        return False
    words = used + 2
    count = packing.count
    inner = stack(words + count)
    held = new_tuple(count)
    lacking = 0
    for k in range(count):
        memory: Storage = None
        if known[k] is None:
            place: i64 = packing.places[k]
            memory = packed(cast(Form, packing.forms[k]), load_i64(values, place), plan.long, 0)
        else:
            memory = copy_of(cast(Storage, storages[k]), cast(Packed, known[k]), plan.long)
        tuple_set(held, k, memory)
        if memory is None:
            lacking = 1
        else:
            store_i64(inner, words + k, memory.address)
    alive = filled(held)
    if lacking != 0:
        state.drop_copies()
        return False
    copy_bytes(inner, values, words * 8)
    if plan.long != 0:
        run_program_nogil(packing.code, inner)
    else:
        run_program(packing.code, inner)
    return len(alive) == count
