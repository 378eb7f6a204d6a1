"""Absence is assumed like presence: what is added to, or removed from, any holder that a look-up asks is noticed."""
import builtins
import types

import pytest
from hypothesis import given, settings, strategies as st

import rushlight as torch

MAKE = """
class Meta(type): pass
class Base: pass
class Middle(Base, metaclass=Meta): pass
class C(Middle):
    kind = "class"
    def __init__(self): self.own = "instance"
    def method(self): return "method"
class D(C):
    def method(self): return super().method()
class Slots: __slots__ = "a", "b"
class Fallback:
    def __getattr__(self, name): return "fallback"
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
class Point(collections.namedtuple("Point", "x y")): pass
class Few(list): pass
class Named(dict): pass
class Text(str): pass
class Whole(int): pass
def function(): pass
c, d, slots, fallback, net, table, point, tensor = C(), D(), Slots(), Fallback(), Net(), {"k": 1}, Point(1, 2), None
few, named, text, whole = Few([1]), Named(k=1), Text("a"), Whole(3)
tensor = torch.ones(2)
"""
# holder -> (how to add, how to remove, what to ask)
ATTRIBUTES = {"instance": ("c", "a"), "class": ("C", "a"), "base": ("Base", "a"), "derived class": ("D", "a"),
              "slot": ("slots", "a"), "module": ("net", "a"), "class of a module": ("Net", "a"),
              "Python module": ("module", "a"), "function": ("function", "a"), "tensor": ("tensor", "a"),
              "named tuple's class": ("Point", "a"), "list's class": ("Few", "a"), "dict's class": ("Named", "a"),
              "text's class": ("Text", "a"), "number's class": ("Whole", "a"), "metaclass": ("Meta", "a"),
              "class of a fallback": ("Fallback", "a")}
SEEN_BY = {"class": ("c", "d", "C", "D"), "base": ("c", "d", "Middle", "D"), "derived class": ("d", "D"),
           "class of a module": ("net", "Net"), "named tuple's class": ("point",), "list's class": ("few",),
           "dict's class": ("named",), "text's class": ("text",), "number's class": ("whole",),
           "metaclass": ("C", "D"), "class of a fallback": ("fallback",)}
QUESTIONS = ["hasattr({0}, {1!r})", "getattr({0}, {1!r}, 'none')", "attempt(lambda: {0}.{1})"]


def attributes():
    for holder, (owner, name) in ATTRIBUTES.items():
        for seen in SEEN_BY.get(holder, (owner,)):
            yield holder, f"{owner}.{name} = VALUE", f"del {owner}.{name}", [
                q.format(seen, name) for q in QUESTIONS]


SPECIAL = {"__len__": ("len(c)", "bool(c)"), "__bool__": ("bool(c)", "1 if c else 2"), "__eq__": ("c == 1", "c != 1"),
           "__contains__": ("1 in c",), "__iter__": ("list(c)", "1 in c"), "__call__": ("c()", "callable(c)"),
           "__getitem__": ("c[0]",), "__add__": ("c + 1",), "__radd__": ("1 + c",),
           "__iadd__": ("operator.iadd(c, 1)",),
           "__neg__": ("-c",), "__lt__": ("c < 1",), "__index__": ("[1, 2, 3][c]",), "__int__": ("int(c)",),
           "__str__": ("str(c) == 'x'",), "__hash__": ("hash(c) == 1",), "__getattr__": ("c.missing",),
           "__getattribute__": ("c.own",), "__setattr__": ("c.__setattr__('own', 1)",),
           "__format__": ("f'{c}' == 'x'",),
           "__reversed__": ("list(reversed(c))",), "__enter__": ("entered(c)",), "__delitem__": ("deleted(c)",),
           "__setitem__": ("stored(c)",), "__float__": ("float(c)",), "__abs__": ("abs(c)",)}
