"""Questions about sizes, which may be symbols while a program is captured: answered for plain numbers, and for symbols
by what capture knows."""
from __future__ import annotations

import enum

from ..._src.capture.errors import ConstraintViolationError
from ..._src.compat.absent import absent
from ..._src.core.expr import Expr

__all__ = ["ConstraintViolationError", "DimDynamic", "GuardOnDataDependentSymNode", "ShapeEnv", "free_symbols",
           "guard_int", "guard_or_false", "guard_or_true", "guard_size_oblivious", "has_free_symbols",
           "is_concrete_bool", "is_concrete_float", "is_concrete_int", "is_symbolic", "statically_known_false",
           "statically_known_true", "sym_and", "sym_eq", "sym_or"]
globals().update(absent("torch.fx.experimental.symbolic_shapes",
                        "capture keeps what it knows of sizes with its guards: see torch._dynamo.explain",
                        "StatelessSymbolicContext StatefulSymbolicContext SymbolicContext ConvertIntKey CallMethodKey"))


class GuardOnDataDependentSymNode(RuntimeError):
    """What PyTorch raises for a decision on a size that data decide; here such a decision ends the graph."""


class DimDynamic(enum.Enum):
    """How a size is treated: as a symbol, as a symbol if asked for, as a number."""

    DYNAMIC, DUCK, STATIC, SIZE_LIKE_UNBACKED, INFER_STRIDE, OBLIVIOUS_SIZE = range(6)


class ShapeEnv:
    """What a FakeTensorMode is given to know sizes by.  Here sizes stay numbers: no symbol is made, so nothing is
    assumed of one and there are no guards.

    The arguments are PyTorch's: they say how symbols are made and treated.  Symbols exist while ``torch.compile`` or
    ``torch.export`` captures.

    >>> ShapeEnv().guards, ShapeEnv()
    ([], ShapeEnv(static sizes))
    """

    def __init__(self, *, should_record_events=None, tracked_fakes=None, allow_scalar_outputs=True,
                 allow_dynamic_output_shape_ops=True, assume_static_by_default=False,
                 specialize_zero_one=True, duck_shape=None, co_fields=None,
                 prefer_deferred_runtime_asserts_over_guards=False, trace_asserts=False):
        self.assume_static_by_default, self.frozen = assume_static_by_default, False
        self.guards: list = []

    def freeze(self):
        """Notes that no guard may be added any more."""
        self.frozen = True

    def format_guards(self, verbose=False) -> str:
        """The guards as text: none."""
        return ""

    def get_nontrivial_guards(self) -> list:
        """The guards that do not always hold: none."""
        return []

    def __getattr__(self, name):
        raise AttributeError(
            f"ShapeEnv has no {name!r}: sizes are static here, symbols are made while torch.compile or torch.export "
            "captures")

    def __repr__(self):
        return "ShapeEnv(static sizes)"


def is_symbolic(a) -> bool:
    """Whether a size is a symbol."""
    return isinstance(a, Expr)


def is_concrete_int(a) -> bool:
    """Whether a size is a number."""
    return not isinstance(a, Expr)


is_concrete_bool = is_concrete_float = is_concrete_int


def guard_int(a) -> int:
    """A size as a number: of a symbol, what it is now, on which the captured program then depends."""
    return int(a)


def guard_size_oblivious(expr) -> bool:
    """The truth of a comparison of sizes."""
    return bool(expr)


guard_or_false = guard_or_true = guard_size_oblivious


def statically_known_true(expr) -> bool:
    """Whether algebra alone tells that a comparison of sizes holds; nothing is assumed."""
    return expr.op in ("const", "number") and bool(expr.arg) if isinstance(expr, Expr) else bool(expr)


def statically_known_false(expr) -> bool:
    """Whether algebra alone tells that a comparison of sizes does not hold."""
    return expr.op in ("const", "number") and not expr.arg if isinstance(expr, Expr) else not expr


def free_symbols(value) -> set:
    """The symbols in a size."""
    return {value} if isinstance(value, Expr) else set()


def has_free_symbols(value) -> bool:
    """Whether a size, or one of the sizes of a tensor, is a symbol."""
    return any(map(is_symbolic, getattr(value, "shape", (value,))))


def sym_eq(a, b) -> bool:
    """Whether sizes are equal."""
    return a == b


def sym_and(first, *others):
    """Whether all comparisons hold."""
    return all((first, *others))


def sym_or(first, *others):
    """Whether one of the comparisons holds."""
    return any((first, *others))
