"""Nested tensors: captured as their rows, which are a tensor of the graph, and offsets, where each example begins.

Facts about the offsets (that examples cover the rows, the greatest length) are read where the offsets come from
outside, at every call, and guarded or taken as a run-time scalar; the graph itself gets offsets as data.
"""
from __future__ import annotations

from functools import partial

from ...nested import nested_tensor_from_jagged
from ...nested.makers import nested_view_from_values_offsets
from ...nested.ragged import Ragged
from ...nested.tensor import Nested, made
from ..core import convert
from ..core.expectations import at_most, expect
from ..core.op import OPS
from .backends import shared
from .classes import ABSENT, static
from .errors import Break
from .fake import Fake
from .parts import ATTRIBUTES, CALLED, Part
from .values import Constant, NestedValue, RaggedValue, Source, TensorValue

HISTORY = frozenset(("grad", "grad_fn", "backward", "retain_grad", "is_leaf", "requires_grad_"))


class Offsets(Ragged):
    """A ragged dimension whose offsets are data of the graph: the examples are concatenated, and cover the rows.

    ``facts(name)``: the ``longest`` or ``shortest`` length, as a captured number; ``total``: the number of rows;
    ``written()``: True if the graph writes to the offsets first, which invalidates what was read before it runs.
    """

    def __init__(self, starts, facts, written):
        super().__init__(starts)
        self.facts, self.total, self.written = facts, None, written

    gaps = property(lambda self: self.told(False))
    longest = property(lambda self: self.told(self.facts("longest")))
    shortest = property(lambda self: self.told(self.facts("shortest")))

    def told(self, fact):
        """Return a fact that was read of the offsets before the graph, if it still holds."""
        if self.written():
            raise Break("RB015", "offsets of a nested tensor that were written")
        return fact

    def read(self):
        raise Break("RB015", "the offsets of a nested tensor")

    @property
    def end(self):
        return self.told(self.total)

    def check(self, rows):
        """Nothing: it is guarded."""

    def spans(self):
        """Return the spans as data-dependent numbers; that they grow is guarded."""
        starts = self.offsets()

        def spans():
            ends = starts.tolist()
            for before, after in zip((0, *ends), (*ends, self.total)):
                expect(at_most(before, after), lambda: RuntimeError("offsets of a nested tensor must not decrease"))
            return [(before, after - before) for before, after in zip(ends, ends[1:])]

        return self.kept("spans", spans)

    def offsets(self):
        return self.told(self.starts).to(OPS["arange"](1).dtype)

    def kept(self, name, make):
        """Return a value that operators compute from the offsets, cached."""
        if name not in self.known:
            self.known[name] = make()
        return self.known[name]

    @property
    def owners(self):
        starts = self.offsets()
        return self.kept("owners", lambda: OPS["searchsorted"](starts, OPS["arange"](self.total), right=True) - 1)

    @property
    def places(self):
        starts = self.offsets()
        return self.kept("places", lambda: OPS["arange"](self.total) - starts[self.owners])

    @property
    def rows(self):
        return OPS["arange"](self.end)

    def packed(self):
        return self

    def closed(self, rows):
        return OPS["cat"]([self.offsets(), self.offsets()[-1:]])

    def fits(self, other) -> bool:
        if self.starts is not other.starts:
            raise Break("RB015", "the offsets of two nested tensors, which may differ: give them the same offsets")
        return True


