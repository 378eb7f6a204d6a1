"""Find the ranks that caused a run to fail, from the ranks' flight recorders.

Causes are searched in this order: an error of the program itself; a collective in which a minority of a group's ranks
runs something else; an awaited rank that has left no trace; an awaited rank that does not wait itself; at last, if
ranks wait for each other in a cycle, the rank that deviates from the order of the others.
"""
from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

SHAPES_DIFFER = ("all_to_all",)  # whose ranks may exchange other sizes


@dataclass
class Blame:
    """The ranks to blame (several if there is no majority), why, the source location ``file:line`` at which they are
    (None if unknown), and the location of the others at that time."""

    ranks: list
    why: str
    place: str | None
    expected: str | None

    def __str__(self):
        many = len(self.ranks) > 1
        where = f" at {self.place}" if self.place else ""
        others = f"; the others are at {self.expected}" if self.expected and self.expected != self.place else ""
        return (f"rank{'s' if many else ''} {', '.join(map(str, self.ranks))} {'are' if many else 'is'} to blame: "
                f"{self.why}{where}{others}")


def place_of(frames) -> str | None:
    """The innermost line of the program itself among frames."""
    ours = ("rushlight/distributed", "rushlight/_src", "torch/distributed")
    found = next((f for f in frames or () if not any(part in f["filename"].replace("\\", "/") for part in ours)), None)
    return f"{found['filename']}:{found['line']}" if found else None


def signature(entry, lines: bool = False) -> tuple:
    """Return what all ranks of a group share at a collective; with ``lines`` including the program's source line."""
    sizes = None if any(entry["profiling_name"].endswith(name) for name in SHAPES_DIFFER) else str(entry["input_sizes"])
    found = entry["profiling_name"], sizes, str(entry["input_dtypes"])
    return (*found, place_of(entry["frames"])) if lines else found


def called(entry) -> str:
    return f"{entry['profiling_name']} of {entry['input_sizes']} {entry['input_dtypes']}"


def difference(theirs, ours) -> str:
    """In what an exchange of a rank differs from that of the others."""
    if theirs["profiling_name"] == ours["profiling_name"] and place_of(theirs["frames"]) == place_of(ours["frames"]):
        if str(theirs["input_dtypes"]) != str(ours["input_dtypes"]):
            return f"another dtype in {called(theirs)}, the others {called(ours)}"
        if str(theirs["input_sizes"]) != str(ours["input_sizes"]):
            return f"another size in {called(theirs)}, the others {called(ours)}"
    return f"at {called(theirs)}, where the others are at {called(ours)}: it has left one out, or changed the order"


def minority(at: dict, lines: bool = False):
    """(the ranks that differ, one of the majority), of {rank: entry}; ([], None) where all are alike.

    All ranks where there is no majority.
    """
    kinds = Counter(signature(entry, lines) for entry in at.values())
    if len(kinds) < 2:
        return [], None
    (most, count), = kinds.most_common(1)
    if 2 * count <= len(at):
        return list(at), None
    return ([rank for rank, entry in at.items() if signature(entry, lines) != most],
            next(rank for rank, entry in at.items() if signature(entry, lines) == most))


def of_difference(at: dict, ranks, usual) -> Blame:
    theirs = at[ranks[0]]
    why = difference(theirs, at[usual]) if usual is not None else "they differ, and neither is in the majority: " + \
        "; ".join(f"rank {rank} is at {called(at[rank])}" for rank in ranks)
    return Blame(list(ranks), why, place_of(theirs["frames"]),
                 place_of(at[usual]["frames"]) if usual is not None else None)


