"""Special methods are looked up in the class: those that users add to subclasses of builtins are called, and those that
they leave alone are the builtins'."""
import re
from collections import OrderedDict

import pytest
from hypothesis import given, settings, strategies as st

import rushlight as torch

BASES = {"object": "()", "list": "([1, 2])", "tuple": "((1, 2))", "dict": "({1: 2, 'k': 3})", "set": "({1, 2})",
         "frozenset": "({1, 2})", "str": "('ab')", "int": "(3)", "float": "(2.5)", "bytes": "(b'ab')",
         "collections.OrderedDict": "({1: 2, 'k': 3})", "collections.defaultdict": "(int, {1: 2})",
         "collections.deque": "([1, 2])", "collections.namedtuple('Pair', 'a b')": "(1, 2)",
         "collections.Counter": "('aab')"}
METHODS = {"__getitem__": "('item', k) if k in (0, 1, 2, 'z') else ()[0]",
           "__contains__": "True", "__len__": "7", "__iter__": "iter((5, 6))",
           "__bool__": "False", "__eq__": "'equal'", "__ne__": "'unequal'", "__hash__": "11", "__call__": "('call', k)",
           "__repr__": "'repr'", "__str__": "'str'", "__format__": "'format'", "__add__": "'add'", "__radd__": "'radd'",
           "__iadd__": "'iadd'", "__mul__": "'mul'", "__rmul__": "'rmul'", "__sub__": "'sub'", "__or__": "'or'",
           "__and__": "'and'", "__ror__": "'ror'", "__neg__": "'neg'", "__invert__": "'invert'", "__abs__": "'abs'",
           "__lt__": "'lt'", "__ge__": "'ge'", "__index__": "1", "__int__": "9", "__float__": "1.5",
           "__missing__": "('missing', k)", "__reversed__": "iter((8,))", "__setitem__": "None", "__delitem__": "None",
           "__enter__": "1", "__exit__": "None", "__getattr__": "('attr', k)", "__mod__": "'mod'",
           "__matmul__": "'matmul'", "keys": "iter((3, 4))", "get": "('get', k)", "items": "iter(())",
           "values": "iter(())", "index": "0", "count": "0", "upper": "'U'", "__round__": "2", "__divmod__": "(1, 2)"}
USES = ["o[0]", "o['z']", "o[1]", "1 in o", "9 not in o", "len(o)", "list(o)", "[*o]", "a, b = o", "next(iter(o))",
        "bool(o)", "1 if o else 2", "not o", "o == 3", "3 == o", "o != 3", "hash(o) == 11", "o(1)", "callable(o)",
        "repr(o)", "str(o)", "f'{o}'", "f'{o!r:>9}'", "o + o", "o + [1]", "o + (1,)", "1 + o", "o * 2", "2 * o",
        "o - o", "o | o", "o & o", "-o", "~o", "abs(o)", "o < o", "o >= o", "o < 4", "[1, 2, 3][o]", "int(o)",
        "float(o)", "list(reversed(o))", "o.keys", "list(o.keys())", "o.get(1)", "dict(o)", "tuple(o)", "set(o) == {5}",
        "sum(o)", "sorted(o)", "list(zip(o, o))", "max(o)", "o.missing", "o % 2", "o @ o", "o.upper()",
        "o.index(1)", "o.count(1)", "{**o}", "round(o)", "divmod(o, 2)", "isinstance(o, K)", "type(o) is K",
        "o is o", "(lambda *more: more)(*o)", "any(o)", "all(o)", "list(enumerate(o))", "list(map(str, o))",
        "o == o", "[o] == [o]", "o in [o]", "','.join(o)", "list(o.items())", "o.__len__()", "for v in o: last = v",
        "o[0] = 1", "del o[0]", "o += o", "with o: pass", "{o: 1}[o]", "match o"]
STATEMENTS = {"a, b = o": "a, b = o; r = (a, b)", "for v in o: last = v": "for v in o: r = v",
              "o[0] = 1": "o[0] = 1; r = list(o)", "del o[0]": "del o[0]; r = len(o)", "o += o": "o += o; r = o",
              "with o: pass": "with o: r = 1",
              "match o": "match o:\n            case [a, *_]: r = a\n            case {'k': a}: r = a\n"
                         "            case _: r = None"}


def outcome(function, *given):
    """What a call gives, shown by class and content, or its error."""
    try:
        found, answer = function(torch.zeros(1), *given)
    except Exception as error:
        return type(error).__name__
    return found.item(), shown(answer)


