"""The static types of the subset, and values of those types during compilation."""

from dataclasses import dataclass, field

from . import layout


class Unsupported(SyntaxError):
    """A construct outside the typed subset; names the file, the line and the construct."""


@dataclass(frozen=True, eq=False)
class Type:
    """A static type: its name in messages, its LLVM type, and for built-in classes the flag their type objects
    carry."""

    name: str
    ir: str
    flag: int = 0
    cls: object = None  # the ClassDeclaration of a native class

    @property
    def is_reference(self):
        return self.ir == "ptr" and self is not ARGS

    def __repr__(self):
        return self.name


I64 = Type("i64", "i64")
F64 = Type("f64", "double")
BOOL = Type("bool", "i1")
NONE = Type("None", "ptr")  # of the constant None, and of functions that return nothing
OBJECT = Type("object", "ptr")
TUPLE = Type("tuple", "ptr", layout.TUPLE)
LIST = Type("list", "ptr", layout.LIST)
DICT = Type("dict", "ptr", layout.DICT)
STR = Type("str", "ptr", layout.STR)
BYTES = Type("bytes", "ptr", layout.BYTES)
ARGS = Type("Args", "ptr")  # a C array of borrowed references and its length
SCALARS = (I64, F64, BOOL)
SIZED = (TUPLE, LIST, DICT, BYTES)  # their length is stored at layout.SIZE
BUILTINS = {int: I64, float: F64, bool: BOOL, object: OBJECT, tuple: TUPLE, list: LIST, dict: DICT, str: STR,
            bytes: BYTES}

# How long a reference stays valid. OWNED: until its owner releases it. FRAGILE: until other code runs, since it was
# read from a field or a list. STABLE: until the end of the expression. PERMANENT: until the function returns.
FRAGILE, STABLE, PERMANENT, OWNED = range(4)


@dataclass(eq=False)
class Value:
    """A value being computed: its type, its LLVM name, the lifetime of its reference, and facts about None.

    `raw`: as stored in a field, where a null pointer means None. `present`: certainly not None.
    """

    type: Type
    ir: str
    hold: int = PERMANENT
    raw: bool = False
    present: bool = False
    length: str = field(default=None)  # of Args
    constant: object = field(default=None)  # the Python value of a literal scalar


# LLVM types of stored values, and of function results: a reference (null: failed), a number with a failure flag, or 0,
# 1, 2 (failed)
STORED = {"i1": "i8"}
RESULTS = {I64: "{i64, i1}", F64: "{double, i1}", BOOL: "i8", NONE: "i8"}


def result_type(type):
    """The LLVM type in which a compiled function returns."""
    return RESULTS.get(type, "ptr")


def argument_types(type):
    """The LLVM types in which a value is passed."""
    return ["ptr", "i64"] if type is ARGS else [type.ir]
