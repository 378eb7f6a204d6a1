"""Shape-polymorphic plans: calls of an operator that differ only in sizes share one plan, made once with symbols for
dynamic sizes.

1. Calls whose keys are equal except for numbers of 2 and above have one form (``form``).
2. When a call differs from an earlier one of its form in few numbers, its plan is made with symbols in place of those
   (``Symbols``), under a ShapeEnv that records every condition on sizes that a decision depended on.  Captured graphs
   with symbolic sizes, and backward operators of polymorphic plans, declare their symbols.
3. The Draft, and a Python function that tests the conditions and computes the symbols' values from a call's numbers,
   are a PolymorphicPlan.  A later call that fits gets its plan by substituting numbers: tracing, differentiation,
   partitioning, scheduling and fusion are not repeated.
"""
from __future__ import annotations

import itertools
import operator

from ..core.cached import cached_property
from ..core.expr import Expr, size
from ..core.expr_text import Printer
from ..core.nodes import evaluate
from ..core.shape_env import ShapeEnv
from ..core.log import logger
from ..core.meta import Meta, Size, is_one, row_major
from ..core.op import in_parts
from ..core.native import Op
from ..core.native.objects import PYTHON
from ..graph.graph import Graph
from ..graph.settling import settled_graph
from ..core.tensor import Tensor
from ..core.runtime import holds
from .numbers import scalar_bits

log = logger("dynamic")
LEAST = 2           # least value of a symbol: sizes 0 and 1 are special
MOST_SYMBOLS = 2    # most numbers in which calls may differ to be generalized
EXAMPLES = 8        # earlier calls that are remembered
MOST_PLANS = 4   # for one form, and attempts at them: if more are needed, sizes decide too much
# calls that a polymorphic plan serves before ``served`` does, so that numbers other than sizes are learned
# (``numbers.py``)
SETTLED = 16
EARLY = 3           # calls of a polymorphic plan whose own plans are stored on disk as well
# earlier calls of an operator that differ in few numbers; layers of a network have several sizes, too
ENOUGH = 3


class SymbolicArgument:
    """Replaces a tensor argument while a plan is made with symbols."""

    def __init__(self, meta: Meta):
        self._rush_meta = meta  # the attribute that tensors have


class Settling:
    """A program with symbols, for one set of sizes; specialized when it is first run."""

    def __init__(self, symbolic: Graph, sizes: dict):
        self.symbolic, self.sizes, self.inputs = symbolic, sizes, symbolic.inputs

    @cached_property
    def graph(self) -> Graph:
        return settled_graph(self.symbolic, self.sizes)

    def run(self, values):
        return self.graph.run(values)


def form(value, numbers: list):
    """Return a key without its numbers of 2 and above, which are appended to ``numbers``."""
    kind = type(value)
    if kind is int:
        if value < LEAST:
            return value
        numbers.append(value)
        return ...
    if kind is Meta:
        found = value.pattern
        if found is None:
            own = []
            found = value.pattern = (Meta, form(tuple(value.shape), own), form(value.strides, own), value.dtype,
                                     value.device, value.turned), own
        numbers += found[1]
        return found[0]
    if kind in (tuple, Size):
        return kind, tuple([form(v, numbers) for v in value])
    return kind, value


def call_of(op: Op, key, args):
    """Return a PendingCall for a key; None for operators that run in Python."""
    return None if in_parts(op, key[-1]) else PendingCall(op, key, args)


class SeenCalls:
    """Calls of one form: the keys of a few of them, and their polymorphic plans."""

    def __init__(self):
        self.examples, self.plans, self.served = [], [], 0


