"""Recorded events of a profiler, their sums, and tables of them."""
from __future__ import annotations

from collections import defaultdict


class FunctionEvent:
    """One call: ``name``, when it began and ended (microseconds), what it ran in (``cpu_parent``) and what ran in
    it."""

    def __init__(self, name, start, parent=None, shapes=None, stack=(), thread=0, is_user=False, sequence=0):
        self.name, self.start, self.end, self.cpu_parent, self.cpu_children = name, start, start, parent, []
        self.input_shapes, self.stack, self.thread, self.is_user_annotation, self.sequence_nr = shapes or [], list(
            stack), thread, is_user, sequence
        self.cpu_memory_usage = self.flops = 0
        self.count = 1
        if parent is not None:
            parent.cpu_children.append(self)

    key = property(lambda self: self.name)
    cpu_time_total = property(lambda self: self.end - self.start)
    self_cpu_time_total = property(lambda self: self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children))
    self_cpu_memory_usage = property(lambda self: self.cpu_memory_usage
                                     - sum(c.cpu_memory_usage for c in self.cpu_children))
    cpu_time = property(lambda self: self.cpu_time_total)

    def __repr__(self):
        return f"<FunctionEvent {self.name} {self.cpu_time_total:.3f} us>"


class FunctionEventAvg:
    """Calls of the same name: how many, and their sums."""

    def __init__(self, event):
        self.key, self.input_shapes, self.stack, self.is_user_annotation = (event.name, event.input_shapes, event.stack,
                                                                            event.is_user_annotation)
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = self.flops = 0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0

    def add(self, event):
        self.count += 1
        for name in ("self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "flops"):
            setattr(self, name, getattr(self, name) + getattr(event, name))
        if not within_same(event):
            self.cpu_time_total += event.cpu_time_total

    cpu_time = property(lambda self: self.cpu_time_total / self.count)

    def __repr__(self):
        return f"<FunctionEventAvg key={self.key} count={self.count} cpu_time={self.cpu_time:.3f}us>"


def within_same(event) -> bool:
    """Whether a call of the same name is around this one: its time is counted there."""
    around = event.cpu_parent
    while around is not None:
        if around.name == event.name:
            return True
        around = around.cpu_parent
    return False


SORTED = {"cpu_time": "cpu_time", "cpu_time_total": "cpu_time_total", "self_cpu_time_total": "self_cpu_time_total",
          "cpu_memory_usage": "cpu_memory_usage",
          "self_cpu_memory_usage": "self_cpu_memory_usage", "count": "count", "flops": "flops"}


class EventList(list):
    """Events, or sums of them; ``table()`` shows them."""

    def __init__(self, events=(), shapes=False, memory=False, flops=False):
        super().__init__(events)
        self.shapes, self.memory, self.flops = shapes, memory, flops

    @property
    def self_cpu_time_total(self):
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0,
                     group_by_overload_name=False) -> "EventList":
        """Sums by name, and by shapes of the inputs and the innermost lines if asked for."""
        groups: dict = {}
        for event in self:
            key = event.name, str(event.input_shapes) if group_by_input_shapes else "", tuple(
                event.stack[:group_by_stack_n])
            groups.setdefault(key, FunctionEventAvg(event)).add(event)
        return EventList(groups.values(), self.shapes and group_by_input_shapes, self.memory, self.flops)

    def total_average(self):
        made = FunctionEventAvg(FunctionEvent("Total", 0))
        for event in self:
            made.add(event)
        return made

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
              max_shapes_column_width=80, header=None,
              top_level_events_only=False, time_unit=None) -> str:
        """Return the events as a table, longest first by ``sort_by``; all times in one ``time_unit`` ("s", "ms" or
        "us") if given.  AssertionError for a column that cannot be sorted by, ValueError for another unit."""
        duration = shown_in(time_unit)
        rows = list(self)
        if top_level_events_only:
            rows = [e for e in rows if getattr(e, "cpu_parent", None) is None]
        if sort_by is not None:
            if sort_by not in SORTED:
                raise AssertionError(f"cannot sort by {sort_by!r}: choose one of {', '.join(SORTED)}")
            rows.sort(key=lambda e: -getattr(e, SORTED[sort_by]))
        total = max(self.self_cpu_time_total, 1e-9)
        columns = [("Name", lambda e: shorter(e.key, max_name_column_width)),
                   ("Self CPU %", lambda e: f"{e.self_cpu_time_total / total:.2%}"),
                   ("Self CPU", lambda e: duration(e.self_cpu_time_total)),
                   ("CPU total %", lambda e: f"{e.cpu_time_total / total:.2%}"),
                   ("CPU total", lambda e: duration(e.cpu_time_total)),
                   ("CPU time avg", lambda e: duration(e.cpu_time))]
        if self.memory:
            columns += [("CPU Mem", lambda e: size(e.cpu_memory_usage)),
                        ("Self CPU Mem", lambda e: size(e.self_cpu_memory_usage))]
        columns.append(("# of Calls", lambda e: str(e.count)))
        if self.shapes:
            columns.append(("Input Shapes", lambda e: shorter(str(e.input_shapes), max_shapes_column_width)))
        if self.flops:
            columns.append(("Total MFLOPs", lambda e: f"{e.flops / 1e6:.3f}" if e.flops else "--"))
        if any(e.stack for e in rows):
            columns.append(("Source Location", lambda e: shorter(e.stack[0], max_src_column_width) if e.stack else ""))
        cells = [[name for name, _ in columns],
                 *([show(e) for _, show in columns] for e in rows[:row_limit if row_limit >= 0 else None])]
        widths = [max(len(row[k]) for row in cells) for k in range(len(columns))]
        rule = "  ".join("-" * w for w in widths)
        lines = ["  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths)) for row in cells]
        return "\n".join([*([header] if header else []), rule, lines[0], rule, *lines[1:], rule,
                          f"Self CPU time total: {duration(self.self_cpu_time_total)}", ""])

    __str__ = table

    def export_chrome_trace(self, path, metadata=None):
        """Write the events for chrome://tracing and ui.perfetto.dev, with ``metadata`` (a dict); gzipped if the name
        ends in .gz."""
        import gzip
        import json
        import os
        traced = [{"ph": "X", "cat": "user_annotation" if e.is_user_annotation else "cpu_op", "name": e.name,
                   "pid": os.getpid(), "tid": e.thread, "ts": e.start,
                   "dur": e.cpu_time_total, "args": arguments(e)} for e in self]
        with (gzip.open if str(path).endswith(".gz") else open)(path, "wt") as file:
            json.dump({"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {}), "traceEvents": traced}, file)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Writes lines of ``outer;inner time`` for flame graphs."""
        sums: dict = defaultdict(float)
        for event in self:
            if event.stack:
                sums[";".join(reversed(event.stack))] += getattr(event, metric)
        with open(path, "w") as file:
            file.writelines(f"{stack.replace(' ', '_')} {int(total)}\n" for stack, total in sums.items() if int(total))


def arguments(event) -> dict:
    found = {"Input Dims": event.input_shapes, "Call stack": ";".join(reversed(event.stack)), "Flops": event.flops,
             "Bytes": event.cpu_memory_usage}
    return {k: v for k, v in found.items() if v}


def shorter(text: str, width) -> str:
    return text if width is None or len(text) <= width else text[:width - 3] + "..."


def shown_in(unit):
    """``duration``, or a function that shows times in one unit.  ValueError for a unit that is none."""
    scales = {"s": 1e6, "ms": 1e3, "us": 1.0}
    if unit is None:
        return duration
    if unit not in scales:
        raise ValueError(f"time_unit is one of {', '.join(scales)}, not {unit!r}")
    return lambda microseconds: f"{microseconds / scales[unit]:.3f}{unit}"


def duration(microseconds: float) -> str:
    """A time with a unit that suits it."""
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if abs(microseconds) >= scale:
            return f"{microseconds / scale:.3f}{unit}"
    return f"{microseconds:.3f}us"


def size(nbytes: int) -> str:
    """Bytes with a unit that suits them."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= scale:
            return f"{nbytes / scale:.2f} {unit}"
    return f"{nbytes} B"