class Traces:
    """The traces of the ranks, by group and by the order of the program."""

    def __init__(self, traces: dict):
        self.traces, self.groups = traces, {}
        for trace in traces.values():
            for name, group in trace["pg_config"].items():
                self.groups[name] = [int(rank) for rank in group["ranks"].strip("[]").split(",") if rank.strip()]
        self.world = sorted({rank for ranks in self.groups.values() for rank in ranks} | set(traces))
        self.known = {name: {rank: self.numbered(rank, name) for rank in ranks if rank in traces}
                      for name, ranks in self.groups.items()}

    def numbered(self, rank, group) -> dict:
        """{number: entry} of a rank's collectives in a group."""
        return {e["collective_seq_id"]: e for e in self.traces[rank]["entries"]
                if e["process_group"][0] == group and not e["is_p2p"]}

    def late(self, rank, entry) -> bool:
        """Whether a rank came to an exchange only after another rank had failed."""
        return entry["time_created_ns"] > self.traces[rank].get("asked_ns", math.inf)

    def open(self, rank) -> list:
        return [e for e in self.traces[rank]["entries"] if e["state"] != "completed" and not self.late(rank, e)]

    def came_to(self, rank, group) -> int:
        """The number of the last collective of a group to which a rank came in time."""
        return max((number for number, entry in self.known[group].get(rank, {}).items()
                    if not self.late(rank, entry)), default=0)

    def waits(self) -> dict:
        """{rank: [(rank that it waits for, the exchange)]}."""
        found = {rank: [] for rank in self.world}
        for rank in self.traces:
            for entry in self.open(rank):
                if entry["is_p2p"]:
                    others = [entry["peer"]] if entry.get("peer") is not None else []
                    others = [r for r in others
                              if not any(e["is_p2p"] and e.get("peer") == rank for e in self.opened(r))]
                else:
                    name, number = entry["process_group"][0], entry["collective_seq_id"]
                    others = [r for r in self.groups.get(name, ()) if r != rank and self.came_to(r, name) < number]
                found[rank] += [(other, entry) for other in others]
        return found

    def opened(self, rank) -> list:
        return self.open(rank) if rank in self.traces else []

    # --- kinds of blame -----------------------------------------------------------------------------------------------
    def raised(self):
        ranks = [rank for rank, trace in self.traces.items() if trace.get("raised")]
        if not ranks:
            return None
        first = self.traces[ranks[0]]
        return Blame(ranks, f"the program raised {first['reason']}", place_of(first["raised"]), None)

    def mismatch(self, lines: bool = False):
        """The earliest collective of a group whose ranks disagree."""
        found = []
        for known in self.known.values():
            first = max((min(entries) for entries in known.values() if entries), default=0)  # rings begin elsewhere
            for number in sorted({n for entries in known.values() for n in entries if n >= first}):
                at = {rank: entries[number] for rank, entries in known.items() if number in entries}
                ranks, usual = minority(at, lines)
                if ranks:
                    found.append((min(e["time_created_ns"] for e in at.values()), at, ranks, usual))
                    break
        if not found:
            return None
        _, at, ranks, usual = min(found, key=lambda each: each[0])
        if usual is None:  # the ranks of other groups may run the same program
            return self.out_of_order(ranks) or self.changed(at) or of_difference(at, ranks, usual)
        return of_difference(at, ranks, usual)

    def changed(self, at: dict):
        """The rank that does what it has not done before at the same line, where the others repeat themselves."""
        before = {rank: [e for e in self.traces[rank]["entries"] if e["record_id"] < entry["record_id"]
                         and place_of(e["frames"]) == place_of(entry["frames"])] for rank, entry in at.items()}
        usual = [rank for rank, entry in at.items() if signature(entry) in map(signature, before[rank])]
        ranks = [rank for rank in at if rank not in usual and before[rank]]
        return of_difference(at, ranks, usual[0]) if ranks and len(ranks) + len(usual) == len(at) else None

    def out_of_order(self, among=None):
        """The rank whose collectives leave the order of the program, as most ranks have it."""
        orders = {rank: {e["ordinal"]: e for e in trace["entries"] if not e["is_p2p"] and "ordinal" in e}
                  for rank, trace in self.traces.items()}
        for lines in (False, True):
            first = max((min(order) for order in orders.values() if order), default=0)
            for number in sorted({n for order in orders.values() for n in order if n >= first}):
                at = {rank: order[number] for rank, order in orders.items() if number in order}
                ranks, usual = minority(at, lines)
                if ranks and usual is not None and (among is None or set(ranks) & set(among)):
                    return of_difference(at, [r for r in ranks if among is None or r in among], usual)
        return None

    def absent(self, traced: bool):
        """A rank that others wait for: one without a trace, or one with a trace that does not wait."""
        waits = self.waits()
        awaited = {}
        for others in waits.values():
            for other, entry in others:
                if other not in awaited or entry.get("ordinal", 0) < awaited[other].get("ordinal", 0):
                    awaited[other] = entry  # the first that it has left out
        ranks = [r for r in sorted(awaited) if (r in self.traces) is traced and (not traced or not waits[r])]
        if not ranks:
            return None
        entry, rank = awaited[ranks[0]], ranks[0]
        why = (f"it has not come to collective {entry['collective_seq_id']} ({called(entry)}) of group "
               f"{entry['process_group'][0]}" if not entry["is_p2p"] else f"it has not come to {called(entry)}")
        if not traced:
            return Blame(ranks, f"{why} and has left no trace: its process has ended, or answers nothing", None,
                         place_of(entry["frames"]))
        return Blame(ranks, f"{why} and waits for nobody", place_of(self.traces[rank].get("main_thread")),
                     place_of(entry["frames"]))


def blame(traces: dict) -> Blame | None:
    """Return the Blame according to the traces of ranks; None if nothing went wrong in them."""
    found = Traces(traces)
    return (found.raised() or found.mismatch() or found.absent(False) or found.absent(True) or found.out_of_order()
            or found.mismatch(lines=True)
            if any(found.open(rank) for rank in traces) or any(t.get("raised") for t in traces.values()) else None)
