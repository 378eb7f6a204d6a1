"""Objects: attributes, properties, descriptors, inheritance, operators and protocols."""
import collections.abc
import copy
import functools
import inspect
import typing

import rushlight as torch

from .table import case


class Base:
    kind = "base"
    count = 0

    def __init__(self, v=1):
        self.v = v

    def scaled(self, x):
        return x * self.v

    @classmethod
    def make(cls, v):
        return cls(v)

    @staticmethod
    def plus(a, b):
        return a + b

    @property
    def double(self):
        return self.v * 2

    @double.setter
    def double(self, value):
        self.v = value / 2

    @double.deleter
    def double(self):
        self.v = 0


class Derived(Base):
    kind = "derived"

    def __init__(self, v=2, w=3):
        super().__init__(v)
        self.w = w

    def scaled(self, x):
        return super().scaled(x) + self.w


class Mixin:
    def scaled(self, x):
        return super().scaled(x) * 10


class Mixed(Mixin, Derived):
    pass


@case()
def object_made(x):
    b = Base(3)
    b.v += 1
    b.extra = x
    return b.scaled(x), b.double, b.extra, b.kind


@case()
def inheritance(x):
    d = Derived()
    return d.scaled(x), d.kind, isinstance(d, Base), issubclass(Derived, Base), type(d).__name__, d.double


@case()
def method_resolution(x):
    return Mixed(2, 1).scaled(x), [c.__name__ for c in Mixed.__mro__][:3]


@case()
def class_and_static_methods(x):
    return Derived.make(4).scaled(x), Base.plus(x, 1), Derived().plus(1, 2), Base.make(1).kind


@case()
def property_set_and_deleted(x):
    b = Base()
    b.double = 10
    first = b.v
    del b.double
    return first, b.v, x


@case(given=lambda: (Base(5),))
def object_outside(x, b):
    b.v = b.v + 1
    b.double = 8
    b.note = x
    return b.scaled(x)


@case(given=lambda: (Base(5),))
def attribute_deleted_outside(x, b):
    b.temp = 1
    del b.temp
    del b.v
    return x, hasattr(b, "v")


@case()
def missing_attribute(x):
    return Base().nothing


@case()
def getattr_forms(x):
    b = Base()
    setattr(b, "z", 5)
    found = getattr(b, "z"), getattr(b, "q", None), hasattr(b, "v"), hasattr(b, "q")
    delattr(b, "z")
    return found, hasattr(b, "z"), x


@case()
def vars_of_object(x):
    b = Derived()
    return vars(b), b.__dict__["w"], b.__class__ is Derived, x


class Dynamic:
    def __init__(self):
        self.known = 1

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return len(name)
        raise AttributeError(f"no {name}")


@case()
def getattr_hook(x):
    d = Dynamic()
    return d.known, d.dyn_ab, getattr(d, "other", 3), hasattr(d, "zzz"), x


@case()
def getattr_hook_raises(x):
    return Dynamic().other


class Tracking:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        object.__setattr__(self, "log", getattr(self, "log", ()) + (name,))


@case()
def setattr_hook(x):
    t = Tracking()
    t.a = 1
    t.b = x
    return t.log, t.a, t.b


class Intercepting:
    def __init__(self):
        self.a = 1

    def __getattribute__(self, name):
        if name == "magic":
            return 99
        return object.__getattribute__(self, name)


@case()
def getattribute_hook(x):
    i = Intercepting()
    return i.magic, i.a, x


