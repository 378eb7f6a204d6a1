"""Questions about sizes, which may be symbols while a program is captured: answered for plain numbers, and for symbols
by what capture knows."""
from __future__ import annotations

import enum

from ..._src.capture.errors import ConstraintViolationError  # noqa: F401
from ..._src.capture.errors import DataDependentError as GuardOnDataDependentSymNode  # noqa: F401
from ..._src.compat.absent import absent
from ..._src.core.expr import Expr

globals().update(absent("torch.fx.experimental.symbolic_shapes",
                        "capture keeps what it knows of sizes with its guards: see torch._dynamo.explain",
                        "StatelessSymbolicContext StatefulSymbolicContext SymbolicContext ConvertIntKey CallMethodKey"))


class DimDynamic(enum.Enum):
    """Treatment of a size: as a symbol, as a symbol on request, or as an int."""

    DYNAMIC, DUCK, STATIC, SIZE_LIKE_UNBACKED, INFER_STRIDE, OBLIVIOUS_SIZE = range(6)


class ShapeEnv:
    """The source of sizes of a FakeTensorMode.  Sizes stay ints here: there are no symbols and no guards.

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


def is_symbolic(val) -> bool:
    """Whether a size is a symbol."""
    return isinstance(val, Expr)


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


def guard_or_false(a) -> bool:
    """The truth of a comparison of sizes."""
    return bool(a)


guard_or_true = guard_or_false


def statically_known_true(x) -> bool:
    """True if a comparison of sizes holds by algebra alone, without guards."""
    return x.op in ("const", "number") and bool(x.arg) if isinstance(x, Expr) else bool(x)


def statically_known_false(x) -> bool:
    """True if a comparison of sizes is false by algebra alone, without guards."""
    return x.op in ("const", "number") and not x.arg if isinstance(x, Expr) else not x


def free_symbols(val) -> set:
    """The symbols in a size, in the sizes of a tensor, or in a sequence of these."""
    if isinstance(val, Expr):
        return set(val.free)
    parts = val if isinstance(val, (tuple, list)) else getattr(val, "shape", ())
    return set().union(*map(free_symbols, parts))


def free_unbacked_symbols(x) -> set:
    """Return the unbacked (data-dependent) symbols in a size, in the sizes of a tensor, or in a sequence of these:
    their names begin with u."""
    return {s for s in free_symbols(x) if s.arg[0].startswith("u")}


def has_free_symbols(val) -> bool:
    """Whether a size, or one of the sizes of a tensor, is a symbol."""
    return any(map(is_symbolic, getattr(val, "shape", (val,))))


def sym_eq(x, y) -> bool:
    """Whether sizes are equal."""
    return x == y


def sym_and(x, *others):
    """Whether all comparisons hold."""
    return all((x, *others))


def sym_or(x, *others):
    """Whether one of the comparisons holds."""
    return any((x, *others))
