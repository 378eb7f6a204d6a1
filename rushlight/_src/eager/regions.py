"""Plan programs with a repeated subgraph, such as the layers of a model, from a short form with few repetitions.

1. ``graph/regions.py`` finds the repeated subgraph of a captured graph and removes all but a few repetitions.
2. The short graph is planned like any program: traced, differentiated, partitioned, scheduled and assembled.
3. ``Lengthening`` finds the repetitions in the items of the shape-generic program, whatever was fused across layers,
   and copies one of them for each removed layer, with that layer's inputs, its own results, and new temporaries.
   Buffers are assigned for the full program.
4. ``Backward`` lengthens the backward program likewise: its repetitions are the layers in reverse order.

A program that does not continue as its repetitions do raises Irregular and is planned in full.
"""
from __future__ import annotations

import bisect
import copy as copying

from ..compiler.partition import downstream
from ..compiler.places import Temporary
from ..compiler.residuals import ResidualBuffer, part_of
from ..core.kinds import P
from ..core.native.objects import FLOAT_VALUE, INTEGER_VALUE, SEED_VALUE
from ..graph.graph import Graph, Node
from ..graph.regions import Lengthened, Region, entries_of, in_demand
from ..graph.repetition import COPIED, Book, Irregular, Longer, find


class RegionCall:
    """The arguments of a call of a full program.  ``place``: region input -> index among them; ``given``: indices of
    the short program's arguments; ``tensor``: argument index -> tensor index, the bit in ``mask`` that says whether it
    requires grad."""

    def __init__(self, region: Region, args, places, mask: int):
        self.args, self.metas = args, [getattr(a, "_rush_meta", None) for a in args]
        self.tensor, count = [], 0
        for meta in self.metas:
            self.tensor.append(count)
            count += meta is not None
        self.wants = [meta is not None and bool(mask >> number & 1) for meta, number in zip(self.metas, self.tensor)]
        self.place = Book(zip(region.thing_of_input, places))
        self.given = [self.place[node, 0] for node in region.short.inputs]
        self.node_of_tensor = [node for node, k in zip(region.short.inputs, self.given) if self.metas[k] is not None]
        run = region.longer.short
        for node, copy in region.thing_of_input:
            if run.stretch_of(node) is not None and self.known(node, copy) != self.known(run.counterpart(node, 0), 0):
                raise Irregular(f"{node.name} is not like its counterparts")

    def known(self, node, copy: int):
        """Return the properties of an argument that the plan depends on."""
        place = self.place[node, copy]
        return self.metas[place] or type(self.args[place]), self.wants[place]

    @property
    def short(self):
        """(arguments, mask) of the short program."""
        tensors = [k for k in self.given if self.metas[k] is not None]
        return tuple(self.args[k] for k in self.given), sum(self.wants[k] << n for n, k in enumerate(tensors))


