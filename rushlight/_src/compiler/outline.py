"""Shape-generic programs, in which everything except sizes is decided, and their binding to sizes."""
from __future__ import annotations

import ctypes
from collections import Counter

from ..core.kinds import P
from ..core.log import logger
from ..core.meta import settled
from .assembler import Assembler
from .items import Templated
from .layout import MemoryLayout, Parts, reusable_bytes
from .launch import CONSTANT, HEAD, Launch, Table, encode, starts
from .places import FLAG, Temporary

memory_log = logger("memory")
LONG = 1 << 21  # multiplications from which on other threads may run during the program
MUCH = 1024  # multiplications for each packed byte, from which on packing takes less than some hundredths of the time


class Outline:
    """A program in which everything but its sizes is decided."""

    def __init__(self, made: Assembler):
        self.name, self.items, self.work, self.outputs, self.stream, self.given, self.held = (made.name, made.items,
                                                                                              made.work, made.outputs,
                                                                                              made.stream, made.given,
                                                                                              made.held)
        self.target = made.target
        # inputs that do not stay as they are
        self.written = {k for k, node in enumerate(made.given) if any(o.into is node for o in made.stores)}
        self.steady: frozenset = frozenset()  # inputs that are likely to be unchanged in many calls
        # the input that is not read afterwards, and the (offset, bytes) of its parts
        self.donated, self.read = None, []
        if made.donated is not None:
            self.donated = made.given.index(made.donated)
            self.read = [(p.params["offset"], p.meta.nbytes) for p in made.graph.nodes if p.op is P.part
                         and p.args[0] is made.donated]
        # the parts of the last output
        kept = [place for _, place in made.targets if place.value == len(self.given) + made.alone]
        self.kept, self.kept_metas = [(place.offset, place.meta.nbytes)
                                      for place in kept], [place.meta for place in kept]


