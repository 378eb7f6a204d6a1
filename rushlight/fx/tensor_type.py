"""Types of tensors by their sizes, some of which may be unknown."""
from __future__ import annotations

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class TensorType:
    """The type of tensors of some sizes: ``TensorType((1, 2, Dyn))``.

    >>> TensorType((1, Dyn)), TensorType((1, 2)) == TensorType([1, 2])
    (TensorType[(1, Dyn)], True)
    """

    def __init__(self, dim):
        self.__origin__, self.__args__ = TensorType, tuple(dim)

    def __repr__(self):
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other):
        return isinstance(other, type(self)) and self.__args__ == other.__args__

    def __hash__(self):
        return hash(self.__args__)

    @staticmethod
    def __class_getitem__(*args):
        return TensorType(args[0] if isinstance(args[0], tuple) else args)


class _DynType:
    """The dynamic type: no information."""

    def __init__(self):
        self.__name__ = "_DynType"

    def __eq__(self, other):
        return type(other) is type(self)

    def __hash__(self):
        return hash(_DynType)

    def __repr__(self):
        return "Dyn"

    __str__ = __repr__


Dyn = _DynType()


def is_consistent(t1, t2) -> bool:
    """Whether one value may be of both types.

    >>> is_consistent(TensorType((1, Dyn)), TensorType((1, 2))), is_consistent(TensorType((1,)), TensorType((2,)))
    (True, False)
    """
    if t1 == Dyn or t2 == Dyn or t1 == t2 or type(t1).__name__ == "Var" or type(t2).__name__ == "Var":
        return True
    return (isinstance(t1, TensorType) and isinstance(t2, TensorType) and len(t1.__args__) == len(t2.__args__)
            and all(map(is_consistent, t1.__args__, t2.__args__)))


def is_more_precise(t1, t2) -> bool:
    """Whether the first type says all that the second says.

    >>> is_more_precise(TensorType((1, 2)), TensorType((1, Dyn))), is_more_precise(Dyn, 3)
    (True, False)
    """
    if t1 == t2 or t2 == Dyn or type(t2).__name__ == "Var":
        return True
    return (isinstance(t1, TensorType) and isinstance(t2, TensorType) and len(t1.__args__) == len(t2.__args__)
            and all(map(is_more_precise, t1.__args__, t2.__args__)))
