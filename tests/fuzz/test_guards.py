"""State that changes between calls is noticed; ``python -m tests.fuzz.guards 3000`` draws more programs."""
import pytest

from .guards import COMMON, check, outcomes

CLASS = """
class B:
    pass
class C(B):
    a = 1
o = C()
"""
SPECIAL = """
class N:
    def __get__(self, o, t): return 1
class C:
    n = N()
o = C()
"""
SLOTTED = """
class C:
    __slots__ = "b",
    def __getattr__(self, name): return "fallback"
o = C()
"""
READ = """
class C:
    def __getattr__(self, name): return 1
o = C()
o.x = 1
"""
MEMBERS = """
class E(enum.Enum):
    A = 1
class C(dict):
    pass
class M(type):
    pass
class K(metaclass=M):
    pass
d, q, pm = C(), collections.deque([1], maxlen=3), types.ModuleType("pm")
base = torch.ones(3, requires_grad=True)
view = base[1:]
proxy = weakref.proxy(base)
class Net(torch.nn.Module):
    pass
net = Net()
def g(v=1, *, k=2): return v
g.own = 1
"""
# name: (world, what is read, what changes)
CASES = {
    "bases of a class": (CLASS, "len(C.__mro__)", "C.__bases__ = (type('D', (B,), {}),)"),
    "issubclass": (CLASS + "class D(B): pass", "issubclass(C, D)", "C.__bases__ = (D,)"),
    "an abstract class": (CLASS + "class A(abc.ABC): pass", "(isinstance(o, A), issubclass(C, A))", "A.register(C)"),
    "a protocol": (CLASS + "@typing.runtime_checkable\nclass A(typing.Protocol):\n    def m(self): ...",
                   "isinstance(o, A)", "C.m = lambda self: 1"),
    "isinstance of a constant": (MEMBERS, "isinstance(3, K)", "M.__instancecheck__ = lambda c, o: True"),
    "the name of a class": (CLASS, "C.__name__", "C.__name__ = 'D'"),
    "__get__ of a descriptor": (SPECIAL, "o.n", "N.__get__ = lambda *a: 2"),
    "__get__ is deleted": (SPECIAL, "o.n == 1", "del N.__get__"),
    "__set__ is added": (SPECIAL + "o.__dict__['n'] = 5", "o.n", "N.__set__ = lambda *a: None"),
    "the class of a descriptor": (SPECIAL + "class P(N):\n    def __get__(self, o, t): return 7", "o.n",
                                  "C.__dict__['n'].__class__ = P"),
    "a slot is replaced": (SLOTTED, "o.b", "C.b = 3"),
    "a slot is read by its descriptor": (SLOTTED + "C.b.__set__(o, 1)", "C.b.__get__(o)", "del o.b"),
    "a slot that is unset, before __getattr__": (SLOTTED + "C.b.__set__(o, 'fallback')", "C.b.__get__(o)", "del o.b"),
    "object.__getattribute__ before __getattr__": (READ, "object.__getattribute__(o, 'x')", "del o.x"),
    "object.__getattribute__ of what is absent": (READ, "object.__getattribute__(o, 'y')", "o.y = 2"),
    "__getattribute__ of super() before __getattr__": (READ, "super(C, o).__getattribute__('x')", "del o.x"),
    "the table of an Enum": (MEMBERS + "class F(enum.Enum):\n    A = 1\n    B = 2\n", "F(1).name",
                             "F._value2member_map_[1] = F.B"),
    "a value that no member has": (MEMBERS, "E(7)", "E._missing_ = classmethod(lambda c, value: c.A)"),
    "an error of hash()": (MEMBERS + "l = [1]\ndef g():\n    d['n'] = len(d)\n    return {l: 1}",
                           "g()", "l = 1"),
    "__getattr__ of slots": (SLOTTED, "o.b", "C.__getattr__ = lambda self, name: 4"),
    "a method of a dict's class": (MEMBERS, "d.get('k', 5)", "C.get = lambda self, k, e: 6"),
    "an attribute of a member": (MEMBERS, "getattr(E.A, 'z', 1)", "E.z = 2"),
    "the value of a member": (MEMBERS, "E.A.value", "E.A._value_ = 2"),
    "maxlen": (MEMBERS, "q.maxlen", "q = collections.deque([1], maxlen=2)"),
    "the class of a Python module": (MEMBERS, "getattr(pm, 'z', 1)",
                                     "pm.__class__ = type('Q', (types.ModuleType,), dict(z=2))"),
    "the base of a view": (MEMBERS, "view._base is base", "view = base.detach()[1:]"),
    "a proxy whose object is gone": (MEMBERS + "class T: v = 1\nt = T()\nproxy = weakref.proxy(t)", "proxy.v",
                                     "t = None; gc.collect()"),
    "__getattr__ of a network": (MEMBERS, "getattr(net, 'z', 1)", "Net.__getattr__ = lambda self, name: 2"),
    "__call__ of a metaclass": (MEMBERS + "M.__call__ = lambda c: 1", "K()", "M.__call__ = lambda c: 3"),
    "defaults by keyword": (MEMBERS, "g()", "g.__kwdefaults__ = None"),
    "defaults": (MEMBERS, "g()", "g.__defaults__ = (2,)"),
    "words of an error": (MEMBERS + "ns = types.SimpleNamespace(a=1)", "ns.a", "del ns.a"),
    "nothing to choose from": (MEMBERS + "l = [1]", "max(i for i in l)", "l.clear()"),
}


@pytest.mark.parametrize("name", CASES)
def test_changes_are_noticed(name):
    world, read, change = CASES[name]
    body = f"\ndef f(x, given):\n    try:\n        return x + 1, repr({read})\n" \
           "    except Exception as e:\n        return x, type(e).__name__, str(e)\n"
    plain, compiled = (outcomes(COMMON + world + body, "None", [change], 0, is_compiled)
                       for is_compiled in (False, True))
    assert compiled == plain
    assert plain[0] != plain[-1], "the change has no effect"


@pytest.mark.parametrize("first, count", [(0, 40), pytest.param(40, 400, marks=pytest.mark.long)])
def test_random_programs(first, count):
    for seed in range(first, first + count):
        report = check(seed)
        assert report is None, report
