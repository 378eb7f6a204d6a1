"""Bytecode of CPython 3.11 to 3.14 as one small instruction set; only this module depends on the version.

The value stack has CPython's layout at every instruction, NULLs included, so that a frame can be handed back to CPython
anywhere; an instruction with two effects is split.
"""
from __future__ import annotations

import dis
import sys
import weakref

PYTHON = sys.version_info[:2]
NULL_FIRST = PYTHON < (3, 13)  # [NULL, callable, arguments] before 3.13, [callable, NULL, arguments] since
BINARY = ["+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^", "+=", "&=", "//=", "<<=", "@=", "*=",
          "%=", "|=", "**=", ">>=", "-=", "/=",
          "^=", "[]"]
COMMON = [AssertionError, NotImplementedError, tuple, all, any, list, set, None, "", True, False, -1]
SPECIAL = ["__enter__", "__exit__", "__aenter__", "__aexit__"]
INTRINSICS = {3: "STOPITERATION_ERROR", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}
NOTHING = frozenset(("NOP", "RESUME", "PRECALL", "NOT_TAKEN", "MAKE_CELL", "COPY_FREE_VARS", "EXTENDED_ARG"))
LOADS = frozenset(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"))
PAIRS = {"LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
         "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
         "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"), "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST")}
CONSTANTS = frozenset(("LOAD_CONST", "LOAD_CONST_IMMORTAL", "LOAD_CONST_MORTAL"))
JUMPS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP"))
AS_NUMBER = frozenset(("IS_OP", "CONTAINS_OP", "COPY", "SWAP", "BUILD_LIST", "BUILD_TUPLE", "BUILD_MAP", "BUILD_SET",
                       "BUILD_STRING", "BUILD_SLICE", "LIST_EXTEND",
                       "LIST_APPEND", "MAP_ADD", "SET_ADD", "DICT_UPDATE", "DICT_MERGE", "SET_UPDATE",
                       "UNPACK_SEQUENCE", "UNPACK_EX", "RAISE_VARARGS", "RERAISE",
                       "SET_FUNCTION_ATTRIBUTE", "BUILD_CONST_KEY_MAP", "MAKE_FUNCTION"))
GENERATOR, VARARGS, VARKEYWORDS = 0x20, 0x4, 0x8  # code flags
COROUTINE = 0x80 | 0x200


class Instruction:
    """One step: its operation, argument, offset, the offset after it, its jump target, the source line."""

    __slots__ = ("op", "arg", "offset", "next", "target", "line")

    def __init__(self, op, arg, offset, target, line):
        self.op, self.arg, self.offset, self.target, self.line, self.next = op, arg, offset, target, line, None

    def __repr__(self):
        return f"{self.offset}: {self.op} {self.arg!r}" + (f" to {self.target}" if self.target is not None else "")


def exception_table(code):
    """(start, end, target, depth, whether the offset is pushed) of each protected range, in code order."""
    data, out = iter(code.co_exceptiontable), []

    def number():
        byte = next(data)
        value = byte & 63
        while byte & 64:
            byte = next(data)
            value = value << 6 | byte & 63
        return value

    while True:
        try:
            start = number() * 2
        except StopIteration:
            return out
        length, target, depth = number() * 2, number() * 2, number()
        out.append((start, start + length, target, depth >> 1, bool(depth & 1)))


