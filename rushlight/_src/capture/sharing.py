"""Segments that several compiled functions share: captured for one of them, bound to the next.

A function that is compiled several times, and a method of several objects, is captured once as long as guards hold.  A
segment names the modules that it was captured for; it reads all else at each call, as guards do.  ``SegmentCode`` is a
segment with the paths of these modules in place of the modules, so that the equal layers of a model, each compiled
separately, are captured and compiled once, too.
"""
from __future__ import annotations

import builtins
import collections
import types
import weakref

from ...nn.modules.module import Module
from ..core.native import Op, mine
from ..core.pytree import TreeSpec
from ..core.random import default_generator
from .effects import NAMES
from .equality import is_immutable
from .guards import TensorCheck, Unowned, code_of, guard_function
from .segment import Segment
from .values import IDENTITIES
from .wrapper_specs import WrapperSpec

SCALARS = (int, float, complex, str, bytes, bool, type(None), type(...), slice, range)
CONTAINERS = (tuple, list, set, frozenset)


class SegmentCode:
    """A segment without its modules and entry."""

    def __init__(self, source, file, graph, guards, sources, varying, resumptions):
        self.source, self.graph, self.guards, self.sources = source, graph, guards, sources
        self.file = file  # the name of the module whose program it runs
        self.varying = varying  # source of a size that was declared dynamic -> whether it may vary
        self.resumptions = resumptions  # (places, namespaces, native) of the entries that may follow
        self.compiled = code_of(source, "<capture>")
        self.breaks: list = []  # breaks found while it was captured
        self.shape = None  # the names, with modules as (root, path): None if it serves its own modules alone

    def bind(self, owner, names, inputs, roots) -> Segment:
        """Return the segment for these values of its names, for an entry of an Owner."""
        entries = [owner.entry(*resumption) for resumption in self.resumptions]
        namespace = {**NAMES, **names, "HELD": names, "E": entries, "graph": self.graph, "__name__": self.file}
        exec(self.compiled, namespace)
        guard, arming = guard_function(self.guards, self.sources, inputs, names)
        # popped: no cycle, it is released with its last reference
        made = Segment(guard, arming, namespace.pop("run"), self.graph, self.guards, self.source, roots, self.varying)
        made.code = self
        return made

    # --- sharing ------------------------------------------------------------------------------------------------------
    def offer(self, entry, names, roots, settings):
        """Offer this to other entries of the same program: for other modules, unless a constant of it belongs to those
        that it was captured for, else for the same ones; ``settings``: objects whose attributes it reads.
        Segments with constants of one rank are not offered: ranks may be threads."""
        if any(map(is_of_rank, names.values())):
            return
        paths: dict = {}
        for k, (_, root) in enumerate(roots):
            for path, module in Module.named_modules(root):
                paths.setdefault(id(module), ModulePath(k, path))
        shape = {name: paths.get(id(value()), value) if isinstance(value, Unowned) else value
                 for name, value in names.items()}
        known = set(map(id, settings))
        independent = all(isinstance(value, (ModulePath, Unowned)) or id(value) in known or is_independent(value)
                          for value in shape.values())
        self.shape, self.roots = shape if independent else names, [source for source, _ in roots]
        self.configuration = entry.owner.configuration
        self.places, self.namespaces = entry.places, entry.namespaces
        self.seen = entry.first, entry.varying, entry.shapes, entry.moving
        offered.setdefault(entry.places[0].code, []).append(weakref.ref(self))

    def serves(self, entry) -> bool:
        """True if an entry runs the same program under the same options."""
        return (self.places == entry.places and self.configuration == entry.owner.configuration
                and all(a is b for a, b in zip(self.namespaces, entry.namespaces)))

    def bind_to(self, entry, values):
        """Return the segment for the modules among these values; None if they violate its assumptions."""
        try:
            roots = [(source, eval(str(source), {"V": values})) for source in self.roots]
            if not all(isinstance(root, Module) for _, root in roots):
                return None
            modules = {name: roots[value.root][1].get_submodule(value.path) for name, value in self.shape.items()
                       if isinstance(value, ModulePath)}
        except (AttributeError, LookupError, TypeError, ValueError):  # the values are of another kind
            return None
        if not are_distinct(modules.values()):
            return None
        names = self.shape | {name: Unowned(module) for name, module in modules.items()}
        named = [value() for value in names.values() if isinstance(value, Unowned)]
        made = self.bind(entry.owner, names, (), roots)
        if None in named or not made.guard(values) or not are_distinct(made.arming.inputs):
            return None
        made.end_with(named, entry)
        return made


ModulePath = collections.namedtuple("ModulePath", "root path")
offered: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # code -> references of SegmentCodes that begin there


def find_shared(entry, values):
    """Return a segment for these values that another entry captured; None if there is none."""
    references = offered.get(entry.places[0].code, [])
    references[:] = [reference for reference in references if reference() is not None]
    for code in filter(None, [reference() for reference in reversed(references)]):
        if code.serves(entry) and (segment := code.bind_to(entry, values)) is not None:
            return segment
    return None


def are_distinct(values) -> bool:
    """True if no object occurs twice."""
    return len(set(map(id, values))) == len(values)


def is_of_rank(value) -> bool:
    """True if a constant belongs to one rank, and equals those of other ranks: a mesh, a group, a layout of a
    distributed tensor."""
    if isinstance(value, CONTAINERS):
        return any(map(is_of_rank, value))
    return isinstance(value, WrapperSpec) or type(value).__module__.partition(".")[2].startswith("distributed.")


def is_independent(value) -> bool:
    """True if a constant of a segment does not belong to the modules that it was captured for."""
    if isinstance(value, CONTAINERS):
        return all(map(is_independent, value))
    if isinstance(value, dict):  # the globals of a program, or a small table
        return "__builtins__" in value or value is vars(builtins) or all(map(is_independent, [*value, *value.values()]))
    return (isinstance(value, (*SCALARS, *IDENTITIES, Op, TensorCheck, TreeSpec, types.CodeType)) or is_immutable(value)
            or value is mine or value is default_generator)