ANSWERS = {"__len__": 2, "__bool__": False, "__iter__": iter(()), "__index__": 1, "__int__": 1, "__str__": "x",
           "__hash__": 1, "__format__": "x", "__float__": 1.5, "__reversed__": iter(())}
OTHER = [
    ("global", "NAME = VALUE", "del globals()['NAME']", ["attempt(lambda: NAME)"]),
    ("builtin", "builtins.NAME = VALUE", "del builtins.NAME", ["attempt(lambda: NAME)"]),
    ("global over builtin", "len = lambda x: VALUE", "del globals()['len']", ["len([1])"]),
    ("key", "table['a'] = VALUE", "del table['a']", ["'a' in table", "table.get('a')", "attempt(lambda: table['a'])"]),
    ("key of a user's dict", "named['a'] = VALUE", "del named['a']", ["'a' in named", "named.get('a')"]),
    ("dict of an instance", "c.a = VALUE", "del c.a", ["'a' in c.__dict__", "c.__dict__.get('a')", "'a' in vars(c)"]),
    ("dict of a class", "C.a = VALUE", "del C.a", ["'a' in C.__dict__", "C.__dict__.get('a')", "'a' in vars(C)"]),
    ("instance over class", "c.kind = VALUE", "del c.kind", ["c.kind", "getattr(c, 'kind', 0)"]),
    ("class over base", "D.kind = VALUE", "del D.kind", ["d.kind", "D.kind"]),
    ("method over base", "Middle.method = lambda self: VALUE", "del Middle.method",
     ["attempt(lambda: super(C, c).method())"]),
    ("property over instance", "C.own = property(lambda self: VALUE)", "del C.own", ["c.own"]),
    ("property of a metaclass", "Meta.kind = property(lambda self: VALUE)", "del Meta.kind", ["C.kind"]),
    ("__getattr__ of a metaclass", "Meta.__getattr__ = lambda self, name: name", "del Meta.__getattr__",
     ["attempt(lambda: C.unknown)"]),
    ("__getattr__ of a Python module", "module.__getattr__ = lambda name: VALUE", "del module.__getattr__",
     ["attempt(lambda: module.unknown)"]),
    ("buffer of a module", "net.register_buffer('a', None)", "del net.a", ["hasattr(net, 'a')"]),
    ("class over layer", "Net.layer = property(lambda self: VALUE)", "del Net.layer", ["isinstance(net.layer, int)"]),
    ("constructor", "C.__new__ = lambda cls: VALUE", "C.__new__ = object.__new__", ["isinstance(C(), C)"]),
    ("bases", "Middle.__bases__ = (Other,)", "Middle.__bases__ = (Base,)", ["hasattr(c, 'other')"]),
]


def special():
    for name, questions in SPECIAL.items():
        answer = repr(ANSWERS[name]) if isinstance(ANSWERS.get(name), (int, str, float)) else "ANSWER" \
            if name in ANSWERS else "VALUE"
        for owner in ("C", "Base"):
            yield (f"{name} of {owner}", f"{owner}.{name} = lambda self, *more: {answer}", f"del {owner}.{name}",
                   [f"attempt(lambda: {q})" for q in questions])


CASES = {f"{holder}: {'; '.join(asked)}": (add, remove, asked)
         for holder, add, remove, asked in (*attributes(), *special(), *OTHER)}


HELPERS = """
import builtins, collections, operator
class Other(object): other = 1
def attempt(ask):
    try:
        return ask()
    except Exception as error:
        return type(error).__name__
def entered(x):
    with x: return 1
def deleted(x):
    del x[0]
    return 1
def stored(x):
    x[0] = 1
    return 1
"""


def world(asked):
    """The names that a case is about, and a function that asks."""
    made = {"torch": torch, "module": types.ModuleType("some"), "VALUE": 7, "__name__": "world"}
    exec(HELPERS + MAKE + f"def f(x): return x + 1, [{', '.join(asked)}]", made)
    made["ANSWER"] = ()
    return made