class Lengthening:
    """The plan of a region's short form, lengthened to the full program: ``outline``, and the plan fields that differ.

    Keys for values of the short program: Nodes for inputs and for slices of a donated one, ("out", number), ("kept",
    number of a slice of the residual buffer), Temporaries.  ``fresh``, ``extras``: (key, copy) -> number, for results
    that callers see and for other saved values.
    """

    def __init__(self, region: Region, call: RegionCall, short):
        if short.outline is None or short.outline.held or short.random:
            raise Irregular("it does not run as one program of its arguments")
        self.region, self.call, self.short, self.old, self.graph = region, call, short, short.outline, region.longer
        self.inputs, self.first, self.total = region.short.inputs, len(short.outline.given), len(call.args)
        self.parts = {node.params["offset"]: node for node in region.parts} if self.old.donated is not None else {}
        self.starts, self.kept = sorted(self.parts), [start for start, _ in self.old.kept]
        self.name_results()
        run = find([self.entry(item) for item in self.old.items], lambda run: Alignment(run, self.in_graph, 1))
        if run is None:
            raise Irregular("its steps do not repeat")
        self.run, self.longer, self.temporaries = run, Longer(run, self.graph.more), {}
        self.alignment, self.steps = Alignment(run, self.in_graph, 1), self.counts()
        self.number_results()
        self.outline = self.lengthened()

    # --- the short program as a sequence ------------------------------------------------------------------------------
    def entry(self, item):
        """Return an item as an entry of a sequence, with offsets relative to the start of each value."""
        found = [self.thing(value, offset) for value, offset in item.places()]
        return (item.form(), tuple(offset for _, offset in found)), tuple(thing for thing, _ in found)

    def thing(self, value, offset):
        """Return (key, offset within that value)."""
        if type(value) is not int:
            return value, offset
        if self.is_number(value):
            return self.inputs[value], 0
        if value == self.old.donated:
            start = self.starts[bisect.bisect_right(self.starts, offset) - 1]
            return self.parts[start], offset - start
        if value < self.first:
            return self.inputs[value], offset
        number = value - self.first
        if self.kept and number == len(self.old.outputs) - 1:
            part = bisect.bisect_right(self.kept, offset) - 1
            return ("kept", part), offset - self.kept[part]
        return ("out", number), offset

    def is_number(self, value) -> bool:
        """True if a value is a run-time scalar: its addend is not an offset."""
        return type(value) is int and value < self.first and self.inputs[value].weak

    def counts(self) -> dict:
        """{run-time scalar: its increment from one repetition to the next}."""
        run, found = self.run, {}
        numbers = [[pair for pair in item.places() if self.is_number(pair[0])] for item in self.old.items]
        for before, after in zip(numbers[run.start:run.end - run.length], numbers[run.start + run.length:run.end]):
            for (value, number), (_, further) in zip(before, after):
                if found.setdefault(value, further - number) != further - number:
                    raise Irregular("random numbers are not drawn per repetition")
        for value, step in found.items():
            first, last = ([number * step for pairs in part for v, number in pairs if v == value]
                           for part in (numbers[:run.seam], numbers[run.seam:]))
            if step and first and last and max(first) >= min(last):
                raise Irregular("random numbers are not drawn in the order of repetitions")
        return found

    def in_graph(self, thing):
        """Return (Repetition, node) for an input or a result, None for other values."""
        node = self.node_of.get(thing, thing)
        return (self.graph.short, node) if isinstance(node, Node) else None

    def known(self, thing):
        """Return (Repetition, key) for any value; saved ones repeat with the items."""
        return self.in_graph(thing) or (self.longer.short, thing)

    def further(self, thing, shift: int):
        """Return the (key, copy) of a value ``shift`` repetitions later."""
        node = self.node_of.get(thing, thing)
        if not isinstance(node, Node):
            return self.longer.further(thing, shift)
        found, copy = self.graph.further(node, shift)
        return (found if node is thing else self.out_of[found]), copy

    # --- results ------------------------------------------------------------------------------------------------------
    def name_results(self):
        """Map the short program's results to its nodes; results that share memory are one."""
        short, results = self.short, self.region.short.outputs
        codes = getattr(short, "passed", ()) or range(len(results))
        if len(set(results)) < len(set(codes)):
            raise Irregular("a result is computed twice")
        self.code_of = code_of = dict(zip(results, codes))
        self.node_of = {("out", code): node for node, code in code_of.items() if code >= 0}
        self.out_of = Book((node, ("out", code)) for node, code in code_of.items() if code >= 0)

    def number_results(self):
        """Number the results of the full program."""
        short, code_of = self.short, self.code_of
        self.passed, self.views, self.fresh = [], [], {}
        for node, copy in self.region.thing_of_output:
            if code_of[node] >= 0:
                self.passed.append(self.fresh.setdefault((self.out_of[node], copy), len(self.fresh)))
            else:
                source, *rest = short.views[-code_of[node] - 1]
                shown = self.graph.further(self.call.node_of_tensor[source], copy or self.graph.shift_of(node))
                self.views.append((self.call.tensor[self.call.place[shown]], *rest))
                self.passed.append(-len(self.views))
        more = range(len(self.node_of), len(self.old.outputs) - bool(self.kept))
        self.extras = Book((thing, len(self.fresh) + k)
                           for k, thing in enumerate(self.longer.spread([("out", k) for k in more])))
        self.buffered = self.longer.spread([("kept", k) for k in range(len(self.kept))])
        self.buffer = ResidualBuffer(Node("kept", None, meta=self.old.kept_metas[number])
                                    for (_, number), _ in self.buffered)
        self.offsets = Book(zip(self.buffered, self.buffer.offsets))

    def code(self, thing, copy: int) -> int:
        """Return the code under which ``saves`` names a value of the full program."""
        if isinstance(thing, Node):
            place = self.call.place[thing, copy]
            if self.call.metas[place] is not None:
                return self.call.tensor[place]
            return (FLOAT_VALUE if type(self.call.args[place]) is float else INTEGER_VALUE) + place
        return ~(self.fresh[thing, copy] if (thing, copy) in self.fresh else self.extras[thing, copy])

    # --- the long program ---------------------------------------------------------------------------------------------
    def lengthened(self):
        """Return the shape-generic form of the full program."""
        short, made = self.old, copying.copy(self.old)
        made.given = [Node(f"x{k}", None, meta=meta) for k, meta in enumerate(self.call.metas)]
        made.outputs = [short.outputs[number] for (_, number), _ in (*self.fresh, *self.extras)]
        if short.donated is not None:
            made.donated = self.call.given[short.donated]
            made.read = [(offset, thing[0].meta.nbytes) for thing, offset in self.region.offsets.items()]
        if self.kept:
            made.outputs.append(self.buffer.meta)
            made.kept = [(self.offsets[thing], short.kept[thing[0][1]][1]) for thing in self.buffered]
        made.items = [self.item(k, shift) for k, shift in self.longer.entries()]
        written = {place for item in made.items for place in item.places() if type(place[0]) is int
                   and place[0] >= self.total}
        wanted = {(self.total + k, 0)
                  for k in range(len(self.fresh) + len(self.extras))} | {(self.total + len(made.outputs) - 1, offset)
                                                                         for offset, _ in made.kept}
        if not wanted <= written:
            raise Irregular("a result would not be computed")
        return made

    def item(self, k: int, shift: int):
        """Return an item of the full program."""
        places = []
        for place, (offset, (old, number)) in enumerate(zip(self.run.entries[k][0][1], self.old.items[k].places())):
            value, start = self.where(*self.at(k, place, shift))
            places.append((value, number + (shift - self.region.behind) * self.steps.get(old, 0) if self.is_number(old)
                           else start + offset))
        return self.old.items[k].moved(places)

    def at(self, k: int, place: int, shift: int):
        """Return the (key, copy) that an item of the full program refers to."""
        thing, found = self.run.entries[k][1][place], self.longer.thing(k, place, shift)
        if self.in_graph(thing) is None:
            return found
        copied = shift and k < self.run.seam and thing not in self.run.outer
        if not self.alignment.fits(thing, k) or copied and self.graph.short.stretch_of(self.in_graph(thing)[1]) is None:
            raise Irregular(f"{thing} is used outside its own repetition")
        return self.further(thing, 0 if thing in self.run.outer else shift)

    def where(self, thing, copy: int):
        """Return (value in the full program, byte offset)."""
        if isinstance(thing, Temporary):
            return (self.temporaries.setdefault((thing, copy), Temporary(thing.nbytes)) if copy else thing), 0
        if isinstance(thing, Node):
            if thing.op is P.part:
                return self.call.given[self.old.donated], self.region.offsets[thing, copy]
            return self.call.place[thing, copy], 0
        if (thing, copy) in self.offsets:
            return self.total + len(self.fresh) + len(self.extras), self.offsets[thing, copy]
        number = self.fresh.get((thing, copy), self.extras.get((thing, copy)))
        return (thing, 0) if number is None else (self.total + number, 0)


