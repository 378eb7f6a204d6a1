"""A compiled function tells values apart that are equal, as the plain function does, wherever they come from."""
import collections
import enum
import math
import random
import types

import numpy as np
import pytest

import rushlight as torch


class Member(enum.IntEnum):
    ONE, ZERO = 1, 0


class Flag(enum.IntFlag):
    ONE = 1


class Word(str, enum.Enum):
    A = "a"


class Int(int):
    pass


class Float(float):
    pass


class Str(str):
    pass


class Bytes(bytes):
    pass


Pair = collections.namedtuple("Pair", "first second")
Other = collections.namedtuple("Other", "first second")
NAN = math.nan

# values of one row are equal, or NaN; those of which Python makes new objects are given as functions that make them
ALIKE = [
    [1, True, 1.0, 1 + 0j, complex(1.0, -0.0), np.int64(1), np.int8(1), np.float64(1), np.float32(1), np.bool_(True),
     np.complex128(1), np.longdouble(1), Member.ONE, Flag.ONE, Int(1), Float(1.0)],
    [0, False, 0.0, -0.0, 0j, complex(0.0, -0.0), complex(-0.0, 0.0), np.int64(0), np.float64(0.0), np.float64(-0.0),
     np.float32(-0.0), np.longdouble(0), -np.longdouble(0), Member.ZERO, Flag(0), Int(0), Float(0.0), Float(-0.0)],
    [NAN, -NAN, float("nan"), Float("nan"), -Float("nan"), np.float64("nan"), -np.float64("nan"), np.float32("nan"),
     complex(NAN, 0), complex(NAN, -0.0), complex(0, NAN), complex(0, -NAN)],
    ["a", Word.A, Str("a"), np.str_("a")],
    [b"a", Bytes(b"a"), np.bytes_(b"a")],
    [10**20, 1e20, np.float64(1e20), Int(10**20), complex(1e20)],
    [(1,), (True,), (1.0,), (1 + 0j,), (Member.ONE,), (np.int64(1),), torch.Size([1])],
    [(0.0,), (-0.0,), (0,), (False,)],
    [("a", 1), (Word.A, 1), ("a", True), Pair("a", 1), Pair(Str("a"), 1), Other("a", 1)],
    [((1, 2), 3), ((True, 2), 3), ((1, 2.0), 3)],
    [frozenset([1]), frozenset([True]), frozenset([1.0]), frozenset([Member.ONE])],
    [range(0, 4, 2), range(0, 3, 2)], [range(0), range(3, 3), range(2, 1)],
    [int | str, str | int], [list[1], list[True]],
    [np.datetime64("2020", "Y"), np.datetime64("2020-01", "M"), np.datetime64("2020-01-01", "D")]]


def describe(x, value):
    """What a program may find out about a value."""
    found = [type(value).__name__, str(value), isinstance(value, enum.Enum), value is True]
    if isinstance(value, float):
        found += [math.copysign(1.0, value), value != value]
    if isinstance(value, (tuple, frozenset)):
        found += [type(item).__name__ for item in value]
    return x + len(found), found


def by_argument(value):
    return describe, lambda compiled, x: compiled(x, value)


def inside(reader, make):
    """A place within an argument: what reads it, and what makes the argument."""
    def case(value):
        return lambda x, given: describe(x, reader(given)), lambda compiled, x: compiled(x, make(value))
    return case


class Holder:
    pass


class Network(torch.nn.Module):
    def forward(self, x):
        return describe(x, self.value)


HOLDER, OWNER, NETWORK, SPACE = Holder(), type("Owner", (), {}), Network(), {"describe": describe}
CELL = types.CellType()
exec("def read_global(x):\n    return describe(x, VALUE)", SPACE)


def read_attribute(x):
    return describe(x, HOLDER.value)


def read_class(x):
    return describe(x, OWNER.value)


def read_default(x, value=None):
    return describe(x, value)


def read_keyword_default(x, *, value=None):
    return describe(x, value)


def read_cell():
    value = None

    def read(x):
        return describe(x, value)
    return types.FunctionType(read.__code__, read.__globals__, "read", None, tuple(
        CELL if name == "value" else cell for name, cell in zip(read.__code__.co_freevars, read.__closure__)))


def stored(function, store):
    """A place that is written before each call."""
    def case(value):
        def call(compiled, x):
            store(value)
            return compiled(x)
        return function, call
    return case


CELLED = read_cell()
PLACES = {
    "argument": by_argument, "list item": inside(lambda given: given[1], lambda value: [0, value]),
    "tuple item": inside(lambda given: given[0], lambda value: (value,)),
    "named tuple item": inside(lambda given: given.first, lambda value: Pair(value, 0)),
    "dict value": inside(lambda given: given["k"], lambda value: {"k": value}),
    "dict key": inside(lambda given: next(iter(given)), lambda value: {value: 0}),
    "key within a tuple": inside(lambda given: next(iter(given))[0], lambda value: {(value, "b"): 0}),
    "ordered dict key": inside(lambda given: next(iter(given)), lambda value: collections.OrderedDict({value: 0})),
    "set member": inside(lambda given: next(iter(given)), lambda value: {value}),
    "frozenset member": inside(lambda given: next(iter(given)), lambda value: frozenset([value])),
    "slice": inside(lambda given: given.start, lambda value: slice(value, None)),
    "attribute": stored(read_attribute, lambda value: setattr(HOLDER, "value", value)),
    "__dict__": stored(read_attribute, lambda value: HOLDER.__dict__.update(value=value)),
    "class attribute": stored(read_class, lambda value: setattr(OWNER, "value", value)),
    "global": stored(SPACE["read_global"], lambda value: SPACE.update(VALUE=value)),
    "closure": stored(CELLED, lambda value: setattr(CELL, "cell_contents", value)),
    "default": stored(read_default, lambda value: setattr(read_default, "__defaults__", (value,))),
    "keyword default": stored(read_keyword_default,
                              lambda value: setattr(read_keyword_default, "__kwdefaults__", {"value": value})),
    "network": stored(NETWORK, lambda value: setattr(NETWORK, "value", value))}
DRAWN = 200


def drawn(place):
    """Pairs of values that are alike and not the same, another choice for each place."""
    chance = random.Random(place)
    for _ in range(DRAWN):
        yield chance.sample(chance.choice(ALIKE), 2)


def result(call, function, x):
    tensor, found = call(function, x)
    return tensor.tolist(), found


@pytest.mark.parametrize("place", PLACES)
def test_values_that_are_alike(place):
    x = torch.ones(2)
    for values in drawn(place):
        compiled = None
        for value in (*values, values[0]):
            function, call = PLACES[place](value)
            if compiled is None:
                compiled = torch.compile(function, backend="eager")
            assert str(result(call, compiled, x)) == str(result(call, function, x)), (place, values)


def test_identity_of_constants():
    first, second = 1000.5, float("1000.5")
    compiled = torch.compile(lambda x, a, b: x * 2 if a is b else x, backend="eager")
    for a, b in ((first, first), (first, second), (second, second)):
        assert compiled(torch.ones(1), a, b).item() == (2 if a is b else 1)


def test_factory_of_a_dict():
    table = collections.defaultdict(int)
    compiled = torch.compile(lambda x: x + len(str(table.get("k", table.default_factory))), backend="eager")
    for factory in (int, complex, int):
        table.default_factory = factory
        assert compiled(torch.ones(1)).item() == 1 + len(str(factory))