class Nesting(Part, part="nesting"):
    """Capture component for nested tensors."""

    needs = "attributes", "classes", "framework", "guarding", "outside", "training", "values"

    # --- from outside -------------------------------------------------------------------------------------------------
    def wrap(self, value, source):
        """Return the Value of a nested tensor from outside."""
        guard, name = self.guarding.guard, self.guarding.constant_name
        guard(f"type({{0}}) is {name(Nested)} and {{0}}.at == {value.at} and {{0}}.laid_out is {name(value.laid_out)}",
              source)
        covers = covering(value)
        guard(f"{name(covering)}({{0}}) is {covers}", source)
        if not covers:
            raise Break("RB015", "a nested tensor whose examples do not cover its rows")
        rows = self.outside.wrap(value.rows, source.attribute("rows"))
        place = source.attribute("ragged")
        known = self.outside.wrapped.get(id(value.ragged))
        if known is None:
            known = self.offsets(value.ragged, self.outside.wrap(value.ragged.starts, place.attribute("starts")), place)
            self.outside.wrapped[id(value.ragged)] = known
            self.outside.alive.append(value.ragged)
        else:
            self.outside.again(known, value.ragged, place)
        found = self.entered(self.made(rows.fake, known.value, value.at, value.laid_out))
        found.source, found.real = source, value
        return found

    def offsets(self, ragged, starts, place):
        """Return the Value of a ragged dimension found at a source."""
        def facts(name):
            number = self.outside.wrap_plain(getattr(ragged, name), place.attribute(name))
            return number.value if isinstance(number, Constant) else number.expr

        made_here = Offsets(starts.fake, facts, partial(self.written_to, starts))
        found = self.outside.wrapped[id(made_here)] = RaggedValue(made_here, place)
        self.outside.alive.append(made_here)
        found.starts = starts
        return found

    def written_to(self, starts) -> bool:
        """True if the recorded nodes write to offsets, also through another input."""
        recorder, inputs = self.machine.recorder, self.training.inputs()
        own = recorder.root(starts.fake.node)
        for root in {recorder.root(node) for targets in recorder.targets.values() for node in targets}:
            if root is own:
                return True
            if root.op is None and own.op is None:
                one, other = inputs.get(own), inputs.get(root)
                if one is None or other is None or shared((one.real, other.real)):
                    return True
                overlap = self.guarding.constant_name(shared)
                self.guarding.guard(f"not {overlap}(({{0}}, {{1}}))", one.source, other.source)
        return False

    def made(self, rows, ragged, at, layout):
        """Return a nested tensor over fake rows."""
        if isinstance(ragged, Offsets) and ragged.told(ragged.total) is None:
            ragged.total = rows._rush_meta.shape[at - 1]
            self.machine.recorder.sizes_read.update(rows.inputs)
        return made(rows, ragged, at, layout)

    def entered(self, instance):
        """Return the Value of a nested tensor over fake rows, the same one each time."""
        known = self.outside.wrapped.get(id(instance))
        if known is None:
            if not isinstance(instance.rows, Fake):
                return self.wrap(instance, self.guarding.constant_source(instance))
            known = self.outside.wrapped[id(instance)] = NestedValue(instance)
            self.outside.alive.append(instance)
        return known

    # --- made here ----------------------------------------------------------------------------------------------------
    @CALLED.by(nested_tensor_from_jagged)
    def from_jagged(self, values, offsets=None, lengths=Constant(None), jagged_dim=Constant(None),
                    min_seqlen=Constant(None), max_seqlen=Constant(None)):
        """``nested_tensor_from_jagged``: offsets must come from outside and cover the rows."""
        values, offsets = self.values.force(values), self.values.force(offsets or Constant(None))
        lengths = self.values.force(lengths)
        if not isinstance(lengths, Constant) or not isinstance(offsets, TensorValue) or offsets.source is None:
            raise Break("RB015", "offsets of a nested tensor that are not an unmodified input")
        at = self.values.known(jagged_dim) or 1
        key = "ragged of", id(offsets)
        known = self.outside.wrapped.get(key)
        if known is None:
            name = self.guarding.constant_name(spread)
            place = Source(None, f"({name}({offsets.source}))")
            ragged = spread(offsets.real)
            known = self.outside.wrapped[key] = self.offsets(ragged, offsets, place)
            known.source, known.spread = None, ragged
        rows = values.fake
        if not 1 <= at <= rows.dim() or known.spread is None:
            raise Break("RB007", "nested_tensor_from_jagged()")
        if known.spread.gaps or known.spread.end != self.hint(
                rows.size(at - 1)):
            raise Break("RB015", "offsets that do not cover the rows of a nested tensor")
        size = self.guarding.text_of(self.values.from_python(rows.size(at - 1)))
        self.guarding.guard(f"{self.guarding.constant_name(ends_at)}({{0}}, {size})", offsets.source)
        return self.entered(self.made(rows, known.value, at, convert.jagged))

    def hint(self, size):
        """Return the current value of a size."""
        found = self.values.from_python(size)
        return found.value if isinstance(found, Constant) else found.hint

    @CALLED.by(nested_view_from_values_offsets)
    def from_offsets(self, values, offsets, ragged_idx=Constant(1), min_seqlen=None, max_seqlen=None):
        return self.from_jagged(values, offsets, jagged_dim=ragged_idx)

    # --- attributes ---------------------------------------------------------------------------------------------------
    @ATTRIBUTES.by(NestedValue)
    def attribute(self, owner, name):
        """Return an attribute of a nested tensor: those of its class, and of all tensors."""
        instance, cls = owner.fake, Nested
        if name == "__class__":
            return self.values.from_python(cls)
        if name in HISTORY:
            raise Break("RB011", f"{name!r} of a nested tensor")
        raw = static(cls, name)
        if name in instance.__dict__:
            return self.values.from_python(instance.__dict__[name])
        if raw is ABSENT:
            raise self.classes.missing(owner, name)
        if callable(raw) and not isinstance(raw, type):
            return self.attributes.bound(raw, owner, name, cls)
        return self.framework.run_framework(getattr, [owner, Constant(name)], {})

    # --- what lives on ------------------------------------------------------------------------------------------------
    def written(self, value, write):
        """Return (rows, ragged, at, layout) as code that rebuilds a nested tensor."""
        instance, from_python = value.fake, self.values.from_python
        parts = instance.rows, instance.ragged, instance.at, instance.laid_out
        return ", ".join(write(from_python(part)) for part in parts)


def spread(starts):
    """Return the ragged dimension of offsets; None if they are not valid offsets."""
    try:
        ragged = Ragged(starts)
        ragged.read()
    except RuntimeError:
        return None
    return ragged


def ends_at(starts, rows) -> bool:
    """True if offsets cover ``rows`` rows."""
    ragged = spread(starts)
    return ragged is not None and not ragged.gaps and ragged.end == rows


def covering(value) -> bool:
    """True if every row of a nested tensor belongs to an example."""
    try:
        return value.covers()
    except RuntimeError:
        return False