def run(case, steps, compile):
    """The answers after each step."""
    add, remove, asked = CASES[case]
    space, present, found = world(asked), False, []
    f = torch.compile(space["f"], backend="eager") if compile else space["f"]
    try:
        for step in steps:
            if step != present:
                exec(add if step else remove, space)
                present = step
            given = f(torch.zeros(1))[1]
            found.append([a if isinstance(a, (int, str, float, type(None))) else type(a).__name__ for a in given])
    finally:
        for name in {"NAME"} & vars(builtins).keys():
            delattr(builtins, name)
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("steps", [(False, True, True, False), (True, False, True)], ids=["added", "removed"])
def test_added_and_removed(case, steps):
    assert run(case, steps, True) == run(case, steps, False)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(sorted(CASES)), min_size=2, max_size=4, unique=True), st.data())
def test_many_holders_change_at_once(cases, data):
    """Cases asked by one function, each changing in its own order."""
    for case in cases:
        steps = data.draw(st.lists(st.booleans(), min_size=2, max_size=5))
        assert run(case, steps, True) == run(case, steps, False)


LAZY = {
    "class": ("class G: pass", "if not hasattr(G, 'n'): G.n = 0\n    G.n += 1\n    return x + G.n"),
    "base": ("class B: pass\nclass G(B): pass", "if not hasattr(G, 'n'): B.n = 0\n    B.n += 1\n    return x + G.n"),
    "global": ("", "global N\n    try: N += 1\n    except NameError: N = 1\n    return x + N"),
    "function": ("", "if getattr(f, 'n', None) is None: f.n = 10\n    f.n += 1\n    return x + f.n"),
    "instance": ("class G: pass\ng = G()", "try: g.n += 1\n    except AttributeError: g.n = 0\n    return x + g.n"),
    "slot": ("class G: __slots__ = 'n',\ng = G()",
             "try: g.n += 1\n    except AttributeError: g.n = 0\n    return x + g.n"),
    "dict": ("d = {}", "d['n'] = d.get('n', 0) + 1\n    return x + d['n']"),
    "dict of an instance": ("class G: pass\ng = G()",
                            "if 'n' not in g.__dict__: g.n = 0\n    g.n += 1\n    return x + g.n"),
    "dict of a class": ("class G: pass", "if 'n' not in G.__dict__: G.n = 0\n    G.n += 1\n    return x + G.n"),
    "singleton": ("""
class G:
    def __new__(cls):
        if not hasattr(cls, 'one'):
            cls.one = object.__new__(cls)
            cls.one.n = 0
        return cls.one""", "g = G()\n    g.n += 1\n    return x + g.n"),
    "class of a module": ("""
class G(torch.nn.Module):
    def forward(self, x):
        if not hasattr(G, 'n'): G.n = torch.full((2,), 3.)
        G.n = G.n + 1
        return x + G.n
g = G()""", "return g(x)"),
    "class attribute through instances": ("""
class G:
    n = 0
    def __init__(self): type(self).n += 1""", "G(); G()\n    return x + G().n"),
    "metaclass": ("class M(type): pass\nclass G(metaclass=M): pass",
                  "if not hasattr(G, 'n'): M.n = 0\n    M.n += 1\n    return x + G.n"),
}


@pytest.mark.parametrize("case", LAZY)
@pytest.mark.filterwarnings("ignore:.*was captured")
def test_what_code_makes_at_its_first_call_is_found_at_the_next(case):
    def answers(compile):
        space = {"torch": torch, "__name__": "lazy"}
        exec(f"{LAZY[case][0]}\ndef f(x):\n    {LAZY[case][1]}", space)
        f = torch.compile(space["f"], backend="eager") if compile else space["f"]
        return [f(torch.zeros(2)).tolist() for _ in range(5)]

    assert answers(True) == answers(False)