class Alignment:
    """Correspondence of the repetitions of ``run`` to those of the values they refer to.

    ``known(key)``: (Repetition, key in it) or None; ``by``: 1 for the same order, -1 for the reverse.  Raises Irregular
    unless values in successive repetitions of ``run`` belong to successive repetitions; at the ends they may belong to
    none.
    """

    def __init__(self, run, known, by: int):
        self.run, self.known, self.by, self.beside = run, known, by, {}
        for k in range(run.start, run.end - run.length):
            for a, b in zip(run.entries[k][1], run.entries[k + run.length][1]):
                found = known(a)
                if found is not None and not self.follow(found, known(b), a == b, (k - run.start) // run.length):
                    raise Irregular(f"{a} and {b} do not follow one another")
        if not self.beside:
            raise Irregular("the repetitions do not correspond")

    def follow(self, a, b, same: bool, number: int) -> bool:
        """True if two values are one repetition apart; also records which repetitions correspond."""
        (reference, first), (other, second) = a, b
        stretch, further = reference.stretch_of(first), other.stretch_of(second)
        if stretch is not None:
            self.beside.setdefault(reference, set()).add(stretch - self.by * number)
        if same:
            return stretch is None
        begin, end = (0, reference.count - 1)[::self.by]
        if stretch is None or further is None:
            return stretch is None and further in (None, begin) or further is None and stretch == end
        return further == stretch + self.by and reference.counterpart(first, further) == second

    def fits(self, thing, entry: int) -> bool:
        """True if an entry may refer to a value: entries before the repetitions not to the last one, those after them
        not to the first."""
        reference, known = self.known(thing)
        stretch, run = reference.stretch_of(known), self.run
        if stretch is None or run.start <= entry < run.end:
            return stretch is None or thing not in run.outer
        beside = {self.by * n for n in self.beside.get(reference, ())}
        if not beside:
            return False
        return self.by * stretch <= max(beside) if entry < run.start else self.by * stretch >= min(
            beside) + run.count - 1


class Backward:
    """The backward program of a lengthened forward program: ``graph``, a Lengthened, and the plan's ``saves`` and
    ``chosen``.

    ``made``: the arguments of ``plan.give_backward`` for the short program; ``buffer``: the graph's input that stores
      residuals, or None.
    """

    def __init__(self, forward: Lengthening, made):
        short = forward.short
        graph, self.used, pure, chosen, self.donated = made
        self.forward, self.more = forward, forward.graph.more
        buffer = None if self.donated is None else graph.inputs[self.donated]
        parts = sorted((n for n in graph.nodes if n.op is P.part and n.args[0] is buffer),
                       key=lambda n: n.params["offset"])
        # leaf of the backward program -> key in the forward program
        self.origin = {node: ("kept", k) for k, node in enumerate(parts)}
        for k, node in enumerate(graph.inputs):
            if node is not buffer:
                self.origin[node] = self.named(short.saves[k]) if k < self.used else (
                    "out", short.cotangents[k - self.used])
        rest = [n for n in graph.nodes if n not in self.origin]
        entries = entries_of(in_demand(rest, downstream(rest, graph.inputs[self.used:])))
        run = find(entries, lambda run: Alignment(run, self.known, -1))
        if run is None:
            raise Irregular("its backward pass does not repeat")
        self.longer = Longer(run, self.more)
        self.alignment = Alignment(run, self.known, -1)
        self.lengthen(graph, buffer, parts)
        self.choose(pure, chosen)

    def named(self, code: int):
        """Return the forward program's key for a code in ``saves``."""
        if code < 0:
            return "out", ~code
        if code >= SEED_VALUE:
            raise Irregular("random numbers are drawn again")
        call = self.forward.call
        return self.forward.inputs[code & FLOAT_VALUE - 1] if code >= FLOAT_VALUE else call.node_of_tensor[code]

    def known(self, leaf):
        """Return (Repetition, key) of a leaf, from the forward program."""
        return self.forward.known(self.origin[leaf]) if leaf in self.origin else None

    def origin_of(self, leaf, copy: int):
        """Return the (key, copy) in the full forward program of a leaf of the full program."""
        reference, thing = self.known(leaf)
        if not self.alignment.fits(leaf, self.longer.short.born[leaf][0]) or copy and reference.stretch_of(
                thing) is None:
            raise Irregular(f"{leaf} is used outside its own repetition")
        return self.forward.further(self.origin[leaf], self.more - (copy or self.longer.shift_of(leaf)))

    def lengthen(self, graph: Graph, buffer, parts):
        forward, leaves, offsets = self.forward, {}, {}
        if buffer is not None:
            leaves[buffer, 0] = whole = Node(buffer.name, None, meta=forward.buffer.meta)
            for part, copy in self.longer.spread(parts):
                offsets[part, copy] = at = forward.offsets[self.origin_of(part, copy)]
                leaves[part, copy] = Node(f"{part.name}_{copy}" if copy else part.name, P.part, (whole,),
                                          part_of(part.meta, at), part.meta)
        inputs = [(node, copy) for node, copy in self.longer.spread(graph.inputs)]
        for node, copy in inputs:
            if node is not buffer:
                leaves[node, copy] = Node(f"{node.name}_{copy}" if copy else node.name, None, meta=node.meta,
                                          weak=node.weak)
        cotangents = graph.inputs[self.used:]
        residuals = [thing for thing in inputs if thing[0] not in cotangents]
        self.cotangents = {self.origin_of(*thing): thing for thing in inputs if thing[0] in cotangents}
        wanted = [thing for thing in forward.fresh if thing in self.cotangents]
        if len(wanted) != len(self.cotangents):
            raise Irregular("a gradient comes in that no result has")
        order = [*residuals, *(self.cotangents[thing] for thing in wanted)]
        self.used = len(residuals)
        self.cotangent_numbers = tuple(forward.fresh[thing] for thing in wanted)
        code = ~(len(forward.fresh) + len(forward.extras))
        self.saves = [code if node is buffer else forward.code(*self.origin_of(node, copy))
                      for node, copy in residuals]
        self.donated = None if buffer is None else residuals.index((buffer, 0))
        outputs = self.gradients(graph)
        self.graph = Lengthened(graph, self.longer, order, outputs, leaves)
        self.graph.behind = self.more
        self.graph.donated = None if buffer is None else graph.inputs.index(buffer)
        self.graph.parts, self.graph.offsets = parts, Book(sorted(offsets.items(), key=lambda pair: pair[1]))

    def gradients(self, graph: Graph) -> list:
        """Return the gradients of the full program as (node, copy), ordered by the tensors that they belong to
        (``wanted``)."""
        forward, found = self.forward, {}
        for node, number in zip(graph.outputs, forward.short.wanted):
            source = forward.call.node_of_tensor[number]
            copies = range(self.more + 1) if self.longer.short.stretch_of(node) == COPIED else (0,)
            for copy in copies:
                found[forward.code(*forward.further(source, self.more
                                                    - (copy or self.longer.shift_of(node))))] = node, copy
        call = forward.call
        wanted = {call.node_of_tensor[k] for k in forward.short.wanted}
        if set(found) != {call.tensor[call.place[thing]] for thing in forward.region.thing_of_input
                          if thing[0] in wanted}:
            raise Irregular("a gradient would not be computed")
        self.wanted = tuple(sorted(found))
        return [found[number] for number in self.wanted]

    def choose(self, pure, chosen):
        """Save the arguments that double backward reads."""
        self.chosen, self.again = (), ()
        if pure is None:
            return
        short, things = self.forward.short, set()
        for k in chosen:
            thing = self.named(short.saves[k])
            if not isinstance(thing, Node):
                raise Irregular("double backward reads more than arguments")
            things.add(thing)
        codes = [self.forward.code(*thing) for thing in self.forward.region.thing_of_input if thing[0] in things]
        self.saves += [code for code in codes if code not in self.saves]
        self.chosen = [self.saves.index(code) for code in codes]
        self.again = ([Node(f"x{code}", None, weak=code >= FLOAT_VALUE) for code in codes]
                      + [Node(f"g{k}", None) for k in self.cotangent_numbers])
