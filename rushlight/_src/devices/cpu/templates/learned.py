"""Choices that this machine has learned: which classes of problems its programs have met, and what was measured for
them.

A process notes the classes of problems that it plans by estimate, and writes them down when it ends.  Each is measured
once, for at most ``SECONDS``: by ``python -m rushlight.tools.warm --choices``, those first that most processes have
met, or under the setting ``tune`` when one is planned.  Later plans of the class take what was fastest.  Only plans
that give the same results to the bit are candidates, so that nobody's results change with what a machine has learned;
the table that comes with the package has gone before, and max-autotune tries all.
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
from . import tune
from .contraction import NO_EPILOGUE, Epilogue
from .elements import Prologue

SECONDS = 0.05   # that the runs of one class may take
GAIN = 0.95      # a choice must be this much faster to be believed, twice
MOST = 512       # classes that are kept in mind
TOTAL = 20.0     # seconds that all of them may take at a time
_met: dict = {}  # {class: what was planned} of this process
# numbers of one sign bit and an exponent about 0, by bytes of an element: (the type, bits that vary, bits that do not)
PATTERNS = {"float32": (np.uint32, 0x807FFFFF, 0x3F000000), "bfloat16": (np.uint16, 0x807F, 0x3F00),
            "float16": (np.uint16, 0x83FF, 0x3800), "float64": (np.uint64, 0x800FFFFFFFFFFFFF, 0x3FE0000000000000)}


@remembered()
def answers() -> dict:
    """{class: {name: option}} of what was measured on this machine; no options where the estimate was best."""
    return stored("choices")


def stored(kind: str) -> dict:
    data = cache.get(kind, tune.processor_kind())
    return {} if data is None else json.loads(data)


def answer(name: str, planner, problem):
    """What this machine has learned of a class; None where that is nothing, which is noted.  Under the setting
    ``tune`` it is measured now."""
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
    """Whether it can be written as JSON and read again; sizes that vary cannot."""
    return all(map(is_plain, value)) if isinstance(value, (tuple, list)) else value is None or type(value) in (
        str, int, float, bool)


def spelled(planner, problem):
    """A problem as plain values; None where something computes its operands, or sizes vary."""
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
    """(planner, problem, operands) of what ``spelled`` gave."""
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
    """Adds the classes that this process has met to those of others."""
    known = stored("met")
    for name, row in _met.items():
        if row is not None:
            known[name] = [known.get(name, [0])[0] + 1, row]
    often = sorted(known.items(), key=lambda item: -item[1][0])[:MOST]
    _met.clear()
    cache.put("met", tune.processor_kind(), json.dumps(dict(often)).encode())


def learn(name: str, row) -> dict:
    """Measures a class, and remembers what was fastest; {name: option}."""
    planner, problem, operands = understood(row)
    chosen, told = choice(planner.__wrapped__, problem, operands())
    known = {**stored("choices"), name: chosen}
    answers().update(known)
    cache.put("choices", tune.processor_kind(), json.dumps(known).encode())
    tune.log.debug("%s: %s, measured on this machine\n  %s", name, chosen or "as estimated", "\n  ".join(told))
    return chosen


def learn_all():
    """Measures the classes that were met and not measured, those met most often first; gives (class, choice) each."""
    began = time.perf_counter()
    for name, (_, row) in stored("met").items():
        if name in answers() or name in tune.measured():
            continue
        if time.perf_counter() - began > TOTAL:
            return
        yield name, learn(name, row)


def choice(plan, problem, operands):
    """(what to pick, lines that tell what was tried): options in turn, the best so far kept, of those whose results
    are the same."""
    with tune.Trial({}) as first:
        estimate = best = plan(*problem)
    dtype = next(part.dtype for part in problem if hasattr(part, "dtype"))
    wanted, left, chosen, told = results(estimate, operands, dtype), SECONDS, {}, []
    for name, texts in first.seen.items():
        for option in texts[1:]:
            trial = {**chosen, name: option}
            with tune.Trial(trial):
                candidate = plan(*problem)
            if left <= 0 or candidate.steps == best.steps or results(candidate, operands, dtype) != wanted:
                continue
            began = time.perf_counter()
            known, taken = tune.race((best, candidate), operands, left / 4)
            left -= time.perf_counter() - began
            told.append(f"{trial} {taken * 1e3:.3f} ms beside {known * 1e3:.3f}")
            if taken < GAIN * known:
                chosen, best = trial, candidate
    if chosen:
        known, taken = tune.race((estimate, best), operands, SECONDS / 4)
        chosen = chosen if taken < GAIN * known else {}
    return chosen, told


def results(plan, operands, dtype: str) -> bytes:
    """What a plan leaves in its operands, which are filled with the same numbers each time."""
    call = tune.bound(plan, operands, functools.partial(fill, np.random.default_rng(0), dtype))
    call()
    return b"".join(ctypes.string_at(place, nbytes) for place, nbytes in zip(call.places, operands.values()))


def fill(numbers, dtype: str, place: int, nbytes: int):
    """Fills memory with numbers of a dtype, between a half and one, of both signs; with any bytes for whole numbers."""
    kind, varying, fixed = PATTERNS.get(dtype, (np.uint8, 0xFF, 0))
    count = nbytes // np.dtype(kind).itemsize
    made = numbers.integers(0, np.iinfo(kind).max, count, kind, endpoint=True) & kind(varying) | kind(fixed)
    ctypes.memmove(place, made.ctypes.data, made.nbytes)
