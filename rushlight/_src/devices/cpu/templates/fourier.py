"""Fourier transforms along one dimension: between memory and planes of real and imaginary parts, on which the stages of
stockham.py run.

Along the last dimension, lanes are consecutive elements of one transform; along other dimensions, each lane is a
transform of its own. Real input of even length becomes half as many complex elements. A length with a large prime
factor becomes a convolution (Bluestein 1970).
"""

from dataclasses import dataclass

import numpy as np

from ..llvm import jit, pool
from ..llvm.builder import Module
from ..llvm.values import constant, zero
from ..llvm.features import remembered, targeted
from ..llvm.scalars import STORED
from ..llvm.types import i64, vector
from .butterfly import alternating, minus, parted, plus, reversed_lanes, times
from .contraction import Contraction, KernelCall, table, written_slots
from .stockham import factors, stage_rows, stages, write_stages
from .units import Units

# the stored elements of a row; HALF: the first coefficients of a real row's transform
COMPLEX, REAL, HALF = "complex", "real", "half"
SLOTS = ("x", "y", "scratch", "rows", "tables", "places", "factors", "count", "blocks", "inner", "x_row", "y_row",
         "x_step", "y_step", "plane", "scratch_bytes",
         "size", "half", "length", "span")
POINTERS = ("x", "y", "scratch", "rows", "tables", "places", "factors")


@dataclass(frozen=True)
class Fourier:
    """`outer` times `inner` transforms of `size` elements, which are `inner` apart. `given`, `made`: COMPLEX, REAL or
    HALF; `inverse`: with the other sign of the exponent. Results are not normalized."""

    outer: int
    size: int
    inner: int
    dtype: str  # of the real numbers
    given: str = COMPLEX
    made: str = COMPLEX
    inverse: bool = False


def plan_fourier(problem):
    """Plan transforms; operands are "x" and "y", in rows.

    Example:
        >>> len(plan_fourier(Fourier(4, 16, 1, "float32")).steps)
        1
    """
    return _planned(problem, pool.get_num_threads())


def held(kind, size):
    """Number of stored elements of a row."""
    return size // 2 + 1 if kind == HALF else size