class Listing:
    """The instructions of a code object; ``at`` maps a bytecode offset to an index."""

    def __init__(self, code):
        self.constants, self.instructions, self.at = code.co_consts, [], {}  # not the code: see _listings
        self.handlers = exception_table(code)
        raw = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
        self.after = {i.offset: raw[k + 1].offset if k + 1 < len(raw) else None for k, i in enumerate(raw)}
        self.keywords = ()
        line = code.co_firstlineno
        for one in raw:
            line = (one.positions.lineno if one.positions else None) or line
            first = self.at[one.offset] = len(self.instructions)
            for op, arg, target in self.normalised(one):
                self.instructions.append(Instruction(op, arg, one.offset, target, line))
            for made in self.instructions[first:]:
                made.next = self.after[one.offset]

    def handler(self, offset):
        """Return the innermost handler of an offset: (target, stack depth, whether the offset is pushed), or None."""
        found = None
        for start, end, target, depth, push in self.handlers:
            if start <= offset < end:
                found = target, depth, push
        return found

    def catchers(self, offset):
        """Yield (stack depth, whether it ends a ``with``) for each handler that sees an error of an instruction."""
        for start, end, target, depth, _ in self.handlers:
            first = self.at[target]
            if start <= offset < end and self.instructions[first].op == "PUSH_EXC_INFO":
                yield depth, self.instructions[first + 1].op == "WITH_EXCEPT_START"

    def caught(self, offset) -> bool:
        """True if an error of the instruction at an offset may go to an ``except`` or ``finally``; ``with`` blocks do
        not count."""
        return any(not ends_with for _, ends_with in self.catchers(offset))

    def normalised(self, one):
        """Return (op, argument, jump target) for each step of one bytecode instruction."""
        name, arg, value = one.opname, one.arg, one.argval
        if name in NOTHING:
            yield "NOP", None, None
        elif name in LOADS:
            yield "LOAD_FAST", value, None
        elif name in PAIRS:
            for op, variable in zip(PAIRS[name], value):
                yield op, variable, None
        elif name in CONSTANTS:
            yield "LOAD_CONST", value, None
        elif name == "LOAD_SMALL_INT":
            yield "LOAD_CONST", arg, None
        elif name == "LOAD_COMMON_CONSTANT":
            yield "LOAD_CONST", COMMON[arg], None
        elif name == "LOAD_ASSERTION_ERROR":
            yield "LOAD_CONST", AssertionError, None
        elif name == "RETURN_CONST":
            yield "LOAD_CONST", value, None
            yield "RETURN_VALUE", None, None
        elif name == "LOAD_GLOBAL":
            if arg & 1 and NULL_FIRST:
                yield "PUSH_NULL", None, None
            yield "LOAD_GLOBAL", value, None
            if arg & 1 and not NULL_FIRST:
                yield "PUSH_NULL", None, None
        elif name == "LOAD_METHOD" or name == "LOAD_ATTR" and PYTHON >= (3, 12) and arg & 1:
            yield "LOAD_METHOD", value, None
        elif name == "LOAD_SUPER_ATTR":
            yield "LOAD_SUPER_ATTR", (value, bool(arg & 1)), None
        elif name == "LOAD_SPECIAL":
            yield "LOAD_SPECIAL", SPECIAL[arg], None
        elif name.startswith("POP_JUMP_"):
            yield "POP_JUMP", name.split("IF_")[1], value
        elif name in JUMPS:
            yield "JUMP", None, value
        elif name in ("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"):
            yield "JUMP_OR_POP", "TRUE" if "TRUE" in name else "FALSE", value
        elif name == "SEND":
            yield "SEND", None, value
        elif name == "FOR_ITER":
            yield "FOR_ITER", None, self.exhausted(value)
        elif name in ("END_FOR", "POP_ITER"):
            yield "POP_TOP", None, None
        elif name in AS_NUMBER:
            yield name, 0 if name == "MAKE_FUNCTION" and not NULL_FIRST else arg, None
        else:
            yield from self.calls_and_operators(name, arg, value)

    def exhausted(self, target):
        """Return the offset after a loop, with its iterator exhausted and popped."""
        if PYTHON < (3, 12):
            return target
        target = self.after[target]
        return target if PYTHON < (3, 13) else self.after[target]

    def calls_and_operators(self, name, arg, value):
        if name == "KW_NAMES":
            self.keywords = self.constants[arg]
            yield "NOP", None, None
        elif name == "CALL":
            yield "CALL", (arg, self.keywords), None
            self.keywords = ()
        elif name == "CALL_KW":
            yield "CALL_KW", arg, None
        elif name == "CALL_FUNCTION_EX":
            yield "CALL_EX", "null" if PYTHON >= (3, 14) else bool(arg & 1), None
        elif name == "CALL_INTRINSIC_1" and arg in INTRINSICS:
            yield INTRINSICS[arg], None, None
        elif name == "COMPARE_OP":
            yield "COMPARE", dis.cmp_op[arg if PYTHON < (3, 12) else arg >> 4 if PYTHON < (3, 13) else arg >> 5], None
            if PYTHON >= (3, 13) and arg & 16:
                yield "TO_BOOL", None, None
        elif name == "BINARY_OP":
            yield ("BINARY_SUBSCR", None, None) if BINARY[arg] == "[]" else ("BINARY", BINARY[arg], None)
        elif name == "FORMAT_VALUE":
            if arg & 4:
                yield "FORMAT_SPEC", arg & 3, None
            else:
                if arg & 3:
                    yield "CONVERT", arg & 3, None
                yield "FORMAT", None, None
        elif name == "CONVERT_VALUE":
            yield "CONVERT", arg, None
        elif name == "FORMAT_SIMPLE":
            yield "FORMAT", None, None
        elif name == "FORMAT_WITH_SPEC":
            yield "FORMAT_SPEC", 0, None
        else:
            yield name, value, None


_listings: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # of live code objects


def listing(code) -> Listing:
    """Return the listing of a code object, made once."""
    found = _listings.get(code)
    if found is None:
        found = _listings[code] = Listing(code)
    return found
