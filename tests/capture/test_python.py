"""Python features inside compiled functions: each runs as it does uncompiled, in one graph."""
import collections
import dataclasses
import enum
import functools
import itertools
import math
import operator
import typing

import pytest

import rushlight as torch
import rushlight.nn.functional as F

from .compare import same


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Output:
    a: object
    b: int = 3

    def total(self):
        return self.a.sum() * self.b


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object


Point = collections.namedtuple("Point", "x y")


class Typed(typing.NamedTuple):
    x: object
    y: int = 2

    def total(self):
        return self.x + self.y


class Answer(collections.OrderedDict):
    """A mapping whose items are attributes too."""

    def __getitem__(self, k):
        return dict(self.items())[k] if isinstance(k, str) else tuple(self.values())[k]

    def __setitem__(self, k, v):
        super().__setitem__(k, v)
        super().__setattr__(k, v)

    def __setattr__(self, k, v):
        if k in self.keys() and v is not None:
            super().__setitem__(k, v)
        super().__setattr__(k, v)


class Counting:
    def __init__(self):
        self.n = 0

    def __enter__(self):
        self.n += 1
        return self

    def __exit__(self, *error):
        self.n += 10
        return False


class Plus:
    def __get__(self, owner, cls):
        return owner.v + 1

    def __set__(self, owner, value):
        owner.v = value


class Rich:
    """An object with most of Python's protocols."""

    plus = Plus()

    def __init__(self):
        self.v = 1

    @functools.cached_property
    def hundred(self):
        return self.v * 100

    @property
    def double(self):
        return self.v * 2

    @double.setter
    def double(self, value):
        self.v = value // 2

    @classmethod
    def make(cls):
        return cls()

    @staticmethod
    def next(a):
        return a + 1

    def __len__(self):
        return 3

    def __call__(self, x):
        return x + self.v

    def __eq__(self, other):
        return self.v == other.v

    def __lt__(self, other):
        return self.v < other.v

    def __add__(self, other):
        made = Rich()
        made.v = self.v + other
        return made

    def __radd__(self, other):
        return self + other

    def __iter__(self):
        yield 1
        yield 2

    def __contains__(self, k):
        return k == 9

    def __getitem__(self, k):
        return k * 2

    def __getattr__(self, name):
        if name.startswith("__") or name == "hundred":
            raise AttributeError(name)
        return "dynamic " + name

    def __str__(self):
        return f"rich {self.v}"


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a
        self.b = 2


class UpTo:
    def __init__(self, n):
        self.n, self.i = n, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.i += 1
        if self.i > self.n:
            raise StopIteration
        return self.i


def steps(n):
    for i in range(n):
        yield i
    return n * 10


def delegating(n):
    result = yield from steps(n)
    yield result


CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def enums(x, c=Color.RED):
    return x + 1 if c is Color.RED else x - 1, c.value, Color["BLUE"].name, c == Color.RED, [m.name for m in Color]


@case
def dataclass(x):
    out = Output(x * 2)
    out.b += 1
    return out.total(), out.b, Frozen(x + 1).a


@case
def named_tuples(x):
    p = Point(x, y=x + 1)
    a, b = p
    return p.x + b, p._replace(x=1), p, Typed(x).total(), Typed(x)[1]


@case
def dicts(x):
    d = collections.OrderedDict(a=x)
    d["b"] = x + 1
    d.move_to_end("a")
    many = collections.defaultdict(list)
    many["a"].append(x)
    plain = {"k": 1, **{"z": x}}
    plain.setdefault("q", []).append(2)
    removed = plain.pop("k")
    return list(d), d, many["a"][0] + d["b"], len(many), plain, removed, plain.get("nothing", 5), {"a": 1} | {
        "b": 2}, dict.fromkeys("ab", 0)


@case
def mapping_subclass(x):
    m = Answer()
    m["h"] = x * 2
    m.z = 3
    return m["h"] + 1, m[0], m.h, len(m), "h" in m, [k for k in m]


@case
def deques(x):
    d = collections.deque([x], maxlen=2)
    d.append(x + 1)
    d.appendleft(x - 1)
    return list(d), d.popleft()


@case
def sets(x):
    s = {1, 2}
    s.add(3)
    s |= {5}
    return x * len(s), 2 in s, sorted(s - {1}), s, s.union([9]), frozenset([1]) & s


@case
def partials(x):
    f = functools.partial(F.leaky_relu, negative_slope=0.3)
    return f(x), functools.partial(lambda a, b: a - b, x)(b=1)


@case
def iterators(x):
    pairs = sum(a * b for a, b in itertools.product([x, x + 1], [1, 2]))
    return pairs, [list(v) for v in itertools.chain([(x,)], [[x]])], list(itertools.accumulate([1, 2, 3])), list(
        itertools.islice(itertools.count(2), 3)), [
        a + b for a, b in zip([x, x + 1], [1, 2])], list(itertools.pairwise([1, 2, 3])), list(
            itertools.chain.from_iterable([[1], [2]]))


@case
def functional(x):
    return (list(map(lambda a, b: a + b, [x, x], [1, 2])), list(filter(None, [0, 1, 2])), max([1, 3, 2]), min(3, 1),
            max([x.sum() * 0], key=lambda v: 1),
            any(v > 2 for v in [1, 3]), all([]), functools.reduce(lambda a, b: a + b, [x, x, x]))


