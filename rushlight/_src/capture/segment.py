"""What capture makes: a guard, a graph, and the Python around it."""
from __future__ import annotations

import collections
import weakref


class ResumePoint(collections.namedtuple("ResumePoint", "code offset locals cells stack discard calling")):
    """Where a frame goes on, and which of its variables come along.

    ``stack`` has for each slot "V" (a value comes along), "H" (while an exception is handled: the one handled before
    and this one come along), "N" (CPython's NULL), or the offset of the instruction that raised.
    """


class Segment:
    """Compiled code from an entry to the next break: ``guard(V)`` says whether it applies, ``run(V, P)`` runs it."""

    def __init__(self, guard, arming, run, graph, guards, source, roots, varying):
        self.guard, self.arming, self.run, self.graph, self.guards, self.source = (guard, arming, run, graph, guards,
                                                                                   source)
        self.values = None  # what it was captured for, where a program is exported
        self.varying = varying  # text of a size that was said to vary -> whether it may
        self.roots = [(int(str(place)[2:-1]), weakref.ref(module)) for place, module in roots if place.parent is None]

    def end_with(self, owners, entry):
        """Has the entry forget this as soon as one of these modules and optimizers is gone, whose state it holds."""
        ours, its = weakref.ref(self), weakref.ref(entry)

        def ended(_):
            if ours() is not None:  # it may be among those that are tried just now
                ours().arming.forget()
            if its() is not None:
                its().segments = [segment for segment in its().segments if segment is not ours()]

        self.ends = [weakref.ref(owner, ended) for owner in owners]

    def concerns(self, values) -> bool:
        """Whether this was captured for the same modules."""
        return all(values[k] is module() for k, module in self.roots)
