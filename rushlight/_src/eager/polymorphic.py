"""Shape-polymorphic plans: calls of an operator that differ in sizes only share one plan, made once with symbols for
the sizes that vary.

1. Calls whose keys are equal but for numbers of 2 and above have one form (``form``).
2. When a call differs from an earlier one of its form in few numbers, its plan is made with symbols in place of those
   (``Symbols``), under a ShapeEnv that notes every condition on sizes that a decision depended on.  Captured graphs
   with symbolic sizes, and backward operators of polymorphic plans, declare their symbols.
3. The Draft, and a Python function that tests the conditions and finds the symbols' values in a call's numbers, are a
   PolymorphicPlan.  A further call that it fits gets its plan by putting in numbers: tracing, differentiation, cut,
   schedule and fusion are not done again.
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
LEAST = 2           # what a symbol may be at least: sizes 0 and 1 have meanings of their own
MOST_SYMBOLS = 2    # numbers by which calls may differ to be taken for one of many sizes
EXAMPLES = 8        # earlier calls that are remembered
MOST_PLANS = 4   # for one form, and attempts at them: where more are needed, sizes decide too much
# calls that a polymorphic plan serves before ``served`` does, so that numbers that are not sizes are learned
# (``numbers.py``)
SETTLED = 16
EARLY = 3           # calls that a polymorphic plan serves whose plans are kept on disk, too
# earlier calls of an operator that differ in few numbers; layers of a network have several sizes, too
ENOUGH = 3


class SymbolicArgument:
    """What stands for a tensor argument while a plan is made with symbols."""

    def __init__(self, meta: Meta):
        self._rush_meta = meta  # where tensors have it


class Settling:
    """A program with symbols, for one set of sizes; written out when it is first run."""

    def __init__(self, symbolic: Graph, sizes: dict):
        self.symbolic, self.sizes, self.inputs = symbolic, sizes, symbolic.inputs

    @cached_property
    def graph(self) -> Graph:
        return settled_graph(self.symbolic, self.sizes)

    def run(self, values):
        return self.graph.run(values)


def form(value, numbers: list):
    """A key without its numbers of 2 and above, which go into ``numbers``."""
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
    """What a call has in common with others, by its key; None for operators that run in Python."""
    return None if in_parts(op, key[-1]) else PendingCall(op, key, args)


class SeenCalls:
    """Calls of one form: the keys of a few of them, and their polymorphic plans."""

    def __init__(self):
        self.examples, self.plans, self.served = [], [], 0


class PendingCall:
    """A call that has no plan yet; ``numbers``: those of the key."""

    def __init__(self, op: Op, key, args):
        self.op, self.key, self.args = op, key, args
        # no polymorphic plan is attempted; the one that was made, NEVER where the attempt failed
        self.needs_own_sizes, self.member = False, None
        numbers = []
        shape = form(key[:-2], numbers), *key[-2:]
        self.numbers = tuple(numbers)
        tables = op.polymorphic
        self.seen = tables.get(shape) or tables.again(shape) or tables.enter(shape, SeenCalls())

    def plan(self, members=None):
        """The plan by a polymorphic plan that the call fits, and that plan's Draft; None where there is none.
        ``members``: default those that earlier calls have left."""
        for member in self.seen.plans if members is None else members:
            values = member.match(self.numbers)
            if values is not None and (member.holds is None or member.holds(self.args)):
                try:
                    settled = member.draft.settle(self.op, dict(zip(member.symbols, values)))
                except Exception as reason:  # the plan for the call's own sizes raises the error that fits it
                    log.debug("%s: %s: %s", self.op.name, type(reason).__name__, reason)
                    self.needs_own_sizes = True
                    return None
                self.seen.served += 1
                return settled, member.draft
        return None

    def early(self) -> bool:
        """Whether it is one of the first that a polymorphic plan serves: programs with a few sizes find all of their
        plans on disk the next time."""
        return self.seen.served <= EARLY

    def remember(self):
        """Keeps the call, which has a plan now, for comparison with later ones, and the polymorphic plan that was made
        for it.  Other threads run what they find here: its kernels must be compiled (``Target.settle``)."""
        if self.member is not None:  # an attempt that failed counts only where the call itself is valid
            self.seen.plans = [*self.seen.plans, self.member]
        self.seen.examples = [*self.seen.examples[-EXAMPLES + 1:], self.key]

    def generalized(self, names, mask, draft_plan):
        """The plan by a new polymorphic plan and its Draft, where sizes seem to vary; else None."""
        symbols = self.symbols() if len(self.seen.plans) < MOST_PLANS and not self.needs_own_sizes else None
        if symbols is None:
            return None
        try:
            with symbols.shape_env:
                draft = draft_plan(self.op, symbols.stands(self.args, self.key[:-2]), names, mask,
                                   scalar_bits(self.key))
            member = PolymorphicPlan(draft, symbols)
            found = self.plan([member])
        except Exception as reason:  # whatever is wrong with the call itself, planning it with its own sizes will say
            log.debug("%s: planned for its own sizes: %s: %s", self.op.name, type(reason).__name__, reason)
            self.member = NEVER
            return None
        self.member = member
        log.debug("%s: one plan for all %s where %s", self.op.name,
                  ", ".join(f"{s} (now {symbols.shape_env.hints[s]})" for s in member.symbols),
                  " and ".join(member.conditions) or "nothing more is asked")
        return found

    def symbols(self):
        """What varies: as the operator's own program says, or between this call and earlier ones; None where nothing
        seems to."""
        sizes = given_sizes(self.op, self.key)
        if sizes:
            return DeclaredSymbols(self.op, sizes)
        found = (InferredSymbols(self.key, key) for key in reversed(self.seen.examples))
        alike = [one for one in found if 0 < len(one.found) <= MOST_SYMBOLS]
        if len(alike) < ENOUGH:
            return None
        # a plan with the fewest symbols did not fit this call: further ones vary all that is seen to vary
        return max(alike, key=lambda one: len(one.found)) if self.seen.plans else alike[0]


class Never:
    """Stands for a polymorphic plan that could not be generalized."""

    holds = fill = None

    def match(self, numbers):
        return None


NEVER = Never()


def given_sizes(op: Op, key) -> dict:
    """The values of the symbols that a captured graph or a backward program has among its inputs: ints.  Empty where
    there are none, or one is too small."""
    symbols = op.traits.get("symbols")
    if not symbols:
        return {}
    found = {symbols[node.name]: value for node, value in zip(op.traits["inputs"], key) if node is not None
             and node.name in symbols}
    return found if len(found) == len(symbols) and all(type(n) is int and n >= LEAST for n in found.values()) else {}


class Symbols:
    """Symbols for the numbers of a call that vary.  ``exprs``: what each number of the key is, in the key's order."""

    def __init__(self, hints):
        self.shape_env, self.exprs = ShapeEnv(hints), []

    def stands(self, args, keys):
        """The arguments with symbols in them."""
        return tuple(map(self.stand, args, keys))

    def new(self, value: int) -> Expr:
        """A symbol that nothing is known of but its value here."""
        made = size(f"s{len(self.shape_env.hints)}", LEAST)
        self.shape_env.hints[made] = value
        return made


