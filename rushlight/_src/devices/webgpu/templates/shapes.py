"""What products read and write: matrices by their strides, and images, seen window by window.

A Shape has ``names``, the numbers that its text uses, and gives places in memory as text: of the left operand for
``row`` and ``k``, of the right one for ``k`` and ``column``, of the result for ``row`` and ``column``.
"""

from __future__ import annotations

from ...shared.products import DIMENSIONS, IMAGE_NAMES, matrix_names

class Matrices:
    """Strided matrices, of up to three batch dimensions; an operand that is computed has several parts."""

    border = False

    def __init__(self, left: int, right: int):
        self.parts, self.names = (left, right), matrix_names(left, right)

    def begin(self, w):
        w.line("let i2 = batch % n2; let i1 = batch / n2 % n1; let i0 = batch / n2 / n1;")
        for side, name in enumerate("ab"):
            for part in range(self.parts[side]):
                at = " + ".join(f"i{d} * {name}{part}_{d}" for d in range(3))
                w.line(f"let {name}{part}_first = {w.offset(side, part)} + {at};")

    def column(self, w):
        """Nothing is known of a column alone."""

    def left_depth(self, w):
        """Nothing is known of a depth alone."""

    def left(self, w):
        return [f"a{p}_first + row * a{p}_r + k * a{p}_k" for p in range(self.parts[0])], ""

    def right(self, w):
        return [f"b{p}_first + k * b{p}_r + column * b{p}_k" for p in range(self.parts[1])], ""

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
        """What is known for a group."""

    def split(self, w, number: str, sizes, prefix: str):
        """Takes a number apart: the last of ``sizes`` counts fastest."""
        rest = number
        for name, size in reversed(sizes[1:]):
            w.line(f"let {prefix}{name} = {rest} % {size};")
            rest = w.let(f"{rest} / {size}")
        w.line(f"let {prefix}{sizes[0][0]} = {rest};")

    @property
    def taps(self):
        return [("c", ""), *((d, f"kn{d}") for d in DIMENSIONS)]

    def pixels(self, image: str):
        return [("n", ""), *((d, f"{image}n{d}") for d in DIMENSIONS)]

    def column(self, w):
        if self.direction == "weight":
            self.split(w, "column", self.taps, "t")
        else:
            self.split(w, "column", self.pixels("y" if self.direction == "forward" else "x"), "at")

    def left_depth(self, w):
        if self.direction == "weight":
            self.split(w, "k", self.pixels("y"), "at_")
        else:
            self.split(w, "k", self.taps, "t_")

    def left(self, w):
        if self.direction == "weight":
            return [self.element(w, 0, "y", "at_n", "batch * outs + row", [f"at_{d}" for d in DIMENSIONS])], ""
        taps = [f"t_{d}" for d in DIMENSIONS]
        channels = ("batch * outs + row", "t_c") if self.direction == "forward" else ("batch * outs + t_c", "row")
        return [self.weight(w.offset(0), *channels, taps)], ""

    def right(self, w):
        if self.direction == "weight":
            self.split(w, "k", self.pixels("y"), "at")
        else:
            self.split(w, "k", self.taps, "t")
        if self.direction == "input":
            return self.behind(w)
        for d in DIMENSIONS:
            w.line(f"let p{d}_ = at{d} * step{d} - pad{d} + t{d} * far{d};")
        inside = " && ".join(f"p{d}_ >= 0 && p{d}_ < xn{d}" for d in DIMENSIONS)
        return [self.element(w, 1, "x", "atn", "batch * ins + tc", [f"p{d}_" for d in DIMENSIONS])], inside

    def behind(self, w):
        """The element of y whose window has the pixel at its tap, if there is one."""
        for d in DIMENSIONS:
            w.line(f"let p{d}_ = at{d} + pad{d} - t{d} * far{d};")
        inside = " && ".join(f"p{d}_ >= 0 && p{d}_ % step{d} == 0 && p{d}_ / step{d} < yn{d}" for d in DIMENSIONS)
        places = [f"p{d}_ / step{d}" for d in DIMENSIONS]
        return [self.element(w, 1, "y", "atn", "batch * outs + tc", places)], inside

    def element(self, w, side, image, number, channel, places) -> str:
        """The place of an element of an image."""
        along = " + ".join(f"({place}) * {image}s{d}" for place, d in zip(places, DIMENSIONS))
        return f"{w.offset(side)} + {number} * {image}sn + ({channel}) * {image}sc + {along}"

    def weight(self, first, out, channel, taps) -> str:
        along = " + ".join(f"{tap} * ws{d}" for tap, d in zip(taps, DIMENSIONS))
        return f"{first} + ({out}) * wso + ({channel}) * wsc + {along}"

    def result(self, w):
        if self.direction == "weight":
            self.split(w, "column", self.taps, "u")
            return self.weight("0", "batch * outs + row", "uc", [f"u{d}" for d in DIMENSIONS]), {}
        image, per = ("y", "outs") if self.direction == "forward" else ("x", "ins")
        self.split(w, "column", self.pixels(image), "u")
        along = " + ".join(f"u{d} * {image}s{d}" for d in DIMENSIONS)
        w.line(f"let channel = batch * {per} + row;")
        return f"un * {image}sn + channel * {image}sc + {along}", {"row": "channel", "column": "channel"}
