"""max-autotune: choices of a plan that are measured on this machine instead of estimated, and remembered on disk.

A planner asks ``pick(name, options)`` where it chooses, best guess first. Ordinarily it gets the first. ``planned``
under the setting ``max_autotune`` plans a problem again and again, one pick different at a time, runs each plan on
memory of the right size, and keeps what was fastest.
"""

import ctypes
import json
import time

from ....core import cache
from ....core.log import logger
from ....core.settings import settings
from ....compiler.launch import encode
from ..llvm import jit, pool
from ..llvm.features import remembered, targeted

log = logger("autotune")
LEAST_GAIN = 0.97  # a choice must be this much faster to be believed
SECONDS = 2.0      # that one problem may take
_active: list = []  # the trials under way, the innermost last; plans are made by one thread at a time


def pick(name, options):
    """The first of several options, unless a measurement wants another one of them.

    Example:
        >>> pick("rows of a block", (192, 96, 384))
        192
    """
    options = list(dict.fromkeys(options))
    return _active[-1].pick(name, options) if _active else options[0]


class Trial:
    """One way to choose: {name: number of the option}; ``seen`` notes how many options there were."""

    def __init__(self, chosen):
        self.chosen, self.seen = chosen, {}

    def pick(self, name, options):
        self.seen[name] = len(options)
        return options[min(self.chosen.get(name, 0), len(options) - 1)]

    def __enter__(self):
        _active.append(self)
        return self

    def __exit__(self, *exception):
        _active.pop()


def planned(planner, problem, operands):
    """``planner(*problem)``, cached; under ``max_autotune`` with the picks that are fastest.

    ``operands()`` gives the bytes of each operand by name. ``planner`` is a function that is ``remembered``.
    """
    if not settings.max_autotune or targeted().triple:  # what other machines run cannot be measured
        return planner(*problem)
    if _active:  # a part of a problem that is measured as a whole, under the names of its operands
        return planner.__wrapped__(*problem)
    return tuned(planner, problem, operands)


@remembered(4096)
def tuned(planner, problem, operands):
    plan = planner.__wrapped__
    with Trial({}) as first:
        best = plan(*problem)
    if not any(n > 1 for n in first.seen.values()) or not best.steps:
        return best
    key = f"{targeted()} {plan.__module__}.{plan.__name__} {problem}"
    stored = cache.get("autotune", key)
    if stored is not None:
        with Trial(json.loads(stored)):
            return plan(*problem)
    chosen, best = search(plan, problem, operands(), first.seen, best)
    cache.put("autotune", key, json.dumps(chosen).encode())
    return best


def search(plan, problem, operands, seen, best):
    """(what to pick, the plan): each name's options tried in turn, the best so far kept."""
    started, chosen, lines = time.perf_counter(), {}, []
    for name in list(seen):
        for number in range(1, seen[name]):
            if time.perf_counter() - started > SECONDS:
                break
            trial = {**chosen, name: number}
            with Trial(trial):
                candidate = plan(*problem)
            known, taken = race((best, candidate), operands)
            lines.append(f"{trial} {taken * 1e3:.3f} ms beside {known * 1e3:.3f}")
            if taken < LEAST_GAIN * known:
                chosen, best = trial, candidate
    log.debug("%s %s: %s\n  %s", plan.__name__, problem[0], chosen or "as estimated", "\n  ".join(lines))
    return chosen, best


def race(plans, operands):
    """The least seconds of some runs of each plan, in turn, so that a busy machine slows all of them."""
    runs, least, started = [bound(plan, operands) for plan in plans], [float("inf")] * len(plans), time.perf_counter()
    for run in runs:
        run()
    for _ in range(20):
        for k, run in enumerate(runs):
            t = time.perf_counter()
            run()
            least[k] = min(least[k], time.perf_counter() - t)
        if time.perf_counter() - started > 0.1:
            break
    return least


def bound(plan, operands):
    """A call of a plan on memory of its own."""
    buffers = [ctypes.create_string_buffer(size + 64) for size in (*operands.values(), *plan.temporaries.values())]
    for buffer in buffers[:len(operands)]:
        ctypes.memset(buffer, 0x3C, len(buffer))  # about 0.01 in every floating type
    names = {name: k for k, name in enumerate((*operands, *plan.temporaries))}
    values = (ctypes.c_int64 * len(buffers))(*(-(-ctypes.addressof(b) // 64) * 64 for b in buffers))
    words = encode(plan.launches(names))
    code = (ctypes.c_int64 * len(words))(*words)
    jit.settle()
    run = pool.caller("program_run")
    held = plan, buffers, values, code

    def call():
        run(ctypes.addressof(held[3]), ctypes.addressof(held[2]))

    return call
