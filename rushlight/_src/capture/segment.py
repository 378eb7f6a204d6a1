"""Results of capture: a guard, a graph, and the Python around it."""
from __future__ import annotations

import collections
import weakref


class ResumePoint(collections.namedtuple("ResumePoint", "code offset locals cells stack discard calling")):
    """The point where a frame continues, and the variables that are passed on.

    ``stack`` has for each slot "V" (a value is passed), "H" (while an exception is handled: the one handled before and
    this one are passed), "N" (CPython's NULL), or the offset of the instruction that raised.
    """


class Segment:
    """Compiled code from an entry to the next break: ``guard(V)`` returns if it applies, ``run(V, P)`` runs it."""

    def __init__(self, guard, arming, run, graph, guards, source, roots, varying):
        self.guard, self.arming, self.run, self.graph, self.guards, self.source = (guard, arming, run, graph, guards,
                                                                                   source)
        self.values = None  # the values it was captured for, if a program is exported
        self.varying = varying  # source of a size that was declared dynamic -> whether it may vary
        self.roots = [(int(str(place)[2:-1]), weakref.ref(module)) for place, module in roots if place.parent is None]

    def end_with(self, owners, entry):
        """Let the entry drop this as soon as one of these modules and optimizers, whose state it refers to, is gone."""
        ours, its = weakref.ref(self), weakref.ref(entry)

        def ended(_):
            if ours() is not None:  # it may be among those that are tried now
                ours().arming.forget()
            if its() is not None:
                its().segments = [segment for segment in its().segments if segment is not ours()]

        self.ends = [weakref.ref(owner, ended) for owner in owners]

    def concerns(self, values) -> bool:
        """True if this was captured for the same modules."""
        return all(values[k] is module() for k, module in self.roots)
