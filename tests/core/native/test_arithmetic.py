"""Random arithmetic and control flow: compiled code computes what Python computes, modulo 2**64 for integers."""

import functools
import tempfile
import pathlib

from hypothesis import given, settings
from hypothesis import strategies as st

from .twins import needs_native, outcome, twins

pytestmark = needs_native

small = st.integers(-50, 50)
names = st.sampled_from(["a", "b", "c"])
leaves = names | small.map(lambda n: f"({n})")


def _grow(inner):
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "&", "|", "^", "//", "%"]),
                  inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.integers(0, 3)).map(lambda t: f"(({t[0]}) >> {t[1]})"),
        inner.map(lambda e: f"(-{e})"),
        inner.map(lambda e: f"(~{e})"),
        st.tuples(inner, _conditions(inner), inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        pair.map(lambda t: f"min({t[0]} + 0, {t[1]} + 0)"),
    )


def _conditions(inner):
    compare = st.tuples(inner, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]),
                        inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
    return st.one_of(compare, st.tuples(compare, st.sampled_from(["and", "or"]),
                                        compare).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
                     compare.map(lambda c: f"(not {c})"))


expressions = st.recursive(leaves, _grow, max_leaves=8)


def wrap(value):
    """An integer as 64 signed bits."""
    return (value + 2**63) % 2**64 - 2**63 if type(value) is int else value


@functools.cache
def folder():
    return pathlib.Path(tempfile.mkdtemp())


@settings(max_examples=40, deadline=None)
@given(st.lists(expressions, min_size=5, max_size=5), st.lists(st.tuples(small, small, small), min_size=4, max_size=4))
def test_integer_expressions(sources, values):
    functions = "\n".join(f"@native\ndef f{k}(a: i64, b: i64, c: i64) -> i64:\n    return {source}"
                          for k, source in enumerate(sources))
    both = twins(folder(), functions)
    for k in range(len(sources)):
        for arguments in values:
            plain = outcome(getattr(both.plain, f"f{k}"), *arguments)
            if type(plain) is int and abs(plain) >= 2**62:
                continue  # an intermediate result may have left 64 bits
            assert outcome(getattr(both.native, f"f{k}"), *arguments) == wrap(plain)


@settings(max_examples=25, deadline=None)
@given(st.lists(expressions, min_size=4, max_size=4), st.tuples(small, small, small))
def test_loops(sources, values):
    source = f"""
@native
def f(a: i64, b: i64, c: i64):
    seen = []
    for i in range(6):
        if {sources[0]} > {sources[1]}:
            a += i
            if i == 4:
                break
        elif {sources[2]} < 0:
            b -= 1
            continue
        else:
            c = (({sources[3]}) & 255) - 100
        seen.append((a, b, c))
    return seen, a, b, c
"""
    both = twins(folder(), source)
    assert outcome(both.native.f, *values) == outcome(both.plain.f, *values)
