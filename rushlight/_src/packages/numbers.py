"""Dynamic sizes used as scalars in computations: a program takes them as run-time scalars."""
from __future__ import annotations

from ..aot.alias import Recording
from ..core.expr import Expr
from ..core.op import declared_scalars
from ..core.runtime import Conditions, Known
from ..core.nodes import evaluate
from ..core.shape_env import REAL, ShapeEnv
from ..eager.arguments import NUMBER_METAS
from ..transforms.trace import Traced


class Sizing(Recording):
    """A Recording that makes sizes in tensor computations inputs of the program.

    ``numbers``: {size, an Expr: its input}, in the order of these inputs; ``conditions``: the assumptions about them.
    """

    def __init__(self, shape_env: ShapeEnv):
        super().__init__()
        self.shape_env, self.numbers, self.conditions = shape_env, {}, Conditions()

    def number(self, e: Expr):
        """Return the run-time scalar for a size."""
        if e not in self.numbers:
            known = Known(evaluate(e, self.shape_env.hints), f"a[{len(self.numbers)}]", frozenset((len(self.numbers),)),
                          self.conditions)
            self.numbers[e] = self.input(NUMBER_METAS[int], "n", True, known)
        return self.numbers[e]

    def call(self, op, args, kwargs):
        if any(is_size(a) for a in args) and any(isinstance(a, Traced) for a in args):
            bits = declared_scalars(op)
            args = tuple(self.number(a) if is_size(a) and bits >> k & 1 else a for k, a in enumerate(args))
        return super().call(op, args, kwargs)

    def settle(self):
        """Notes what was assumed of numbers, or decided by them, as conditions on their sizes."""
        if self.conditions.tests or self.conditions.fixed:
            for e in self.numbers:
                self.shape_env.integer(e)


class Sizes(ShapeEnv):
    """The ShapeEnv of a traced program: non-integral numbers computed from sizes become part of the program."""

    trace: Sizing | None = None

    def real(self, symbol: str, a, b):
        if self.estimating or self.trace is None or type(a) is complex or type(b) is complex:
            return super().real(symbol, a, b)
        return REAL[symbol](*(self.trace.number(e) if is_size(e) else e for e in (a, b)))


def is_size(value) -> bool:
    """True if a value is a size, or arithmetic on sizes, that is unknown until a call."""
    return isinstance(value, Expr) and value.dtype is None and bool(value.free)