@remembered(256)
def _planned(p, threads):
    element = STORED[p.dtype]
    lanes, beside = targeted().lanes(element.bytes), 1 if p.inner == 1 else targeted().lanes(element.bytes)
    packed = p.size % 2 == 0 and REAL in (p.given, p.made)
    length = p.size // 2 if packed else p.size
    turned = factors(length) is None
    span = 1 << (2 * length - 2).bit_length() if turned else length
    parts = stages(span, beside, lanes, np.dtype(p.dtype))
    kinds = tuple(sorted({part.kind for part in parts}))
    rows, tables, places = stage_rows(parts, kinds)
    more = np.concatenate([_packing(p.size) if packed else np.zeros(0), *(_chirp(length, span) if turned else ())])
    keep: list = []
    numbers = {"rows": table(rows, keep), "tables": table(_words(tables, p.dtype), keep), "places": table(places, keep),
               "factors": table(_words(np.stack([more.real, more.imag], 1).reshape(-1), p.dtype), keep),
               "count": len(parts), "inner": p.inner}
    blocks = -(-p.inner // beside)
    plane = -(-(span + 2) * beside * element.bytes // 64) * 64 + lanes * element.bytes
    sizes = [element.bytes * (1 if kind == REAL else 2) for kind in (p.given, p.made)]
    numbers |= {"blocks": blocks, "x_row": held(p.given, p.size) * p.inner * sizes[0],
                "y_row": held(p.made, p.size) * p.inner * sizes[1],
                "x_step": p.inner * sizes[0], "y_step": p.inner * sizes[1], "plane": plane, "scratch_bytes": 4 * plane,
                "size": p.size, "half": p.size // 2, "length": length, "span": span}
    kernel = fourier_kernel(p.dtype, packed, turned, p.given, p.made, p.inverse, beside > 1, kinds)
    sources = {"scratch": ("temp", "scratch", 0), "x": ("pointer", "x", 0), "y": ("pointer", "y", 0)}
    step = KernelCall(kernel, p.outer * blocks, max(1, 4096 // (p.size * beside)),
                      written_slots(SLOTS, numbers, sources))
    return Contraction((step,), {"scratch": 4 * plane * threads}, tuple(keep))


def _words(values, dtype):
    """Elements of a table as int64 words."""
    values = np.asarray(values).astype(dtype)
    return np.append(values, np.zeros(-len(values) % 2 if values.itemsize == 4 else 0, values.dtype)).view(np.int64)


def _packing(n):
    """Factors that combine the transforms of even and odd elements."""
    return np.exp(-2j * np.pi / n * np.arange(n // 2 + 1))


def _chirp(n, span):
    """exp(-i pi j^2 / n), and the transform of its inverse over ``span`` elements, divided by ``span``."""
    chirp = np.exp(-1j * np.pi / n * (np.arange(n) ** 2 % (2 * n)))
    around = np.zeros(span, complex)
    around[:n] = chirp.conj()
    around[span - n + 1:] = chirp[:0:-1].conj()
    return chirp, np.fft.fft(around) / span


def fourier_kernel(*key):
    """Return the address of the kernel of a kind of transform, a row (or as many columns as a vector has lanes) per
    work unit."""
    return jit.build(f"fourier {key}", lambda: _text(*key), ["fourier"])["fourier"]


def _text(dtype, packed, turned, given, made, inverse, columns, kinds):
    module = Module()
    element = STORED[dtype]
    lanes = module.features.lanes(element.bytes)
    run = write_stages(module, kinds, element, lanes)
    kernel = Units("fourier", SLOTS, POINTERS, module)
    f = kernel.f
    named = {name: getattr(kernel.s, name) for name in SLOTS}
    named["scratch"] = f.offset(named["scratch"], f.mul(kernel.worker, named["scratch_bytes"]))
    writer = (_Columns if columns else _Rows)(f, named, element, lanes, run, packed, turned, inverse)

    def unit(at):
        outer = f.div(at, named["blocks"])
        writer.column = f.mul(f.sub(at, f.mul(outer, named["blocks"])), lanes)
        writer.x, writer.y = (f.offset(named[n], f.mul(outer, named[n + "_row"])) for n in "xy")
        writer.transform(given, made)

    return kernel.text(unit)


class _Transform:
    """Emits the transform of one work unit. `here`: the planes that hold it; positions in them count elements of one
    transform."""

    def __init__(self, f, named, element, lanes, run, packed, turned, inverse):
        self.f, self.s, self.element, self.lanes = f, named, element, lanes
        self.run, self.packed, self.turned, self.inverse = run, packed, turned, inverse
        self.size, self.half, self.length, self.span = (named[n] for n in ("size", "half", "length", "span"))
        self.kind, self.beyond = vector(element, lanes), f.add(self.half, 1)
        self.here, self.plane = named["scratch"], named["plane"]
        self.there = f.offset(self.here, f.mul(self.plane, 2))
        self.join = constant(i64, 0)  # offsets of tables
        self.chirp = self.beyond if packed else self.join

    def transform(self, given, made):
        self.now = self.here
        {COMPLEX: self.load_complex, REAL: self.load_real, HALF: self.load_half}[given]()
        if self.turned:
            self.convolve()
        else:
            self.now = self.stages(self.here, self.inverse)
        {COMPLEX: self.store_complex, REAL: self.store_real, HALF: self.store_half}[made]()

    def stages(self, x, backward):
        """Run all stages; backward: with real and imaginary parts swapped."""
        f, s = self.f, self.s
        plane, start, room = self.plane, x, self.there
        if backward:
            start, room, plane = f.offset(x, plane), f.offset(room, plane), f.neg(plane)
        found = f.call(self.run, [start, room, plane, s["rows"], s["count"], s["tables"], s["places"]])
        return f.offset(found, plane) if backward else found

    def convolve(self):
        """Compute the transform as a convolution with a chirp, by which input and output are multiplied."""
        f = self.f
        conj = (lambda w: (w[0], f.neg(w[1]))) if self.inverse else lambda w: w

        def turn(j, mask):
            self.put(self.here, j, times(f, self.get(self.here, j, mask), conj(self.known(self.chirp, j, mask))), mask)

        self.each(constant(i64, 0), self.length, turn)
        self.each(self.length, self.span, lambda j, mask: self.put(self.here, j, (zero(self.kind),) * 2, mask))
        spectrum = self.stages(self.here, self.inverse)

        def filtered(j, mask):
            self.put(self.here, j,
                     times(f, self.get(spectrum, j, mask), conj(self.known(f.add(self.chirp, self.length), j, mask))),
                     mask)

        self.each(constant(i64, 0), self.span, filtered)
        self.now = self.stages(self.here, not self.inverse)

        def back(j, mask):
            self.put(self.now, j, times(f, self.get(self.now, j, mask), conj(self.known(self.chirp, j, mask))), mask)

        self.each(constant(i64, 0), self.length, back)

    # -- planes --------------------------------------------------------------------------------------------------------

    def get(self, plane, j, mask):
        at = self.at(plane, j)
        return self.f.load(self.kind, at, mask=mask), self.f.load(self.kind, self.f.offset(at, self.plane), mask=mask)

    def put(self, plane, j, value, mask):
        at = self.at(plane, j)
        self.f.store(value[0], at, mask=mask)
        self.f.store(value[1], self.f.offset(at, self.plane), mask=mask)

    # -- from memory, and back -----------------------------------------------------------------------------------------

    def load_complex(self):
        self.each(constant(i64, 0), self.length, lambda j, mask: self.put(self.here, j, self.read(j, mask), mask))

    def load_real(self):
        def one(j, mask):
            self.put(self.here, j, self.read_pair(j, mask) if self.packed
                     else (self.read_one(j, mask), zero(self.kind)), mask)

        self.each(constant(i64, 0), self.length, one)

    def load_half(self):
        """Load the coefficients: k and size - k are conjugates, which gives the rest of them, or for even sizes those
        of even and odd elements combined."""
        f, half = self.f, self.half
        if not self.packed:
            self.each(constant(i64, 0), self.beyond, lambda k, mask: self.put(self.here, k, self.read(k, mask), mask))
            self.each(self.beyond, self.size,
                      lambda k, mask: self.put(self.here, k, self.conjugate(self.read_back(f.sub(self.size, k), mask)),
                                               mask))
            self.first_parts(lambda re, _: (re, zero(re.type)))
            return

        def one(k, mask):
            x, mirror = self.read(k, mask), self.conjugate(self.read_back(f.sub(half, k), mask))
            turn = self.conjugate(self.known(self.join, k, mask))
            odd = times(f, minus(f, x, mirror), turn)
            self.put(self.here, k, plus(f, plus(f, x, mirror), (f.neg(odd[1]), odd[0])), mask)

        self.each(constant(i64, 0), half, one)
        first, last = self.single(constant(i64, 0)), self.single(half)
        self.put_single(0, (f.add(first, last), f.sub(first, last)))

    def store_complex(self):
        self.each(constant(i64, 0), self.length, lambda j, mask: self.write(j, self.get(self.now, j, mask), mask))

    def store_real(self):
        def one(j, mask):
            value = self.get(self.now, j, mask)
            self.write_pair(j, value, mask) if self.packed else self.write_one(j, value[0], mask)

        self.each(constant(i64, 0), self.length, one)

    def store_half(self):
        f, half = self.f, self.half
        if not self.packed:
            self.each(constant(i64, 0), self.beyond, lambda k, mask: self.write(k, self.get(self.now, k, mask), mask))
            return
        self.around()

        def one(k, mask):
            z, mirror = self.get(self.now, k, mask), self.conjugate(self.get_back(f.sub(half, k), mask))
            odd = times(f, minus(f, z, mirror), self.known(self.join, k, mask))
            even = plus(f, z, mirror)
            self.write(k, (f.mul(f.add(even[0], odd[1]), 0.5), f.mul(f.sub(even[1], odd[0]), 0.5)), mask)

        self.each(constant(i64, 0), self.beyond, one)

    def conjugate(self, value):
        return value[0], self.f.neg(value[1])


class _Rows(_Transform):
    """Lanes are consecutive elements of one transform."""

    def each(self, start, stop, body):
        f, lanes = self.f, self.lanes
        whole = f.add(start, f.and_(f.sub(stop, start), -lanes))
        f.loop(start, whole, lanes, [], lambda j, _: body(j, None))
        f.when(f.compare("<", whole, stop), lambda: body(whole, f.lane_mask(f.sub(stop, whole), lanes)))

    def at(self, plane, j):
        return self.f.offset(plane, j, self.element)

    def known(self, start, j, mask):
        """Complex elements of a table."""
        return self.pairs(self.f.offset(self.s["factors"], self.f.mul(self.f.add(j, start), 2), self.element), mask)

    def pairs(self, at, mask):
        """Complex elements from memory."""
        low, high = self.doubled(mask)
        return parted(self.f, self.f.load(self.kind, at, mask=low),
                      self.f.load(self.kind, self.f.offset(at, self.lanes, self.element), mask=high))

    def doubled(self, mask):
        """The masks of two vectors, of each lane twice."""
        if mask is None:
            return None, None
        return tuple(self.f.shuffle(mask, None, [half * self.lanes // 2 + k // 2 for k in range(self.lanes)])
                     for half in range(2))

    def read(self, j, mask):
        return self.pairs(self.f.offset(self.x, self.f.mul(j, 2), self.element), mask)

    read_pair = read

    def read_one(self, j, mask):
        return self.f.load(self.kind, self.f.offset(self.x, j, self.element), mask=mask)

    def read_back(self, j, mask):
        """The elements at j, j - 1, ..."""
        first = self.f.sub(j, self.lanes - 1)
        re, im = self.pairs(self.f.offset(self.x, self.f.mul(first, 2), self.element),
                            mask and reversed_lanes(self.f, mask))
        return reversed_lanes(self.f, re), reversed_lanes(self.f, im)

    def get_back(self, j, mask):
        found = self.get(self.now, self.f.sub(j, self.lanes - 1), mask and reversed_lanes(self.f, mask))
        return tuple(reversed_lanes(self.f, v) for v in found)

    def write(self, j, value, mask):
        at = self.f.offset(self.y, self.f.mul(j, 2), self.element)
        for half, (v, m) in enumerate(zip(alternating(self.f, *value, 1), self.doubled(mask))):
            self.f.store(v, self.f.offset(at, half * self.lanes, self.element), mask=m)

    write_pair = write

    def write_one(self, j, value, mask):
        self.f.store(value, self.f.offset(self.y, j, self.element), mask=mask)

    def single(self, k):
        """The real part of one coefficient."""
        return self.f.load(self.element, self.f.offset(self.x, self.f.mul(k, 2), self.element))

    def put_single(self, j, value):
        at = self.at(self.here, constant(i64, j))
        self.f.store(value[0], at)
        self.f.store(value[1], self.f.offset(at, self.plane))

    def first_parts(self, change):
        """Modify the first element."""
        at = self.at(self.here, constant(i64, 0))
        self.put_single(0, change(self.f.load(self.element, at), None))

    def around(self):
        """Repeat the first element after the last."""
        at = self.at(self.now, constant(i64, 0))
        end = self.at(self.now, self.length)
        for move in (lambda p: p, lambda p: self.f.offset(p, self.plane)):
            self.f.store(self.f.load(self.element, move(at)), move(end))


class _Columns(_Transform):
    """Lanes are adjacent transforms; the last vector may have fewer."""

    def transform(self, given, made):
        left = self.f.sub(self.s["inner"], self.column)
        self.mask, masks = self.f.lane_mask(left, self.lanes), []
        for half in range(2):
            masks.append(self.f.lane_mask(self.f.sub(self.f.mul(left, 2), half * self.lanes), self.lanes))
        self.masks = masks
        super().transform(given, made)

    def each(self, start, stop, body):
        self.f.loop(start, stop, 1, [], lambda j, _: body(j, None))

    def at(self, plane, j):
        return self.f.offset(plane, self.f.mul(j, self.lanes), self.element)

    def known(self, start, j, mask):
        at = self.f.offset(self.s["factors"], self.f.mul(self.f.add(j, start), 2), self.element)
        return tuple(self.f.splat(self.f.load(self.element, self.f.offset(at, c, self.element)), self.lanes)
                     for c in range(2))

    def place(self, name, j, per):
        """Address of the elements at j, each `per` scalars."""
        row = self.f.offset(getattr(self, name), self.f.mul(j, self.s[name + "_step"]))
        return self.f.offset(row, self.f.mul(self.column, per), self.element)

    def read(self, j, mask):
        at = self.place("x", j, 2)
        return parted(self.f, *(self.f.load(self.kind, self.f.offset(at, half * self.lanes, self.element),
                                            mask=self.masks[half]) for half in range(2)))

    def read_one(self, j, mask):
        return self.f.load(self.kind, self.place("x", j, 1), mask=self.mask)

    def read_pair(self, j, mask):
        twice = self.f.mul(j, 2)
        return self.read_one(twice, mask), self.read_one(self.f.add(twice, 1), mask)

    read_back = read

    def get_back(self, j, mask):
        return self.get(self.now, j, mask)

    def write(self, j, value, mask):
        at = self.place("y", j, 2)
        for half, v in enumerate(alternating(self.f, *value, 1)):
            self.f.store(v, self.f.offset(at, half * self.lanes, self.element), mask=self.masks[half])

    def write_one(self, j, value, mask):
        self.f.store(value, self.place("y", j, 1), mask=self.mask)

    def write_pair(self, j, value, mask):
        twice = self.f.mul(j, 2)
        self.write_one(twice, value[0], mask)
        self.write_one(self.f.add(twice, 1), value[1], mask)

    def single(self, k):
        return self.read(k, None)[0]

    def put_single(self, j, value):
        self.put(self.here, constant(i64, j), value, None)

    def first_parts(self, change):
        first = constant(i64, 0)
        self.put(self.here, first, change(self.get(self.here, first, None)[0], None), None)

    def around(self):
        self.put(self.now, self.length, self.get(self.now, constant(i64, 0), None), None)
