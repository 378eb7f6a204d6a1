"""Weights of small groups as those of fewer, larger groups: a block-diagonal matrix.

Groups of fewer channels than a vector, or a tile, has lanes waste the others; several of them take as long together as
one of them.
"""

import math
from itertools import product

from ..llvm import jit, tiles
from ..llvm.types import i64
from .contraction import ELEMENTS, KernelCall, numbers, table, tile_numbers, written_slots
from .units import Units

SLOTS = ("weights", "dense", "taps_at", "taps", "channels", "outputs", "together", "w_out", "w_channel")


def blocks_kernel(element):
    """Return the address of the kernel that writes the weights [tap][channel of all groups] of an output channel per
    work unit."""
    return jit.build(f"pixel blocks {element}", lambda: _text(element), ["blocks"])["blocks"]


def _text(element):
    kernel = Units("blocks", SLOTS, ("weights", "dense", "taps_at"))
    f, s = kernel.f, kernel.s

    def unit(channel):
        row = f.mul(s.channels, s.together)
        target = f.offset(s.dense, f.mul(channel, f.mul(row, s.taps)), element)
        f.fill_bytes(target, 0, f.mul(f.mul(row, s.taps), element.bytes))
        own = f.mul(f.rem(f.div(channel, s.outputs), s.together), s.channels)
        source = f.offset(s.weights, f.mul(channel, s.w_out))

        def tap(k, _):
            at = f.offset(source, f.load(i64, f.offset(s.taps_at, k, i64)))
            to = f.offset(target, f.add(f.mul(k, row), own), element)
            f.loop(0, s.channels, 1, [], lambda i, _: f.store(
                f.load(element, f.offset(at, f.mul(i, s.w_channel))), f.offset(to, i, element)))

        f.loop(0, s.taps, 1, [], tap)

    return kernel.text(unit)


def together(c):
    """Return the number of groups of a channels-last Convolution that are computed as one.

    Example:
        >>> from .conv import Convolution
        >>> together(Convolution(1, 64, 64, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1)))
        1
    """
    kind = tile_numbers(c.dtype, c.b_dtype)
    most = 2 * tiles.ROWS if kind else numbers(c.dtype, c.b_dtype).lanes
    wide = max(c.in_channels, c.out_channels) // c.groups
    return max(n for n in range(1, c.groups + 1) if c.groups % n == 0 and (n == 1 or n * wide <= most))


def blocks_step(c, count, keep):
    """Return (the kernel call that writes the weights of a Convolution with `count` groups as one, their bytes)."""
    size, inputs = ELEMENTS[c.b_dtype or c.dtype].bytes, c.in_channels // c.groups
    taps = [sum(at * stride for at, stride in zip(tap, c.w[2:])) * size for tap in product(*map(range, c.kernel))]
    slots = {"taps_at": table(taps, keep), "taps": len(taps), "channels": inputs,
             "outputs": c.out_channels // c.groups, "together": count, "w_out": c.w[0] * size,
             "w_channel": c.w[1] * size}
    call = KernelCall(blocks_kernel(ELEMENTS[c.b_dtype or c.dtype]), c.out_channels,
                      max(1, 16384 // (inputs * count * len(taps))), written_slots(
                          SLOTS, slots, {"weights": ("pointer", "weight", 0), "dense": ("temp", "dense", 0)}))
    return call, c.out_channels * inputs * count * math.prod(c.kernel) * size + 64
