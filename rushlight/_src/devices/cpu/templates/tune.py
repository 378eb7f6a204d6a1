"""Choices of a plan that are measured instead of estimated: for classes of problems, in a table in the package
(``measured.txt``, written by ``python -m benchmarks.tune``), or on this machine by max-autotune, which caches them on
disk.

A planner calls ``pick(name, options)`` for each choice, best guess first. Usually it gets the table's option for
problems of this class on this kind of CPU, else the first. Under the setting ``max_autotune``, ``planned`` plans a
problem repeatedly, one pick different at a time, runs each plan on memory of the right size, and keeps the fastest for
the class.
"""

import ctypes
import json
import pathlib
import re
import threading
import time
from dataclasses import fields, is_dataclass

from ....core import cache
from ....core.log import logger
from ....core.settings import settings
from ....compiler.launch import encode
from ..llvm import jit, pool
from ..llvm.features import processor_kind, remembered, targeted

log = logger("autotune")
TABLE = pathlib.Path(__file__).with_name("measured.txt")
LEAST_GAIN = 0.97  # a choice must be this much faster to be believed
SECONDS = 2.0      # that one problem may take
MOST_PLANS = 2048  # that are remembered, some 2 KB each: twice as many as an operator has (``core.cached.Recent``)


class Active(threading.local):
    """The active trials of a thread, the innermost last: polymorphic plans are specialized without the planning lock,
    while another thread measures."""

    def __init__(self):
        self.stack = []


_active = Active()


def pick(name, options, ordered=False):
    """Return the first of several options, or the measured one.  ``ordered``: with every option each sum has the same
    terms in the same order, for all problems, so that results are bitwise equal.

    Example:
        >>> pick("rows of a block", (192, 96, 384))
        192
    """
    options = list(dict.fromkeys(options))
    return _active.stack[-1].pick(name, options, ordered) if _active.stack else options[0]


def text_of(option, number):
    """Return an option as a string: short values as they print, others by their index.

    Example:
        >>> text_of((8, 3), 1), text_of(object(), 1)
        ('(8, 3)', '#1')
    """
    text = str(option)
    return text if len(text) <= 40 and "0x" not in text else f"#{number}"


class Trial:
    """One set of choices: {name: the option's string}; ``seen`` collects the strings of all options.  If an option does
    not exist the best guess is used."""

    def __init__(self, chosen):
        self.chosen, self.seen = chosen, {}

    def pick(self, name, options, ordered):
        texts = self.seen[name] = [text_of(option, number) for number, option in enumerate(options)]
        wanted = self.chosen.get(name)
        return options[texts.index(wanted) if wanted in texts else 0]

    def __enter__(self):
        _active.stack.append(self)
        return self

    def __exit__(self, *exception):
        _active.stack.pop()


class Ordered(Trial):
    """A Trial that keeps the order of sums: the best guess is used if options change it."""

    def pick(self, name, options, ordered):
        return super().pick(name, options, ordered) if ordered else options[0]


def class_of(planner, problem) -> str:
    """The class of a problem: its planner, and sizes and strides beyond 8 rounded up to a power of two.  Prologues and
    epilogues do not count.

    Example:
        >>> from .matmul import Matmul, _plan
        >>> class_of(_plan, (Matmul((), 100, 65, 300, (300, 1), (1, 300), (65, 1)), None, 1))
        'matmul._plan Matmul(rows=128, columns=128, depth=512, a=(512, 1), b=(1, 512), c=(128, 1)) 1'
    """
    parts = []
    for part in problem:
        if isinstance(part, (str, int)):
            parts.append(str(part))
        elif callable(part):
            parts.append(part.__name__)
        elif is_dataclass(part) and not hasattr(part, "key"):
            own = [f"{f.name}={getattr(part, f.name)}" for f in fields(part)
                   if getattr(part, f.name) not in (f.default, ()) and f.name != "kept"
                   and not f.name.endswith("_parts")]
            parts.append(f"{type(part).__name__}({', '.join(own)})")
    text = re.sub(r"(?<![\w.])\d+(?![\w.])", _rounded, " ".join(parts))
    return f"{planner.__module__.rpartition('.')[2]}.{planner.__name__} {text}"


def _rounded(found):
    number = int(found.group())
    return str(number if number <= 8 else 1 << (number - 1).bit_length())


