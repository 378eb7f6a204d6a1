"""Per-machine autotuning: the classes of problems that programs of this machine have planned, and their measurements.

A process collects the classes of problems that it plans by estimate, and saves them when it ends.  Each class is
measured once, for at most ``SECONDS``: by ``python -m rushlight.tools.warm --choices``, the classes of most processes
first, or under the setting ``tune`` when a problem is planned.  Later plans of the class use the fastest option.  Only
options that keep the order of sums are tried (``tune.Ordered``), and results on random numbers are compared as well, so
that measurements never change results.  The table in the package has precedence, and max-autotune tries all options.
"""
from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
import json
import time
from dataclasses import fields, is_dataclass

import numpy as np

from ....core import cache
from ....core.settings import settings
from ..llvm.features import remembered
from ..llvm.jit import kind_and_sources
from ..target import learned as digest
from . import tune
from .contraction import NO_EPILOGUE, Epilogue
from .elements import Prologue

SECONDS = 0.05   # for the runs of one class
RUNS = 10        # least runs of a plan to find a better one; a class whose runs are too long is left alone
LARGEST = 1 << 24  # bytes of the operands of a class that is measured
GAIN = 0.95      # a choice must be this much faster, twice
MOST = 512       # classes that are kept
TOTAL = 20.0     # seconds for all of them at a time
_met: dict = {}  # {class: planned problem} of this process
# (the type of the bits, bits of a fraction, the exponent of numbers between a half and one, how far it varies)
PATTERNS = {"float32": (np.uint32, 23, 126, 8), "bfloat16": (np.uint16, 7, 126, 8), "float16": (np.uint16, 10, 14, 3),
            "float64": (np.uint64, 52, 1022, 8)}


@remembered()
def answers() -> dict:
    """{class: {name: option}} measured on this machine; no options if the estimate was best."""
    return stored("choices")


def stored(kind: str) -> dict:
    data = cache.get(kind, kind_and_sources())
    return {} if data is None else json.loads(data)


def answer(name: str, planner, problem):
    """Return the options measured on this machine for a class, or None; a missing class is collected.  Under the
    setting ``tune`` it is measured now."""
    found = answers().get(name)
    if found is not None or name in _met:
        return found
    row = spelled(planner, problem)
    if row is not None and settings.tune:
        return learn(name, row)
    if not _met:
        atexit.register(write_down)
    _met[name] = row
    return None


def is_plain(value) -> bool:
    """True if a value can be written as JSON and read again, which dynamic sizes cannot."""
    return all(map(is_plain, value)) if isinstance(value, (tuple, list)) else value is None or type(value) in (
        str, int, float, bool)


def spelled(planner, problem):
    """Return a problem as plain values; None if a Prologue computes its operands, or sizes are dynamic."""
    parts = []
    for part in problem:
        if isinstance(part, Epilogue):
            parts.append({"epilogue": ""})
        elif isinstance(part, Prologue):
            return None
        elif is_dataclass(part):
            own = {f.name: getattr(part, f.name) for f in fields(part)}
            if not all(map(is_plain, own.values())):
                return None
            parts.append({type(part).__name__: own})
        elif callable(part):
            parts.append({"function": part.__name__})
        elif is_plain(part):
            parts.append(part)
        else:
            return None
    return [planner.__module__.rpartition(".")[2], planner.__name__, parts]


def understood(row):
    """Return (planner, problem, operands) of a result of ``spelled``."""
    def whole(value):
        return tuple(map(whole, value)) if isinstance(value, list) else value

    module, name, parts = row
    module = importlib.import_module(f"{__package__}.{module}")
    problem = []
    for part in parts:
        if isinstance(part, dict):
            (kind, value), = part.items()
            part = (NO_EPILOGUE if kind == "epilogue" else getattr(module, value) if kind == "function"
                    else getattr(module, kind)(**{k: whole(v) for k, v in value.items()}))
        problem.append(part)
    first = next(part for part in problem if is_dataclass(part) and not isinstance(part, Epilogue))
    return getattr(module, name), tuple(problem), module.Operands(first, NO_EPILOGUE)


