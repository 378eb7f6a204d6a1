"""Dequantize int4 weights in vectors."""

from ..llvm.types import bf16, f32, i32, vector
from ..llvm.values import constant_vector

BLOCK = 64        # columns whose weights are stored together
MIDDLE = 8        # zero point of the int4 weights
AHEAD = 4096      # prefetch distance of weights, in bytes
GROUPS_AHEAD = 3  # prefetch distance of scales, in groups along k
SLOTS = ("x", "weight", "scales", "out", "scratch", "scratch_bytes", "first", "rows", "columns", "depth", "group",
         "groups")
POINTERS = ("x", "weight", "scales", "out", "scratch")


def meant(f, words):
    """Floats q - 8 for words whose last four bits are q; the other bits are ignored."""
    lanes = words.type.lanes
    kind = vector(f32, lanes)
    if lanes == 16 and f.features.width == 512:  # a vector of 16 floats is a table of the dequantized values
        return f.call("llvm.x86.avx512.permvar.sf.512",
                      [constant_vector(f32, [float(q - MIDDLE) for q in range(16)]), words], kind)
    return f.cast("sitofp", f.sub(f.and_(words, 15), MIDDLE), kind)


def pairs(f, stored, place, lanes):
    """The scales, and the zeros, of adjacent columns."""
    kind = vector(f32, lanes)
    if stored is bf16:
        words = f.load(vector(i32, lanes), place, align=2)
        return [f.bitcast(bits, kind) for bits in (f.shl(words, 16), f.and_(words, -1 << 16))]
    both = f.convert(f.load(vector(stored, 2 * lanes), place), f32)
    return [f.shuffle(both, None, range(which, 2 * lanes, 2)) for which in range(2)]


def fetch_scales(f, stored, line, columns):
    """Prefetch the scales of a block's columns GROUPS_AHEAD groups ahead: they are in other pages."""
    there = f.offset(line, f.mul(columns, 2 * stored.bytes * GROUPS_AHEAD))
    for at in range(0, 2 * stored.bytes * BLOCK, 64):
        f.prefetch(f.offset(there, at))