class PendingCall:
    """A call that has no plan yet; ``numbers``: those of the key."""

    def __init__(self, op: Op, key, args):
        self.op, self.key, self.args = op, key, args
        # no polymorphic plan is attempted; the one that was made, NEVER if the attempt failed
        self.needs_own_sizes, self.member = False, None
        numbers = []
        shape = form(key[:-2], numbers), *key[-2:]
        self.numbers = tuple(numbers)
        tables = op.polymorphic
        self.seen = tables.get(shape) or tables.again(shape) or tables.enter(shape, SeenCalls())

    def plan(self, members=None):
        """Return the plan by a polymorphic plan that the call fits, and that plan's Draft; None if there is none.
        ``members``: by default those of earlier calls."""
        for member in self.seen.plans if members is None else members:
            values = member.match(self.numbers)
            if values is not None and (member.holds is None or member.holds(self.args)):
                try:
                    settled = member.draft.settle(self.op, dict(zip(member.symbols, values)))
                except Exception as reason:  # the plan for the call's own sizes raises the right error
                    log.debug("%s: %s: %s", self.op.name, type(reason).__name__, reason)
                    self.needs_own_sizes = True
                    return None
                self.seen.served += 1
                return settled, member.draft
        return None

    def early(self) -> bool:
        """True for the first calls that a polymorphic plan serves: programs with few sizes then find all their plans on
        disk the next time."""
        return self.seen.served <= EARLY

    def remember(self):
        """Keep the planned call for comparison with later ones, and the polymorphic plan that was made for it.  Other
        threads run what they find here: its kernels must be compiled (``Target.settle``)."""
        if self.member is not None:  # a failed attempt counts only if the call itself is valid
            self.seen.plans = [*self.seen.plans, self.member]
        self.seen.examples = [*self.seen.examples[-EXAMPLES + 1:], self.key]

    def generalized(self, names, mask, draft_plan):
        """Return the plan by a new polymorphic plan and its Draft, if sizes seem dynamic; else None."""
        symbols = self.symbols() if len(self.seen.plans) < MOST_PLANS and not self.needs_own_sizes else None
        if symbols is None:
            return None
        try:
            with symbols.shape_env:
                draft = draft_plan(self.op, symbols.stands(self.args, self.key[:-2]), names, mask,
                                   scalar_bits(self.key))
            member = PolymorphicPlan(draft, symbols)
            found = self.plan([member])
        except Exception as reason:  # planning with the call's own sizes raises its errors
            log.debug("%s: planned for its own sizes: %s: %s", self.op.name, type(reason).__name__, reason)
            self.member = NEVER
            return None
        self.member = member
        log.debug("%s: one plan for all %s where %s", self.op.name,
                  ", ".join(f"{s} (now {symbols.shape_env.hints[s]})" for s in member.symbols),
                  " and ".join(member.conditions) or "there are no conditions")
        return found

    def symbols(self):
        """Return the Symbols of the operator's own program, or for the differences from earlier calls; None if there
        are none."""
        sizes = given_sizes(self.op, self.key)
        if sizes:
            return DeclaredSymbols(self.op, sizes)
        found = (InferredSymbols(self.key, key) for key in reversed(self.seen.examples))
        alike = [one for one in found if 0 < len(one.found) <= MOST_SYMBOLS]
        if len(alike) < ENOUGH:
            return None
        # a plan with the fewest symbols did not fit this call: use all
        return max(alike, key=lambda one: len(one.found)) if self.seen.plans else alike[0]


class Never:
    """In place of a polymorphic plan: the attempt to generalize failed."""

    holds = fill = None

    def match(self, numbers):
        return None


NEVER = Never()


def given_sizes(op: Op, key) -> dict:
    """Return the int values of the symbols among the inputs of a captured graph or a backward program.  Empty if there
    are none, or one is too small."""
    symbols = op.traits.get("symbols")
    if not symbols:
        return {}
    found = {symbols[node.name]: value for node, value in zip(op.traits["inputs"], key) if node is not None
             and node.name in symbols}
    return found if len(found) == len(symbols) and all(type(n) is int and n >= LEAST for n in found.values()) else {}


class Symbols:
    """Symbols for the dynamic numbers of a call.  ``exprs``: an Expr for each number of the key, in its order."""

    def __init__(self, hints):
        self.shape_env, self.exprs = ShapeEnv(hints), []

    def stands(self, args, keys):
        """Return the arguments with symbols in them."""
        return tuple(map(self.stand, args, keys))

    def new(self, value: int) -> Expr:
        """Return a new symbol whose only known property is its current value."""
        made = size(f"s{len(self.shape_env.hints)}", LEAST)
        self.shape_env.hints[made] = value
        return made


