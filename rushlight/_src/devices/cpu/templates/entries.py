"""Elements as entries: 64-bit integers that compare as the elements do, with the index of each in the lower half.

No two entries of a row are equal, so that any sort of them is a stable sort of the elements. Every NaN is above all
other values, and zeros are equal regardless of sign.
"""

from ..llvm.values import constant
from ..llvm.scalars import STORED
from ..llvm.types import f16, bf16, f32, i32, i64, vector

LOW = 0xFFFFFFFF
LAST = (1 << 63) - 1  # above every entry


def is_wide(dtype):
    """True if elements (dtype name) have more bits than fit into an entry with an index."""
    return STORED[dtype].bits == 64


def ordered(b, value, dtype, descending):
    """Signed integers that compare as these elements, or in reverse if `descending`: of 64 bits for wide elements, else
    of 32."""
    if value.type.is_float:
        value = b.convert(value, f32) if value.type.element in (f16, bf16) else value
        whole = i64 if value.type.element.bits == 64 else i32
        top = whole.bits - 1
        bits = b.bitcast(b.add(value, 0.0), vector(whole, value.type.lanes))  # a negative zero becomes a positive one
        key = b.xor(bits, b.and_(b.ashr(bits, top), (1 << top) - 1))
        key = b.select(b.is_nan(value), constant(key.type, (1 << top) - 1), key)
    else:
        key = b.convert(value, i64 if value.type.element is i64 else i32, signed=not dtype.startswith(("u", "bool")))
    return b.not_(key) if descending else key


def entry(b, key, place):
    """Entries of 32-bit keys with these indices."""
    return b.or_(b.shl(b.convert(key, i64), 32), place)


def place_of(b, entries):
    """The indices that entries hold."""
    return b.and_(entries, LOW)