@remembered()
def measured() -> dict:
    """{class: {name: option}} of the table, for this kind of CPU."""
    found = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        kind, name, chosen = line.split(" | ")
        if kind == processor_kind():
            found[name] = json.loads(chosen)
    return found


def planned(planner, problem, operands):
    """Return ``planner(*problem)``, cached, with the picks of the table; under ``max_autotune`` with the fastest picks.

    ``operands()`` gives the bytes of each operand by name.
    """
    if _active.stack:  # part of a problem that is planned together, under the names of its operands
        return planner(*problem)
    if settings.max_autotune and not targeted().triple:
        return tuned(planner, problem, operands)
    return known(planner, problem)


@remembered(MOST_PLANS)
def known(planner, problem):
    """A plan with the picks of the table, or those of per-machine autotuning."""
    from . import learned
    if targeted().triple:  # code for other machines cannot be measured
        return planner(*problem)
    name = class_of(planner, problem)
    chosen, trial = measured().get(name), Trial
    if chosen is None:
        chosen, trial = learned.answer(name, planner, problem), Ordered
    if not chosen:
        return planner(*problem)
    log.debug("%s: %s, as measured", name, chosen)
    with trial(chosen):
        return planner(*problem)


@remembered(MOST_PLANS)
def tuned(planner, problem, operands):
    with Trial({}) as first:
        best = planner(*problem)
    if not any(len(texts) > 1 for texts in first.seen.values()) or not best.steps:
        return best
    key = f"{targeted()} {class_of(planner, problem)}"
    stored = cache.get("autotune", key)
    if stored is not None:
        with Trial(json.loads(stored)):
            return planner(*problem)
    chosen, best = search(planner, problem, operands(), first.seen, best)
    cache.put("autotune", key, json.dumps(chosen).encode())
    return best


def search(plan, problem, operands, seen, best):
    """Return (picks, plan): each name's options are tried in turn and the best is kept."""
    started, chosen, lines = time.perf_counter(), {}, []
    for name in list(seen):
        for option in seen[name][1:]:
            if time.perf_counter() - started > SECONDS:
                break
            trial = {**chosen, name: option}
            with Trial(trial):
                candidate = plan(*problem)
            known, taken = race((best, candidate), operands)
            lines.append(f"{trial} {taken * 1e3:.3f} ms beside {known * 1e3:.3f}")
            if taken < LEAST_GAIN * known:
                chosen, best = trial, candidate
    log.debug("%s %s: %s\n  %s", plan.__name__, problem[0], chosen or "as estimated", "\n  ".join(lines))
    return chosen, best


def race(plans, operands, seconds=0.1):
    """Return the least seconds of each plan over some runs, in turn, so that a busy machine slows all of them; about
    `seconds` in all."""
    runs, least, started = [bound(plan, operands) for plan in plans], [float("inf")] * len(plans), time.perf_counter()
    clock = time.thread_time if pool.get_num_threads() == 1 else time.perf_counter
    for run in runs:
        run()
    for _ in range(20):
        for k, run in enumerate(runs):
            t = clock()
            run()
            least[k] = min(least[k], clock() - t)
        if time.perf_counter() - started > seconds:
            break
    return least


def bound(plan, operands, fill=None):
    """Return a function that runs a plan on memory of its own; ``fill(place, bytes)`` initializes an operand.  Its
    attribute ``places`` holds the operands' addresses."""
    buffers = [ctypes.create_string_buffer(size + 64) for size in (*operands.values(), *plan.temporaries.values())]
    for buffer in buffers[:len(operands)]:
        ctypes.memset(buffer, 0x3C, len(buffer))  # about 0.01 in every floating type
    names = {name: k for k, name in enumerate((*operands, *plan.temporaries))}
    values = (ctypes.c_int64 * len(buffers))(*(-(-ctypes.addressof(b) // 64) * 64 for b in buffers))
    for place, size in zip(values, operands.values() if fill else ()):
        fill(place, size)
    words = encode(plan.launches(names))
    code = (ctypes.c_int64 * len(words))(*words)
    jit.settle()
    run = pool.caller("program_run")
    held = plan, buffers, values, code

    def call():
        run(ctypes.addressof(held[3]), ctypes.addressof(held[2]))

    call.places = values[:len(operands)]
    return call
