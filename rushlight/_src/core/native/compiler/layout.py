"""The offsets of CPython's structs that compiled code reads directly, checked against the running interpreter before
use."""

import ctypes
import sys
import sysconfig

COUNT = 0  # reference count
TYPE = 8
SIZE = 16  # entries of a tuple, list, bytes or dict
TUPLE_ITEMS = tuple.__basicsize__  # the items themselves; since 3.14 their hash is before them
LIST_ITEMS = 24  # a pointer to the items
FLOAT_VALUE = 16
INT_TAG = 16  # sign and number of digits
INT_DIGIT = 24
IMMORTAL_INT = 4  # a bit of the tag, since 3.14
TYPE_FLAGS = 168
HEADER = 16  # bytes before the first field of an object

IMMORTAL = sys.version_info >= (3, 12)
TAGGED_INTS = sys.version_info >= (3, 12)

# bits of a type's flags
INT, LIST, TUPLE, BYTES, STR, DICT, EXCEPTION, CLASS = (1 << bit for bit in range(24, 32))


def objection():
    """Why compiled code can't run on this interpreter, or None when every assumption holds."""
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} is not CPython"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "a build without the interpreter lock has another object header"
    if sys.maxsize != 2**63 - 1 or sys.byteorder != "little":
        return "only 64-bit little-endian machines are supported"
    if hasattr(sys, "getobjects"):
        return "a tracing debug build has another object header"
    return next((what for what, holds in _facts() if not holds), None)


def _facts():
    word = lambda value, offset: ctypes.c_int64.from_address(id(value) + offset).value
    marker, number, value = object(), 123456789, 2.5
    pair, items, table, data = (marker, number), [marker, number], {1: 2, 3: 4}, b"abc"
    before = word(marker, COUNT)
    another = marker
    yield "reference counts are not where expected", word(marker, COUNT) == before + 1 and another is marker
    yield "types are not where expected", word(number, TYPE) == id(int)
    yield "tuples are laid out differently", word(pair, SIZE) == 2 and word(pair, TUPLE_ITEMS + 8) == id(number)
    yield "lists are laid out differently", ctypes.c_int64.from_address(word(items, LIST_ITEMS)).value == id(marker)
    yield "dicts are laid out differently", word(table, SIZE) == 2
    yield "bytes are laid out differently", word(data, SIZE) == 3
    yield "floats are laid out differently", ctypes.c_double.from_address(id(value) + FLOAT_VALUE).value == value
    yield "ints are laid out differently", ctypes.c_uint32.from_address(
        id(number) + INT_DIGIT).value == number and _tags_hold(word)
    yield "type flags are not where expected", all(word(kind, TYPE_FLAGS) == kind.__flags__
                                                   for kind in (int, tuple, dict, Exception))
    yield "type flags have other meanings", bool(tuple.__flags__ & TUPLE and Exception.__flags__ & EXCEPTION
                                                 and type.__flags__ & CLASS)


def _tags_hold(word):
    if TAGGED_INTS:
        tag = lambda number: word(number, INT_TAG) & ~IMMORTAL_INT
        return (tag(5), tag(-5), tag(0), tag(123456789), tag(1 << 30)) == (8, 10, 1, 8, 16)
    return (word(5, INT_TAG), word(-5, INT_TAG), word(0, INT_TAG), word(1 << 30, INT_TAG)) == (1, -1, 0, 2)