@case
def texts(x):
    return (x, "a,b".split(","), "{} {b}".format(1, b=2), "%d" % 3, f"{3.14159:.2f} {x.shape[0]!r:>4}",
            ",".join(str(i) for i in range(3)), "abc"[1],
            "abc".upper().startswith("A"), str(Rich()), f"{Rich()}")


@case
def protocols(x):
    h = Rich.make()
    h.plus = 5
    h.double = 8
    return (x * h.plus, h.hundred + h.hundred, Rich.next(1), len(h), h(x), h == Rich(), list(h), 9 in h, h[4], bool(h),
            (h + 1).v, (1 + h).v, h.anything, h.double,
            sorted([h, Rich()])[0].v, h < Rich())


@case
def slots(x):
    s = Slots(x)
    s.b += 1
    return s.a * s.b


@case
def generators(x):
    return [x * i for i in delegating(3)], dict((i, x + i) for i in steps(2)), next(steps(3)), next(
        iter([]), None), list(UpTo(3)), sum(UpTo(2))


@case
def user_iterator_in_loop(x):
    for i in UpTo(3):
        x = x * i
    return x


@case
def exceptions(x):
    y = x + 1
    try:
        try:
            raise ValueError("a", 1)
        except KeyError:
            return 1
        finally:
            y = y + 1
    except ValueError as error:
        first = error.args
    try:
        [][1]
    except IndexError as error:
        second = type(error).__name__
    try:
        {}["k"]
    except Exception as error:
        third = str(error)
    else:
        third = "none"
    return y, first, second, third


@case
def raising(x):
    y = x + 1
    if y.dim() == 1:
        raise RuntimeError("bad")
    return y


@case
def reraising(x):
    try:
        return raising(x)
    except RuntimeError as error:
        try:
            raise ValueError("second") from error
        except ValueError as second:
            return str(second), x * 2


@case
def arguments(x):
    def f(a, *b, c, d=4, **e):
        return a + sum(b) + c + d + e["z"]

    return f(x, 1, 2, c=3, z=5), (lambda *a, **k: (a, k))(*[1, 2], **{"q": x})


@case
def wrong_arguments(x):
    def f(a, *, k):
        return a * k

    return f(x)


@case
def lists(x):
    a = [1, 2, 3]
    a[0], a[1] = a[1], a[0]
    del a[2]
    a += [4]
    a.insert(0, 9)
    a[1:1] = [7, 8]
    b = [x] * 2
    b.append(b)
    return x, a, a.index(4), a.pop(), a[::-1], [*a, *a], b[2] is b, len(b)


@case
def closures(x):
    a = 2

    def inner(y):
        nonlocal a
        a += 1
        return y * a

    r = inner(x) + inner(x)
    return r, a, inner


@case
def lambdas_with_defaults(x):
    return [f(x) for f in [lambda y, i=i: y * i for i in range(3)]]


@case
def loops(x):
    i = 0
    while True:
        i += 1
        if i == 2:
            continue
        x = x + i
        if i > 3:
            break
    for k in range(3):
        x = x * k if k else x
    else:
        x = x + 100
    return x, [y := x + 1, y * 2], [x + i for i in range(3)
                                    if i != 1], {i: x for i in range(2)}, tuple(v * 2 for v in [1, 2])


@case
def unpacking(x):
    (a, b), *c = [(x, 1), 2, 3]
    d, *e, f = range(4)
    return a + b, c, d, e, f


@case
def truth_and_comparison(x):
    return (x if x is not None and x.shape[0] > 2 or False else None, not [], [1, 2] == [1, 2], (1, x) == (1, x),
            "a" in ["a"], x is x, [x, 1] != [1], 1 < 2 < 3,
            None == x, 3 not in {3: 1})


@case
def numbers(x):
    return x * math.sqrt(4) + math.pi, operator.add(x, 1), round(2.6), divmod(7, 2), abs(-3), int("3"), float(
        2), 7 // 2, -5 % 3, 2 ** 3, 1 << 4


@case
def types_of_things(x):
    return (isinstance(x, torch.Tensor), type(x) is torch.Tensor, isinstance(3, (int, float)), callable(steps),
            type(x).__name__, x.is_floating_point(),
            torch.is_tensor(x), x.dtype == torch.float32, issubclass(Answer, dict), hasattr(x, "nothing"),
            getattr(x, "nothing", 4))


@case
def asserting(x):
    assert x.dim() == 1, "bad"
    return x + 1


@case
def recursion(x):
    def go(n, y):
        return y if n == 0 else go(n - 1, y + 1)

    return go(20, x)


@case
def class_attribute(x):
    return x * type(Rich()).next(2), Rich.__name__, Color.RED.value


@case
def match_free_imports(x):
    import math as m
    from math import pi

    return x * m.e, pi


@pytest.mark.parametrize("name", CASES)
def test_one_graph(name):
    stats = same(CASES[name], torch.arange(4.0) - 1.5)
    allowed = {"wrong_arguments": ["RB007"]}
    assert [b.code for b in stats.breaks] == allowed.get(name, []), "\n".join(map(str, stats.breaks))
    assert len(stats.graphs) <= 1