class DeclaredSymbols(Symbols):
    """Symbols as the inputs of an operator's own program have them."""

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
        """The metadata of an argument in the program's symbols: its shape is as the program has it, it may lie in
        memory otherwise."""
        hints = self.shape_env.hints
        shape, strides = tuple(meta.shape), meta.strides
        if declared is not None and len(declared.shape) == len(shape):
            shape = tuple(t if isinstance(t, Expr) and evaluate(t, hints) == n and n >= LEAST else n
                          for t, n in zip(declared.shape, shape))
            strides = tuple(t if isinstance(t, Expr) and evaluate(t, hints) == n and n >= LEAST else n
                            for t, n in zip(declared.strides, strides))
        else:  # kept for what other callers read: sizes that are a symbol's are taken for it
            shape = tuple(next((s for s, value in hints.items() if value == n), n) for n in shape)
        rows = row_major(shape) if meta.contiguous else stepping(shape, strides, meta)
        # those of single elements may be any
        strides = tuple(s if evaluate(s, hints) == n else n for s, n in zip(rows, meta.strides))
        self.exprs += [s for s, n in zip((*shape, *strides), (*meta.shape, *meta.strides)) if n >= LEAST]
        return meta.like(shape, strides)


def stepping(shape, strides, meta: Meta) -> tuple:
    """Strides as products of a smaller stride and its size, where they are such."""
    found = list(strides)
    for k in sorted(range(len(shape)), key=lambda k: meta.strides[k]):
        for j in range(len(shape)):
            if j != k and not isinstance(found[k], Expr) and meta.strides[j] * meta.shape[j] == meta.strides[
                    k] > meta.strides[j] > 0:
                found[k] = found[j] * shape[j]
    return tuple(found)