class DeclaredSymbols(Symbols):
    """Symbols declared by the inputs of an operator's own program."""

    def __init__(self, op: Op, sizes: dict):
        super().__init__(sizes)
        self.inputs, self.symbols = iter(op.traits["inputs"]), op.traits["symbols"]

    def stand(self, value, key):
        node = next(self.inputs)
        if isinstance(value, Tensor):
            return SymbolicArgument(self.meta(node and node.meta, value._rush_meta))
        if type(key) is not int or key < LEAST:
            return value
        self.exprs.append(key if node is None else self.symbols.get(node.name, key))
        return self.exprs[-1]

    def meta(self, declared, meta: Meta) -> Meta:
        """Return the metadata of an argument in the program's symbols: shape as declared; strides may differ."""
        hints = self.shape_env.hints
        shape, strides = tuple(meta.shape), meta.strides
        if declared is not None and len(declared.shape) == len(shape):
            shape = tuple(t if isinstance(t, Expr) and evaluate(t, hints) == n and n >= LEAST else n
                          for t, n in zip(declared.shape, shape))
            strides = tuple(t if isinstance(t, Expr) and evaluate(t, hints) == n and n >= LEAST else n
                            for t, n in zip(declared.strides, strides))
        else:  # for callers that read this: sizes equal to a symbol's are taken for it
            shape = tuple(next((s for s, value in hints.items() if value == n), n) for n in shape)
        rows = row_major(shape) if meta.contiguous else stepping(shape, strides, meta)
        # strides of dimensions of size 1 may be any
        strides = tuple(s if evaluate(s, hints) == n else n for s, n in zip(rows, meta.strides))
        self.exprs += [s for s, n in zip((*shape, *strides), (*meta.shape, *meta.strides)) if n >= LEAST]
        return meta.like(shape, strides)


def stepping(shape, strides, meta: Meta) -> tuple:
    """Return strides with each one expressed as a smaller stride times its size, if it is."""
    found = list(strides)
    for k in sorted(range(len(shape)), key=lambda k: meta.strides[k]):
        for j in range(len(shape)):
            if j != k and not isinstance(found[k], Expr) and meta.strides[j] * meta.shape[j] == meta.strides[
                    k] > meta.strides[j] > 0:
                found[k] = found[j] * shape[j]
    return tuple(found)