def shown(value):
    """A value by class and content, which asks none of its methods; without addresses."""
    if isinstance(value, str) and type(value) is str:
        return repr(re.sub(" at 0x[0-9a-f]+", "", value))
    if callable(value) and not isinstance(value, type) and type(value).__module__ != "special":
        return "callable"
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value).__name__, [shown(v) for v in value]
    if type(value) in (int, float, str, bool, bytes, type(None), dict, set, range, slice, frozenset):
        return repr(value)
    bases = (list, tuple, dict, set, frozenset, str, int, float, bytes)
    base = next((b for b in bases if isinstance(value, b)), None)
    content = () if base is None else list(map(shown, base.__iter__(value))) if hasattr(base, "__iter__") else \
        base.__repr__(value)
    if base is dict:
        content = [(k, shown(dict.__getitem__(value, k))) for k in dict.__iter__(value)]
    if isinstance(value, (set, frozenset)):
        content = sorted(content)
    return type(value).__name__, content


def define(base, names):
    """A class of this base with these methods, and functions that use an object: from outside, and made within."""
    body = "".join(f"\n    def {n}(self, k=None, *more): return {METHODS[n]}" for n in names) or "\n    pass"
    space = {"torch": torch, "__name__": "special"}
    exec(f"import collections\nclass K({base}):{body}", space)
    return space


def compare(base, names, use):
    space = define(base, names)
    statement = STATEMENTS.get(use, f"r = {use}")
    exec(f"def outside(x, o):\n        {statement}\n        return x + 1, r\n"
         f"def within(x):\n        o = K{BASES[base]}\n        {statement}\n        return x + 1, r", space)
    made = eval(f"lambda: K{BASES[base]}", space)
    if outcome(lambda x: (x, made())) == "TypeError":  # Counter needs a get() that counts
        return
    wanted = outcome(space["outside"], made())
    assert outcome(torch.compile(space["outside"], backend="eager"), made()) == wanted, (base, names, use, "outside")
    assert outcome(torch.compile(space["within"], backend="eager")) == wanted, (base, names, use, "within")


@pytest.mark.parametrize("base", BASES)
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_methods_of_subclasses_of_builtins(base, data):
    names = data.draw(st.lists(st.sampled_from(sorted(METHODS)), max_size=3, unique=True))
    for use in data.draw(st.lists(st.sampled_from(USES), min_size=1, max_size=4, unique=True)):
        compare(base, names, use)


EXPECTED = [("collections.namedtuple('Pair', 'a b')", "__add__", "o + o"),
            ("collections.namedtuple('Pair', 'a b')", "__iter__", "a, b = o"),
            ("dict", "__getitem__", "9 not in o"), ("dict", "__getitem__", "next(iter(o))"),
            ("list", "__getitem__", "list(o)"), ("list", "__iter__", "list(o)"), ("dict", "__iter__", "dict(o)"),
            ("collections.OrderedDict", "__getitem__", "{**o}"), ("collections.OrderedDict", "__setitem__", "list(o)"),
            ("collections.defaultdict", "__len__", "o['z']"), ("float", "__index__", "float(o)"),
            ("list", "__add__", "o += o"), ("object", "__radd__", "o + o"), ("tuple", "__eq__", "o != 3")]


@pytest.mark.parametrize("base, name, use", EXPECTED)
@pytest.mark.filterwarnings("ignore")
def test_what_builtins_do_beside_special_methods(base, name, use):
    compare(base, [name], use)


def test_named_tuples_of_tensors():
    space = {"torch": torch}
    exec("""
from typing import NamedTuple
class P(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor
    def __add__(self, other): return P(self.a + other.a, self.b + other.b)
    def __iter__(self): return iter((self.b, self.a))
    def __bool__(self): return False
def f(p):
    q = p + p
    x, y = q
    return q[0] * 3 + x - y + bool(p)
""", space)
    p = space["P"](torch.ones(2), torch.full((2,), 5.))
    assert torch.compile(space["f"], backend="eager", fullgraph=True)(p).tolist() == space["f"](p).tolist()


def test_an_ordered_dict_from_outside_keeps_its_order():
    def f(x, d):
        d["c"] = d.pop("a") + 1
        return x + d["c"]

    for compile in (lambda f: f, lambda f: torch.compile(f, backend="eager")):
        given = OrderedDict(a=1, b=2)
        assert compile(f)(torch.zeros(1), given).item() == 2
        assert list(given.items()) == [("b", 2), ("c", 2)] and list(reversed(given)) == ["c", "b"]
