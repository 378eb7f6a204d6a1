"""Generators end, and containers change under their iterators, as they do uncompiled."""
import itertools

import pytest
from hypothesis import given, settings, strategies as st

import rushlight as torch

PRELUDE = """
class Manager:
    def __enter__(self):
        log.append("enter")
        return self
    def __exit__(self, *error):
        log.append(("exit", error[0] and error[0].__name__))
def finally_(n):
    try:
        for k in range(n): yield k
    finally:
        log.append("finally")
def with_(n):
    with Manager():
        for k in range(n): yield k
def caught(n):
    try:
        for k in range(n): yield k
    except GeneratorExit:
        log.append("exit")
        raise
def swallowing(n):
    for k in range(n):
        try:
            yield k
        except ValueError:
            log.append("caught")
            yield -1
def narrow(n):
    try:
        for k in range(n): yield k
    except (KeyError, ValueError) as error:
        yield -1
        log.append("not reached")
def nested(n):
    try:
        try:
            for k in range(n): yield k
        except KeyError: log.append("no")
        except (BaseException, KeyError): log.append("base")
    finally: log.append("outer")
def plain(n):
    for k in range(n): yield k
    return "end"
def delegating(n):
    log.append((yield from finally_(n)))
def raising(n):
    yield 0
    raise StopIteration("early")
def exhausting(n):
    yield next(iter(range(n)))
    yield next(iter(()))
def ignoring(n):
    while True:
        try:
            yield 1
        except GeneratorExit:
            log.append("ignored")
def reentering(n):
    yield 0
    yield next(running[0])
"""
GENERATORS = ["finally_", "with_", "caught", "swallowing", "narrow", "nested", "plain", "delegating",
              "raising", "exhausting"]
USES = {"exhausted": "for v in g: log.append(v)", "dropped after one": "for v in g: break",
        "dropped by name": "next(g); del g; log.append('after')", "rebound": "next(g); g = None; log.append('after')",
        "not started": "log.append(type(g).__name__)", "closed": "next(g); g.close(); log.append('after')",
        "closed unstarted": "g.close(); log.append(list(g))", "closed twice": "next(g); g.close(); g.close()",
        "next after close": "next(g); g.close(); log.append(next(g, 'none'))",
        "thrown into": "next(g)\n    try: log.append(g.throw(ValueError('x')))\n"
                       "    except ValueError: log.append('out')",
        "StopIteration thrown": "next(g)\n    try: log.append(g.throw(StopIteration('y')))\n"
                                "    except (RuntimeError, StopIteration) as e: log.append(type(e).__name__)",
        "first of several": "log.append(next(g)); log.append(next(g, 'none'))", "list": "log.append(list(g))",
        "error within": "try:\n        for v in g: raise KeyError(v)\n    except KeyError: log.append('error')",
        "sent": "next(g)\n    try: log.append(g.send(5))\n    except StopIteration as e: log.append(('value', e.value))",
        "any": "log.append(any(v == 0 for v in g)); log.append('after')",
        "in": "log.append(0 in g); log.append('after')",
        "zipped": "log.append(list(zip([7], g)))", "unpacked": "a, *b = g; log.append((a, b))",
        "too many to unpack": "try: a, = g\n    except ValueError: log.append('error')",
        "returned": "next(g); return x + 1, list(g)"}


def answer(function, *given):
    try:
        found = function(torch.zeros(1), *given)
    except Exception as error:
        cause = error.__cause__
        return type(error).__name__, str(error), type(cause).__name__
    return found[0].item(), found[1:]


def compare(prelude, body, given=lambda: ()):
    """Runs a function plainly and compiled; the results, the log and the arguments have to agree."""
    outcomes = []
    for compiled in (False, True):
        log = []
        space = {"torch": torch, "log": log, "running": [None], "__name__": "iteration"}
        exec(f"{prelude}\ndef f(x, *given):\n    {body}\n    return x + 1,", space)
        f = torch.compile(space["f"], backend="eager") if compiled else space["f"]
        for _ in range(2):
            args = given()
            outcomes.append((compiled, answer(f, *args), [repr(v) for v in log], repr(args)))
            log.clear()
    assert [o[1:] for o in outcomes[2:]] == [o[1:] for o in outcomes[:2]], body