class InferredSymbols(Symbols):
    """Symbols for what differs between a call and an earlier one; numbers that changed alike are one symbol, or a
    multiple of it."""

    def __init__(self, key, earlier):
        super().__init__({})
        self.found = []  # (expr, its value now, its value before)
        for now, before in sorted(changed(key[:-2], earlier[:-2])):
            self.number(now, before)  # small numbers are symbols, and larger ones multiples of them
        self.stood = iter([self.part(a, b) for a, b in zip(key[:-2], earlier[:-2])])

    def part(self, now, before):
        """A part of the key with symbols in it."""
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
        """Strides in symbols: row-major ones, steps over smaller dimensions, or numbers by themselves (those of single
        elements, too)."""
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
        """A number of the call: a constant, something of a symbol known already, or a new symbol."""
        if now == before:
            return now
        for expr, a, b in self.found:
            if now % a == 0 and before == b * (now // a):
                return expr * (now // a)
        for expr, a, b in self.found:
            if now - a == before - b:
                return expr + (now - a)
        for (one, a, b), (other, c, d) in itertools.combinations(self.found, 2):  # a whole and its parts
            if now == a + c and before == b + d:
                return one + other
        self.found.append((self.new(now), now, before))
        return self.found[-1][0]

    def stand(self, value, key):
        return stood(value, next(self.stood))


def changed(now, before) -> set:
    """The sizes and other numbers, apart from strides, by which two keys of one form differ: (now, before)."""
    if type(now) is Meta:
        now, before = tuple(now.shape), tuple(before.shape)
    if type(now) in (tuple, Size):
        return set().union(*map(changed, now, before))
    return {(now, before)} if type(now) is int and now >= LEAST and now != before else set()


def stood(value, part):
    """An argument with the symbols that its part of the key has."""
    if isinstance(value, Tensor):
        return SymbolicArgument(part)
    if isinstance(value, (tuple, list)) and type(part) in (tuple, Size) and not (part and part[0] is float):
        return type(value)(map(stood, value, part)) if type(value) in (tuple, list) else part
    return part if type(value) is int and isinstance(part, (int, Expr)) else value


class PolymorphicPlan:
    """A Draft with symbols, and ``match``: from the numbers of a call to the symbols' values, or None where it does not
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
        # written by us, from Exprs
        self.match = eval(f"lambda v: ({values}) if {self.tests} else None", {"logical_not": operator.not_})

    @cached_property
    def fill(self):
        """(operator, numbers) -> plan, written for this polymorphic plan; None where its plans have to be settled."""
        from .filling import Unfillable, filler

        try:
            return filler(self.draft, self.names, self.tests)
        except Unfillable as reason:
            log.debug("%s: further sizes are settled: %s", self.draft.op.name, reason)
            return None


def served(op: Op, key, args):
    """The plan of a call that a polymorphic plan fits which has served several calls before; nothing is learned from
    these calls.  None for all others."""
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
