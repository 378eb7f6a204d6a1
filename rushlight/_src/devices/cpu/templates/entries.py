"""Elements as entries: integers of 64 bits that order as the elements do, with the place of each in the lower half.

No two entries of a row are equal, so that any way of sorting them is a stable way of sorting the elements. Every NaN
stands above all else, and zeros are equal whatever their sign.
"""

from ..llvm.values import constant
from ..llvm.scalars import STORED
from ..llvm.types import f16, bf16, f32, i32, i64, vector

LOW = 0xFFFFFFFF
LAST = (1 << 63) - 1  # above every entry


def is_wide(dtype):
    """Whether elements (dtype name) have more bits than fit beside a place."""
    return STORED[dtype].bits == 64


def ordered(b, value, dtype, descending):
    """Signed integers that order as these elements (or the other way round): of 64 bits for wide elements, else of
    32."""
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
    """Entries of keys of 32 bits at these places."""
    return b.or_(b.shl(b.convert(key, i64), 32), place)


def place_of(b, entries):
    """The places that entries hold."""
    return b.and_(entries, LOW)
