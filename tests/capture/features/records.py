"""Named tuples, dataclasses and enumerations: made inside, and given from outside."""
import collections
import dataclasses
import enum
import typing

from .table import case


Pair = collections.namedtuple("Pair", "first second", defaults=[4])


class Typed(typing.NamedTuple):
    value: object
    scale: int = 2

    def scaled(self):
        return self.value * self.scale

    @property
    def half(self):
        return self.value / 2


@case()
def named_tuple(x):
    p = Pair(x)
    q = p._replace(second=1)
    return p.first + q.second, p, q._asdict(), Pair._make([1, 2]), p._fields, p[1]


@case()
def typed_named_tuple(x):
    t = Typed(x)
    value, scale = t
    return t.scaled() + t.half, scale, isinstance(t, tuple), t.scale


@case()
def named_tuple_compare(x):
    return Pair(1, 2) == (1, 2), Pair(1, 2) < Pair(1, 3), x


@dataclasses.dataclass
class Config:
    width: int = 4
    names: list = dataclasses.field(default_factory=list)
    scale: float = 1.5

    def __post_init__(self):
        self.double = self.width * 2

    def apply(self, x):
        return x * self.scale + self.double


@dataclasses.dataclass(frozen=True)
class Fixed:
    a: object
    b: int = 1


@dataclasses.dataclass(order=True)
class Ordered:
    rank: int
    name: str = "n"


@dataclasses.dataclass(slots=True)
class Slotted:
    a: object
    b: int = 3


@case()
def dataclass_made(x):
    c = Config(names=["a"])
    c.names.append("b")
    c.width = 7
    return c.apply(x), c.names, c.width, c.double


@case(given=lambda: (Config(),))
def dataclass_outside(x, c):
    c.scale = c.scale + 1
    c.names.append("seen")
    return c.apply(x)


@case()
def dataclass_frozen(x):
    f = Fixed(x, 2)
    try:
        f.b = 3
    except dataclasses.FrozenInstanceError as error:
        return f.a * f.b, str(error)


@case()
def dataclass_compare(x):
    return Ordered(1) < Ordered(2), Ordered(1) == Ordered(1), sorted([Ordered(3), Ordered(1)])[0].rank, x


@case()
def dataclass_replace_fields(x):
    c = dataclasses.replace(Fixed(x, 1), b=5)
    return c.a * c.b, [f.name for f in dataclasses.fields(Fixed)]


@case()
def dataclass_slots(x):
    s = Slotted(x)
    s.b += 1
    return s.a * s.b


@case()
def dataclass_returned(x):
    return Fixed(x + 1), Config(2)


@case()
def dataclass_repr(x):
    return repr(Ordered(1, "z")), x


class Color(enum.Enum):
    RED = 1
    GREEN = "g"

    def describe(self):
        return f"{self.name}={self.value}"

    @classmethod
    def first(cls):
        return cls.RED


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@case()
def enum_members(x):
    return Color.RED.describe(), Color("g").name, Color["RED"].value, Color.first() is Color.RED, [
        c.name for c in Color], len(Color), x


@case(given=lambda: (Color.GREEN,))
def enum_branch(x, c):
    return x + 1 if c == Color.GREEN else x - 1, {Color.RED: 1, Color.GREEN: 2}[c], c in (Color.RED,)


@case()
def int_enum(x):
    return x * Level.HIGH, Level.LOW < Level.HIGH, Level(10).name, Level.LOW + 1


@case()
def flags(x):
    both = Access.READ | Access.WRITE
    return Access.READ in both, bool(both & Access.WRITE), x
