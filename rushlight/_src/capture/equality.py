"""Equality of constants for guards: ``1 == True == 1.0`` and ``0.0 == -0.0``, but programs distinguish these."""
from __future__ import annotations

import enum
import re
import struct
import types

import numpy as np

from ..core.devices import device
from ..core.naming import defining_module
from .classes import FRAMEWORK, is_framework

# types whose ``==`` distinguishes all that programs can, within one type
COMPARED = (int, bool, str, bytes, types.CodeType)
# new objects that mean the same; ``==`` of annotations ignores the order and the types of their arguments
DESCRIBED = (types.UnionType, types.GenericAlias, re.Pattern, device)
EXTENDED = (np.longdouble, np.clongdouble)  # whose memory has padding bytes
bits_of_float, bits_of_complex = struct.Struct("d").pack, struct.Struct("dd").pack


def is_same(a, b) -> bool:
    """True if two values are of one type and equal in every bit and item; objects with an identity only equal
    themselves."""
    kind = type(a)
    if a is b or kind is not type(b):
        return a is b
    if kind in COMPARED:
        return a == b
    if kind is float:
        return bits_of_float(a) == bits_of_float(b)
    if kind is complex:
        return bits_of_complex(a.real, a.imag) == bits_of_complex(b.real, b.imag)
    if isinstance(a, (tuple, frozenset)):
        return len(a) == len(b) and all(map(is_same, a, b))
    if kind is range:
        return (a.start, a.stop, a.step) == (b.start, b.stop, b.step)
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and (repr(a) == repr(b) if kind in EXTENDED else a.tobytes() == b.tobytes())
    return is_described(a) and bool(a == b) and repr(a) == repr(b)


def is_described(value) -> bool:
    """True for annotations, patterns and devices, which their string form describes."""
    return isinstance(value, DESCRIBED) or type(value).__module__ == "typing" or (
        is_record(type(value)) and all(map(is_constant, vars(value).values())))


def is_record(cls) -> bool:
    """True for frozen data classes of the framework, whose instances are constants if their fields are."""
    parameters = vars(cls).get("__dataclass_params__")
    return parameters is not None and parameters.frozen and is_framework(cls.__module__)


def is_constant(value) -> bool:
    """True for numbers, strings and None, and tuples of these."""
    if type(value) is tuple:
        return all(map(is_constant, value))
    return value is None or type(value) in (int, float, bool, str, bytes)


def is_immutable(value) -> bool:
    """True if an object's identity fixes its value: enum members, layouts, memory formats; or its string form does."""
    return (isinstance(value, (enum.Enum, re.Match)) or is_described(value) or value is NotImplemented
            or defining_module(type(value)) == f"{FRAMEWORK}._src.core.convert")
