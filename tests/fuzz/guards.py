"""Random programs whose state changes between calls, compiled and plain: every change of a value that a guard covers is
noticed.

    python -m tests.fuzz.guards [how many] [first seed]

A program draws a holder of values, an expression that reads it, a use of what was read and changes that come between
calls; the compiled function and the plain one run in two copies of the same world.
"""
from __future__ import annotations

import random
import re
import sys
import types
import warnings

import rushlight as torch

from ..capture.compare import shown
from . import guarded_classes, guarded_objects

VALUES = ("2", "3", "2.0", "True", "0.0", "-0.0", "0", "1", "False", "-1", "1 + 0j", "float('nan')", "10**18")

USES = ("return x * v", "return x + (1 if v else 5)", "return x + 1, repr(v), type(v).__name__",
        "return x * len(str(v))",
        "return x.sum() * (3 if v == 2 else 4)", "return x * (2 if isinstance(v, int) else 3)",
        "return [x + i for i in range(int(v.real) % 4)]", "return (x * 2 if v in (2, 3) else x), {v: x}",
        "return x + (0 if v != v else hash(v) % 7)", "return x * 2 + (0 if v is None else 1)",
        "return x.sum(), f'{v!r:>8}'",
        "w = v\nfor i in range(2):\n    x = x + (i if w else -i)\nreturn x", "return (lambda: x * v)()",
        "return x.clamp(min=v if isinstance(v, (int, float)) else 0)", "return torch.full((2,), 1) * v + x.sum()")

COMMON = """
import abc, array, collections, contextvars, dataclasses, enum, functools, gc, itertools, math, operator
import threading, types, typing, weakref
import numpy as np
"""

HOLDERS = guarded_objects.HOLDERS | guarded_classes.HOLDERS


def program_of(seed):
    """The source of a program's world, the expression and use as a function ``f``, and the changes between calls."""
    rng = random.Random(seed)
    name = rng.choice(sorted(HOLDERS))
    setup, reads, changes = HOLDERS[name]
    drawn = {k: rng.choice(VALUES) for k in "abc"}
    read = rng.choice(reads).format(**drawn)
    use = rng.choice(USES)
    chosen = [change.format(**{k: rng.choice(VALUES) for k in "abc"}) for change in
              rng.sample(changes, min(len(changes), 4))]
    if name == "arguments":
        read = re.sub(r"\barg\b", "given", read)
    lines = [f"v = {read}", *use.split("\n")]
    match rng.randrange(5):
        case 0:  # by a function that is followed
            body = [f"def look(given): return {read}", "v = look(given)", *use.split("\n")]
        case 1:  # an error is an answer
            body = ["try:", *(f"    {line}" for line in [f"v = {read}"]), "except Exception as e:",
                    "    return x - 1, type(e).__name__, str(e)[:20]", *use.split("\n")]
        case 2:  # in a comprehension
            body = [f"v = [{read} for _ in range(1)][0]", *use.split("\n")]
        case 3:  # after a break
            body = ["x = x * 2", "torch._dynamo.graph_break()", *lines]
        case _:
            body = lines
    given = "arg" if name == "arguments" else "None"
    world = COMMON + setup.format(**drawn) + "\ndef f(x, given):\n" + "\n".join("    " + line for line in body)
    return name, world, given, chosen


def outcomes(world, given, changes, seed, compiled):
    """What the calls before, between and after the changes give."""
    module = sys.modules["drawn_world"] = types.ModuleType("drawn_world")
    space = module.__dict__
    space["torch"] = torch
    exec(compile(world, f"<world {seed}>", "exec"), space)
    f = torch.compile(space["f"], backend="eager") if compiled else space["f"]
    found = []

    def call():
        x = torch.arange(4.0)
        try:
            found.append(re.sub(r"0x[0-9a-f]+", "", repr(shown(f(x, eval(given, space))))))
        except Exception as error:
            found.append((type(error).__name__, re.sub(r"0x[0-9a-f]+", "", str(error))[:60]))

    call()
    call()
    for change in changes:
        try:
            exec(change, space)
        except Exception as error:
            found.append(("change", type(error).__name__))
        call()
    call()
    return found


def check(seed):
    """A report where the program of a seed differs; None otherwise."""
    name, world, given, changes = program_of(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, compiled = (outcomes(world, given, changes, seed, c) for c in (False, True))
    if same(plain, compiled):
        return None
    for k, (a, b) in enumerate(zip(plain, compiled)):
        if not same(a, b):
            break
    body = world[world.index("\ndef f(x"):]
    return f"seed {seed} {name}{body}\n  changes {changes}\n  at {k}: plain {a}, compiled {b}\n"


def same(a, b):
    return repr(a) == repr(b)


def main(count=300, first=0):
    failures = 0
    for seed in range(first, first + count):
        report = check(seed)
        if report:
            failures += 1
            print(report, flush=True)
        if seed % 50 == 49:
            torch._dynamo.reset()
    print(f"{count} programs, {failures} differ", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
