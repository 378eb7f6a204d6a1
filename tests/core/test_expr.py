"""The scalar language: normal forms, proofs, guards, rules."""
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight._src.core import expr
from rushlight._src.core.dtypes import float32
from rushlight._src.core.expr import (add, eq, floor_divide, index, load, lt, maximum, minimum, modulo, multiply,
                                      nonnegative, size, substitute)
from rushlight._src.core.expr_text import show
from rushlight._src.core.nodes import Node, evaluate
from rushlight._src.core.shape_env import ShapeEnv

S, T = size("s"), size("t")
I, J, K = index("i", S), index("j", T), index("k", 12)
LEAVES = [S, T, I, J, K]


def integers():
    leaves = st.sampled_from(LEAVES) | st.integers(-20, 20)
    return st.recursive(leaves, lambda inner: st.one_of(
        st.tuples(st.just(add), inner, inner), st.tuples(st.just(multiply), inner, inner),
        st.tuples(st.just(maximum), inner, inner), st.tuples(st.just(minimum), inner, inner),
        st.tuples(st.just(floor_divide), inner, st.integers(1, 9) | st.sampled_from([S, T])),
        st.tuples(st.just(modulo), inner, st.integers(1, 9) | st.sampled_from([S, T]))), max_leaves=8)


PLAIN = {add: lambda a, b: a + b, multiply: lambda a, b: a * b, floor_divide: lambda a, b: a // b,
         modulo: lambda a, b: a % b,
         maximum: max, minimum: min}


def build(tree):
    return tree[0](build(tree[1]), build(tree[2])) if isinstance(tree, tuple) else tree


def direct(tree, values):
    if isinstance(tree, tuple):
        return PLAIN[tree[0]](direct(tree[1], values), direct(tree[2], values))
    return values.get(tree, tree) if isinstance(tree, expr.Expr) else tree


@st.composite
def assignments(draw):
    s, t = draw(st.integers(2, 9)), draw(st.integers(2, 9))
    return {S: s, T: t, I: draw(st.integers(0, s - 1)), J: draw(st.integers(0, t - 1)), K: draw(st.integers(0, 11))}


@settings(max_examples=400, deadline=None)
@given(integers(), assignments())
def test_simplified_integers_have_the_same_value(tree, values):
    made = build(tree)
    wanted = direct(tree, values)
    assert evaluate(made, dict(values)) == wanted
    if isinstance(made, expr.Expr):
        assert made.low <= wanted <= made.high
        if nonnegative(made):
            assert wanted >= 0
    assert evaluate(substitute(made, values), {}) == wanted


@settings(max_examples=200, deadline=None)
@given(integers(), integers(), assignments())
def test_decided_conditions_hold(a, b, values):
    x, y = build(a), build(b)
    for condition, plain in ((lt(x, y), lambda p, q: p < q), (eq(x, y), lambda p, q: p == q)):
        assert bool(evaluate(condition, dict(values))) == plain(direct(a, values), direct(b, values))


def test_index_arithmetic_of_reshapes():
    assert (I * T + J) // T is I and (I * T + J) % T is J
    assert (I * T + J) // (S * T) == 0
    assert (S * T) // T is S
    assert (I * 12 + K) // 12 is I
    assert str((I * 12 + K) // 4) == "(k // 4) + 3*i"


def test_equal_sums_are_one_object():
    assert S * T + 2 * S is S * (T + 2)
    assert type(S - S) is int and S - S == 0


def test_the_table_drops_expressions_that_are_in_use_nowhere_else():
    kept, made = size("kept") * 3 + 1, [size(f"dropped{k}") * k + J for k in range(100)]
    weak = index("weak", 7)
    with Node._lock:
        Node.sweep()
        before = len(Node._table)
        made.clear()
        Node.sweep()
    assert before - len(Node._table) > 190  # sizes and sums
    assert size("kept") * 3 + 1 is kept and index("weak", 7) is weak


def test_threads_that_sweep_and_make_expressions_agree():
    wrong, leaf = [], size("swept")

    def make():
        for k in range(300):
            one = leaf * (k % 50) + k % 7
            if (leaf * (k % 50) + k % 7) is not one:
                wrong.append(k)

    def sweep():
        for _ in range(40):
            with Node._lock:
                Node.sweep()

    threads = [threading.Thread(target=target) for target in (make, make, sweep, make)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_decisions_need_facts():
    assert S >= 2 and S * T > 3 and S + 1 != S
    with pytest.raises(RuntimeError, match="no example values"):
        bool(S > 7)
    with ShapeEnv({S: 10, T: 3}) as shape_env:
        assert S > T and S > T and int(T) == 3
    assert [(str(c), o) for c, o in shape_env.guards] == [("t < s", True), ("t == 3", True)]


def test_shared_parts_are_named_once():
    x = load("x", I, float32)
    y = x * x
    assert show(y + y * y) == ["v0 = x[i]", "v1 = v0 * v0", "v1 + (v1 * v1)"]
