"""Resume a function in the middle as plain Python: its own bytecode after a prefix that rebuilds locals, cells and the
value stack."""
from __future__ import annotations

import dis
import types

from .bytecode import PYTHON, exception_table, listing
from .segment import ResumePoint

OPCODES = dis.opmap
SHARED = frozenset(("LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLOSURE", "LOAD_FROM_DICT_OR_DEREF",
                    "LOAD_CLASSDEREF"))
SIGNATURE_FLAGS = 0x4 | 0x8


def caches(name: str) -> int:
    """Return the number of cache entries after an instruction."""
    table = dis._inline_cache_entries
    return table.get(name, 0) if isinstance(table, dict) else table[OPCODES[name]]


class Prefix:
    """Bytecode under construction."""

    def __init__(self):
        self.bytes = bytearray()

    def add(self, name: str, argument=0):
        high, extended = argument >> 8, []
        while high:
            extended.append(high & 255)
            high >>= 8
        for byte in reversed(extended):
            self.bytes += bytes((OPCODES["EXTENDED_ARG"], byte))
        self.bytes += bytes((OPCODES[name], argument & 255)) + bytes((OPCODES["CACHE"], 0)) * caches(name)


def number(value: int, flag=0) -> bytes:
    """Encode a number for an exception table: six bits a byte, most significant first."""
    parts = [value & 63]
    value >>= 6
    while value:
        parts.append(64 | value & 63)
        value >>= 6
    parts.reverse()
    parts[0] |= flag
    if len(parts) > 1:
        parts = [p | 64 for p in parts[:-1]] + [parts[-1] & 63]
        parts[0] |= flag
    return bytes(parts)


def moved_cells(code, body, names, shared, other):
    """Rewrite operands of instructions on cells, whose slots move when arguments stop being cells."""
    moves = {}
    extra = 0 if code.co_varnames else 1
    for k, cell in enumerate(shared):
        moves[code.co_varnames.index(cell)] = len(names) + len(other) + len(code.co_freevars) + k
    if extra:
        moves.update({k: k + 1 for k in range(len(other) + len(code.co_freevars))})
    for one in dis.get_instructions(code):
        on_cell = one.opname in SHARED or PYTHON >= (
            3, 13) and one.opname == "LOAD_FAST" and one.argval in code.co_cellvars + code.co_freevars
        if on_cell and one.arg in moves:
            if one.arg > 255 or moves[one.arg] > 255:
                raise NotImplementedError(f"{code.co_name} has more than 255 variables")
            body[one.offset + 1] = moves[one.arg]


