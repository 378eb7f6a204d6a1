"""Numbers in calls as run-time scalars: learned when calls differ in them, and fixed again when a program needs their
values.

1. A parameter that took enough different numbers of a type (``Experience.enough``) becomes a run-time scalar
   (``learned``): a bit of ``Op.scalars``, so that keys contain only its type.
2. Its plan is made with a ``RunTime`` number (``core/runtime.py``), under conditions.  Several plans for one key are a
   *choice*: a Plan that the hot path never runs, but queries (``Plan.large`` is CHOICE).
3. A number that a plan fixed is part of keys again, permanently (``given_up``).
"""
from __future__ import annotations

import inspect

from ..core.native import Op, Plan
from ..core.native.objects import CHOICE, PYTHON
from ..core.op import keywords
from ..core.operands import takes_element
from ..core.runtime import holds

ENOUGH, ENOUGH_COUNTS = 2, 8  # different numbers of one parameter; different ints, which may be sizes and dimensions
MOST = 16     # plans for one key, by values of numbers
BITS = 62     # of ``Op.scalars``
KINDS = frozenset((int, float, bool))
PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Experience:
    """Facts about an operator's parameters from its calls, by position: numbers that each ``took``, those ``learned``,
    and those that are ``structure``."""

    def __init__(self, op: Op):
        kinds = [(name, p.kind) for name, p in op.signature.parameters.items()] if op.signature is not None else ()
        self.place = {name: k for k, (name, kind) in enumerate(kinds) if kind in PLACED and k < BITS}
        self.plain = {k for k in self.place.values() if kinds[k][1] is not inspect.Parameter.KEYWORD_ONLY}
        self.elements = {k for name, k in self.place.items() if takes_element(op, name)}
        self.took, self.learned = {}, set()
        # a polymorphic plan's plan serves all sizes
        self.structure = {self.place[name] for name in op.traits.get("symbols", ()) if name in self.place}

    def enough(self, place: int, kind: type) -> int:
        """Return how many different numbers of a type show that a parameter varies."""
        return ENOUGH if kind is float or place in self.elements else ENOUGH_COUNTS

    def places(self, op: Op, count: int, names) -> list:
        """Return the parameter that each argument of a call is passed for; None for those that several share."""
        positional = count - len(names or ())
        named = keywords(op, names) if names else ()
        return [k if k in self.plain else None for k in range(positional)] + [self.place.get(name) for name in named]


def experience(op: Op) -> Experience:
    found = op.caches.get("experience")
    if found is None:
        found = op.caches["experience"] = Experience(op)
    return found


def scalar_bits(key) -> int:
    """Return the arguments of a call that are run-time scalars as bits, from its key."""
    return sum(1 << k for k, part in enumerate(key[:-2]) if part in KINDS)


def number_in(part):
    """Return the number that a part of a key is, or None."""
    if type(part) is int:
        return part
    return float(part[1]) if type(part) is tuple and len(part) == 2 and part[0] is float else None


def learned(op: Op, args, names, key) -> bool:
    """True if a call shows that some of its numbers vary: they become run-time scalars, and the call must be
    repeated."""
    if "all_scalars" in op.traits:
        return False
    known, found = None, set()
    for k, part in enumerate(key[:-2]):
        number = number_in(part)
        if number is None:
            continue
        if known is None:
            known = experience(op)
            places = known.places(op, len(args), names)
        place = places[k]
        if place is None or place in known.structure or op.scalars >> place & 1:
            continue
        took = known.took.setdefault((place, type(number)), set())
        took.add(repr(number))
        if len(took) >= known.enough(place, type(number)):
            found.add(place)
            took.clear()
    if found:
        mark(op, found)
    return bool(found)


def mark(op: Op, places: set):
    """Make these parameters run-time scalars."""
    experience(op).learned |= places
    op.traits.setdefault("declared", op.scalars)
    op.scalars |= sum(1 << place for place in places)
    op.masks = {}


def given_up(op: Op, args, names, which) -> set:
    """Make the arguments ``which`` (indices) part of keys again if they were learned to vary; return those
    parameters."""
    if not which:
        return set()
    known = experience(op)
    places = {place for k, place in enumerate(known.places(op, len(args), names)) if k in which
              and place in known.learned}
    if places:
        known.learned -= places
        known.structure |= places
        op.scalars &= ~sum(1 << place for place in places)
        op.masks = {}
    return places


def taken_back(op: Op, places: set):
    """Make parameters that were given up without being the cause vary again."""
    known = experience(op)
    known.structure -= places
    mark(op, places)


class Alternatives:
    """Plans for one key: (predicate on the arguments, Plan), the last used one first."""

    def __init__(self):
        self.known = ()

    def add(self, text: str, plan: Plan):
        self.known = ((holds(text), plan), *self.known[:MOST - 1])

    def find(self, args):
        """Return the plan for a call, or None."""
        known = self.known
        if known and known[0][0](args):
            return known[0][1]
        for k, found in enumerate(known):
            if k and found[0](args):
                self.known = (found, *(other for other in known if other is not found))
                return found[1]
        return None


def remember(op: Op, key, plan: Plan, text: str):
    """Enter a plan under a key, under the conditions ``text``."""
    if not text:
        op.plans.enter(key, plan)
        return
    choice = op.plans.get(key)
    if choice is None or choice.large != CHOICE:
        choice = Plan()
        choice.kind, choice.large, choice.op, choice.function, choice.outputs, choice.temporaries = (PYTHON, CHOICE, op,
                                                                                                     Alternatives(), (),
                                                                                                     ())
        op.plans.enter(key, choice)
    choice.function.add(text, plan)