class Binding:
    """An ``Outline`` becoming Code, for given sizes: its launches, an arena for its temporaries, its encoded program
    (``pipeline.BINDING``).

    ``mixed``: large outputs may be placed among temporaries, and in the donated input.
    """

    FLAG = FLAG

    def __init__(self, outline: Outline, sizes: dict, mixed: bool):
        self.outline, self.sizes, self.mixed, self.name = outline, sizes, mixed, outline.name
        self.replaceable, self.launches, self.labels, self.keep, self.callbacks = [], [], [], [], {}
        self.packed: list = []  # (number of the launch, temporary that it fills, input that it packs)

    def size(self) -> str:
        return f"{len(self.launches)} launches"

    def is_temporary(self, value) -> bool:
        return isinstance(value, Temporary)

    def bind(self):
        """Makes the launches of all items."""
        rights = [item.right(self) for item in self.outline.items if type(item) is Templated]
        self.uses, self.fillings = Counter(right for right in rights if right is not None), {}
        for item in self.outline.items:
            item.write(self)

    def known(self, value):
        """A value with its symbols replaced by ints."""
        return settled(value, self.sizes) if self.sizes else value

    def launch(self, launch: Launch, label: str, replaceable=()):
        """Add a launch; ``replaceable``: pairs of a value that it writes and one that may share its memory."""
        self.replaceable += [(len(self.launches), *pair) for pair in replaceable]
        self.launches.append(launch)
        self.labels.append(label)

    def once(self, launch: Launch, fixed, unused) -> bool:
        """Runs a launch now, if it computes a temporary from inputs that never change: packing of constant weights."""
        held = self.outline.held
        made = {value for value, _ in launch.slots if value in unused}
        if not made or not all(value == CONSTANT or value in made or value in held for value, _ in launch.slots):
            return False
        for temporary in made:
            buffer = ctypes.create_string_buffer(temporary.nbytes + 64)
            self.keep.append(buffer)
            fixed[temporary] = -(-ctypes.addressof(buffer) // 64) * 64
        slots = tuple((CONSTANT, number + (0 if value == CONSTANT else fixed.get(value) or held[value]))
                      for value, number in launch.slots)
        self.outline.target.now(launch._replace(slots=slots))
        return True

    def filled(self, launch: Launch, name: str, temporaries: dict, unused) -> bool:
        """True if an earlier launch has computed the same temporary, which is used instead."""
        own = temporaries[name]
        if any(value in unused and value is not own or value in self.outline.written for value, _ in launch.slots):
            return False
        key = launch.kernel, launch.extent, tuple((None if value is own else value, number)
                                                  for value, number in launch.slots)
        temporaries[name] = self.fillings.setdefault(key, own)
        return temporaries[name] is not own

    def packs(self, launch: Launch, temporary):
        """Notes a launch that was added last, where it makes a temporary of one input, which the program leaves as it
        is."""
        given, own = self.outline.given, [value for value, _ in launch.slots if value not in (CONSTANT, temporary)]
        if len(own) == 1 and type(own[0]) is int and own[0] < len(given):
            if own[0] not in self.outline.written and own[0] != self.outline.donated and not given[own[0]].weak:
                self.packed.append((len(self.launches) - 1, temporary, own[0]))

    def packings(self) -> tuple:
        """The description of packed operands for ``Code``; () if packing takes no time relative to the rest."""
        total = sum(temporary.nbytes for _, temporary, _ in self.packed)
        if not total or total * MUCH < sum(map(self.known, self.outline.work)):
            return ()
        found, begins = [], list(starts(encode(self.launches)))
        for number, temporary, value in self.packed:
            uses = tuple(begins[k] + HEAD + 2 * slot for k, launch in enumerate(self.launches) if k != number
                         for slot, (one, _) in enumerate(launch.slots) if one is temporary)
            tensor = sum(not node.weak for node in self.outline.given[:value])
            found.append((number, value, tensor, temporary.nbytes, *self.layout.at[temporary], uses))
        return tuple(sorted(found, key=lambda one: one[2]))

    def lay_out(self):
        """Place temporaries, and large results if they may share memory with them, and number all values of the
        launches."""
        outline, self.outputs = self.outline, self.known(self.outline.outputs)
        self.layout = layout = MemoryLayout(self.launches, len(outline.given), self.outputs, self.kept(),
                                            self.donated(),
                                      self.mixed, self.known, self.replaceable)
        if layout.at:
            memory_log.debug("%s: %s", outline.name, layout)
        after = layout.arena + bool(layout.size)
        numbers = {node: after + k for k, node in enumerate(outline.stream)}
        numbers[FLAG] = after + len(outline.stream)

        def placed(value, number):
            place, offset = layout.at[value] if isinstance(value, Temporary) else (numbers.get(value, value), 0)
            return place, number if type(number) is Table else number + offset

        self.placed = [launch._replace(slots=tuple([placed(*slot) for slot in launch.slots]))
                       for launch in self.launches]

    def encode(self):
        """Has the target write the program."""
        outline, size, packings = self.outline, self.layout.size, self.packings()
        names = tuple(n.name for n in outline.given), tuple(n.name for n in outline.stream)
        long = max(map(self.known, outline.work), default=0) > LONG
        self.code = outline.target.code(self.placed, self.outputs, temporaries=[size] if size else [], keep=self.keep,
                                        long=long, labels=self.labels, names=names,
                                        callbacks=self.callbacks, layout=self.layout,
                                        **{"packings": packings} if packings else {})

    def donated(self) -> Parts | None:
        """The parts of the donated input that launches read."""
        number = self.outline.donated
        return None if number is None else Parts(number, self.known(self.outline.read),
                                                 reusable_bytes(self.known(self.outline.given[number].meta.nbytes)),
                                                 full=True)

    def kept(self) -> Parts | None:
        """The parts of the residual buffer that launches write."""
        parts = self.known(self.outline.kept)
        return Parts(len(self.outline.given) + len(self.outputs) - 1, parts, self.outputs[-1].nbytes) if parts else None
