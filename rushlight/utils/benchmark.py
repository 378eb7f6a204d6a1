"""Timing small pieces of code: ``Timer``, ``Measurement``, ``Compare``; PyTorch's ``torch.utils.benchmark``."""
from __future__ import annotations

import math
import statistics
import textwrap
import time
import timeit as _timeit

timer = time.perf_counter
UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def select_unit(t: float):
    """(unit, its seconds) in which a time in seconds has few digits.

    >>> select_unit(0.002)
    ('ms', 0.001)
    """
    return next(((unit, scale) for unit, scale in UNITS if t >= scale), UNITS[-1])


class TaskSpec:
    """Description of a timed task."""

    def __init__(self, stmt, setup="", global_setup="", label=None, sub_label=None, description=None, env=None,
                 num_threads=1):
        self.stmt, self.setup, self.global_setup, self.label, self.sub_label = (stmt, setup, global_setup, label,
                                                                                sub_label)
        self.description, self.env, self.num_threads = description, env, num_threads

    @property
    def title(self) -> str:
        return (f"{self.label}{f': {self.sub_label}' if self.sub_label else ''}" if self.label is not None
                else self.stmt.splitlines()[0])


class Measurement:
    """Times of one statement: ``times`` in seconds for one run, ``median``, ``mean``, ``iqr``."""

    def __init__(self, number_per_run: int, raw_times, task_spec: TaskSpec, metadata=None):
        self.number_per_run, self.raw_times, self.task_spec, self.metadata = number_per_run, list(
            raw_times), task_spec, metadata
        self.times = [t / number_per_run for t in self.raw_times]

    median = property(lambda self: statistics.median(self.times))
    mean = property(lambda self: statistics.fmean(self.times))
    label = property(lambda self: self.task_spec.label)
    sub_label = property(lambda self: self.task_spec.sub_label)
    description = property(lambda self: self.task_spec.description)
    num_threads = property(lambda self: self.task_spec.num_threads)
    title = property(lambda self: self.task_spec.title)
    env = property(lambda self: self.task_spec.env or "")
    as_row_name = property(lambda self: self.sub_label or self.task_spec.stmt)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles."""
        if len(self.times) < 2:
            return 0.0
        first, _, third = statistics.quantiles(self.times, n=4, method="inclusive")
        return third - first

    @property
    def significant_figures(self) -> int:
        """How many digits of the median mean something."""
        spread = max(self.iqr / 1.35 / math.sqrt(len(self.times)), self.median * 1e-4)
        return max(1, min(5, math.ceil(-math.log10(spread / max(self.median, 1e-12)))))

    has_warnings = property(lambda self: self.iqr / max(self.median, 1e-12) > 0.1)

    @staticmethod
    def merge(measurements) -> list:
        """Measurements of the same task as one."""
        groups: dict = {}
        for one in measurements:
            spec = one.task_spec
            groups.setdefault((spec.stmt, spec.setup, spec.label, spec.sub_label, spec.description, spec.env,
                               spec.num_threads), []).append(one)
        return [Measurement(1, [t for one in group for t in one.times], group[0].task_spec)
                for group in groups.values()]

    def __repr__(self):
        unit, scale = select_unit(self.median)
        lines = [f"<{__name__.replace('rushlight', 'torch')}.Measurement object at {hex(id(self))}>", self.title]
        lines += [self.description] if self.description else []
        lines += [f"setup:\n{textwrap.indent(self.task_spec.setup, '  ')}"] if self.task_spec.setup not in (
            "", "pass") else []
        if len(self.times) == 1:
            lines.append(f"  {self.median / scale:.2f} {unit}")
        else:
            lines += [f"  Median: {self.median / scale:.2f} {unit}", f"  IQR:    {self.iqr / scale:.2f} {unit}"]
        plural = "s" if self.num_threads > 1 else ""
        lines.append(
            f"  {len(self.times)} measurement{'s' if len(self.times) > 1 else ''}, {self.number_per_run} runs per "
            f"measurement, {self.num_threads} thread{plural}")
        lines += (["  WARNING: the quartiles are far apart: the machine was busy, or the runs are too short"]
                  if self.has_warnings else [])
        return "\n".join(lines)


class Timer:
    """Times a statement: ``Timer("x + 1", globals={"x": x}).blocked_autorange()``.

    It runs with ``num_threads`` threads (1 unless said otherwise), after a run to warm up.  ``label``, ``sub_label``
    and ``description`` name it in a Compare.

    >>> import rushlight as torch
    >>> from rushlight.utils.benchmark import Timer
    >>> Timer("x + 1", globals={"x": torch.ones(2)}).timeit(10).number_per_run
    10
    """

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=timer, globals=None, label=None,
                 sub_label=None, description=None, env=None,
                 num_threads=1, language="python"):
        if str(getattr(language, "value", language)).lower() not in ("py", "python", "0"):
            raise ValueError(f"cannot time {language}: statements are Python")
        import rushlight
        space = {"torch": rushlight, **(globals or {})}
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._timer = _timeit.Timer(stmt, setup or "pass", timer=timer, globals=space)
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _run(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def _threads(self):
        return Threads(self._task_spec.num_threads)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of ``number`` runs."""
        with self._threads():
            self._run(max(number // 100, 2))
            return Measurement(number, [self._run(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1):
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    autorange = repeat

    def blocked_autorange(self, callback=None, min_run_time: float = 0.2) -> Measurement:
        """Measurements of blocks that are long enough for the clock, ``min_run_time`` seconds together."""
        with self._threads():
            number, times, passed = self._block(min_run_time), [], 0.0
            while not times or passed < min_run_time:
                times.append(self._run(number))
                passed += times[-1]
                if callback is not None:
                    callback(number, times[-1])
            return Measurement(number, times, self._task_spec)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
                           callback=None) -> Measurement:
        """Measurements until the quartiles are within ``threshold`` of the median, or for ``max_run_time`` seconds
        together."""
        with self._threads():
            number, times = self._block(min_run_time), []
            while True:
                times.append(self._run(number))
                if callback is not None:
                    callback(number, times[-1])
                found, passed = Measurement(number, times, self._task_spec), sum(times)
                if passed >= min_run_time and (len(times) >= 4 and found.iqr / found.median < threshold
                                               or passed >= max_run_time):
                    return found

    def _block(self, min_run_time: float) -> int:
        """How many runs make a block that the clock measures well."""
        number, limit = 1, min_run_time / 1000
        while True:
            taken = min(self._run(number) for _ in range(2))
            if taken >= max(limit, 1e-4) or taken * 20 > min_run_time:
                return number
            number *= 10


class Threads:
    """A block that runs with this number of threads."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        from .._src.switches import get_num_threads, set_num_threads
        self.before = get_num_threads()
        set_num_threads(self.count)

    def __exit__(self, *exception):
        from .._src.switches import set_num_threads
        set_num_threads(self.before)


class Compare:
    """A table of measurements: a row for each sub-label, a column for each description; ``print()``."""

    def __init__(self, results):
        self.results, self.trim, self.color, self.warn = list(results), False, False, False
        self.rowwise = False

    def extend_results(self, results):
        self.results += results

    def trim_significant_figures(self):
        """Shows only digits that mean something."""
        self.trim = True

    def colorize(self, rowwise=False):
        """Shows the best of each column, or of each row, in green, what takes twice as long in red."""
        self.color, self.rowwise = True, rowwise

    def highlight_warnings(self):
        """Marks measurements that spread far."""
        self.warn = True

    def print(self):
        print(str(self))

    def __str__(self):
        merged = Measurement.merge(self.results)
        return "\n".join(self.table(label, [m for m in merged if m.label == label])
                         for label in dict.fromkeys(m.label for m in merged))

    def table(self, label, found) -> str:
        """The measurements of one label."""
        columns = list(dict.fromkeys(m.description for m in found))
        unit, scale = select_unit(statistics.median(m.median for m in found))
        lines = []
        for threads in dict.fromkeys(m.num_threads for m in found):
            lines.append([f"{threads} thread{'s' if threads > 1 else ''}:"])
            bests: dict = {}
            for m in found:
                if m.num_threads == threads:
                    bests[m.description] = min(m.median, bests.get(m.description, m.median))
            for name in dict.fromkeys((m.env, m.as_row_name) for m in found if m.num_threads == threads):
                row = {m.description: m for m in found if m.num_threads == threads and (m.env, m.as_row_name) == name}
                shortest = min(m.median for m in row.values())
                lines.append([f"      {name[0] + ': ' if name[0] else ''}{name[1]}",
                              *(self.cell(row.get(c), scale, shortest if self.rowwise else bests.get(c))
                                for c in columns)])
        head = ["", *(c or "" for c in columns)]
        width = [max(len(r[k]) if k < len(r) else 0 for r in [head, *lines]) for k in range(len(head))]
        rule = "-" * (sum(width) + 5 * len(columns))
        shown = ["  |  ".join(f"{r[k] if k < len(r) else '':{'<' if k == 0 else '>'}{width[k]}}"
                              for k in range(len(head) if len(r) > 1 else 1)).rstrip() for r in [head, *lines]]
        title = f" {label or ''} ".center(len(rule) - 2, "-")
        times = dict(s="seconds (s)", ms="milliseconds (ms)", us="microseconds (us)", ns="nanoseconds (ns)")[unit]
        return "\n".join([f"[{title}]", shown[0], rule, *shown[1:], "", f"Times are in {times}.", ""])

    def cell(self, one, scale, best) -> str:
        if one is None:
            return ""
        digits = one.significant_figures if self.trim else 4
        value = one.median / scale
        places = max(0, digits - 1 - math.floor(math.log10(max(value, 1e-12)))) if self.trim else 1
        text = f"{value:.{places}f}" + (" (!)" if self.warn and one.has_warnings else "")
        if self.color:
            text = (f"\033[92m{text}\033[0m" if one.median <= best * 1.01 else f"\033[31m{text}\033[0m"
                    if one.median > 2 * best else text)
        return text