class InferredSymbols(Symbols):
    """Symbols for the differences between a call and an earlier one; numbers that changed alike share a symbol, or are
    multiples of it."""

    def __init__(self, key, earlier):
        super().__init__({})
        self.found = []  # (expr, its value now, its value before)
        for now, before in sorted(changed(key[:-2], earlier[:-2])):
            self.number(now, before)  # small numbers are symbols, and larger ones multiples of them
        self.stood = iter([self.part(a, b) for a, b in zip(key[:-2], earlier[:-2])])

    def part(self, now, before):
        """Return a part of the key with symbols in it."""
        kind = type(now)
        if kind is Meta:
            shape = tuple(map(self.part, now.shape, before.shape))
            return now.like(shape, self.strides(shape, now, before))
        if kind in (tuple, Size):
            return kind(list(map(self.part, now, before)))
        if kind is not int or now < LEAST:
            return now
        self.exprs.append(self.number(now, before))
        return self.exprs[-1]

    def strides(self, shape, now: Meta, before: Meta) -> tuple:
        """Return strides in symbols: row-major ones, steps over smaller dimensions, or symbols of their own (also those
        of dimensions of size 1)."""
        rows, found = row_major(shape), list(now.strides)
        for k in sorted(range(len(shape)), key=lambda k: now.strides[k]):
            if now.contiguous and before.contiguous and not is_one(now.shape[k]):
                found[k] = rows[k]
            elif now.strides[k] >= LEAST and now.strides[k] != before.strides[k]:
                steps = [found[j] * shape[j] for j in range(len(shape)) if j != k and now.strides[j] * now.shape[j]
                         == now.strides[k] > now.strides[j] > 0
                         and before.strides[j] * before.shape[j] == before.strides[k]]
                found[k] = steps[0] if steps else self.number(now.strides[k], before.strides[k])
        self.exprs += [e for e, n in zip(found, now.strides) if n >= LEAST]
        return tuple(found)

    def number(self, now: int, before: int):
        """Return a number of the call as a constant, an Expr of known symbols, or a new symbol."""
        if now == before:
            return now
        for expr, a, b in self.found:
            if now % a == 0 and before == b * (now // a):
                return expr * (now // a)
        for expr, a, b in self.found:
            if now - a == before - b:
                return expr + (now - a)
        for (one, a, b), (other, c, d) in itertools.combinations(self.found, 2):  # a sum of two others, as of parts
            if now == a + c and before == b + d:
                return one + other
        self.found.append((self.new(now), now, before))
        return self.found[-1][0]

    def stand(self, value, key):
        return stood(value, next(self.stood))


def changed(now, before) -> set:
    """Return the sizes and other numbers, except strides, in which two keys of one form differ: {(now, before)}."""
    if type(now) is Meta:
        now, before = tuple(now.shape), tuple(before.shape)
    if type(now) in (tuple, Size):
        return set().union(*map(changed, now, before))
    return {(now, before)} if type(now) is int and now >= LEAST and now != before else set()


def stood(value, part):
    """Return an argument with the symbols that its part of the key has."""
    if isinstance(value, Tensor):
        return SymbolicArgument(part)
    if isinstance(value, (tuple, list)) and type(part) in (tuple, Size) and not (part and part[0] is float):
        return type(value)(map(stood, value, part)) if type(value) in (tuple, list) else part
    return part if type(value) is int and isinstance(part, (int, Expr)) else value


class PolymorphicPlan:
    """A Draft with symbols, and ``match``: from the numbers of a call to the symbols' values, or None if it does not
    fit."""

    def __init__(self, draft, symbols: Symbols):
        if draft.kind == PYTHON and draft.around is None:
            raise LookupError(f"{draft.op.name} runs in Python")
        self.draft, self.symbols = draft, list(symbols.shape_env.hints)
        self.holds = holds(draft.conditions) if draft.conditions else None
        at = {e: k for k, e in reversed(list(enumerate(symbols.exprs))) if isinstance(e, Expr) and e.op == "size"}
        if not all(s in at for s in self.symbols):
            raise AssertionError(f"{draft.op.name}: symbols {self.symbols} in {symbols.exprs}")
        self.names = {s: f"v[{at[s]}]" for s in self.symbols}
        printer = Printer(self.names)
        tests = [f"v[{k}] == {printer.text(e)}" for k, e in enumerate(symbols.exprs)
                 if not (isinstance(e, Expr) and at.get(e) == k)]
        self.conditions = [printer.text(condition) if outcome else f"not ({printer.text(condition)})"
                           for condition, outcome in symbols.shape_env.guards]
        self.tests = " and ".join(tests + [f"({c})" for c in self.conditions]) or "True"
        values = "".join(f"{self.names[s]}, " for s in self.symbols)
        # generated here, from Exprs
        self.match = eval(f"lambda v: ({values}) if {self.tests} else None", {"logical_not": operator.not_})

    @cached_property
    def fill(self):
        """(operator, numbers) -> plan, generated for this polymorphic plan; None if ``Draft.settle`` has to make its
        plans."""
        from .filling import Unfillable, filler

        try:
            return filler(self.draft, self.names, self.tests)
        except Unfillable as reason:
            log.debug("%s: Draft substitutes further sizes: %s", self.draft.op.name, reason)
            return None


def served(op: Op, key, args):
    """Return the plan of a call by a polymorphic plan that has served several calls; nothing is learned from these
    calls. None for others."""
    numbers = []
    tables = op.polymorphic
    seen = tables and tables.get((form(key[:-2], numbers), *key[-2:]))
    if not seen or seen.served <= SETTLED:
        return None
    numbers = tuple(numbers)
    for member in seen.plans:
        if member.holds is None and member.fill is not None:
            try:
                plan = member.fill(op, numbers)
            except Exception as reason:  # as in ``PendingCall.plan``
                log.debug("%s: %s: %s", op.name, type(reason).__name__, reason)
                return None
            if plan is not None:
                return op.plans.enter(key, plan)
    return None
