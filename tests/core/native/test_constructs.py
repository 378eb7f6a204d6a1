"""Every construct of the subset does, compiled, what it does as plain Python."""

import copy

import pytest

from .twins import native, needs_native, outcome, twins

pytestmark = needs_native
big = 2**62

# source of a function f, then argument tuples to call it with
CASES = [
    ("def f(a: i64, b: i64) -> i64:\n return a + b * 3 - (a & b) + (a | 5) ^ (b << 2) + (a >> 1)",
     [(1, 2), (-7, 9), (0, 0)]),
    ("def f(a: i64, b: i64) -> i64:\n return a // b", [(7, 2), (-7, 2), (7, -2), (-7, -2), (1, 0), (-big, -1)]),
    ("def f(a: i64, b: i64) -> i64:\n return a % b", [(7, 2), (-7, 2), (7, -2), (-7, -2), (1, 0), (5, -1)]),
    ("def f(a: f64, b: f64) -> f64:\n return a // b", [(7.5, 2), (-7.5, 2), (7.5, -2), (1, 0), (0.0, -3.0)]),
    ("def f(a: f64, b: f64) -> f64:\n return a % b", [(7.5, 2), (-7.5, 2), (7.5, -2), (1, 0), (6.0, 3.0)]),
    ("def f(a: i64, b: i64) -> f64:\n return a / b + 0.5", [(7, 2), (1, 0)]),
    ("def f(a: i64, b: i64) -> i64:\n return a << b", [(1, 5), (1, 0), (3, -1)]),
    ("def f(a: i64, b: i64) -> i64:\n return a >> b", [(1000, 5), (-1, 70), (3, -1)]),
    ("def f(a: i64) -> i64:\n return -a + ~a + +a", [(3,), (-9,)]),
    ("def f(a: f64) -> f64:\n return -a * 1e-3 + 2", [(3.5,), (7,)]),
    ("def f(a: i64, b: f64) -> f64:\n return a * b - 1", [(3, 0.5)]),
    ("def f(a: i64, b: i64) -> bool:\n return 0 <= a < b", [(1, 2), (-1, 2), (3, 2)]),
    ("def f(a: i64, b: f64) -> bool:\n return a == b or a > b", [(1, 1.0), (0, 1.0), (2, 1.0), (0, float("nan"))]),
    ("def f(a: bool, b: bool) -> bool:\n return a and not b", [(True, False), (True, True), (False, False), (1, [])]),
    ("def f(a, b):\n return a and b", [(1, 2), (0, 2), ([], None), ("x", "")]),
    ("def f(a, b):\n return a or b", [(1, 2), (0, 2), ([], None), ("", {})]),
    ("def f(a, b):\n return a or b or (1, 2)", [(1, 2), (0, 0), ([], None)]),
    ("def f(n: i64, x):\n return n > 2 and x", [(3, "a"), (1, "a")]),
    ("def f(n: i64, x):\n return n if n > 2 else x", [(3, "a"), (1, "a")]),
    ("def f(n: i64):\n return n if n > 2 else 1.5", [(3,), (1,)]),
    ("def f(n: i64):\n x = None if n > 2 else (n, n)\n return x", [(3,), (1,)]),
    ("def f(a, b):\n return a + b, a * 2, a == b, a != b", [(1, 2.5), ("x", "y"), ([1], [1]), (None, 1)]),
    ("def f(a, b):\n a += b\n a -= 1\n return a", [(1, 2), (1.5, True), ("x", "y")]),
    ("def f(a, b: i64):\n return a < b, a ** 2, -a, b - a, a // 2, a % 2", [(3, 4), (2.5, 2), ("x", 1)]),
    ("def f(x):\n return x is None, x is not None, x is True", [(None,), (1,), (True,)]),
    ("def f(x: tuple):\n return x is None", [(None,), ((),)]),
    ("def f(x: tuple, n: i64):\n return x[n]", [((1, 2, 3), 0), ((1, 2, 3), -1), ((1, 2, 3), 3), ((1, 2, 3), -4)]),
    ("def f(x: tuple):\n return x[0], x[-1], len(x)", [((1, 2, 3),), ((),), (([],),)]),
    ("def f(x: list, n: i64):\n x[n] = x[0]\n x.append(n)\n return x.pop(), x",
     [([1, 2, 3], 1), ([1, 2], -1), ([1, 2], 5), ([], 0)]),
    ("def f(x: list):\n return x.pop()", [([1, 2],), ([],)]),
    ("def f(x, n: i64):\n return x[n]", [((1, 2), 1), ([1, 2], -1), ("abc", 2), ({5: 6}, 5), ({}, 5), ((), 0), (3, 0)]),
    ("def f(x, n):\n return x[n]", [((1, 2), 1), ({"a": 6}, "a"), ({}, 5), ("abc", "d")]),
    ("def f(x: tuple, a: i64, b: i64):\n return x[a:b], x[a:], x[:b], x[:]",
     [((1, 2, 3), 0, 2), ((1, 2, 3), -2, 9), ((1, 2), 5, 1)]),
    ("def f(x: list, a: i64):\n return x[a:-1]", [([1, 2, 3], 0), ([], 4)]),
    ("def f(x):\n return x[1:], x[::2]", [("abcd",), ([1, 2, 3],), (5,)]),
    ("def f(d: dict, k):\n return d.get(k), d.get(k, 7), k in d, k not in d", [({1: 2}, 1), ({}, "x"), ({}, [])]),
    ("def f(d: dict, k):\n return d[k]", [({1: 2}, 1), ({}, "x"), ({}, [])]),
    ("def f(d: dict, k):\n d[k] = (k, len(d))\n del d['y']\n return d", [({1: 2, "y": 0}, 1), ({}, "x"), ({}, [])]),
    ("def f(d: dict):\n return d.pop('a', None), d.setdefault('b', 3), len(d)", [({"a": 1},), ({},)]),
    ("def f(x, y):\n return x in y, x not in y", [(1, (1, 2)), ("a", "abc"), (1, [3]), (1, 2)]),
    ("def f(n: i64):\n return n in (1, 3, 5)", [(1,), (2,)]),
    ("def f(a, b):\n return [a, b, [a]], {'x': a, b: 1}, (a,), []", [(1, "y"), (None, 2), (1, [])]),
    ("def f():\n return (1, 'a', None, 2.5), (), ('x',), b'z'", [()]),
    ("def f(a):\n x, y = a\n return y, x", [((1, 2),), ([3, 4],), ((1,),), ((1, 2, 3),), (5,)]),
    ("def f(a: tuple):\n (x, y), z = a\n x, z = z, x\n return x, y, z", [(((1, 2), 3),), (((1,), 3),)]),
    ("def f(a, b):\n x = y = (a, b)\n return x is y, x", [(1, 2)]),
    ("def f(n: i64) -> i64:\n t = 0\n for i in range(n):\n  if i == 3:\n   continue\n  if i == 7:\n   break\n  t += "
     "i\n return t", [(0,), (5,), (20,)]),
    ("def f(a: i64, b: i64):\n out = []\n for i in range(b, a, -2):\n  out.append(i)\n return out", [(0, 5), (5, 0)]),
    ("def f(n: i64):\n out = []\n for i in range(2, n):\n  out.append(i)\n  i = 100\n else:\n  out.append('end')\n "
     "return out", [(5,), (0,)]),
    ("def f(x: tuple):\n out = []\n for y in x:\n  out.append(y)\n return out", [((1, "a"),), ((),)]),
    ("def f(x: list):\n out = []\n for y in x:\n  if len(out) < 5:\n   x.append(y)\n  out.append(y)\n return out",
     [([1, "a"],), ([],)]),
    ("def f(x):\n out = []\n for y in x:\n  out.append(y)\n else:\n  out.append(0)\n return out",
     [([1, "a"],), ("abc",), ({1: 2},), (5,)]),
    ("def f(x: tuple):\n out = []\n for a, b in x:\n  out.append(b)\n return out", [(((1, 2), (3, 4)),), (((1,),),)]),
    ("def f(n: i64) -> i64:\n k = 0\n while True:\n  k += 1\n  if k * k > n:\n   return k", [(10,), (0,)]),
    ("def f(n: i64) -> i64:\n k = 0\n while k < n:\n  k += 2\n else:\n  k = k * 10\n return k", [(5,), (0,)]),
    ("def f(a, b=3, c='x', d=None, e=True, g=1.5):\n return a, b, c, d, e, g",
     [(1,), (1, 2), (1, 2, 3, 4, 5, 6), (), (1,) * 7]),
    ("def f(a: i64 = 4, *rest: Args):\n return a, len(rest), rest[0], rest[1:], collect(rest)\n"
     "@native\ndef collect(items: Args) -> tuple:\n t: tuple = items\n return t", [(), (1, 2), (1, 2, 3, 4)]),
       ("def f(g, a):\n return g(a, a), g(), g(a, k=a)", [(lambda *p, **k: (p, k), 3), (len, 3), (4, 5)]),
    ("def f(g, a: tuple):\n return g(*a)", [(max, (1, 5)), (max, ()), (3, ())]),
    ("def f(x):\n return x.upper(), x.split('b', 1), x.upper", [("abc",), (5,)]),
    ("def f(x):\n x.field = 3\n return x.field", [(lambda: 0,), (object(),)]),
    ("def f(x):\n return type(x) is int, isinstance(x, int), isinstance(x, tuple), isinstance(x, (str, float)), "
     "type(x)",
     [(1,), (True,), ((),), ("s",), (None,)]),
    ("def f(x):\n return int(x), float(x)", [(1,), (2.7,), ("5",), ("x",), (None,)]),
    ("def f(x: f64) -> i64:\n return int(x)", [(2.7,), (-2.7,)]),
    ("def f(x) -> i64:\n return x", [(1,), (-(2**63),), (2**63 - 1,), (2**40,), (0,), (-(2**30),), (2**30,), (-5,)]),
    ("def f(x) -> f64:\n return x + 0", [(1,), (2.5,)]),
    ("def f(x) -> bool:\n return x", [(True,), (False,)]),
    ("def f(a: i64, b: i64) -> i64:\n return min(a, b) * 10 + max(a, b)", [(1, 2), (4, 3)]),
    ("def f(x: tuple) -> i64:\n return len(x)", [((1,),), (None,), (5,)]),
    ("def f(s: str, b: bytes):\n return len(s), len(b), s == 'a', s + 'z'", [("a", b"xy"), ("é", b"")]),
    ("def f(a, b):\n return f'{a} and {b!r:>8}|{a:>5}' + f'' + f'x'", [(1, "y"), ([], 2)]),
    ("def f(n: i64):\n if n == 0:\n  raise ValueError('no', n)\n elif n == 1:\n  raise KeyError\n assert n > 2, "
     "'small'\n raise n", [(0,), (1,), (2,), (3,)]),
    ("def f(x, log):\n try:\n  log.append(x[0])\n  return 'fine'\n except IndexError as e:\n  log.append(str(e) != "
     "'')\n except (TypeError, KeyError):\n  log.append('t')\n  raise\n"
     " finally:\n  log.append('end')\n return log", [((1,), []), ((), []), (5, []), ({}, [])]),
    ("def f(n: i64):\n log = []\n for i in range(n):\n  try:\n   if i == 1:\n    continue\n   if i == 3:\n    break\n "
     "  log.append(i)\n  finally:\n   log.append('f')\n return log", [(2,), (6,)]),
    ("def f(x):\n try:\n  y = x + 1\n except TypeError:\n  y = None\n else:\n  y = y * 2\n return y", [(1,), ("a",)]),
    ("def f(x):\n try:\n  try:\n   return x[0]\n  finally:\n   x.append(1)\n finally:\n  x.append(2)", [([5],), ([],)]),
    ("def f(x):\n x", [(1,)]),
    ("def f(n: i64) -> None:\n if n:\n  return\n raise ValueError(n)", [(1,), (0,)]),
    ("def f(n: i64):\n x = None\n if n > 0:\n  x = (n,)\n return x", [(1,), (0,)]),
    ("def f(n: i64):\n x = 0\n x = 2.5 * n\n return x", [(1,)]),
    ("def f(n: i64):\n t = new_tuple(n)\n for k in range(n):\n  tuple_set(t, k, k * k)\n return filled(t)",
     [(0,), (3,)]),
    ("def f(n: i64) -> i64:\n a = stack(4)\n b = stack(n)\n store_i64(a, 1, n)\n store_i64(b, n - 1, 5)\n "
     "copy_bytes(a + 16, b + 8 * (n - 1), 8)\n store_u8(a, 0, 300)\n"
     " store_i32(a, 6, -2)\n return load_i64(a, 1) + load_i64(a, 2) * 100 + load_u8(a, 0) * 1000 + load_i32(a, 6)",
     [(3,)]),
    ("def f(x: f64):\n a = stack(3)\n store_f64(a, 0, x)\n store_f32(a, 2, x)\n fill_bytes(a + 16, 255, 2)\n "
     "store_i16(a, 9, -3)\n"
     " return load_f64(a, 0), load_f32(a, 2), f64_bits(x), f64_from_bits(f64_bits(x)), load_i16(a, 8), load_i16(a, 9)",
     [(1.1,), (-0.0,)]),
    ("def f():\n a = allocate_pages(100)\n store_i64(a, 3, 9)\n x = load_i64(a, 3)\n b = allocate_pages(3000000)\n y "
     "= b % 2097152\n free_pages(a, 100)\n free_pages(b, 3000000)\n return x, y", [()]),
    ("def f(x):\n return address_of(x) == id(x)", [(5,)]),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    sources = (f"@native\n{source.replace('def f(', f'def f{k}(', 1)}\n" for k, (source, _) in enumerate(CASES))
    return twins(tmp_path_factory.mktemp("constructs"), "\n".join(sources))


@pytest.mark.parametrize("k", range(len(CASES)), ids=[source.replace("\n", ";")[:50] for source, _ in CASES])
def test_same_as_plain(both, k):
    for arguments in CASES[k][1]:
        mine, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
        expected, found = outcome(getattr(both.plain, f"f{k}"), *mine), outcome(getattr(both.native, f"f{k}"), *theirs)
        assert repr(expected) == repr(found) or expected == found
        if not any(callable(argument) or type(argument) is object for argument in arguments):
            assert repr(mine) == repr(theirs)


def test_conversions_at_typed_boundaries(tmp_path):
    module = native(tmp_path, """
    @native
    def number(x: i64) -> i64:
        return x
    @native
    def real(x: f64) -> f64:
        return x
    @native
    def text(x: str) -> object:
        return x
    """)
    assert outcome(module.number, True) == 1
    for wrong, error in ((1.5, TypeError), ("s", TypeError), (None, TypeError), (2**63, OverflowError),
                         (-(2**63) - 1, OverflowError)):
        assert outcome(module.number, wrong) is error
    assert [outcome(module.real, x) for x in (3, "s", 10**400, None)] == [3.0, TypeError, OverflowError, TypeError]
    assert module.text("a") == "a" and module.text(None) is None
    with pytest.raises(TypeError, match=r"text\(\) argument 'x' must be str, not list"):
        module.text([])
    with pytest.raises(TypeError, match="2 given|takes"):
        module.text("a", "b")


@pytest.mark.parametrize("source,why", [
    ("def f(x):\n return [y for y in x]", "ListComp"),
    ("def f(x):\n with x:\n  pass", "With"),
    ("def f(n: i64):\n if n:\n  x = 1\n return x", "may have no value"),
    ("def f(n: i64):\n return lambda: n", "Lambda"),
    ("def f(n: i64) -> tuple:\n return n", "storing i64"),
    ("def f(n: i64):\n return nowhere(n)", "nowhere"),
    ("def f(**names):\n return 1", "parameters"),
])
def test_outside_the_subset(tmp_path, source, why):
    with pytest.raises(SyntaxError, match=why) as caught:
        native(tmp_path, "@native\n" + source + "\n")
    assert caught.value.lineno >= 3 and caught.value.filename.endswith(".py")
