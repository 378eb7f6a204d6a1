"""The items of a program: generated kernels, template calls, and NumPy computations. Each emits its launches for given
sizes."""
from __future__ import annotations

from dataclasses import replace

from ..core.log import logger
from ..graph.graph import Graph
from ..graph.settling import settled_graph
from .launch import CONSTANT, Launch
from .places import FLAG, Place, Temporary
from .segment import fingerprint

log = logger("kernels")


class Generated:
    """Generated kernels; ``values`` are (place, byte offset) of their inputs and outputs."""

    def __init__(self, program, bound, values, label: str):
        self.program, self.bound, self.values, self.label = program, bound, values, label

    def form(self):
        """Equal for items that differ in places only."""
        return Generated, self.program, len(self.values)

    def places(self) -> list:
        """(value, byte offset) of each value that it reads or writes."""
        return self.values

    def moved(self, places) -> "Generated":
        """The same on other places."""
        return Generated(self.program, self.bound, places, self.label)

    def write(self, code):
        bound = self.bound or self.program.bind(code.sizes)
        values = [(value, code.known(offset)) for value, offset in self.values] + [(Temporary(n), 0)
                                                                                   for n in bound.temporaries] + [
                                                                                           (FLAG, 0)]
        for launch, pairs in zip(bound.launches, bound.replaceable):
            slots = []
            for source, constant in launch.slots:
                value, offset = (CONSTANT, 0) if source == CONSTANT else values[source]
                slots.append((value, constant + offset))
            code.launch(Launch(*launch[:3], tuple(slots)), self.label, [(values[a], values[b]) for a, b in pairs])
        code.keep.append(self.program)


class ByNumpy:
    """One step that computes ``part`` by the NumPy reference implementation; ``metas`` are those of its inputs' and
    outputs' memory."""

    def __init__(self, part: Graph, metas, values):
        self.part, self.metas, self.values = part, metas, values

    def form(self):
        return ByNumpy, fingerprint(self.part, *self.metas)

    def places(self) -> list:
        return self.values

    def moved(self, places) -> "ByNumpy":
        return ByNumpy(self.part, self.metas, places)

    def write(self, code):
        part, metas = settled_graph(self.part, code.sizes) if code.sizes else self.part, code.known(self.metas)
        address, kernel = code.outline.target.fallback(part, *metas)
        code.keep.append(kernel)
        code.callbacks[address] = part, *metas
        slots = *((value, code.known(offset)) for value, offset in self.values), (FLAG, 0)
        code.launch(Launch(address, 1, 1, slots), f"NumPy: {len(part.nodes)} nodes")


class Templated:
    """The steps that ``plan(problem, *more)`` makes, a template's; ``operands`` are the Places by name."""

    def __init__(self, plan, problem, more, operands, label: str, name: str):
        self.plan, self.problem, self.more, self.operands, self.label, self.name = (plan, problem, more, operands,
                                                                                    label, name)

    def form(self):
        return Templated, self.plan, self.problem, self.more, tuple((name, place.meta)
                                                                    for name, place in self.operands.items())

    def places(self) -> list:
        return [(place.value, place.offset) for place in self.operands.values()]

    def moved(self, places) -> "Templated":
        operands = {name: Place(value, old.meta, offset)
                    for (name, old), (value, offset) in zip(self.operands.items(), places)}
        return Templated(self.plan, self.problem, self.more, operands, self.label, self.name)

    def write(self, code):
        problem, uses = code.known(self.problem), code.uses.get(self.right(code), 1)
        if uses > 1:
            problem = replace(problem, uses=uses)
        if hasattr(problem, "kept") and "b" in self.operands and self.operands["b"].value in code.outline.steady:
            problem = replace(problem, kept=True)
        plan = self.plan(problem, *map(code.known, self.more))
        temporaries = {name: Temporary(size) for name, size in plan.temporaries.items()}
        # temporaries that are made once: their addresses; those that no step has used yet
        fixed, unused = {}, set(temporaries.values())
        for step in plan.steps:
            launch = step.launch(lambda name, offset: self.place(name, offset, temporaries, fixed, code))
            if code.outline.held and code.once(launch, fixed, unused):
                continue
            if step.fills and code.filled(launch, step.fills, temporaries, unused):
                continue
            unused.difference_update(value for value, _ in launch.slots)
            code.launch(launch, self.label)
            if step.fills:
                code.packs(launch, temporaries[step.fills])
        code.keep.append(plan)
        log.debug("%s: %s by template, %d steps", code.outline.name, self.name, len(plan.steps))

    def place(self, name: str, offset: int, temporaries: dict, fixed: dict, code) -> tuple:
        """(value, number) of a slot that names an operand, or a temporary of the template."""
        if name not in temporaries:
            place = self.operands[name]
            return place.value, offset + code.known(place.offset)
        value = temporaries[name]
        return (CONSTANT, fixed[value] + offset) if value in fixed else (value, offset)

    def right(self, code):
        """A key of a matmul's right operand, the same for matmuls that share it; None for other templates, and if the
        program writes into the operand."""
        shared = getattr(self.problem, "shared", None)
        if shared is None:
            return None
        places = [(name, place.value, code.known(place.offset)) for name, place in self.operands.items()
                  if name[0] == "b"]
        if any(value in code.outline.written for _, value, _ in places):
            return None
        return *places, code.known(shared), self.more[2:3]
