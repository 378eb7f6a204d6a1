"""Decide when a program may overwrite its inputs: as soon as their old values are dead, so that new values need no
temporary memory.

An optimizer's update follows the gradient of its parameter, and the gradient's memory is free again.
"""
from __future__ import annotations

from ..graph.graph import Node, Store
from .schedule import Schedule


class Overwriting:
    """``after[k]``: the Stores that may follow call k of a schedule; all others come last. ``groups``: pairs of values
    in the last fusion group and the Stores that alone read them, so that one gradient is dead before the next is
    computed.

    Times are numbers: group k is filled at ``2 k``, call k runs at ``2 k + 1``.
    """

    def __init__(self, schedule: Schedule, stores):
        self.schedule, self.end = schedule, 2 * len(schedule.calls) + 1
        self.call_of = {n: schedule.at[node] for node, fused in schedule.calls.items() for n in fused.inside}
        self.results = {o for o in schedule.graph.outputs if not isinstance(o, Store)}
        cones = [self.cone(store.node) for store in stores]
        uses = self.last_uses()
        ready = [max([uses.get(store.into, 0), *(self.made(n) for n in cone)]) for store, cone in zip(stores, cones)]
        readers: dict = {}  # {input: the Stores whose values are computed from it when they are written}
        for k, cone in enumerate(cones):
            for node in cone:
                readers.setdefault(node, []).append(k)
        changed = True
        while changed:
            changed = False
            for k, store in enumerate(stores):
                latest = max((ready[j] for j in readers.get(store.into, ())), default=0)
                if latest > ready[k]:
                    ready[k], changed = latest, True
        self.after: dict = {}
        for store, time in zip(stores, ready):
            if time < self.end - 1:
                self.after.setdefault(time // 2, []).append(store)
        self.groups = self.grouped(stores, cones)

    def grouped(self, stores, cones) -> list:
        """Values of the last group that only a few Stores read, with these Stores, which overwrite no operand of the
        group."""
        last = self.schedule.groups[-1]
        shared = {n for node in last for used in node.used for n in self.cone(used)}
        early = {store for found in self.after.values() for store in found}
        found: dict = {}  # the first of the Stores that read a value: values
        for node in last:
            readers = [k for k, cone in enumerate(cones) if node in cone]
            alone = readers and node not in shared and node not in self.results and node.op.kind.name != "view"
            others = {store.into for k, store in enumerate(stores) if k not in readers}
            if alone and not any(n in others for used in node.used
                                 for n in self.cone(used)) and not any(stores[k] in early for k in readers):
                found.setdefault(tuple(readers), []).append(node)
        return [(nodes, [stores[k] for k in readers]) for readers, nodes in found.items()
                if self.closed(readers, stores, cones)]

    def closed(self, readers, stores, cones) -> bool:
        """True if no other Stores read the inputs that these overwrite, or other values of the last group."""
        own = {stores[k].into for k in readers}
        return not any(own & cone for k, cone in enumerate(cones) if k not in readers)

    def made(self, node: Node) -> int:
        """When a value in memory is computed: at 2 k by the fusion group before call k, at 2 k + 1 by call k; at 0 an
        input."""
        if node in self.schedule.group:
            return 2 * self.schedule.group[node]
        at = self.schedule.at.get(node)
        return 0 if at is None else 2 * at + 1

    def cone(self, node: Node) -> set:
        """The values in memory that are read to compute a node."""
        found, seen, stack = set(), set(), [node]
        while stack:
            one = stack.pop()
            if one in seen:
                continue
            seen.add(one)
            if one.op is None or one in self.schedule.group or one in self.schedule.at:
                found.add(one)
            if one.op is not None and (one not in self.schedule.group and one not in self.schedule.at
                                       or one.op.kind.name == "view"):
                stack.extend(one.used)
        return found

    def last_uses(self) -> dict:
        """When each value, or a view of it, is read for the last time other than for Stores."""
        schedule, uses = self.schedule, {}
        for node in reversed(schedule.graph.nodes):
            if node in schedule.at:
                time = 2 * schedule.at[node] + 1
            elif node in self.call_of:
                time = 2 * self.call_of[node] + 1
            else:
                time = max(2 * schedule.group.get(node, 0), uses.get(node, 0) if node not in schedule.group
                           or node.op.kind.name == "view" else 0)
            if node in self.results:
                time = self.end  # it may be copied to its place last
            for used in node.used:
                uses[used] = max(uses.get(used, 0), time)
        return uses
