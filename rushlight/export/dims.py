"""Sizes that vary: ``Dim("batch")`` in ``dynamic_shapes``."""
from __future__ import annotations

from .._src.capture.constraints import ShapeConstraint


class Dim:
    """A size that varies between ``min`` and ``max``; the same Dim at two places says that they are equal."""

    def __init__(self, name: str, *, min=None, max=None):
        if not name.isidentifier():
            raise ValueError(f"a Dim's name must be an identifier, not {name!r}")
        low, high = 0 if min is None else min, None if max is None else max
        if high is not None and high <= low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        self.__name__, self.min, self.max = name, low, high

    factor, offset = 1, 0
    root = property(lambda self: self)

    def __mul__(self, factor):
        return Derived(self.root, self.factor * whole(factor), self.offset * factor)

    def __add__(self, number):
        return Derived(self.root, self.factor, self.offset + whole(number))

    def __sub__(self, number):
        return self + -whole(number)

    __rmul__, __radd__ = __mul__, __add__

    def __repr__(self):
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


class Derived(Dim):
    """A size that follows from another: ``2 * Dim("half")``, ``Dim("n") + 1``."""

    root = None

    def __init__(self, root: Dim, factor: int, offset: int):
        if factor < 1:
            raise NotImplementedError(
                f"a size that varies is a positive multiple of a Dim and a number more, not {factor} times it")
        self.root, self.factor, self.offset = root, factor, offset
        times, more = (f"{factor}*" if factor != 1 else "", f" {'-' if offset < 0 else '+'} {abs(offset)}" if offset
                       else "")
        self.__name__, self.min = f"{times}{root.__name__}{more}", factor * root.min + offset
        self.max = None if root.max is None else factor * root.max + offset
        if self.min < 0 and root.min:
            raise AssertionError(f"{self.__name__} may be negative: its least value is {self.min}")
        self.min = max(self.min, 0)

    def __repr__(self):
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


def whole(number) -> int:
    """An int that a Dim is computed with.  NotImplementedError for anything else."""
    if type(number) is not int:
        raise NotImplementedError(f"a Dim is multiplied by an int, or an int is added, not {number!r}")
    return number


class Hint:
    """A varying size without a name: ``Dim.AUTO``, ``Dim.DYNAMIC``, or one of these between bounds,
    ``Dim.DYNAMIC(min=2, max=8)``."""

    def __init__(self, text, low=None, high=None):
        self.text, self.min, self.max = text, low, high

    def __call__(self, min=None, max=None) -> "Hint":
        """The same between bounds.  AssertionError for bounds that no size meets."""
        if (min or 0) < 0 or max is not None and max < (min or 0):
            raise AssertionError(f"Cannot create Dim.{self.text} with inconsistent min={min}, max={max}")
        return Hint(self.text, min, max)

    def __eq__(self, other):
        return isinstance(other, Hint) and (self.text, self.min, self.max) == (other.text, other.min, other.max)

    def __hash__(self):
        return hash((self.text, self.min, self.max))

    def __repr__(self):
        return f"Dim.{self.text}" + ("" if self.min is self.max is None else f"(min={self.min}, max={self.max})")


Dim.AUTO, Dim.DYNAMIC, Dim.STATIC = Hint("AUTO"), Hint("DYNAMIC"), Hint("STATIC")


def constraint_of(dim) -> ShapeConstraint:
    """What an entry of ``dynamic_shapes`` says of a size."""
    return ShapeConstraint(dim.min, dim.max, not isinstance(dim, Hint) or dim.text != "AUTO")


def dims(*names: str, min=None, max=None):
    """Several Dims at once."""
    return tuple(Dim(name, min=min, max=max) for name in names)


def varying(shape, wanted) -> dict:
    """{dimension: Dim} of one tensor's entry in ``dynamic_shapes``: a dict by dimension, or a sequence with an entry
    for each."""
    if wanted is None:
        return {}
    entries = dict(wanted) if isinstance(wanted, dict) else dict(enumerate(wanted))
    bad = [k for k in entries if not -len(shape) <= k < len(shape)]
    if bad:
        raise ValueError(f"dynamic_shapes names dimension {bad[0]} of a tensor with {len(shape)} dimensions")
    return {k % len(shape): d for k, d in entries.items() if d is not None and getattr(d, "text", "") != "STATIC"
            and not isinstance(d, int)}
