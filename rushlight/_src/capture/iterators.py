"""Iterators: over known sequences, and those of builtins."""
from __future__ import annotations

import collections
import itertools
import operator

from . import polyfills
from .classes import ABSENT, empty_view, static
from .containers import raised
from .errors import Again, Break, Raised
from .parts import CALLED, METHODS, Part
from .values import (Constant, ContainerMethod, ExceptionValue, Function, GeneratorValue, Instance, IteratorValue,
                     Mapping, Method, Namespace, Object, Partial,
                     Rows, Sequence, SetValue, TensorValue, View)

FIRST, SECOND, ALL = slice(0, 1), slice(1, 2), slice(None)
ITERATED = {map: slice(1, None), filter: SECOND, zip: ALL, enumerate: FIRST, itertools.zip_longest: ALL,
            itertools.islice: FIRST, itertools.accumulate: FIRST,
            itertools.pairwise: FIRST, itertools.starmap: SECOND, itertools.takewhile: SECOND,
            itertools.dropwhile: SECOND, itertools.filterfalse: SECOND,
            # the arguments whose ``__iter__`` is called at once
            itertools.compress: slice(0, 2), itertools.cycle: FIRST, itertools.groupby: FIRST}
# read at once
POOLED = {itertools.product: ALL, itertools.permutations: FIRST, itertools.combinations: FIRST,
          itertools.combinations_with_replacement: FIRST}
LAZY = (itertools.chain, itertools.repeat, itertools.count)
BUILTINS = (*ITERATED, *POOLED, *LAZY)
# their only state is how far their arguments are
STATELESS = frozenset((map, filter, zip, itertools.starmap, itertools.filterfalse, itertools.compress))
CHANGED = {Mapping: "dictionary changed size during iteration", Namespace: "dictionary changed size during iteration",
           SetValue: "Set changed size during iteration", Sequence: "deque mutated during iteration"}
CALLABLE = (Function, Method, ContainerMethod, Partial)


def native_iteration(iterator) -> Again:
    """Restart capture so that the frame continues as plain Python at the instruction that made an iterator."""
    return Again(iterator.made_at, Break("RB004", "iterating over a container that changes meanwhile", native=True))


