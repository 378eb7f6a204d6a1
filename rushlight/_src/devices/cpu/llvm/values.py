"""Values of LLVM IR: results of instructions, and constants."""

from ....core.cached import Recent
from .types import literal, vector


class Value:
    """An SSA value or a constant: its LLVM source and its type. `number` is set for scalar and splat constants."""

    __slots__ = ("text", "type", "number")

    def __init__(self, text, type, number=None):
        self.text = text
        self.type = type
        self.number = number

    def __repr__(self):
        return f"{self.type} {self.text}"


_constants = Recent()


def constant(type, number):
    """The constant `number` of `type`, in every lane of a vector.

    Example:
        >>> from .types import i64
        >>> constant(i64, 3)
        i64 3
    """
    # repr distinguishes 0.0 from -0.0 and makes every NaN one key
    key = (type, repr(number))
    found = _constants.get(key) or _constants.again(key)
    if found is None:
        text = literal(type.element, number)
        if type.lanes:
            text = f"splat ({type.element} {text})"
        found = _constants.enter(key, Value(text, type, number))
    return found


def constant_vector(element, numbers):
    """A constant vector with one number per lane.

    Example:
        >>> from .types import i32
        >>> constant_vector(i32, [0, 1])
        <2 x i32> <i32 0, i32 1>
    """
    lanes = ", ".join(f"{element} {literal(element, number)}" for number in numbers)
    return Value(f"<{lanes}>", vector(element, len(numbers)))


def zero(type):
    """The all-zero constant of `type`."""
    return constant(type, 0.0 if type.is_float else 0)


def poison(type):
    """The poison value of `type`, which must not be used."""
    return Value("poison", type)
