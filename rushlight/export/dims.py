"""Dynamic sizes: ``Dim("batch")`` in ``dynamic_shapes``."""
from __future__ import annotations

from .._src.capture.constraints import ShapeConstraint
from .._src.capture.errors import ConstraintViolationError, UserError


class Dim:
    """A dynamic size between ``min`` and ``max``; two uses of the same Dim are equal."""

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
                f"a dynamic size is a positive multiple of a Dim plus an int, not {factor} times it")
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
    """Return the constraint of an entry of ``dynamic_shapes`` on a size."""
    return ShapeConstraint(dim.min, dim.max, not isinstance(dim, Hint) or dim.text != "AUTO")


def dims(*names: str, min=None, max=None):
    """Several Dims at once."""
    return tuple(Dim(name, min=min, max=max) for name in names)


def is_varying_int(value, entry) -> bool:
    """True if an entry of ``dynamic_shapes`` declares a dynamic int argument.

    Raises:
        ValueError: if the entry is a named Dim.
    """
    if type(value) is not int or entry == Dim.STATIC:
        return False
    if isinstance(entry, Dim):
        raise ValueError("Unable to specify input integers as dynamic through named Dims. Please use Dim.AUTO/DYNAMIC "
                         "instead.")
    return isinstance(entry, Hint)


def varying_dims(shape, entry, path="") -> dict:
    """Return {dimension: Dim or Hint} of one tensor's entry in ``dynamic_shapes``: None, a dict by dimension, or a
    sequence with an item for each dimension.  ``path``: of the entry, for messages.

    Raises:
        UserError: if the entry, or an item of it, is none of these.
        AssertionError: if a key of a dict is no int.
        ValueError: if the tensor does not have a dimension.
        ConstraintViolationError: if an int is not the size of its dimension.
    """
    if entry is None:
        return {}
    place = f" specified at `dynamic_shapes{path}`"
    if not isinstance(entry, (dict, list, tuple)):
        raise UserError(f"Unexpected input tensor shape {entry!r}{place} (expected either a list/tuple of dimensions, "
                        "or a dict mapping indices to dimensions, where each dimension is None, an int, a Dim, "
                        "Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)")
    if not isinstance(entry, dict) and len(entry) != len(shape):
        raise UserError(f"Expected dynamic shape spec {entry}{place} to have the same length as the actual tensor "
                        f"shape {tuple(shape)} (expected {len(shape)}, but got {len(entry)} instead)")
    items = entry if isinstance(entry, dict) else dict(enumerate(entry))
    for k, item in items.items():
        check_item(shape, k, item, place)
    return {k % len(shape): item for k, item in items.items() if isinstance(item, (Dim, Hint)) and item != Dim.STATIC}


def check_item(shape, k, item, place: str):
    """Raise the errors of ``varying_dims`` for the item of one dimension."""
    if type(k) is not int:
        raise AssertionError(f"Expected index to be int, got {k!r}{place}")
    if not -len(shape) <= k < len(shape):
        raise ValueError(f"dynamic_shapes names dimension {k} of a tensor with {len(shape)} dimensions")
    if not isinstance(item, (int, Dim, Hint, type(None))):
        raise UserError(f"Unexpected dimension {item!r} mapped to index {k}{place} (expected None, an int, a Dim, "
                        "Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)")
    if isinstance(item, int) and item != shape[k]:
        raise ConstraintViolationError(f"Static shape constraint of {item} does not match input size of {shape[k]}, "
                                       f"for dimension {k}{place}")


def check_constant(value, entry, path: str):
    """Raise AssertionError, or UserError, for an entry of ``dynamic_shapes`` that does not declare an argument
    without sizes a constant."""
    if not isinstance(entry, (int, Hint, type(None))):
        raise AssertionError(f"`dynamic_shapes{path}` is {entry!r}, but `inputs{path}` is {value!r}, which has no "
                             "sizes: expected None")
    if isinstance(entry, Hint) and entry != Dim.STATIC:
        raise UserError(f"Cannot associate shape {entry} specified at `dynamic_shapes{path}` to non-tensor type "
                        f"{type(value)} at `inputs{path}` (expected None)")