class Positive:
    """A data descriptor with a name."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, owner, cls=None):
        return self if owner is None else getattr(owner, self.name, 0)

    def __set__(self, owner, value):
        if value < 0:
            raise ValueError("negative")
        setattr(owner, self.name, value)


class Shape:
    width = Positive()

    @functools.cached_property
    def area(self):
        self.computed = getattr(self, "computed", 0) + 1
        return self.width * 3


@case()
def descriptor(x):
    s = Shape()
    s.width = 4
    try:
        s.width = -1
    except ValueError as error:
        return s.width, str(error), x


@case()
def cached_property(x):
    s = Shape()
    s.width = 2
    return s.area + s.area, s.computed, x


@case(given=lambda: (Shape(),))
def cached_property_outside(x, s):
    s.width = 5
    return x * s.area


class Slots:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1


@case()
def slots(x):
    s = Slots()
    s.b = s.a + 1
    try:
        s.c = 1
    except AttributeError:
        return s.b, x
    return "no error"


@case(given=lambda: (Slots(),))
def slots_outside(x, s):
    s.b = x
    s.a += 1
    return s.a


class Vector:
    def __init__(self, *items):
        self.items = list(items)

    def __add__(self, other):
        return Vector(*(a + b for a, b in zip(self.items, other.items)))

    def __mul__(self, k):
        return Vector(*(a * k for a in self.items))

    __rmul__ = __mul__

    def __neg__(self):
        return self * -1

    def __iadd__(self, other):
        for k, v in enumerate(other.items):
            self.items[k] += v
        return self

    def __eq__(self, other):
        return isinstance(other, Vector) and self.items == other.items

    def __hash__(self):
        return 7

    def __lt__(self, other):
        return sum(self.items) < sum(other.items)

    def __len__(self):
        return len(self.items)

    def __bool__(self):
        return any(self.items)

    def __getitem__(self, k):
        return self.items[k]

    def __setitem__(self, k, v):
        self.items[k] = v

    def __delitem__(self, k):
        del self.items[k]

    def __contains__(self, v):
        return v in self.items

    def __iter__(self):
        return iter(self.items)

    def __call__(self, x):
        return x * sum(self.items)

    def __repr__(self):
        return f"Vector{tuple(self.items)}"

    def __format__(self, how):
        return f"<{how}>"

    def __int__(self):
        return len(self.items)

    def __index__(self):
        return 2

    def __reversed__(self):
        return iter(self.items[::-1])

    def __abs__(self):
        return 5

    def __matmul__(self, other):
        return "matmul"

    def __invert__(self):
        return "invert"

    def __divmod__(self, other):
        return 1, 2


@case()
def operators(x):
    v, w = Vector(1, 2), Vector(3, 4)
    u = v + w
    u += v
    return u.items, (2 * v).items, (-v).items, v == Vector(1, 2), v != w, v < w, sorted([w, v])[0].items, v @ w, ~v, x


@case()
def container_protocol(x):
    v = Vector(5, 6, 7)
    v[0] = 1
    del v[1]
    return len(v), v[0], 7 in v, list(v), [*v], v(x), bool(v), bool(Vector(0)), list(reversed(v)), [i for i in v]


@case()
def conversion_protocol(x):
    v = Vector(1)
    return repr(v), str(v), f"{v:how}", f"{v!r}", int(v), [1, 2, 3][v], abs(v), divmod(v, 1), x


@case()
def hashed_objects(x):
    return {Vector(1): 2}[Vector(1)], len({Vector(1), Vector(1)}), x


@case(given=lambda: (Vector(1, 2),))
def operators_outside(x, v):
    v += Vector(10, 20)
    v[1] = 5
    return v(x), v.items


class Iterating:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n


@case()
def iterator_protocol(x):
    it = Iterating(3)
    return next(it), list(it), next(it, "end"), [x * k for k in Iterating(2)]


class OldSequence:
    def __getitem__(self, k):
        if k > 2:
            raise IndexError
        return k * 2


@case()
def sequence_by_getitem(x):
    return list(OldSequence()), x


@case(given=lambda: (Base,))
def class_attribute_written(x, cls):
    cls.count = 5
    return x * cls.count


@case()
def class_counter(x):
    Base.count = 0
    Base.count += 2
    return x * Base().count


@case()
def copy_objects(x):
    b = Base([1])
    c = copy.copy(b)
    d = copy.deepcopy(b)
    c.v.append(2)
    return b.v, d.v, x


@case()
def copy_containers(x):
    a = [[1], x]
    return copy.copy(a)[0] is a[0], copy.deepcopy({"a": [1]}), a[1]


@case()
def object_in_loop(x):
    total = Base(0)
    for k in range(3):
        total.v = total.v + x * k
    return total.v


@case()
def objects_in_containers(x):
    items = [Base(k) for k in range(3)]
    items[1].v = x
    by = {b.kind: b for b in items}
    return sum(b.v for b in items), by["base"].v


@case()
def object_returned(x):
    made = Base(x)
    made.again = made.v
    return made


@case()
def bound_method_stored(x):
    f = Base(4).scaled
    return f(x), f.__self__.v, f.__name__


@case()
def comparison_falls_back(x):
    return Base() == 3, Base() != 3, Base() is None, x


@case()
def isinstance_forms(x):
    return isinstance(Derived(), (int, Base)), isinstance(x, torch.Tensor), isinstance(1, int | str), isinstance(
        True, int), isinstance(None, type(None)), isinstance([], list)


class Registry(collections.abc.Mapping):
    """Names and functions; ``in`` is what the base class makes of ``[]``."""

    known = {"double": lambda x: x * 2, "triple": lambda x: x * 3}

    def __getitem__(self, name):
        return self.known[name]

    def __iter__(self):
        return iter(self.known)

    def __len__(self):
        return len(self.known)


REGISTRY = Registry()


@case()
def not_in_a_mapping_of_a_class(x):
    if "half" not in REGISTRY and "double" in REGISTRY:
        return REGISTRY["double"](x)
    return x


@case()
def parameters_of_a_signature(x):
    count = len(inspect.signature(Base.scaled).parameters)
    names = list(inspect.signature(Base(1).scaled).parameters) if count > 5 else ["x"]
    return x * count + len(names)


@case()
def signature_of_a_method_of_a_module(x):
    return x * len(inspect.signature(ROW[0].forward).parameters)


ROW = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.ReLU(), torch.nn.Tanh()])


@case()
def part_of_a_row_of_modules(x):
    for layer in ROW[1:]:
        x = layer(x)
    return x + len(ROW[:2])


@case()
def import_of_a_room_of_the_framework(x):
    import rushlight.futures
    return x + len(rushlight.futures.__name__)


@case()
def operators_by_their_namespace(x):
    return torch.ops.aten.mul.Tensor(x, x) if hasattr(torch.ops.aten, "mul") else x


@case()
def mapping_with_keys_of_bytes(x):
    return x * {b"a": 2}[b"a"] + OF_BYTES[b"b"]


OF_BYTES = {b"b": 3}


@case()
def annotations_made_while_running(x):
    parts = torch.jit.annotate(typing.List[torch.Tensor], [])
    parts.append(x + 1)
    counts = torch.jit.annotate(typing.Dict[str, typing.Optional[int]], {})
    return parts, counts
