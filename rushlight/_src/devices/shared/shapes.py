"""Index arithmetic of a matmul's operands and results: strided matrices, and images that are read window by window.

A Shape has ``names``, the numbers that its source uses, and returns the source of offsets: of the left operand for
``row`` and ``ka``, of the right one for ``kb`` and ``column``, of the result for ``row`` and ``column``.  Each may be a
number or a block of numbers.  Offsets come with the source of further conditions under which there is an element.  The
values that depend only on a group, a column or a depth of the left operand are emitted before, by ``begin``,
``column`` and ``left_depth``.  ``w``: the Writer of a language, which has ``named(name, text)``.
"""

from __future__ import annotations

from .products import DIMENSIONS, IMAGE_NAMES, matrix_names


class Matrices:
    """Strided matrices, of up to three batch dimensions; an operand that is computed has several parts."""

    border = False

    def __init__(self, left: int, right: int):
        self.parts, self.names = (left, right), matrix_names(left, right)

    def begin(self, w):
        w.named("i2", "batch % n2")
        w.named("i1", f"batch {w.over} n2 % n1")
        w.named("i0", f"batch {w.over} n2 {w.over} n1")
        for side, name in enumerate("ab"):
            for part in range(self.parts[side]):
                at = " + ".join(f"i{d} * {name}{part}_{d}" for d in range(3))
                w.named(f"{name}{part}_first", at)

    def column(self, w):
        """Nothing is known of a column alone."""

    def left_depth(self, w):
        """Nothing is known of a depth alone."""

    def left(self, w):
        return [f"a{p}_first + row * a{p}_r + ka * a{p}_k" for p in range(self.parts[0])], ""

    def right(self, w):
        return [f"b{p}_first + kb * b{p}_r + column * b{p}_k" for p in range(self.parts[1])], ""

    def result(self, w):
        return "(batch * rows + row) * columns + column", {"row": "row", "column": "column"}


class Images:
    """Convolutions: x [n, channels, *xn], y [n, channels, *yn], w [channels of y, channels of x in a group, *kn].

    ``ins`` and ``outs``: channels of x and y in a group; a batch is a group.  ``direction``: what is computed.
    """

    names = IMAGE_NAMES

    def __init__(self, direction: str, border: bool):
        self.direction, self.border = direction, border

    def begin(self, w):
        """Nothing is known of a group alone."""

    def column(self, w):
        if self.direction == "weight":
            self.split(w, "column", self.taps, "t")
        else:
            self.split(w, "column", self.pixels("y" if self.direction == "forward" else "x"), "at")

    def split(self, w, number: str, sizes, prefix: str):
        """Takes a number apart: the last of ``sizes`` counts fastest."""
        rest = number
        for name, size in reversed(sizes[1:]):
            w.named(f"{prefix}{name}", f"{rest} % {size}")
            rest = w.let(f"{rest} {w.over} {size}")
        w.named(f"{prefix}{sizes[0][0]}", rest)

    @property
    def taps(self):
        return [("c", ""), *((d, f"kn{d}") for d in DIMENSIONS)]

    def pixels(self, image: str):
        return [("n", ""), *((d, f"{image}n{d}") for d in DIMENSIONS)]

    def left_depth(self, w):
        if self.direction == "weight":
            self.split(w, "ka", self.pixels("y"), "la")
        else:
            self.split(w, "ka", self.taps, "lt")

    def left(self, w):
        if self.direction == "weight":
            return [self.element("y", "lan", "batch * outs + row", [f"la{d}" for d in DIMENSIONS])], ""
        channels = ("batch * outs + row", "ltc") if self.direction == "forward" else ("batch * outs + ltc", "row")
        return [self.weight(*channels, [f"lt{d}" for d in DIMENSIONS])], ""

    def right(self, w):
        if self.direction == "weight":
            self.split(w, "kb", self.pixels("y"), "at")
        else:
            self.split(w, "kb", self.taps, "t")
        if self.direction == "input":
            return self.behind(w)
        for d in DIMENSIONS:
            w.named(f"q{d}", f"at{d} * step{d} - pad{d} + t{d} * far{d}")
        inside = f" {w.both} ".join(f"(q{d} >= 0) {w.both} (q{d} < xn{d})" for d in DIMENSIONS)
        return [self.element("x", "atn", "batch * ins + tc", [f"q{d}" for d in DIMENSIONS])], inside

    def behind(self, w):
        """The element of y whose window has the pixel at its tap, if there is one."""
        for d in DIMENSIONS:
            w.named(f"q{d}", f"at{d} + pad{d} - t{d} * far{d}")
        inside = f" {w.both} ".join(
            f"(q{d} >= 0) {w.both} (q{d} % step{d} == 0) {w.both} (q{d} {w.over} step{d} < yn{d})" for d in DIMENSIONS)
        places = [f"q{d} {w.over} step{d}" for d in DIMENSIONS]
        return [self.element("y", "atn", "batch * outs + tc", places)], inside

    def element(self, image, number, channel, places) -> str:
        """The place of an element of an image."""
        along = " + ".join(f"({place}) * {image}s{d}" for place, d in zip(places, DIMENSIONS))
        return f"{number} * {image}sn + ({channel}) * {image}sc + {along}"

    def weight(self, out, channel, taps) -> str:
        along = " + ".join(f"{tap} * ws{d}" for tap, d in zip(taps, DIMENSIONS))
        return f"({out}) * wso + ({channel}) * wsc + {along}"

    def result(self, w):
        if self.direction == "weight":
            self.split(w, "column", self.taps, "u")
            return self.weight("batch * outs + row", "uc", [f"u{d}" for d in DIMENSIONS]), {}
        image, per = ("y", "outs") if self.direction == "forward" else ("x", "ins")
        self.split(w, "column", self.pixels(image), "u")
        along = " + ".join(f"u{d} * {image}s{d}" for d in DIMENSIONS)
        w.named("channel", f"batch * {per} + row")
        return f"un * {image}sn + channel * {image}sc + {along}", {"row": "channel", "column": "channel"}


SHAPES = {"matrices": Matrices, "images": Images}
