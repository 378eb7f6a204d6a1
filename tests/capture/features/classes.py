"""Classes: abstract ones, metaclasses, subclasses of numbers and text, and classes made inside."""
import abc

from .objects import Base
from .table import case


class Abstract(abc.ABC):
    @abc.abstractmethod
    def run(self, x):
        ...

    def twice(self, x):
        return self.run(self.run(x))


class Concrete(Abstract):
    def run(self, x):
        return x + 1


@case()
def abstract_class(x):
    return Concrete().twice(x), isinstance(Concrete(), Abstract)


@case(breaks="RB007")
def abstract_class_refused(x):
    try:
        Abstract()
    except TypeError:
        return x, "refused"


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.stamped = True
        return made

    @property
    def label(cls):
        return cls.__name__.lower()

    def __getitem__(cls, k):
        return f"{cls.__name__}[{k}]"

    def __contains__(cls, k):
        return k == 1

    def __len__(cls):
        return 11


class WithMeta(metaclass=Meta):
    def __init__(self, v=0):
        self.v = v


@case()
def metaclass(x):
    w = WithMeta(2)
    return w.stamped, w.v, WithMeta.label, WithMeta[3], x


@case()
def metaclass_protocols(x):
    return len(WithMeta), 1 in WithMeta, x


class Registered:
    registry: list = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.registry.append(cls.__name__)


class Singleton:
    instance = None

    def __new__(cls):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance


@case()
def class_new(x):
    Singleton.instance = None
    return Singleton() is Singleton(), x


class Celsius(float):
    def warm(self):
        return self > 20


class Name(str):
    def shout(self):
        return self.upper() + "!"


class Ranked(int):
    def __new__(cls, v, tag):
        made = super().__new__(cls, v)
        made.tag = tag
        return made


@case()
def subclasses_of_numbers_and_text(x):
    return Celsius(21.5).warm(), Name("a").shout(), x * Celsius(2.0), Ranked(3, "t").tag


@case(breaks="RB001")
def class_made_inside(x):
    class Local:
        z = 5

        def run(self, v):
            return v * self.z

    return Local().run(x)


@case(breaks="RB001")
def class_made_by_type(x):
    made = type("Made", (Base,), {"kind": "made"})
    return made(3).scaled(x), made.kind


@case(breaks="RB001")
def class_with_closure_and_super(x):
    k = 3

    class Local(Base):
        def scaled(self, v):
            return super().scaled(v) * k

    return Local(2).scaled(x)
