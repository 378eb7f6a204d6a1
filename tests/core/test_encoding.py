"""What plans are stored as: equal values come back, of the same types, and no bytes make anything but plain values."""
import ast
import math
import pathlib
import random
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rushlight as torch
from rushlight._src.core.encoding import Damaged, Unsaveable, decode, encode
from rushlight._src.graph import save
from rushlight._src.graph.graph import Graph

LEAVES = (st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary()
          | st.sampled_from([float, int, bool, complex]))
HASHABLE = st.recursive(LEAVES, lambda inner: st.tuples(inner, inner) | st.builds(slice, inner, inner), max_leaves=8)
VALUES = st.recursive(HASHABLE, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(LEAVES, inner, max_size=4)
                      | st.lists(inner, max_size=3).map(tuple), max_leaves=20)


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_values_come_back_with_their_types_and_bits(value):
    assert repr(decode(encode(value))) == repr(value)


@pytest.mark.parametrize("value", [(1, True, 1.0, 1 + 0j), (0.0, -0.0, math.inf, -math.inf),
                                   ((1,), (True,), [1], (1.0,)), 1 << 200, -(1 << 63), (1 << 63) - 1, "\ud800", "a\0b"])
def test_equal_values_of_other_types_stay_apart(value):
    assert repr(decode(encode(value))) == repr(value)


def test_what_programs_hold_comes_back():
    x = torch.ones(2, 3)
    values = [x._rush_meta, x.t()._rush_meta, x.shape, torch.float32, torch.bool, torch.device("cpu"),
              torch._src.core.op.OPS["exp"], save.Reference(3)]
    again = decode(encode(values))
    assert all(one is other or type(one) is type(other) and one == other for one, other in zip(again, values))
    assert again[0] is x._rush_meta and again[6] is torch._src.core.op.OPS["exp"]
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    again = decode(encode([array, array]))
    assert (again[0] == array).all() and again[0].dtype == array.dtype and again[0].flags.writeable and again[
        0] is again[1]


def test_what_was_one_object_is_one_again_and_equal_ones_are_two():
    shared = [1]
    again = decode(encode([shared, shared, [1], {}, {}]))
    assert again[0] is again[1] and again[0] is not again[2] and again[3] is not again[4]


@pytest.mark.parametrize("value", [lambda: 0, object(), torch, {1: print}, (type("Own", (), {}),),
                                   np.array([print], dtype=object)],
                         ids=["function", "object", "module", "builtin", "class", "objects"])
def test_what_is_of_this_process_is_refused(value):
    with pytest.raises(Unsaveable):
        encode(value)


def test_sets_come_back():
    assert decode(encode([{1, (2, "a")}, frozenset("ab"), set()])) == [{1, (2, "a")}, frozenset("ab"), set()]


def test_deep_values_are_refused_or_come_back():
    deep = ()
    for _ in range(200):
        deep = (deep,)
    assert decode(encode(deep)) == deep
    records = b"(\0\0\0\0" + b"".join(b"(\x01\0\0\0" + k.to_bytes(4, "little") for k in range(100_000))
    with pytest.raises(Damaged, match="deeply"):
        decode(records + b"{\x02\0\0\0" + (100_000).to_bytes(4, "little") * 2)
    endless = []
    endless.append(endless)
    with pytest.raises(Unsaveable):
        encode(endless)


def test_any_bytes_are_damage_or_plain_values():
    """Changed, cut and random bytes of a whole program: an error or a value, no crash, no memory beyond the bytes' own
    size."""
    recording = torch._src.eager.plan.Recording()
    with recording:
        x = recording.input(torch.ones(2, 3)._rush_meta)
        y = torch.nn.functional.softmax(torch.nn.functional.gelu(x), -1)
    whole, chance = save.save(Graph(recording.inputs, recording.nodes, [y.node])), random.Random(0)
    damaged = 0
    for trial in range(3000):
        data = bytearray(whole if trial % 3 else chance.randbytes(chance.randrange(60)))
        for _ in range(chance.randrange(1, 4)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        data = bytes(data[:chance.randrange(1, len(data) + 1)] if trial % 2 and data else data)
        try:
            found = decode(data)
        except Damaged:
            damaged += 1
        else:
            assert sys.getsizeof(found) < 10_000
    assert damaged > 1500


@pytest.mark.parametrize("data", [b"", b"(", b"(\xff\xff\xff\xff", b"(\x01\0\0\0\0\0\0\0", b"s\xff\xff\xff\x7fabc",
                                  b"n\xff\xff\xff\xff", b"N(\x01\0\0\0\x01\0\0\0", b"{\x01\0\0\0", b"t\0\0\0\0",
                                  b"s\x06\0\0\0system" + b"O\x01\0\0\0" + b"\0\0\0\0",
                                  b"i\x01\0\0\0\0\0\0\0" + b"A\x03\0\0\0" + b"\0\0\0\0" * 3, b"\x80\x04K\x01.",
                                  b"cos\nsystem\n"])
def test_hostile_bytes_are_damage(data):
    with pytest.raises(Damaged):
        decode(data)


def test_rooms_that_read_the_cache_know_no_format_that_runs_code():
    root = pathlib.Path(torch.__file__).parent
    for path in (path for room in ("core", "graph", "aot", "compiler", "eager")
                 for path in (root / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [
                node.module] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "marshal", "shelve", "dill"} & set(names), path