def resumed(place: ResumePoint):
    """Return code that continues at a point, called with one tuple of locals and stack; the names of its cells in
    order; and its shift in bytes."""
    code, offset = place.code, place.offset
    shared = [c for c in code.co_cellvars if c in code.co_varnames]
    other = [c for c in code.co_cellvars if c not in code.co_varnames]
    cells = tuple(other) + code.co_freevars + tuple(shared)
    names = code.co_varnames or ("values",)
    body = bytearray(code.co_code)
    moved_cells(code, body, names, shared, other)
    count = len(place.locals) + sum(kind != "N" for kind in place.stack)
    prefix = Prefix()
    if cells:
        prefix.add("COPY_FREE_VARS", len(cells))
    prefix.add("RESUME")
    prefix.add("LOAD_FAST")
    if names[0] not in place.locals:
        prefix.add("DELETE_FAST")
    prefix.add("UNPACK_SEQUENCE", count)
    for name in place.locals:
        prefix.add("STORE_FAST", names.index(name))
    for above, kind in enumerate(reversed(place.stack)):
        if kind == "N":
            prefix.add("PUSH_NULL")
            for depth in range(above + 1, 1, -1):
                prefix.add("SWAP", depth)
    prefix.add("JUMP_FORWARD", offset // 2)
    shift = len(prefix.bytes)
    table = b"".join(number((start + shift) // 2, 128) + number((end - start) // 2) + number((target + shift) // 2)
                     + number(depth << 1 | push)
                     for start, end, target, depth, push in exception_table(code))
    made = code.replace(co_code=bytes(prefix.bytes + body), co_exceptiontable=table,
                        co_linetable=no_lines(shift // 2) + code.co_linetable, co_argcount=1,
                        co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~SIGNATURE_FLAGS,
                        co_varnames=names, co_nlocals=len(names),
                        co_cellvars=(), co_freevars=cells, co_stacksize=max(code.co_stacksize, count + 3) + 2)
    return made, cells, shift


def no_lines(units: int) -> bytes:
    """Return the entries of a line table for code without a line."""
    out = b""
    while units:
        step = min(units, 8)
        out += bytes((0x80 | 15 << 3 | step - 1,))
        units -= step
    return out


_resumed: dict = {}


def size(place: ResumePoint) -> int:
    return len(place.locals) + len(place.cells) + carried(place.stack)


def carried(stack) -> int:
    """Return the number of slots of a value stack that are passed on as values."""
    return stack.count("V") + 2 * stack.count("H")


def handled(entry, values):
    """Return the exception that is being handled where an entry continues, or None."""
    found, at = None, 0
    for place in entry.places:
        at += len(place.locals) + len(place.cells)
        for kind in place.stack:
            found = values[at + 1] if kind == "H" else found
            at += carried((kind,))
    return found


def slot_value(kind, given, shift):
    """Return CPython's value in a slot of the value stack."""
    if kind == "H":
        before, _ = next(given), next(given)
        return before
    return next(given) if kind == "V" else (kind + shift) // 2


def called(function, values, error):
    """Call ``function(values)`` while an exception is being handled."""
    if error is None:
        return function(values)
    try:
        raise error
    except BaseException:
        return function(values)


def run_native(entry, values):
    """Run the innermost frame of an entry to its end as plain Python; return the entry of its caller and its values."""
    place = entry.places[-1]
    found = _resumed.get(place)
    if found is None:
        found = _resumed[place] = resumed(place)
    code, cells, shift = found
    at = len(values) - size(place)
    own, outer = values[at:], values[:at]
    variables = own[:len(place.locals)]
    cell_values = dict(zip(place.cells, own[len(place.locals):]))
    given = iter(own[len(place.locals) + len(place.cells):])
    stack = tuple(slot_value(kind, given, shift) for kind in place.stack if kind != "N")
    function = types.FunctionType(code, entry.namespaces[-1], place.code.co_name, None,
                                  tuple(cell_values[c] for c in cells) or None)
    error = handled(entry, values)
    if len(entry.places) == 1:
        return None, called(function, variables + stack[::-1], error)
    try:
        result = called(function, variables + stack[::-1], error)
    except BaseException as error:
        return handle(entry, outer, error)
    caller, above = entry.places[-2], entry.places[:-2]
    after = listing(caller.code).after[caller.calling] if caller.calling is not None else caller.offset
    stack = caller.stack if place.discard else caller.stack + ("V",)
    place = caller._replace(offset=after, stack=stack, calling=None)
    resumed_at = entry.owner.entry((*above, place), entry.namespaces[:-1])
    return resumed_at, outer if entry.places[-1].discard else (*outer, result)


def handle(entry, values, error):
    """Return the entry of the handler for an exception out of the innermost frame; raise it if no frame has one."""
    for k in range(len(entry.places) - 2, -1, -1):
        place = entry.places[k]
        at = len(values) - size(place)
        own, values = values[at:], values[:at]
        found = listing(place.code).handler(place.calling)
        if found:
            target, depth, push = found
            fixed = len(place.locals) + len(place.cells)
            kept = place.stack[:depth]
            count = carried(kept)
            stack = kept + (place.calling,) * push + ("V",)
            there = place._replace(offset=target, stack=stack, calling=None)
            return entry.owner.entry((*entry.places[:k], there),
                                     entry.namespaces[:k + 1]), (*values, *own[:fixed + count], error)
    raise error