def write_down():
    """Add the classes that this process has met to those of others."""
    known = stored("met")
    for name, row in _met.items():
        if row is not None:
            known[name] = [known.get(name, [0])[0] + 1, row]
    often = sorted(known.items(), key=lambda item: -item[1][0])[:MOST]
    _met.clear()
    cache.put("met", kind_and_sources(), json.dumps(dict(often)).encode())


def learn(name: str, row) -> dict:
    """Measure a class and save the fastest options; return {name: option}."""
    planner, problem, operands = understood(row)
    chosen, told = choice(planner, problem, operands())
    known = {**stored("choices"), name: chosen}
    answers().update(known)
    cache.put("choices", kind_and_sources(), json.dumps(known).encode())
    digest.cache_clear()  # later cached plans depend on these options
    tune.log.debug("%s: %s, measured on this machine\n  %s", name, chosen or "as estimated", "\n  ".join(told))
    return chosen


def learn_all():
    """Measure the classes that were met and not measured, most frequent first; yield (class, choice) for each."""
    began = time.perf_counter()
    for name, (_, row) in stored("met").items():
        if name in answers() or name in tune.measured():
            continue
        if time.perf_counter() - began > TOTAL:
            return
        yield name, learn(name, row)


def choice(plan, problem, operands):
    """Return (options to pick, lines that report what was tried).  Options are tried in turn, the best of those with
    the same results being kept.  No options for problems that take too long."""
    with tune.Ordered({}) as first:
        estimate = best = plan(*problem)
    if not any(len(texts) > 1 for texts in first.seen.values()):
        return {}, []
    if sum(operands.values()) > LARGEST:
        return {}, [f"its operands have more than {LARGEST} bytes"]
    dtype = next(part.dtype for part in problem if hasattr(part, "dtype"))
    wanted, run = results(estimate, operands, dtype)
    left, chosen, told = SECONDS - run, {}, []
    for name, texts in first.seen.items():
        for option in texts[1:]:
            if left < (RUNS - 1) * run:
                return confirmed(estimate, best, operands, chosen), [*told, f"a run takes {run * 1e3:.3f} ms"]
            trial = {**chosen, name: option}
            with tune.Ordered(trial):
                candidate = plan(*problem)
            if candidate.steps == best.steps:
                continue
            found, taken = results(candidate, operands, dtype)
            left -= taken
            if found != wanted:
                continue
            began = time.perf_counter()
            known, taken = tune.race((best, candidate), operands, left / 4)
            left -= time.perf_counter() - began
            told.append(f"{trial} {taken * 1e3:.3f} ms beside {known * 1e3:.3f}")
            if taken < GAIN * known:
                chosen, best = trial, candidate
    return confirmed(estimate, best, operands, chosen), told


def confirmed(estimate, best, operands, chosen) -> dict:
    """Return the chosen options if they win a second time, else no options."""
    if not chosen:
        return {}
    known, taken = tune.race((estimate, best), operands, SECONDS / 4)
    return chosen if taken < GAIN * known else {}


def results(plan, operands, dtype: str) -> tuple:
    """Return the contents of a plan's operands after a run, and its seconds; operands are filled with the same numbers
    each time."""
    call = tune.bound(plan, operands, functools.partial(fill, np.random.default_rng(0), dtype))
    began = time.perf_counter()
    call()
    taken = time.perf_counter() - began
    return b"".join(ctypes.string_at(place, nbytes) for place, nbytes in zip(call.places, operands.values())), taken


def fill(numbers, dtype: str, place: int, nbytes: int):
    """Fill memory with numbers of a dtype, of both signs and different magnitudes about one, whose sums depend on
    their order; for integer dtypes, with any bytes."""
    if dtype not in PATTERNS:
        made = numbers.integers(0, 255, nbytes, np.uint8, endpoint=True)
    else:
        kind, fraction, middle, wide = PATTERNS[dtype]
        count = nbytes // np.dtype(kind).itemsize
        bits = numbers.integers(0, np.iinfo(kind).max, count, kind, endpoint=True)
        exponents = numbers.integers(middle - wide, middle + wide, count, kind, endpoint=True) << kind(fraction)
        sign = kind(1 << 8 * np.dtype(kind).itemsize - 1)
        made = bits & (sign | kind((1 << fraction) - 1)) | exponents
    ctypes.memmove(place, made.ctypes.data, made.nbytes)