@pytest.mark.parametrize("use", USES)
@pytest.mark.filterwarnings("ignore")
def test_generators_end_as_uncompiled(use):
    for name in GENERATORS:
        compare(PRELUDE, f"g = {name}(3)\n    {USES[use]}")


@pytest.mark.parametrize("body", [
    "g = running[0] = ignoring(1); next(g)\n    try: g.close()\n    except RuntimeError as e: log.append(str(e))",
    "g = running[0] = reentering(1); next(g)\n    try: next(g)\n    except ValueError as e: log.append(str(e))\n"
    "    running[0] = None"], ids=["ignored exit", "reentered"])
@pytest.mark.filterwarnings("ignore")
def test_generators_refuse(body):
    compare(PRELUDE, body)


CONTAINERS = {"list": "[1, 2, 3]", "dict": "{1: 10, 2: 20, 3: 30}", "set": "{1, 2, 3}",
              "deque": "collections.deque([1, 2, 3])", "OrderedDict": "collections.OrderedDict({1: 10, 2: 20})"}
OVER = {"list": ["c", "reversed(c)", "enumerate(c)", "zip(c, c)", "iter(c)"], "set": ["c", "iter(c)"],
        "dict": ["c", "c.keys()", "c.values()", "c.items()", "reversed(c)", "reversed(c.items())", "enumerate(c)"],
        "deque": ["c", "reversed(c)"], "OrderedDict": ["c", "c.items()", "reversed(c)"]}
CHANGES = {"list": ["c.append(9)", "c.pop()", "c.pop(0)", "c.insert(0, 7)", "c.clear()", "c[-1] = 5", "c.reverse()",
                    "del c[:1]", "c.extend([4, 5])"],
           "dict": ["c[9] = 90", "c.pop(3, None)", "del c[2]", "c[3] = 31", "c.clear()", "c.update({1: 11})",
                    "c[8] = c.pop(3)", "c.setdefault(4, 40)"],
           "set": ["c.add(9)", "c.discard(3)", "c.clear()", "c.add(1)", "c.discard(3); c.add(8)"],
           "deque": ["c.append(9)", "c.popleft()", "c[0] = 4", "c.clear()", "c.rotate()", "c.append(c.popleft())"],
           "OrderedDict": ["c[9] = 90", "c.pop(2, None)", "c[1] = 11", "c.clear()"]}
AFTERWARDS = ["pass", "c.append(1) if isinstance(c, list) else None", "log.append(next(it, 'none'))",
              "log.append(list(it))", "return x + 1, it.__class__.__name__", "return x + 1, list(it)"]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
@pytest.mark.filterwarnings("ignore")
def test_containers_change_under_their_iterators(data):
    kind = data.draw(st.sampled_from(sorted(CONTAINERS)))
    over, change = data.draw(st.sampled_from(OVER[kind])), data.draw(st.sampled_from(CHANGES[kind]))
    when, limit = data.draw(st.integers(0, 3)), data.draw(st.integers(4, 6))
    afterwards = data.draw(st.lists(st.sampled_from(AFTERWARDS), max_size=2))
    outside = data.draw(st.booleans())
    body = "\n    ".join([
        "c = given[0]" if outside else f"c = {CONTAINERS[kind]}", f"it = iter({over}); n = 0", "try:",
        "    for v in it:", "        log.append(v); n += 1", f"        if n > {limit}: break",
        f"        if n == {when}: {change}" if when < 3 else f"        {change}",
        "except RuntimeError as error: log.append(str(error))", *afterwards, "log.append(c)"])
    make = eval(f"lambda: ({CONTAINERS[kind]},)", {"collections": __import__("collections")})
    compare("import collections", body, make if outside else lambda: ())


@pytest.mark.parametrize("taken", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("times", [None, 0, 1, 3])
def test_repeat_goes_on_after_the_graph(times, taken):
    """A repeat that leaves the compiled function yields what is left of it, and nothing once it is exhausted."""
    def f(x):
        made = itertools.repeat(x + 1) if times is None else itertools.repeat(x + 1, times)
        seen = [next(made, None) for _ in range(taken)]
        return made, len([one for one in seen if one is not None])

    (ours, count), (wanted, expected) = (g(torch.ones(2)) for g in (torch.compile(f, fullgraph=True), f))
    assert type(ours) is itertools.repeat and count == expected
    assert [x.tolist() for x in itertools.islice(ours, 5)] == [x.tolist() for x in itertools.islice(wanted, 5)]