class Iterators(Part, part="iterators"):
    """Capture component for iteration."""

    needs = "arithmetic", "calls", "classes", "containers", "generators", "protocols", "values"

    def iterator(self, value):
        """``iter(value)``; None if a frame was pushed."""
        whole, value = self.values.force(value), self.containers.as_container(value)
        if isinstance(value, (IteratorValue, GeneratorValue)):
            return value
        if not self.classes.is_class(whole) and (found := self.protocols.has(whole, "__iter__")):
            return self.protocols.answered("__iter__", found, whole)
        if isinstance(value, Sequence):
            made = IteratorValue(value)
            if issubclass(value.kind, collections.deque):
                self.watch(made, value)
            return made
        if isinstance(value, (Object, Instance)) and not self.classes.is_class(value):
            cls = self.classes.class_of(value)
            if static(cls, "__iter__") is ABSENT and self.protocols.has(value, "__getitem__"):
                return self.calls.call_python(polyfills.by_index, [value])
            if isinstance(value, Instance) and static(cls, "__iter__") is ABSENT:
                raise raised(TypeError, f"{value.cls.__name__!r} object is not iterable")
        elif self.classes.is_class(value) and (found := self.classes.class_attribute(type(value.value),
                                                                     "__iter__")) and not hasattr(value.value,
                                                                                                  "__members__"):
            return self.protocols.answered("__iter__", found, value)
        items = self.containers.listed(value)
        if items is None:
            if isinstance(value, Object) and isinstance(value.value, (str, bytes)):
                return IteratorValue(Sequence(list, list(map(Constant, self.values.known(value)))), 0, value)
            if isinstance(value, Constant):
                return self.arithmetic.fold(iter, [value])
            raise Break("RB004", f"iteration over a {self.values.describe(value)}")
        if isinstance(value, TensorValue):
            return IteratorValue(Sequence(tuple, items))
        made = IteratorValue(Sequence(list, items), 0, value)
        if isinstance(value, (Mapping, View, SetValue)):
            self.watch(made, value.mapping if isinstance(value, View) else value)
        return made

    def watch(self, iterator, container):
        """Make an iterator raise if its container changes its size."""
        frame = self.machine.frames[-1]
        iterator.watched, iterator.size, iterator.keys = container, len(container.items), list(container.items)
        iterator.made_at = frame.code, frame.now.offset

    def check_watched(self, iterator):
        """Raise Python's error for a container that changed its size since the last step; if keys changed, Python
        itself iterates, since the order depends on entries' positions in memory."""
        watched = iterator.watched
        if watched.kind is collections.OrderedDict and iterator.position >= len(iterator.sequence.items):
            return  # its end is fixed at the start
        if len(watched.items) != iterator.size:
            if watched.kind is collections.OrderedDict:  # its error depends on how it was changed
                raise native_iteration(iterator)
            iterator.size = -1  # so that each further step raises, too
            if self.counts_down(iterator):  # but not of a deque from its end
                self.end(iterator)
            raise raised(RuntimeError, CHANGED[type(watched)])
        if watched.changed:
            same = map(operator.is_, iterator.keys, watched.items) if isinstance(watched, Sequence) else [
                iterator.keys == list(watched.items)]
            if not all(same):
                raise native_iteration(iterator)
            if isinstance(iterator.of, View) and iterator.of.part != "keys":
                items = self.containers.listed(iterator.of)
                iterator.sequence.items = items[::-1] if iterator.turned else items

    def reverse_iterator(self, value):
        """``reversed(value)``."""
        value = self.values.force(value)
        if found := self.protocols.has(value, "__reversed__"):
            return self.calls.call(found, [value], {})
        if isinstance(value, Sequence) and self.protocols.has(value, "__getitem__"):
            return self.calls.call_python(polyfills.reversed_by_index, [value, self.containers.length(value)])
        if isinstance(value, (Instance, Object)) and self.classes.user_class(
                value) and self.containers.as_container(value) is value:
            if self.protocols.has(value, "__len__") and self.protocols.has(value, "__getitem__"):
                return IteratorValue(Sequence(list, self.containers.expanded(value)[::-1]))
            raise Break("RB007", f"reversed() of a {self.classes.class_of(value).__name__}")
        inner = self.containers.as_container(value)
        cls = self.classes.class_of(inner)
        if not hasattr(cls, "__reversed__") and (isinstance(inner, Mapping) or not hasattr(cls, "__getitem__")):
            raise raised(TypeError, f"{cls.__name__!r} object is not reversible")
        if isinstance(inner, Sequence) and issubclass(inner.kind, (list, collections.deque)):
            made = IteratorValue(inner, len(inner.items) - 1, inner, True)
            if inner.kind is collections.deque:
                self.watch(made, inner)
            return made
        made = IteratorValue(Sequence(list, self.containers.expanded(inner)[::-1]), 0,
                             None if isinstance(inner, TensorValue)
                             else inner, True)
        if isinstance(inner, (Mapping, View)):
            self.watch(made, inner.mapping if isinstance(inner, View) else inner)
        return made

    def class_of_iterator(self, value):
        """Return the class of an iterator."""
        if isinstance(value, Rows):
            return value.kind
        of = value.of or value.sequence
        like = self.classes.class_of(of)
        example = of.value if isinstance(of, Constant) else empty_view(of) if isinstance(
            of, View) else () if issubclass(like, tuple) else like()
        return type(reversed(example) if value.turned else iter(example))

    # --- iterators of builtins ----------------------------------------------------------------------------------------
    @CALLED.by(*BUILTINS, told=True)
    def make_iterator(self, kind, *arguments, **keywords):
        """Call ``zip``, ``map``, or a class of itertools."""
        places = ITERATED.get(kind, slice(0, 0))
        arguments = list(arguments)
        for at in range(len(arguments))[places]:
            arguments[at] = self.machine.now(self.values.from_python(iter), [arguments[at]])
        for at in range(len(arguments))[POOLED.get(kind, slice(0, 0))]:
            arguments[at] = Sequence(tuple, self.containers.expanded(arguments[at]))
        self.check_arguments(kind, arguments, keywords)
        rows = self.rows(kind, arguments, keywords)
        if rows is not None:
            return rows
        made = self.calls.call_python(polyfills.POLYFILLS[kind], arguments, keywords)
        made.kind, made.arguments = kind, (arguments, keywords)
        return made

    def rows(self, kind, arguments, keywords):
        """``zip`` or ``enumerate`` of known iterators; None for others."""
        if kind is zip and not keywords and all(isinstance(a, IteratorValue) for a in arguments):
            return Rows(zip, arguments)
        if kind is enumerate and isinstance(arguments[0], IteratorValue):
            start = self.protocols.index_of(arguments[1] if len(arguments) > 1 else keywords.get("start", Constant(0)))
            if isinstance(start, Constant):
                return Rows(enumerate, arguments[:1], start.value)
        return None

    def check_arguments(self, kind, arguments, keywords):
        """Raise the errors that the builtin itself raises for such arguments."""
        known = []
        for value in (*arguments, *keywords.values()):
            value = self.values.force(value)
            if isinstance(value, Constant):
                known.append(value.value)
            elif isinstance(value, (IteratorValue, GeneratorValue, Sequence)):
                known.append(iter(()) if not isinstance(value, Sequence) else ())
            elif isinstance(value, CALLABLE) or isinstance(value, Object) and callable(value.value):
                known.append(len)
            else:
                return
        at = len(arguments)
        try:
            kind(*known[:at], **dict(zip(keywords, known[at:])))
        except Exception as error:
            raise raised(type(error), *error.args) from None

    # --- stepping -----------------------------------------------------------------------------------------------------
    def step_of(self, iterator):
        """Return the next item of an IteratorValue; None at its end."""
        if isinstance(iterator, Rows):
            return self.row_of(iterator)
        if iterator.watched is not None:
            self.check_watched(iterator)
        if not 0 <= iterator.position < len(iterator.sequence.items):
            self.end(iterator)
            return None
        found = self.containers.item(iterator.sequence, iterator.position)
        iterator.position += -1 if self.counts_down(iterator) else 1
        return found

    def counts_down(self, iterator) -> bool:
        """True if an iterator is ``reversed()`` of a list or deque, which it reads in its current state at each
        step."""
        return iterator.turned and iterator.of is iterator.sequence

    def end(self, iterator):
        """Release an exhausted sequence, so that the iterator stays at its end when a list grows."""
        iterator.watched = None
        if iterator.sequence.kind in (list, collections.deque) and iterator.of in (None, iterator.sequence):
            down = self.counts_down(iterator)
            iterator.sequence, iterator.position = Sequence(iterator.sequence.kind, []), -1 if down else 0
            iterator.of = iterator.sequence if down else None

    def row_of(self, rows):
        """Return the next row; None at the end."""
        row = []
        for part in rows.parts:
            found = self.step_of(part)
            if found is None:
                return None
            row.append(found)
        if rows.kind is enumerate:
            rows.position += 1
            row.insert(0, Constant(rows.position - 1))
        return Sequence(tuple, row) if rows.parts else None

    def rest_of(self, iterator):
        """Return all remaining items of an IteratorValue."""
        found = []
        while (item := self.step_of(iterator)) is not None:
            found.append(item)
        return found

    @METHODS.by((IteratorValue, "__next__"))
    def iterator_next(self, owner):
        return self.next(owner)

    @METHODS.by((IteratorValue, "__iter__"))
    def iterator_iter(self, owner):
        return owner

    def next(self, iterator, default=None):
        """``next(iterator[, default])``; None if a frame was pushed."""
        iterator = self.values.force(iterator)
        if isinstance(iterator, GeneratorValue):
            return self.generators.advance(iterator, ("next", default))
        if isinstance(iterator, IteratorValue):
            found = self.step_of(iterator)
            if found is not None:
                return found
            if default is None:
                raise Raised(ExceptionValue(StopIteration, []))
            return default
        found = isinstance(iterator, (Object, Instance)) and self.classes.class_attribute(
            self.classes.class_of(iterator), "__next__")
        if not found:
            if not isinstance(iterator, Object) and static(self.classes.class_of(iterator), "__next__") is ABSENT:
                raise raised(TypeError, f"{self.classes.class_of(iterator).__name__!r} object is not an iterator")
            raise Break("RB004", f"next() of a {self.values.describe(iterator)}")
        if default is None:
            return self.calls.call(found, [iterator], {})
        return self.calls.call_python(polyfills.next_or, [Object(found.value, found.source), iterator, default])
