"""Fourier transforms along one dimension, in WGSL: a launch for each factor of the length (Stockham, 1966).

After launches for factors with the product L, element [k, j] of a row is the transform of length L, at k, of the
numbers j, j + n / L, j + 2 n / L, ...  The next launch joins as many of these as its factor says; after the last one L
is n.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from ....compiler.kernel import Buffer
from ....compiler.target import leaf
from ....core.dtypes import float32, float64
from ....core.expr import apply
from ...shared.products import CompiledKernel, Contraction
from ...shared.writer import Writer
from ..emit import THREADS, Emitter
from ..step import Module, modules, refuse_turns
from .tiled import Put

MOST_FACTOR = 16  # that factors are joined to
NUMBERS = "size", "inner", "held", "kept", "before", "factor", "after", "sign"
COMPLEX, REAL, HALF = "complex", "real", "half"  # what memory holds of a row


def factors_of(size: int) -> list:
    """The factors of a length, small ones joined.

    Example:
        >>> factors_of(360)
        [8, 9, 5]
    """
    found, least = [], 2
    while size > 1:
        least = next((n for n in range(least, int(size**0.5) + 1) if size % n == 0), size)
        if found and found[-1] * least <= MOST_FACTOR:
            found[-1] *= least
        else:
            found.append(least)
        size //= least
    return found or [1]


class Pass(NamedTuple):
    """The types of a launch's input and output: COMPLEX, REAL or HALF of an operand, "" of a temporary."""

    dtype: str
    given: str
    made: str


class Transform(Emitter):
    """Writes one module; a thread computes one number."""

    def __init__(self, role: Pass, features):
        Writer.__init__(self)
        self.features, self.head, self.constants, self.meets, self.role = features, [], {}, False, role
        self.real = float64 if role.dtype == "float64" else float32
        self.x, self.y = Buffer("x", self.real), Buffer("y", self.real)
        self.buffers, self.written, self.kind = [self.x, self.y], {self.y}, self.type(self.real)
        self.line("let none = words[0] >> 31u;")
        for k, buffer in enumerate(self.buffers):
            self.names[buffer] = f"b{k}"
            self.line(f"let o{k} = i32(words[{1 + k}]);")
            self.declare(k, buffer)
        for k, name in enumerate(NUMBERS, 3):
            self.line(f"let {name} = i32(words[{k}]);")

    def home(self, e, x):
        return self.scopes[-1]

    def module(self) -> Module:
        operand = leaf("operand", self.real)
        self.line(f"let unit = i32((wid.x + wid.y * 65535u) * {THREADS}u + lid);")
        self.block("if (unit < i32(words[0]))", self.number)
        self.head += [self.function(f"{name}_of", apply(name, operand), operand) for name in ("cos", "sin")]
        text = self.whole(THREADS, False)
        name = "f" + hashlib.sha256(repr(self.role).encode()).hexdigest()[:12]
        return Module(name, text, (self.real.itemsize,) * 2, (), False, THREADS, False)

    def number(self):
        """One number of a row, from as many as the factor says."""
        zero, last = ("0.0f" if self.kind == "f32" else "0.0lf"), self.role.made
        self.lines(f"let row = unit / {'kept' if last else 'size'};", f"let at = unit % {'kept' if last else 'size'};",
                   "let k = at / after;", "let j = at % after;", "let whole = before * factor;",
                   f"var re = {zero}; var im = {zero}; var t = 0;")
        self.block("for (var s = 0; s < factor; s++)", self.join)
        place = "(row / inner * kept + at) * inner + row % inner" if last else "unit"
        if self.role.made == REAL:
            self.store(Put(self.y), place, "re")
        else:
            self.store(Put(self.y), f"2 * ({place})", "re")
            self.store(Put(self.y), f"2 * ({place}) + 1", "im")

    def join(self):
        quarter = "1.5707963267948966f" if self.kind == "f32" else "1.5707963267948966lf"
        self.lines("let from_row = j + after * s;")
        self.read()
        self.lines(  # the angle is within a quarter of a circle
            "let quarter = 4 * t / whole;",
            f"let angle = {self.kind}(4 * t - quarter * whole) / {self.kind}(whole) * {quarter};",
            "let c = cos_of(angle); let d = sin_of(angle);",
            "let cosine = select(select(c, -d, quarter == 1), select(-c, d, quarter == 3), quarter > 1);",
            "let sine = select(select(d, c, quarter == 1), select(-d, -c, quarter == 3), quarter > 1) * "
            f"{self.kind}(sign);",
            "re = re + (a * cosine - b * sine);", "im = im + (a * sine + b * cosine);", "t = (t + k) % whole;")

    def read(self):
        """Names the parts ``a`` and ``b`` of a number."""
        given = self.role.given
        if not given:
            self.line("let place = 2 * (row * size + k % before * after * factor + from_row);")
        elif given == HALF:  # the other half is turned
            self.lines("let other = from_row >= held;", "let within = select(from_row, size - from_row, other);",
                       "let place = 2 * ((row / inner * held + within) * inner + row % inner);")
        else:
            pair = "2 * " if given == COMPLEX else ""
            self.line(f"let place = {pair}((row / inner * held + from_row) * inner + row % inner);")
        self.line(f"let a = {self.from_memory(self.x, 'o0 + place')};")
        other = self.from_memory(self.x, "o0 + place + 1")
        if given == REAL:
            other = "0.0f" if self.kind == "f32" else "0.0lf"
        elif given == HALF:  # the imaginary parts of what is its own other half are not looked at
            zero = "0.0f" if self.kind == "f32" else "0.0lf"
            self.line("let own = from_row == 0 || 2 * from_row == size;")
            other = f"select(select({other}, -{other}, other), {zero}, own)"
        self.line(f"let b = {other};")


class Transforms:
    """Plans for a device of these features."""

    def __init__(self, features: frozenset):
        self.features, self.numbers = features, {}

    def suits(self, node) -> bool:
        """Whether the device computes in these numbers."""
        return node.args[0].dtype.to_real().name != "float64" or "f64" in self.features

    def plan(self, p) -> Contraction:
        """The launches for a Fourier (``cpu/templates/fourier.py``)."""
        rows, factors, before = p.outer * p.inner, factors_of(p.size), 1
        refuse_turns(max(factors), self.features, f"a transform of the length {p.size}")
        held, kept = (p.size // 2 + 1 if kind == HALF else p.size for kind in (p.given, p.made))
        steps, temporaries = [], {}
        pair = 16 if p.dtype == "float64" else 8
        for number, factor in enumerate(factors):
            first, last = number == 0, number == len(factors) - 1
            role = Pass(p.dtype, p.given if first else "", p.made if last else "")
            names = ("x" if first else f"rows{1 - number % 2}", "y" if last else f"rows{number % 2}")
            temporaries.update((name, pair * rows * p.size) for name in names if name not in "xy")
            after = p.size // (before * factor)
            steps.append(CompiledKernel(self.kernel(role), rows * (kept if last else p.size), names,
                                        (p.size, p.inner, held, kept, before, factor, after, 1 if p.inverse else -1)))
            before *= factor
        return Contraction(tuple(steps), temporaries)

    def kernel(self, role: Pass) -> int:
        if role not in self.numbers:
            self.numbers[role] = modules.number(Transform(role, self.features).module())
        return self.numbers[role]
